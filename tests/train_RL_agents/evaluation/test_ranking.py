"""The table of entries."""

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.entries import entry, result
from train_RL_agents.evaluation.ranking import MEANINGS, rank


def test_each_is_compared_to_the_best_of_the_suite():
    late = result("tttt", ("head-on", "overtaking"), "rules")
    table = rank({"a": entry("ccct"), "b": entry("sscs", rules=late)})
    rows = [dict(zip(table.titles, row, strict=True)) for row in table.rows]
    names = [(row[""], row["entry"]) for row in rows]
    # Equally good ones are in the order of their names.
    assert names == [("currents", "b"), ("", "a"), ("rules", "a"), ("", "b"), ("imazu", "b"),
                     ("", "a")]  # fmt: skip
    assert rows[0]["success"].startswith("0.750 [") and rows[0]["than the best"] == "-"
    assert rows[1]["than the best"].startswith("-0.750 [")
    assert rows[4]["rules kept"] == "0.75" and rows[0]["rules kept"] == "-"
    assert set(table.titles[3:]) == set(MEANINGS)


def test_other_episodes_are_refused():
    with pytest.raises(ConfigError, match="of the same episodes as in a"):
        rank({"a": entry("ssst"), "b": entry("ssctt")})
