"""Draw the imports between the parts of the packages for docs/architecture.md.

    python -m tools.draw_rooms            # writes docs/architecture_*.svg
    python -m tools.draw_rooms --list     # prints every arrow and the imports behind it

A part is a subpackage, or a module next to the subpackages. All imports in the files count, also those inside
functions. Parts are drawn in layers: a part is above all parts that it imports. Arrows that follow from others are
left out. The script uses only the standard library.
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
FIGURE_NAMES = {"marinenav_env": "architecture_rooms.svg", "train_RL_agents": "architecture_packages.svg"}
"""Names of the figures in docs by the package that they show."""
Edges = dict[str, set[str]]
"""Parts that each part imports."""
BOX_WIDTH = 124
"""Width of a part's box (pixels)."""
BOX_HEIGHT = 38
"""Height of a part's box (pixels)."""
BOX_GAP = 22
"""Space between two boxes of a layer (pixels)."""
LAYER_HEIGHT = 78
"""Distance between two layers (pixels)."""
ARROW_WIDTH = 14
"""Width reserved for an arrow that passes a layer (pixels)."""
NUM_SWEEPS = 24
"""Number of passes that order the parts of all layers."""


def find_imports(root: Path, package: str) -> dict[tuple[str, str], list[str]]:
    """Return the imports between parts of a package as texts, by the pair of importing and imported part.

    A part is a subpackage, or a module next to the subpackages.

    Args:
        root: parent folder of the package.
        package: name of the package.
    """
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((root / package).rglob("*.py"))
    }
    arrows: dict[tuple[str, str], list[str]] = {}
    for name, path in files.items():
        used = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                used |= inner & files.keys() or {node.module}
            elif isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
        for other in sorted(used & files.keys() - {package}):
            if name != package and part_of(name) != part_of(other):
                arrows.setdefault((part_of(name), part_of(other)), []).append(f"{name} imports {other}")
    return arrows


def part_of(module: str) -> str:
    """Return the subpackage of a module given by its full name, or its own last name if it is next to subpackages."""
    return module.split(".")[1]


def count_modules(root: Path, package: str) -> dict[str, int]:
    """Return the number of modules of each subpackage of a package, without __init__; 0 for a module next to them."""
    folder = root / package
    counts = {path.stem: 0 for path in sorted(folder.glob("*.py")) if path.stem != "__init__"}
    for path in sorted(folder.glob("*/*.py")):
        counts[path.parent.name] = counts.get(path.parent.name, 0) + (path.stem != "__init__")
    return counts


