"""Lines of each package: they may only fall.

A commit that adds what was asked for raises a number, and says by how many and why.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST = {
    "marinenav_env": 14_094,
    "train_RL_agents": 26_295,
    "pages": 3_700,
    "tools": 1_598,
    "tests": 38_000,
    "docs (bytes)": 299_673,
}
"""Size that each part may have at most, in lines, of docs/*.md in bytes."""
LONGEST = {"marinenav_env/**/*.py": 500, "train_RL_agents/**/*.py": 500, "docs/[mp]e*.md": 150, "docs/scaling.md": 150}
"""Most lines of a module of the packages, and of a page of figures."""


def lines(folder, *suffixes):
    """Lines of the files below a folder that have one of the suffixes."""
    files = (path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes and "_build" not in path.parts)
    return sum(len(path.read_text().splitlines()) for path in files)


def sizes():
    """Size of each part of the project."""
    return {
        "marinenav_env": lines("marinenav_env", ".py"),
        "train_RL_agents": lines("train_RL_agents", ".py"),
        "pages": lines("train_RL_agents/figures/pages", ".js", ".css", ".html"),
        "tools": lines("tools", ".py"),
        "tests": lines("tests", ".py"),
        "docs (bytes)": sum(path.stat().st_size for path in (ROOT / "docs").glob("*.md")),
    }


@pytest.mark.parametrize("part", MOST)
def test_a_part_does_not_grow(part):
    assert sizes()[part] <= MOST[part]


@pytest.mark.parametrize("pattern", LONGEST)
def test_no_file_is_long(pattern):
    found = {str(path): len(path.read_text().splitlines()) for path in ROOT.glob(pattern)}
    assert found and {path: count for path, count in found.items() if count > LONGEST[pattern]} == {}


if __name__ == "__main__":  # .ci/run prints it
    for part, size in sizes().items():
        print(f"{part:16} {size:9,} of {MOST[part]:9,}")
