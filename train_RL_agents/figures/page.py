"""Self-contained pages: HTML, style, scripts and data in one file.

Their parts are the files in the folder ``pages``; every script becomes a script element, in a given order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any


def read_part(name: str) -> str:
    """Return the text of a file in the folder ``pages``."""
    return files("train_RL_agents.figures").joinpath("pages", name).read_text(encoding="utf-8")


def fill(page: str, **parts: str) -> str:
    """Replace every placeholder ``__NAME__`` in a page by the text of that name in ``parts``."""
    return re.sub(r"__([A-Z]+)__", lambda place: parts[place[1]], page)


def assemble(name: str, scripts: Sequence[str] = (), data: Any = None, **parts: str) -> str:
    """Return a page with its style, scripts and data.

    Args:
        name: name of the page's HTML file, without suffix.
        scripts: names of the script files, each of which uses only those before it.
        data: data for the scripts, which JSON can hold.
        **parts: HTML that replaces the other placeholders ``__NAME__`` of the page, by name.

    Returns:
        HTML.
    """
    # Text in the data must not end the element that contains them.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    elements = "\n".join(f"<script>\n{read_part(script)}</script>" for script in scripts)
    style = read_part("page.css").strip()
    page = read_part("head.html") + read_part(f"{name}.html")
    return fill(page, TITLE=f"marinenav {name}", STYLE=style, SCRIPTS=elements, DATA=text, **parts)
