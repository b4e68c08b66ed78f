"""Pages of one file."""

import json
import re

import pytest

from train_RL_agents.figures.page import assemble_page


def test_texts_of_the_data_cannot_end_their_element():
    data = {"name": "</script><script>alert(1)</script>", "number": 1.5}
    page = assemble_page("demo", ["policies.js"], data)
    assert "alert(1)</script>" not in page
    (stored,) = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert json.loads(stored) == data
    assert not re.search(r"__[A-Z]+__", page)


def test_numbers_that_json_lacks_are_no_data():
    with pytest.raises(ValueError, match="Out of range"):
        assemble_page("demo", [], {"number": float("nan")})
