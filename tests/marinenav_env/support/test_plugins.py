"""Users' own parts: what is imported, and what is said when it is not."""

import os
import re
import sys

import pytest

from marinenav_env.support import plugins
from marinenav_env.support.validation import ConfigError
from tests.own_parts import allow_only
from tests.refusals import refusal

NAME = "users_parts.inner:Part.method"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder on the path with a package that notes when it is imported."""
    package = tmp_path / "users_parts"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("class Part:\n    def method(self): return 1\n")
    (package / "broken.py").write_text("raise RuntimeError('no luck\\nat all')\n")
    (package / "needy.py").write_text("import no_such_package_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    allow_only(monkeypatch)
    for name in [name for name in sys.modules if name.startswith("users_parts")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.fixture
def register(folder):
    """Installs a distribution that registers an entry point."""

    def registered(group, name, value):
        info = folder / "users_parts-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: users-parts\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")

    return registered


def refused(reference, group=plugins.REWARDS):
    message = refusal(plugins.resolve, group, reference)
    assert len(message) < 400
    return message


def imported():
    return any(name.startswith("users_parts") for name in sys.modules)


def test_nothing_is_imported_because_a_file_says_so():
    assert refused(NAME) == (
        f"{NAME} is a part that this program does not load from files: install the package that "
        f"registers it, or name it on the command line with --plugin {NAME}"
    )
    assert not imported()


def test_what_the_user_named_is_imported_when_it_is_needed():
    plugins.allow(NAME)
    assert plugins.allowed_references() == (NAME,) and not imported()
    assert plugins.resolve(plugins.REWARDS, NAME)(None) == 1
    assert "users_parts.other:Part" in refused("users_parts.other:Part")


@pytest.mark.parametrize("reference", ["mine", NAME])
def test_entry_points_are_found_by_name_and_by_value(reference, register):
    register(plugins.REWARDS, "mine", f"{NAME} [extra]")
    assert plugins.resolve(plugins.REWARDS, reference)(None) == 1


def test_a_package_is_found_that_was_installed_since(folder, register):
    os.utime(folder, (0, 0))  # another time than that of the installation, however coarse the clock
    assert "is not registered" in refused("mine") and plugins.registered_names(plugins.REWARDS) == ()
    register(plugins.REWARDS, "mine", NAME)
    assert (
        plugins.registered_names(plugins.REWARDS) == ("mine",) and plugins.resolve(plugins.REWARDS, "mine")(None) == 1
    )


def test_an_entry_point_holds_for_its_group_alone(register):
    register(plugins.AGENTS, "mine", NAME)
    assert "--plugin" in refused(NAME)
    assert refused("mine") == (
        "'mine' is not registered in marinenav.rewards (registered: none): install the package "
        "that registers it, or give package.module:Name"
    )
    assert "(registered: mine)" in refused("theirs", plugins.AGENTS)
    assert not imported()


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("users_parts.inner:Other", "the module users_parts.inner has no Other"),
        ("users_parts.inner:Part.other", "the module users_parts.inner has no Part.other"),
        (
            "users_parts.absent:Part",
            "there is no module users_parts.absent; install its package, or put its folder on PYTHONPATH",
        ),
        (
            "absent_parts.inner:Part",
            "there is no module absent_parts; install its package, or put its folder on PYTHONPATH",
        ),
        ("users_parts.needy:Part", "needs the module no_such_package_at_all, which is missing"),
        ("users_parts.broken:Part", "importing users_parts.broken failed (RuntimeError: no luck)"),
    ],
)
def test_one_sentence_says_what_is_missing(reference, expected):
    plugins.allow(reference)
    assert refused(reference) == f"{reference}: {expected}"


@pytest.mark.parametrize(
    "text", ["", "a", "a:", ":b", "a:b:c", "a b:c", "a..b:c", "../a:b", "a:b\n", "a\0:b", "x" * 500 + ":y", "1a:b"]
)
def test_only_references_are_allowed(text):
    with pytest.raises(ConfigError, match=re.escape("must be package.module:Name")):
        plugins.allow(text)
    assert "is not registered" in refused(text)
