"""Pages that need nothing else: HTML, style, scripts and data in one file.

Their parts are the files of ``pages``; scripts stand in elements of their own, in a given order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any


def read_part(name: str) -> str:
    """A file of the pages."""
    return files("train_RL_agents.figures").joinpath("pages", name).read_text(encoding="utf-8")


def assemble(name: str, scripts: Sequence[str], data: dict[str, Any]) -> str:
    """Make a page.

    Args:
        name: demo, replay or certificate, as its file of HTML is called.
        scripts: names of files; each uses only what stands before it.
        data: what the scripts show.

    Returns:
        HTML.
    """
    # A text in the data must not end the element that the data are in.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    elements = "\n".join(f"<script>\n{read_part(script)}</script>" for script in scripts)
    page = read_part("head.html").replace("__TITLE__", f"marinenav {name}")
    page = page.replace("__STYLE__", read_part("page.css").strip()) + read_part(f"{name}.html")
    return page.replace("__SCRIPTS__", elements).replace("__DATA__", text)
