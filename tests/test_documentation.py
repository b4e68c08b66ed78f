"""Commands in README and docs can be parsed, tables agree with the code, and examples run."""

import json
import re
import shlex
from pathlib import Path

import pytest

from marinenav_env import LEVELS, WorldConfig, observation_entries, read_scenarios
from tools import write_tables
from train_RL_agents.commands.cli import parse
from train_RL_agents.evaluation.suites.frozen import FROZEN_SUITES
from train_RL_agents.utils.files import sha256_of
from train_RL_agents.utils.shipped import shipped_paths

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(path):
    """Lines of a page's shell blocks that call marinenav, in words."""
    for block in re.findall(r"```(?:bash|sh)\n(.*?)```", path.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "marinenav" in words[:1]:
                yield words[1:]


def test_every_page_is_searched():
    assert sum(len(list(commands(path))) for path in PAGES) > 50


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_are_ones_that_there_are(path):
    for words in commands(path):
        parse(words)


@pytest.mark.parametrize("name", shipped_paths("pretrained"))
def test_the_figures_of_a_policy_are_of_its_file_and_the_frozen_suites(name):
    path = ROOT / f"pretrained/{name}/figures.json"
    (policy,) = json.loads(path.read_text())["policies"].values()
    assert path.stat().st_size < 60_000
    assert policy["sha256"] == sha256_of(path.with_name("policy.pt"))
    assert {suite: figures["scenarios"] for suite, figures in policy["suites"].items()} == {
        suite: frozen.scenarios for suite, frozen in FROZEN_SUITES.items()
    }


def test_tables_are_those_of_the_figures():
    for path, text in write_tables.pages().items():
        assert path.read_text() == text, f"{path}: run python -m tools.write_tables"


def test_tests_that_pages_name_are_ones_that_there_are():
    there = {name for path in ROOT.glob("tests/**/*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    for path in PAGES:
        assert {*re.findall(r"`(test_\w+)`", path.read_text())} <= there, path


def test_the_levels_of_the_world_page_are_the_published_ones():
    rows = re.findall(
        r"^\| \d \| (\d+) \| (\d+) \| (\d+) \| (\d+) m \|$", (ROOT / "docs/world.md").read_text(), re.MULTILINE
    )
    levels = [(lv.num_robots, lv.num_cores, lv.num_obstacles, lv.min_start_goal_dis) for lv in LEVELS]
    assert [tuple(map(int, row)) for row in rows] == levels


def test_the_world_page_has_every_entry_and_its_scales():
    page = (ROOT / "docs/world.md").read_text()
    table = page.partition("## Observations")[2].partition("\n\n|")[2].partition("\n\n")[0]
    entries = observation_entries(WorldConfig())
    for name, entry in entries.items():
        assert f"`{name}` {list(entry.shape)}" in table
    rows = re.findall(r"\| ([\d, ]+) \| (?:m|m/s|rad/s|N) \| (\d+) \|", table)
    scales = [float(scale) for columns, scale in rows for _ in columns.split(",")]
    assert scales == [*entries["self_state"].scale, *entries["objects_state"].scale]


def test_the_scenario_of_the_evaluation_page_can_be_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(# harbour\.py\n.*?)```", (ROOT / "docs/evaluation.md").read_text(), re.DOTALL)
    exec(code, {})
    (episode,) = read_scenarios("harbour.json", strict=True)
    assert len(episode.start) == 2 and len(episode.obstacles) == 3


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs/tour.ipynb").read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["run"].finished
    assert names["terminated"] or names["truncated"]
