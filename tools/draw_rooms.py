"""Draw which part of each package imports which, for docs/architecture.md.

    python -m tools.draw_rooms            # writes docs/architecture_*.svg
    python -m tools.draw_rooms --list     # prints every arrow and the imports behind it

A part is a subpackage, or a module beside the subpackages. Every import in the files counts, also
those inside functions. Parts are drawn on floors: each stands above all that it imports. The
drawing leaves out an arrow that follows from others. It needs no other package.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable
from html import escape
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "marinenav_env": "architecture_rooms.svg",
    "train_RL_agents": "architecture_packages.svg",
}
"""Name of the drawing of each package, in docs."""
Edges = dict[str, set[str]]
"""What each part imports."""
BOX, GAP, FLOOR, BEND = 124, 22, 78, 14
"""Width of a box, space between two, height of a floor, and width of an arrow that passes one."""
HEIGHT, SWEEPS = 38, 24
"""Height of a box, and passes over the floors that order them."""


def imports(root: Path, package: str) -> dict[tuple[str, str], list[str]]:
    """Return the imports between parts of a package: (importing, imported) to modules.

    Args:
        root: folder of the package's folder.
        package: its name.
    """
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((root / package).rglob("*.py"))
    }
    found: dict[tuple[str, str], list[str]] = {}
    for name, path in files.items():
        used = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inner = {f"{node.module}.{each.name}" for each in node.names}
                used |= inner & files.keys() or {node.module}
            elif isinstance(node, ast.Import):
                used |= {each.name for each in node.names}
        for other in sorted(used & files.keys() - {package}):
            if name != package and part(name) != part(other):
                found.setdefault((part(name), part(other)), []).append(f"{name} imports {other}")
    return found


def part(module: str) -> str:
    """Return the part of its package that a module belongs to."""
    return module.split(".")[1]


def sizes(root: Path, package: str) -> dict[str, int]:
    """Return how many modules each part has, without __init__; 0 for a module by itself."""
    folder = root / package
    counted = {path.stem: 0 for path in sorted(folder.glob("*.py")) if path.stem != "__init__"}
    for path in sorted(folder.glob("*/*.py")):
        counted[path.parent.name] = counted.get(path.parent.name, 0) + (path.stem != "__init__")
    return counted


def floors(edges: Edges) -> dict[str, int]:
    """Return the floor of each part, 0 for those that import none.

    Raises:
        ValueError: when parts import each other in a circle.
    """
    known: dict[str, int] = {}

    def climb(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise ValueError(" imports ".join((*above[above.index(name) :], name)))
        if name not in known:
            inner = [climb(each, (*above, name)) for each in sorted(edges[name])]
            known[name] = 1 + max(inner, default=-1)
        return known[name]

    for name in sorted(edges):
        climb(name, ())
    return known


def reduced(edges: Edges) -> Edges:
    """Return the edges without those that follow from others."""

    def below(name: str) -> set[str]:
        return edges[name].union(*(below(each) for each in edges[name]))

    return {name: used - set().union(*(below(each) for each in used)) for name, used in edges.items()}


def placed(edges: Edges) -> tuple[dict[str, tuple[float, int]], dict[tuple[str, str], list[str]]]:
    """Return where each part stands, (x, floor), and the places that each arrow passes.

    An arrow that passes floors has a place of its own on each of them, so that it crosses no box.
    """
    level = floors(edges)
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for name in sorted(level):
        rows[level[name]].append(name)
    near: dict[str, list[list[str]]] = {name: [[], []] for name in edges}  # above, below
    paths: dict[tuple[str, str], list[str]] = {}
    for name in sorted(edges):
        for other in sorted(edges[name]):
            path = [name]
            for floor in range(level[name] - 1, level[other], -1):
                path.append(f"{name}>{other}@{floor}")
                rows[floor].append(path[-1])
                near[path[-1]] = [[], []]
            paths[name, other] = path = [*path, other]
            for upper, lower in pairwise(path):
                near[upper][1].append(lower)
                near[lower][0].append(upper)
    return _ordered(rows, near), paths


def _ordered(rows: list[list[str]], near: dict[str, list[list[str]]]) -> dict[str, tuple[float, int]]:
    """Order each floor by the mean place of the neighbours above and below, in turn."""
    x: dict[str, float] = {}

    def spread(row: list[str], floor: int, wanted: dict[str, float]) -> None:
        left = 0.0
        for name in sorted(row, key=lambda each: (wanted[each], each)):
            half = width(name) / 2
            x[name] = left + half
            left += 2 * half + GAP
        # The floor as a whole goes to where its parts want to be.
        shift = sum(wanted[name] - x[name] for name in row) / len(row)
        for name in row:
            x[name] += shift

    for floor, row in enumerate(rows):
        spread(row, floor, dict.fromkeys(row, 0.0))
    for sweep in range(SWEEPS):
        side = 1 if sweep % 2 == 0 else 0
        order = list(enumerate(rows))
        for floor, row in order if side else reversed(order):
            wanted = {
                name: sum(x[each] for each in near[name][side]) / len(near[name][side]) if near[name][side] else x[name]
                for name in row
            }
            spread(row, floor, wanted)
    first = min(x[name] - width(name) / 2 for row in rows for name in row)
    return {name: (x[name] - first, floor) for floor, row in enumerate(rows) for name in row}


def width(name: str) -> int:
    """Return the width of a box, or of an arrow that passes a floor."""
    return BEND if "@" in name else BOX


def drawing(root: Path, package: str) -> str:
    """Return the drawing of a package as SVG."""
    arrows, counted = imports(root, package), sizes(root, package)
    edges: Edges = {name: set() for pair in arrows for name in pair}
    for upper, lower in arrows:
        edges[upper].add(lower)
    where, paths = placed(reduced(edges))
    top = max(floor for _, floor in where.values())
    points = {name: (x + 20, 20 + (top - floor) * FLOOR) for name, (x, floor) in where.items()}
    wide = max(x + width(name) / 2 for name, (x, _) in points.items()) + 20
    high = (top + 1) * FLOOR + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" font-family="sans-serif" font-size="13" text-anchor="middle">',
        f"<title>{package}: {len(edges)} parts, {top + 1} floors, {len(arrows)} arrows</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#5b6b7a"/></marker></defs>',
        f'<rect width="{wide:.0f}" height="{high:.0f}" fill="#fbfcfd"/>',
        *(_arrow([points[name] for name in path]) for path in paths.values()),
        *(_box(name, *points[name], counted[name]) for name in sorted(edges)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _arrow(points: list[tuple[float, float]]) -> str:
    """Return an arrow from the lower edge of a box, past floors, to the upper edge of another."""
    (x, y), words = points[0], []
    y += HEIGHT
    words.append(f"M{x:.0f} {y:.0f}")
    for number, (to_x, to_y) in enumerate(points[1:], 1):
        middle = (y + to_y) / 2
        words.append(f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}")
        x, y = to_x, to_y
        if number < len(points) - 1:
            y += HEIGHT
            words.append(f"V{y:.0f}")
    return f'<path d="{" ".join(words)}" fill="none" stroke="#5b6b7a" marker-end="url(#tip)"/>'


def _box(name: str, x: float, y: float, count: int) -> str:
    """Return the box of a part with its name and how many modules it has."""
    about = f"{count} module{'s' * (count > 1)}" if count else "a module"
    return (
        f'<rect x="{x - BOX / 2:.0f}" y="{y:.0f}" width="{BOX}" height="{HEIGHT}" rx="4" '
        f'fill="#e8f0f8" stroke="#2f6fa7"/><text x="{x:.0f}" y="{y + 16:.0f}" fill="#10202f">'
        f'{escape(name)}</text><text x="{x:.0f}" y="{y + 31:.0f}" font-size="10" fill="#4a5a68">'
        f"{about}</text>"
    )


def main(words: Iterable[str] | None = None) -> int:
    """Write the drawings, or print the arrows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder; docs by default")
    parser.add_argument("--list", action="store_true", help="print the arrows, draw nothing")
    options = parser.parse_args(None if words is None else list(words))
    for package, name in PACKAGES.items():
        if options.list:
            for (upper, lower), modules in sorted(imports(ROOT, package).items()):
                print(f"{package}: {upper} -> {lower}", *modules, sep="\n    ")
        else:
            (options.out / name).write_text(drawing(ROOT, package), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
