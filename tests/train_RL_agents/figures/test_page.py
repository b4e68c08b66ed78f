"""Pages of one file."""

import json
import re

import pytest

from train_RL_agents.figures.page import assemble_page, bundle_module


def test_texts_of_the_data_cannot_end_their_element():
    data = {"name": "</script><script>alert(1)</script>", "number": 1.5}
    page = assemble_page("demo", "policies.js", data)
    assert "alert(1)</script>" not in page
    (stored,) = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert json.loads(stored) == data
    assert not re.search(r"__[A-Z]+__", page)


def test_numbers_that_json_lacks_are_no_data():
    with pytest.raises(ValueError, match="Out of range"):
        assemble_page("demo", None, {"number": float("nan")})


def test_modules_come_after_those_that_they_import(tmp_path):
    (tmp_path / "numbers.js").write_text("export const one = 1;\nexport function two() { return one + one; }\n")
    (tmp_path / "sums.js").write_text('import { two } from "./numbers.js";\nexport const four = two() + two();\n')
    entry = tmp_path / "entry.js"
    entry.write_text('import * as numbers from "./numbers.js";\nimport * as sums from "./sums.js";\nnumbers, sums;\n')
    assert bundle_module(entry) == (
        "const $numbers = (() => {\nconst one = 1;\nfunction two() { return one + one; }\nreturn { one, two };\n})();\n"
        "const $sums = (() => {\nconst { two } = $numbers;\nconst four = two() + two();\nreturn { four };\n})();\n"
        "const numbers = $numbers;\nconst sums = $sums;\nnumbers, sums;\n"
    )
