"""Self-contained HTML pages, with style, scripts and data in one file, from the files in the folder ``pages``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any


def read_page_part(name: str) -> str:
    """Return the text of a file in the folder ``pages``, given its name."""
    return files("train_RL_agents.figures").joinpath("pages", name).read_text(encoding="utf-8")


def fill_placeholders(page: str, **parts: str) -> str:
    """Return a page in which every placeholder ``__NAME__`` is replaced by the text of that name in ``parts``."""
    return re.sub(r"__([A-Z]+)__", lambda place: parts[place[1]], page)


def assemble_page(name: str, scripts: Sequence[str] = (), data: Any = None, **parts: str) -> str:
    """Return the HTML of a page with its style, scripts and data.

    Args:
        name: name of the page's HTML file, without suffix.
        scripts: names of the script files, each of which uses only those before it.
        data: data for the scripts, which must be serialisable as JSON.
        **parts: HTML that replaces the other placeholders ``__NAME__`` of the page, by name.
    """
    # Text in the data must not end the element that contains them.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    elements = "\n".join(f"<script>\n{read_page_part(script)}</script>" for script in scripts)
    style = read_page_part("page.css").strip()
    page = read_page_part("head.html") + read_page_part(f"{name}.html")
    return fill_placeholders(page, TITLE=f"marinenav {name}", STYLE=style, SCRIPTS=elements, DATA=text, **parts)
