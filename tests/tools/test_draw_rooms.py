"""The drawings of the packages: that they are up to date, and how they are made."""

import xml.etree.ElementTree as ElementTree

import pytest

from tools import draw_rooms

DIAMOND = {"top": {"left", "right", "low"}, "left": {"low"}, "right": {"low"}, "low": set()}


@pytest.mark.heavy
@pytest.mark.parametrize("package", draw_rooms.FIGURE_NAMES)
def test_the_committed_drawing_is_that_of_the_imports(package):
    committed = (draw_rooms.ROOT / "docs" / draw_rooms.FIGURE_NAMES[package]).read_text()
    assert committed == draw_rooms.draw_package(draw_rooms.ROOT, package), (
        "the imports have changed: run python -m tools.draw_rooms"
    )


@pytest.fixture
def small(tmp_path):
    """A package of two subpackages and two modules, of which one imports nothing."""
    for name, text in {
        "__init__": "from small.room import first\n",
        "alone": "import os\n",
        "base": "",
        "room/__init__": "",
        "room/first": "def call():\n    from small.base import name\n",
        "room/second": "from small.room import first\nfrom small import base\n",
        "upper/__init__": "",
        "upper/last": "import small.room.second\nfrom small.base import name\n",
    }.items():
        path = tmp_path / "small" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_imports_between_parts_are_found_wherever_they_stand(small):
    assert draw_rooms.find_imports(small, "small") == {
        ("room", "base"): ["small.room.first imports small.base", "small.room.second imports small.base"],
        ("upper", "room"): ["small.upper.last imports small.room.second"],
        ("upper", "base"): ["small.upper.last imports small.base"],
    }


def test_each_part_stands_above_what_it_imports():
    assert draw_rooms.assign_layers(DIAMOND) == {"low": 0, "left": 1, "right": 1, "top": 2}


def test_a_circle_is_refused_by_its_names():
    with pytest.raises(ValueError, match="a imports b imports a"):
        draw_rooms.assign_layers({"a": {"b"}, "b": {"a"}})


def test_arrows_that_follow_from_others_are_left_out():
    assert draw_rooms.transitive_reduction(DIAMOND) == DIAMOND | {"top": {"left", "right"}}


@pytest.mark.heavy
def test_files_are_written_and_lists_printed(tmp_path, capsys):
    assert draw_rooms.main(["--out", str(tmp_path)]) == 0
    for name in draw_rooms.FIGURE_NAMES.values():
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")
    assert draw_rooms.main(["--list"]) == 0
    assert "train_RL_agents: __main__ -> commands\n" in capsys.readouterr().out
