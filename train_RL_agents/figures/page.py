"""Self-contained pages: HTML, style, scripts and data in one file.

Their parts are the files of ``pages``; every script is an element, in a given order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any


def read_part(name: str) -> str:
    """Return the text of a file of the pages."""
    return files("train_RL_agents.figures").joinpath("pages", name).read_text(encoding="utf-8")


def fill(page: str, **parts: str) -> str:
    """Replace every ``__NAME__`` of a page by the part of that name."""
    return re.sub(r"__([A-Z]+)__", lambda place: parts[place[1]], page)


def assemble(name: str, scripts: Sequence[str] = (), data: Any = None, **parts: str) -> str:
    """Make a page.

    Args:
        name: name of its file of HTML, without suffix.
        scripts: names of files; each uses only what stands before it.
        data: what the scripts show.
        **parts: HTML for the other places of the page, by name.

    Returns:
        HTML.
    """
    # Text in the data must not end the element that contains them.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    elements = "\n".join(f"<script>\n{read_part(script)}</script>" for script in scripts)
    style = read_part("page.css").strip()
    page = read_part("head.html") + read_part(f"{name}.html")
    return fill(page, TITLE=f"marinenav {name}", STYLE=style, SCRIPTS=elements, DATA=text, **parts)
