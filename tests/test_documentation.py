"""Commands in README and docs can be parsed, tables agree with the code, and examples run."""

import hashlib
import json
import re
import shlex
from pathlib import Path

import pytest

from marinenav_env import LEVELS, WorldConfig, observation_entries, read_scenarios
from train_RL_agents.cli import parse
from train_RL_agents.evaluation.entry import BENCHMARK_VERSION, read_entry
from train_RL_agents.evaluation.ranking import markdown_page
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


@pytest.mark.heavy
def test_the_table_of_the_benchmark_is_made_of_the_entries():
    folder = ROOT / "docs/results/entries"
    entries = {path.stem: read_entry(path) for path in sorted(folder.glob("*.json"))}
    assert (ROOT / "docs/benchmark.md").read_text() == markdown_page(entries, f"Benchmark {BENCHMARK_VERSION}")
    policies = {name: entry for name, entry in entries.items() if entry.policy["sha256"]}
    assert policies.keys() == shipped_paths("pretrained").keys()
    for name, entry in policies.items():
        policy = (ROOT / "pretrained" / name / "policy.pt").read_bytes()
        assert entry.policy["sha256"] == hashlib.sha256(policy).hexdigest()


def test_the_levels_of_the_world_page_are_the_published_ones():
    rows = re.findall(
        r"^\| \d \| (\d+) \| (\d+) \| (\d+) \| (\d+) m \|$",
        (ROOT / "docs/world.md").read_text(),
        re.MULTILINE,
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
