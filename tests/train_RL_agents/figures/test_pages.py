"""Every page in Chromium; where there is none its script in Node, with a stand-in for the document."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.train_RL_agents.evaluation.helpers import two_suites
from tests.train_RL_agents.experiments.test_study_report import made_up
from tests.train_RL_agents.figures.helpers import page_of
from tests.train_RL_agents.figures.test_replay_page import views
from tests.train_RL_agents.identification.helpers import identification
from train_RL_agents.experiments.study_report import write_report
from train_RL_agents.figures import evaluation_page, replay_page
from train_RL_agents.figures import identification as identified

VESSEL_PANELS = [f"[data-part={name}]" for name in ("numbers", "rule", "reward", "decision", "return-text")]
PANELS = {
    "replay": [*VESSEL_PANELS, "[data-part=fleet]", "[data-part=charts]", "#episode", "#clock", "#marks"],
    "comparison": [*VESSEL_PANELS, "[data-part=fleet]", "[data-part=charts]", "#episode", "#clock"],
    "demo": [*VESSEL_PANELS, "[data-part=scores]", "#scenario", "#item", "#wind-text", "#clock"],
    "evaluation": ["h1", "table", "figcaption"],
    "study": ["h1", "table", "figcaption"],
    "identification": ["h1", "table", "figcaption"],
}
"""What must not be empty, by page."""
PLAYED = ("replay", "comparison", "demo")
VOID = {"meta", "link", "input", "img", "br", "rect", "circle", "line", "polyline", "path"}


def study_page(folder):
    """The page of a study."""
    study, found = made_up(folder)
    report, _ = write_report(study, "A study of agents", folder, found)
    return report.read_text(encoding="utf-8")


MAKE = {
    "replay": lambda _: replay_page.make_page([views()]),
    "comparison": lambda _: replay_page.make_page([views(), views()]),
    "demo": lambda _: page_of("ac_iqn"),
    "evaluation": lambda _: evaluation_page.make_page(two_suites()),
    "study": study_page,
    "identification": lambda _: identified.make_page(identification("otter"), "otter"),
}
"""Each page's HTML, given a folder."""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PANELS)
def test_page_opens_without_a_message_and_is_filled_and_plays(tmp_path, chromium, request, name, width):
    run = run_in_node if chromium is None else request.getfixturevalue("run_in_browser")
    found = run(MAKE[name](tmp_path), PANELS[name], name in PLAYED, width)
    assert found["errors"] == []
    assert [panel for panel in PANELS[name] if not found["texts"][panel]] == []
    if name in PLAYED:
        before, after = found["clock"]
        assert before != after


@pytest.mark.heavy
@pytest.mark.parametrize("name", [name for name in PANELS if name != "study"])  # which links to its files
def test_page_needs_nothing_else_and_is_small(tmp_path, name):
    page = MAKE[name](tmp_path)
    assert len(page.encode()) < 2_000_000
    assert not re.search(r"__[A-Z]+__", page)
    addresses = set(re.findall(r"https?://[^\"' ]*", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a namespace, which nothing requests
    assert not re.search(r"\ssrc=|@import|fetch\(|XMLHttpRequest|url\(|\bimport\(", page)
    assert re.findall(r'href="([^"]*)"', page) == ["data:,"]  # the icon, which is empty


@pytest.fixture
def run_in_browser(open_page):
    """Opens a page in Chromium: its errors, texts of panels, and the clock before and after it has played."""

    def run(html, panels, plays, width):
        scheme = "light" if width == 1280 else "dark"
        page = open_page(html, viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.wait_for_load_state("load")
        clock = []
        if plays:
            page.wait_for_function("document.getElementById('clock').textContent")
            if page.inner_text("#play") == "Pause":
                page.click("#play")
        texts = {panel: page.locator(panel).first.text_content().strip() for panel in panels}
        if plays:
            clock.append(page.inner_text("#clock"))
            page.click("#play")
            page.wait_for_timeout(500)
            clock.append(page.inner_text("#clock"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cut = "Array.from(document.querySelectorAll('div.scroll'), (each) => each.scrollWidth - each.clientWidth)"
        assert width < 1280 or max(page.evaluate(cut), default=0) == 0, "a column is cut"
        return {"errors": violations(page), "texts": texts, "clock": clock}

    return run


def violations(page):
    """The rules of axe-core that a page breaks, those of best practice included."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found]


def run_in_node(html, panels, plays, width):
    """Run the script of a page in Node: its errors, texts of panels, and the clock before and after it has played."""
    node = shutil.which("node")
    assert node, "neither Chromium nor Node is there: install one of them"
    tree = Tree(html)
    given = {"tree": tree.root, "script": tree.script, "panels": panels, "play": plays}
    stand_in = Path(__file__).with_name("stand_in.js").read_text(encoding="utf-8")
    options = [node, "--input-type=module", "--eval", stand_in]
    done = subprocess.run(options, input=json.dumps(given), text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Tree(HTMLParser):
    """The elements of a page as nested lists: tag, attributes, text, and children; and the text of its script."""

    def __init__(self, html):
        super().__init__()
        self.root, self.script = ["root", {}, ""], ""
        self.path = [self.root]
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        element = [tag, dict(attrs), ""]
        self.path[-1].append(element)
        if tag not in VOID:
            self.path.append(element)

    def handle_startendtag(self, tag, attrs):
        self.path[-1].append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.path.pop()[0] == tag

    def handle_data(self, data):
        tag, attributes, _ = self.path[-1][:3]
        if tag == "script" and attributes.get("type") == "module":
            self.script = data
        else:
            self.path[-1][2] += data
