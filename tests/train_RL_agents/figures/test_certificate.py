"""The certificate: what is on it, and (slow) what a real browser makes of it."""

import re

import pytest

from tests.train_RL_agents.entries import entry, leading_entry, result
from train_RL_agents.evaluation.thresholds import THRESHOLDS
from train_RL_agents.figures.certificate import make_page


def test_page_has_thresholds_suites_and_sources():
    page = make_page(entry())
    for threshold in THRESHOLDS:
        assert threshold.about.replace("'", "&#x27;") in page
    assert page.count("✗ miss") == len(THRESHOLDS) and f"0 of {len(THRESHOLDS)}" in page
    assert page.count("<h2>") == 6 and page.count('class="tracks') == 2
    assert "0.500 [0.150, 0.850]" in page and "3 of 4" in page and "0.75 [0.50, 0.90]" in page
    assert entry().suites["imazu"].scenarios in page and "ab" * 32 in page
    assert "✓ pass" in make_page(entry(currents=result("s" * 500)))


def test_tiles_have_the_weakest_groups_with_intervals():
    kinds = ("noise x 0", "noise x 4")
    page = make_page(entry(noise=result("sccc" * 5, kinds), currents=result("s" * 20)))
    tiles = re.findall(r"<dt>(.*?)</dt><dd>(.*?)<small>(.*?)</small>", page)
    assert ("weakest: noise, noise x 4", "0.000", "0.000 to 0.278") in tiles
    weak = [(about, value) for about, value, _ in tiles if about.startswith("weakest: ")]
    assert len(weak) == 3 and [value for _, value in weak] == sorted(value for _, value in weak)
    assert all(ends for title, _, ends in tiles if title != "thresholds passed")
    assert "set by the developers" in page


def test_rates_and_the_situations_of_others_lead():
    page = make_page(leading_entry())
    tiles = re.findall(r"<dt>(.*?)</dt><dd>(.*?)<small>(.*?)</small>", page)
    assert [(value, ends) for _, value, ends in tiles[:4]] == [
        ("0.04", "0.01 to 1.78"),
        ("0.125", "0.100 to 0.250"),
        ("1 of 2", ""),
        ("b: 0.50", ""),
    ]
    assert tiles[4][0] == "thresholds passed" and page.index("<td>0.125 [0.100, 0.250]<") < page.index(
        "What counts as a pass"
    )


def test_page_needs_nothing_else_and_holds_no_markup_of_names():
    page = make_page(entry(name="<b>mine</b>"))
    assert "<b>mine" not in page and "&lt;b&gt;mine" in page
    assert not re.search(r"__[A-Z]+__|https?:|src=|@import|url\(|<script", page)


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_and_says_nothing(open_page, scheme, width):
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    page = open_page(make_page(entry()), **options)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".sheet svg").count() == 2
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core")
    page.locator("summary").first.click()
    found = axe.Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
