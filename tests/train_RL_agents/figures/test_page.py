"""Pages of one file."""

import json
import re

import pytest

from train_RL_agents.figures.page import Markup, assemble, html_table


def test_texts_of_the_data_cannot_end_their_element():
    data = {"name": "</script><script>alert(1)</script>", "number": 1.5}
    page = assemble("demo", ["policies.js"], data)
    assert "alert(1)</script>" not in page
    (stored,) = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert json.loads(stored) == data
    assert not re.search(r"__[A-Z]+__", page)


def test_numbers_that_json_lacks_are_no_data():
    with pytest.raises(ValueError, match="Out of range"):
        assemble("demo", [], {"number": float("nan")})


def test_tables_escape_all_but_markup():
    text = html_table([{"a<b": "1 & 2", "link": Markup("<b>x</b>")}], 'of "some"')
    assert '<th scope="col">a&lt;b</th>' in text
    assert "<td>1 &amp; 2</td><td><b>x</b></td>" in text
    assert 'aria-label="of &quot;some&quot;"' in text
    assert html_table([], "nothing") == ""
