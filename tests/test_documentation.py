"""Commands in README and docs can be parsed, and the notebook runs."""

import json
import re
import shlex
from pathlib import Path

import pytest

from train_RL_agents.cli import parse

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page):
    """Lines of a page's shell blocks that call marinenav, in words."""
    for block in re.findall(r"```(?:bash|sh)\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "marinenav" in words[:1]:
                yield words[1:]


def test_every_page_is_searched():
    assert sum(len(list(commands(page))) for page in PAGES) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_ones_that_there_are(page):
    for words in commands(page):
        parse(words)


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
