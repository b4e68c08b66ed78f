"""The page of an evaluation: what is on it."""

import re

from tests.train_RL_agents.evaluation.helpers import evaluation, two_suites
from train_RL_agents.figures.evaluation_page import make_page


def test_a_page_has_summary_worst_groups_failures_and_sources():
    page = make_page(two_suites("<b>mine</b>"))
    assert "<b>mine" not in page and not re.search(r"__[A-Z]+__|https?:|src=|@import|url\(|<script", page)
    assert page.count("<h2>") == 5 and page.count('class="tracks') == 1 and "case 2, episode 1: collision" in page
    assert page.index("0 of 10") < page.index("15 of 20") and "0123456789abcdef" * 2 in page
    assert "quick look" not in page
    few = make_page([evaluation("currents", "s")])
    assert few.index("A quick look") < few.index("All suites</h2>") and "Every episode succeeded" in few
    levels = make_page([evaluation(None, "s" * 12)])
    assert "<h2>levels</h2>\n<p>12 episodes.</p>" in levels and levels.count("<td>levels</td>") == 2
