"""Commands in README and docs can be parsed, and the notebook runs."""

import hashlib
import json
import re
import shlex
from pathlib import Path

import pytest

from train_RL_agents.agents import AGENTS
from train_RL_agents.cli import parse
from train_RL_agents.evaluation.entry import BENCHMARK, read_entry
from train_RL_agents.evaluation.ranking import page

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


def test_the_table_of_the_benchmark_is_made_of_the_entries():
    folder = ROOT / "docs/results/entries"
    entries = {path.stem: read_entry(path) for path in sorted(folder.glob("*.json"))}
    assert (ROOT / "docs/benchmark.md").read_text() == page(entries, f"Benchmark {BENCHMARK}")
    policies = {name: entry for name, entry in entries.items() if entry.policy["sha256"]}
    assert len(policies) == len(AGENTS)
    for name, entry in policies.items():
        policy = (ROOT / "pretrained" / name / "policy.pt").read_bytes()
        assert entry.policy["sha256"] == hashlib.sha256(policy).hexdigest()


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