def assign_layers(edges: Edges) -> dict[str, int]:
    """Return the layer of each part, 0 for parts that import no other, else one above all that they import.

    Raises:
        ValueError: if there is an import cycle.
    """
    layer_of: dict[str, int] = {}

    def find_layer(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise ValueError(" imports ".join((*above[above.index(name) :], name)))
        if name not in layer_of:
            inner = [find_layer(other, (*above, name)) for other in sorted(edges[name])]
            layer_of[name] = 1 + max(inner, default=-1)
        return layer_of[name]

    for name in sorted(edges):
        find_layer(name, ())
    return layer_of


def transitive_reduction(edges: Edges) -> Edges:
    """Return the imports without those between two parts that a longer chain of imports connects, too."""

    def descendants(name: str) -> set[str]:
        return edges[name].union(*(descendants(other) for other in edges[name]))

    return {name: used - set().union(*(descendants(other) for other in used)) for name, used in edges.items()}


def place_parts(edges: Edges) -> tuple[dict[str, tuple[float, int]], dict[tuple[str, str], list[str]]]:
    """Place the parts of a package, and the arrows of their imports.

    An arrow that passes layers has a place in each of them, so that it crosses no box.

    Returns:
        x (pixels) and layer of each place by name; and for each pair of importing and imported part, the names of the
        places on the path of its arrow.
    """
    layer_of = assign_layers(edges)
    rows: list[list[str]] = [[] for _ in range(max(layer_of.values()) + 1)]
    for name in sorted(layer_of):
        rows[layer_of[name]].append(name)
    neighbours: dict[str, list[list[str]]] = {name: [[], []] for name in edges}  # above, below
    paths: dict[tuple[str, str], list[str]] = {}
    for name in sorted(edges):
        for other in sorted(edges[name]):
            path = [name]
            for layer in range(layer_of[name] - 1, layer_of[other], -1):
                path.append(f"{name}>{other}@{layer}")
                rows[layer].append(path[-1])
                neighbours[path[-1]] = [[], []]
            paths[name, other] = path = [*path, other]
            for upper, lower in pairwise(path):
                neighbours[upper][1].append(lower)
                neighbours[lower][0].append(upper)
    return _order_layers(rows, neighbours), paths


def _order_layers(rows: list[list[str]], neighbours: dict[str, list[list[str]]]) -> dict[str, tuple[float, int]]:
    """Return x (pixels) and layer of each place, ordered by the mean x of its neighbours above and below.

    Args:
        rows: names of the places in each layer.
        neighbours: for each place, names of its neighbours in the layers above and below.
    """
    x: dict[str, float] = {}

    def place_row(row: list[str], layer: int, targets: dict[str, float]) -> None:
        left = 0.0
        for name in sorted(row, key=lambda other: (targets[other], other)):
            half_width = slot_width(name) / 2
            x[name] = left + half_width
            left += 2 * half_width + BOX_GAP
        # The whole layer is shifted to the mean of its targets.
        shift = sum(targets[name] - x[name] for name in row) / len(row)
        for name in row:
            x[name] += shift

    for layer, row in enumerate(rows):
        place_row(row, layer, dict.fromkeys(row, 0.0))
    for sweep in range(NUM_SWEEPS):
        side = 1 if sweep % 2 == 0 else 0
        order = list(enumerate(rows))
        for layer, row in order if side else reversed(order):
            targets = {
                name: sum(x[other] for other in neighbours[name][side]) / len(neighbours[name][side])
                if neighbours[name][side]
                else x[name]
                for name in row
            }
            place_row(row, layer, targets)
    first = min(x[name] - slot_width(name) / 2 for row in rows for name in row)
    return {name: (x[name] - first, layer) for layer, row in enumerate(rows) for name in row}


def slot_width(name: str) -> int:
    """Return the width (pixels) of a place, by its name: a part's box, or an arrow that passes a layer."""
    return ARROW_WIDTH if "@" in name else BOX_WIDTH


def draw_package(root: Path, package: str) -> str:
    """Return the drawing of a package's parts and their imports as SVG."""
    arrows, module_counts = find_imports(root, package), count_modules(root, package)
    edges: Edges = {name: set() for pair in arrows for name in pair}
    for upper, lower in arrows:
        edges[upper].add(lower)
    places, paths = place_parts(transitive_reduction(edges))
    top = max(layer for _, layer in places.values())
    points = {name: (x + 20, 20 + (top - layer) * LAYER_HEIGHT) for name, (x, layer) in places.items()}
    total_width = max(x + slot_width(name) / 2 for name, (x, _) in points.items()) + 20
    total_height = (top + 1) * LAYER_HEIGHT + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width:.0f} {total_height:.0f}" '
        f'width="{total_width:.0f}" font-family="sans-serif" font-size="13" text-anchor="middle">',
        f"<title>{package}: {len(edges)} parts, {top + 1} layers, {len(arrows)} arrows</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#5b6b7a"/></marker></defs>',
        f'<rect width="{total_width:.0f}" height="{total_height:.0f}" fill="#fbfcfd"/>',
        *(_arrow([points[name] for name in path]) for path in paths.values()),
        *(_box(name, *points[name], module_counts[name]) for name in sorted(edges)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _arrow(points: list[tuple[float, float]]) -> str:
    """Return the SVG path of an arrow through points (x, y): from a box, past layers, to another box."""
    (x, y), commands = points[0], []
    y += BOX_HEIGHT
    commands.append(f"M{x:.0f} {y:.0f}")
    for number, (to_x, to_y) in enumerate(points[1:], 1):
        middle = (y + to_y) / 2
        commands.append(f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}")
        x, y = to_x, to_y
        if number < len(points) - 1:
            y += BOX_HEIGHT
            commands.append(f"V{y:.0f}")
    return f'<path d="{" ".join(commands)}" fill="none" stroke="#5b6b7a" marker-end="url(#tip)"/>'


def _box(name: str, x: float, y: float, count: int) -> str:
    """Return the SVG box of a part at x, y, with its name and its number of modules."""
    text = f"{count} module{'s' * (count > 1)}" if count else "a module"
    return (
        f'<rect x="{x - BOX_WIDTH / 2:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" '
        f'fill="#e8f0f8" stroke="#2f6fa7"/><text x="{x:.0f}" y="{y + 16:.0f}" fill="#10202f">'
        f'{escape(name)}</text><text x="{x:.0f}" y="{y + 31:.0f}" font-size="10" fill="#4a5a68">'
        f"{text}</text>"
    )


def main(argv: Iterable[str] | None = None) -> int:
    """Write the drawings of the imports of both packages, or print the imports; return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder; docs by default")
    parser.add_argument("--list", action="store_true", help="print the arrows, draw nothing")
    options = parser.parse_args(None if argv is None else list(argv))
    for package, name in FIGURE_NAMES.items():
        if options.list:
            for (upper, lower), modules in sorted(find_imports(ROOT, package).items()):
                print(f"{package}: {upper} -> {lower}", *modules, sep="\n    ")
        else:
            (options.out / name).write_text(draw_package(ROOT, package), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
