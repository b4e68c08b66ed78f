"""The examples of docs/extend.md as a package outside the repository."""

import re
import shlex
import tomllib
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "extend.md"


def blocks(language: str) -> list[str]:
    """The code blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def write_package(folder: Path) -> None:
    """Write the package ``my_parts``; each example names its file in the first line."""
    for text in blocks("python"):
        path = folder / text.partition("\n")[0].removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_entry_points(folder: Path) -> None:
    """Register the parts, as an installation of the package does."""
    (project,) = (tomllib.loads(text)["project"] for text in blocks("toml"))
    groups = (
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in points.items())
        for group, points in project["entry-points"].items()
    )
    info = folder / f"my_parts-{project['version']}.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("\n\n".join(groups) + "\n")
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")


def commands(start: str) -> list[list[str]]:
    """The command lines of the page that start with some words, without these."""
    lines = [line for text in blocks("bash") for line in text.splitlines()]
    return [shlex.split(line.removeprefix(start)) for line in lines if line.startswith(start)]
