"""Levels as objects, with a name to be like, and as columns."""

import json
from pathlib import Path

import pytest

from marinenav_env import LEVELS, Level
from tests.refusals import refusal
from train_RL_agents.config.levels import SIZE_FIELDS, EvalLevel, TrainingLevel, convert_levels
from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import apply_overrides, from_dict, to_dict
from train_RL_agents.run.resuming import list_changes

CONFIGS = Path(__file__).parents[3] / "configs"
TWO = [{"like": "crossing", "num_robots": 4, "weight": 3}, {"num_robots": 3, "num_cores": 1}]


def levels(values, *words, section="training_schedule"):
    return getattr(from_dict(values, words), section).levels


def refused(*given, **options):
    return refusal(levels, *given, **options)


def test_a_level_has_what_it_states_and_the_rest_of_the_one_that_it_is_like():
    crossing, other = levels({"training_schedule": {"levels": TWO}})
    assert crossing == TrainingLevel(4, 0, 0, 0.0, encounter=True, weight=3.0)
    assert other == TrainingLevel(3, 1)
    (word,) = levels({}, 'training_schedule.levels={"like": "published_4", "noise": 2}')
    assert word == TrainingLevel(5, 0, 2, 40.0, noise=2.0)


def test_paths_of_maps_are_those_of_the_folder_in_which_they_were_stated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stated = [{"maps": "quay.json"}, {"maps": "random"}, {"maps": ""}]
    config = from_dict({"training_schedule": {"levels": stated}, "world.scenario.shore_segments": 64})
    monkeypatch.chdir("/")
    again = from_dict(to_dict(config), is_complete=True)
    assert [level.maps for level in again.training_schedule.levels] == [str(tmp_path / "quay.json"), "random", ""]


def test_defaults_are_the_published_levels():
    assert convert_levels(Level, levels({})) == LEVELS
    assert levels({}, section="eval_schedule") == convert_levels(EvalLevel, LEVELS)


def test_levels_and_columns_make_the_same_configuration():
    """Columns are those of files of the original project."""
    columns = {
        "num_robots": [4, 3],
        "num_cores": [0, 1],
        "num_obstacles": [0, 4],
        "min_start_goal_dis": [5, 40],
        "timesteps": [0, 9],
    }
    objects = [{"num_robots": 4, "num_obstacles": 0, "min_start_goal_dis": 5},
               {"num_robots": 3, "num_cores": 1, "starts_at": 9}]  # fmt: skip
    assert from_dict({"training_schedule": columns}) == from_dict({"training_schedule": {"levels": objects}})


def test_columns_are_laid_over_levels_of_a_file_and_new_levels_replace_columns():
    file = {"eval_schedule": {"levels": [{"like": "crossing", "num_robots": 4}, {"num_robots": 3}]}}
    first, second = levels(file, "eval_schedule.num_episodes=5,6", section="eval_schedule")
    assert first == EvalLevel(4, 0, 0, 0.0, encounter=True, num_episodes=5)
    assert (second.num_robots, second.num_episodes) == (3, 6)
    sizes = [f"eval_schedule.{name}=1" for name in SIZE_FIELDS]
    assert levels(file, *sizes, section="eval_schedule") == (EvalLevel(1, 1, 1, 1.0),)
    columns = {"training_schedule": {"num_robots": [1] * 6}}
    assert len(levels(columns, f"training_schedule.levels={json.dumps(TWO)}")) == 2


def test_levels_of_another_configuration(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"training_schedule": {"levels": TWO}}))
    named = {"training_schedule": {"levels": str(file)}}
    assert levels(named) == levels({"training_schedule": {"levels": TWO}})
    assert levels({}, f"training_schedule.levels={file}", "training_schedule.num_robots=2,1")[0].num_robots == 2
    assert levels({}, "training_schedule.levels=levels/sea") == levels(
        json.loads((CONFIGS / "levels/sea.json").read_text())
    )


@pytest.mark.parametrize(
    ("name", "hint"), [("levels/sae", "; did you mean levels/sea or levels/defensive?"), ("iqn_sea", ""), ("", "")]
)
def test_a_configuration_that_lists_no_levels(name, hint):
    said = f"training_schedule.levels={name!r}: must be a list of levels, or a configuration that has one{hint}"
    assert refused({"training_schedule": {"levels": name}}) == said


def test_a_saved_configuration_holds_levels_and_makes_the_same_one():
    config = from_dict({"training_schedule": {"levels": TWO}})
    saved = to_dict(config)
    assert saved["training_schedule"]["levels"] == [
        {
            "num_robots": 4,
            "num_cores": 0,
            "num_obstacles": 0,
            "min_start_goal_dis": 0.0,
            "encounter": True,
            "weight": 3.0,
        },
        {"num_robots": 3, "num_cores": 1, "num_obstacles": 4, "min_start_goal_dis": 40.0},
    ]
    assert from_dict(saved, is_complete=True) == config
    other = apply_overrides(config, ["training_schedule.num_cores=0,2"])
    assert list_changes(flatten(saved), flatten(to_dict(other))) == [
        "training_schedule.levels: level 2: num_cores=2 (was 1)"
    ]
    other = apply_overrides(config, ['training_schedule.levels={"like": "traffic"}'])
    assert list_changes(flatten(saved), flatten(to_dict(other))) == ["training_schedule.levels: 1 long (was 2)"]


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ({"like": "crosing"}, "level 2: like='crosing': must be one of published_1, "),
        ({"num_robot": 3}, "level 2: num_robot=3: there is no such setting; the closest: num_robots"),
        ({"num_robots": 0}, "level 2: num_robots=0: must be at least 1"),
        ({"like": "crossing", "num_robots": 7}, "level 2: num_robots=7: must be at most 6 in an"),
        (5, "level 2=5: must be an object such as"),
        ({"starts_at": 4}, "weight=(3.0, 1.0): must be left out beside starts_at"),
    ],
)
def test_mistakes_in_a_level(level, said):
    file = {"training_schedule": {"levels": [TWO[0], level]}}
    assert refused(file).startswith(f"training_schedule.levels: {said}")


@pytest.mark.parametrize(
    ("section", "levels", "said"),
    [
        ("training", [], "=(): must be one or more"),
        ("training", [{"weight": 0}, {"weight": 0}], ": weight=(0.0, 0.0): must be above 0"),
        # The first level would never be trained on.
        ("training", [{}, {}, {"starts_at": 9}], ": starts_at=(0, 0, 9): must be increasing, the first 0"),
        ("eval", [{"map_size": 80}], ": level 1: map_size=80"),
        ("eval", [Level(vessel_spread=2.0)], ": level 1: vessel_spread=2.0: must be 1.0 in an evaluation"),
    ],
)
def test_mistakes_in_all_levels(section, levels, said):
    section = f"{section}_schedule"
    text = refused({section: {"levels": levels}}, section=section)
    assert text.startswith(f"{section}.levels{said}")
    assert section == "training_schedule" or text.endswith("in an evaluation")
