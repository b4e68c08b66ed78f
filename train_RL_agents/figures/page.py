"""Self-contained HTML pages, with style, scripts and data in one file, from the files in the folder ``pages``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PAGES = Path(__file__).with_name("pages")
_IMPORT = re.compile(r'^import (?:\* as (\w+)|(\{[^}]*\})) from "(\S+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


def assemble_page(name: str, script: str | None = None, data: Any = None) -> str:
    """Return the HTML of a page, by its name, with its style, scripts and data.

    ``script`` is an ES module, with which all modules come that it imports; ``data`` must be serialisable as JSON.
    """
    # Text in the data must not end the element that contains them.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    scripts = "" if script is None else f'<script type="module">\n{bundle_module(PAGES / script)}</script>'
    shared = {part.upper(): _fill(f"{part}.html") for part in ("vessel", "cards", "keys")}
    return _head(name) + _fill(f"{name}.html", **shared, SCRIPTS=scripts, DATA=text)


def assemble_report(kind: str, name: str, about: str, sections: Iterable[tuple[str, str]]) -> str:
    """Return the HTML of a page of results: a name, HTML below it, and cards.

    Sections are headings with the HTML of a card, or without a heading the HTML between two cards.
    """
    cards = [
        f'<section class="card">\n<h2>{escape(title)}</h2>\n{html}</section>\n' if title else html
        for title, html in sections
    ]
    heading = f"<header><h1>{escape(name)}</h1>{about}</header>"
    return f'{_head(kind)}<body class="report">\n{heading}\n<main>\n{"".join(cards)}</main>\n</body>\n</html>\n'


def _head(name: str) -> str:
    """Return the beginning of the HTML of a page, up to its body."""
    return _fill("head.html", TITLE=f"marinenav {name}", STYLE=(PAGES / "page.css").read_text(encoding="utf-8").strip())


def _fill(file: str, **parts: str) -> str:
    """Return the HTML in a file, with parts in place of placeholders such as ``__TITLE__``."""
    return re.sub(r"__([A-Z]+)__", lambda place: parts[place[1]], (PAGES / file).read_text(encoding="utf-8"))


def bundle_module(path: Path) -> str:
    """Return an ES module with all modules that it imports as one script, each after those that it imports.

    A module may use ``import * as NAME from "FILE";``, ``import { NAME, NAME } from "FILE";`` and, before a function or
    a constant, ``export``; each such statement begins a line.
    """
    modules: dict[Path, str] = {}
    _bundle_imports(path.resolve(), modules, is_entry=True)
    *others, entry = modules.items()
    return "".join(f"const ${each.stem} = (() => {{\n{text}}})();\n" for each, text in others) + entry[1]


def _bundle_imports(path: Path, modules: dict[Path, str], is_entry: bool = False) -> None:
    """Add a module to those of a bundle, by path, after the modules that it imports."""
    text = path.read_text(encoding="utf-8")
    for *_, name in _IMPORT.findall(text):
        imported = (path.parent / name).resolve()
        if imported not in modules:
            _bundle_imports(imported, modules)
    text = _IMPORT.sub(lambda found: f"const {found[1] or found[2]} = ${Path(found[3]).stem};", text)
    names = [name for _, name in _EXPORT.findall(text)]
    text = _EXPORT.sub(r"\1 \2", text)
    modules[path] = text + ("" if is_entry else f"return {{ {', '.join(names)} }};\n")


class Track(NamedTuple):
    """Track in a picture; points [N, 2] are x to the north and y to the east (m)."""

    kind: str
    """``own`` for a thick line, ``other`` for a thin one, with larger dots; empty for small dots alone."""
    line: NDArray[Any]
    squares: NDArray[Any]
    dots: NDArray[Any]


def tracks_svg(tracks: Sequence[Track], fitted: NDArray[Any], label: str) -> str:
    """Return an SVG of tracks, north up, whose size fits points [N, 2] (m); ``label`` describes it."""
    middle, side = (fitted.min(0) + fitted.max(0)) / 2, 1.2 * max(float(np.ptp(fitted, 0).max()), 1.0)
    parts = []
    for kind, *columns in tracks:
        east_south = (100.0 * ((points - middle)[:, ::-1] * (1.0, -1.0) / side + 0.5) for points in columns)
        line, squares, dots = (points.clip(-200.0, 300.0).tolist() for points in east_south)
        parts += [f'<g class="{kind}"><polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in line)}"/>']
        parts += [f'<rect x="{x - 1.5:.1f}" y="{y - 1.5:.1f}" width="3" height="3"/>' for x, y in squares]
        parts += [*(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="0.8"/>' for x, y in dots), "</g>"]
    view = f'viewBox="0 0 100 100" role="img" aria-label="{escape(label)}"'
    return f'<svg class="tracks" {view}>{"".join(parts)}</svg>'
