"""Self-contained pages: HTML, style, scripts and data in one file.

Their parts are the files of ``pages``; every script is an element, in a given order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any


def read_part(name: str) -> str:
    """Return the content of a file of ``pages``."""
    return files("train_RL_agents.figures").joinpath("pages", name).read_text(encoding="utf-8")


def assemble(name: str, scripts: Sequence[str], data: dict[str, Any]) -> str:
    """Return a page as HTML.

    Args:
        name: name of its HTML file: demo, replay or certificate.
        scripts: names of its scripts; a script uses only those before it.
        data: data that the scripts show.
    """
    # Text in the data must not end the element that contains them.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    elements = "\n".join(f"<script>\n{read_part(script)}</script>" for script in scripts)
    page = read_part("head.html").replace("__TITLE__", f"marinenav {name}")
    page = page.replace("__STYLE__", read_part("page.css").strip()) + read_part(f"{name}.html")
    return page.replace("__SCRIPTS__", elements).replace("__DATA__", text)
