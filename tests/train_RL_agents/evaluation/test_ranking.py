"""The table of entries."""

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.entries import entry, leading_entry, result
from train_RL_agents.evaluation.ranking import RANKING_MEANINGS, common_suites, markdown_page, ranking_table, tie_text


def test_each_is_compared_to_the_best_of_the_suite():
    late = result("tttt", ("head-on", "overtaking"), "rules")
    table = ranking_table({"a": entry("ccct"), "b": entry("sscs", rules=late)})
    rows = [dict(zip(table.titles, row, strict=True)) for row in table.cells]
    names = [(row[""], row["entry"]) for row in rows]
    # Equally good ones are in the order of their names.
    assert names == [("currents", "b"), ("", "a"), ("rules", "a"), ("", "b"), ("imazu", "b"), ("", "a")]
    assert rows[0]["success"].startswith("0.750 [") and rows[0]["than the best"] == "-"
    assert rows[1]["than the best"].startswith("-0.750 [")
    assert rows[4]["rules kept"] == "0.75" and rows[0]["rules kept"] == "-"
    assert {row["astern"] for row in rows} == {"0.250"}
    assert set(table.titles[3:]) == set(RANKING_MEANINGS) and table.keys == 2


def test_other_episodes_are_refused():
    with pytest.raises(ConfigError, match="of the same episodes as in a"):
        ranking_table({"a": entry("ssst"), "b": entry("ssctt")})


def test_the_page_has_every_suite_with_its_groups():
    late = result("tttt", ("head-on", "overtaking"), "rules")
    text = markdown_page({"a": entry("ccct"), "b": entry("sscs", rules=late)}, "Benchmark 9")
    assert text.startswith("# Benchmark 9\n") and text.count("\n## ") == 4
    overview, currents, rules, imazu, columns = text.split("\n## ")
    assert "| b | 0.750 | 0.000 |" in overview
    assert currents.startswith("currents\n\n6 robots among 8 obstacles")
    assert imazu.startswith("imazu\n\nImazu's 22 problems")
    assert "| a | 0.00 (0.500) | 0.00 (0.500) |" in rules
    assert "| a | 0.50 | 0.50 |" in rules and "| a | 0.75 | 0.75 |" in imazu
    # One group alone is not shown again; the best comes first.
    assert "by group" not in currents and currents.index("| b | 4 |") < currents.index("| a | 4 |")
    assert "| b | 0.00 (" in rules and rules.count("\n| b | ") == 2 and "Rules kept (encounters" in rules
    assert "Rules kept (vessels with a duty" in imazu
    assert all(f"- {name}: {about}" in columns for name, about in RANKING_MEANINGS.items())


def test_the_page_begins_with_rates_and_the_situations_of_others():
    text = markdown_page({"a": leading_entry()}, "Benchmark 9")
    tables = ("|  | fresh: hours", "|  | dnv_own: situations", "|  | currents |", "\n## currents")
    places = [text.index(words) for words in tables]
    assert places == sorted(places) and "Avoided (" in text.partition("\n## unruly")[2].partition("\n## ")[0]


def test_entries_that_the_episodes_do_not_separate_share_their_places():
    """Of 20 episodes, 5 that one alone fails in are too few, 6 are enough."""
    outcomes = {"best": "s" * 20, "close": "c" * 5 + "s" * 15, "worse": "c" * 6 + "s" * 14, "worst": "t" * 20}
    entries = {name: entry(outcome) for name, outcome in outcomes.items()}
    rows = [row for row in ranking_table(entries).rows if row["suite"] == "currents"]
    assert [row["rank"] for row in rows] == ["1 to 2", "1 to 2", "3", "4"]
    assert tie_text(entries, "currents").startswith(
        "1 to 2 tied; smallest difference of success rates that 20 episodes"
    )
    assert "\n1 to 2 tied; smallest" in markdown_page(entries, "Benchmark 9")
    alone = {"best": entries["best"]}
    assert ranking_table(alone).rows[0]["rank"] == "1" and tie_text(alone, "currents").startswith("no ties; ")


def test_suites_that_only_some_entries_have_are_left_out():
    entries = {"a": entry(long=result("sssc", suite="long")), "b": entry()}
    assert common_suites(entries) == ["currents", "rules", "imazu"]
    assert common_suites({"a": entries["a"]})[-1] == "long"
