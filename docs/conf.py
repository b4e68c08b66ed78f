"""Sphinx configuration: `python -m sphinx -W docs docs/_build`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

project = "marinenav"
author = "The marinenav authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "results/README.md"]
html_theme = "furo"
html_title = "marinenav"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
napoleon_google_docstring = True


def setup(app):
    """Put the list of settings into its page; show magnitudes as they are written."""

    def fill(app, page, source):
        if page == "settings":
            from tools.settings_page import settings_page

            source[0] = source[0].replace("<!-- settings -->", settings_page())

    def plain(app, what, name, obj, options, lines):
        if "VesselConfig" in name:  # |sway| is a magnitude, not a substitution
            lines[:] = [line.replace("|", r"\|") for line in lines]

    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", plain)
