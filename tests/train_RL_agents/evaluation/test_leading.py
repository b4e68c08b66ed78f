"""Metrics at the head of certificates and tables."""

from tests.train_RL_agents.entries import entry, leading_entry, result
from train_RL_agents.evaluation.leading import external_table, leading_row, leading_table, rates_table


def test_a_suite_has_rates_situations_and_its_weakest_group():
    row = leading_row("dnv_own", leading_entry().suites["dnv_own"])
    assert row["situations"] == "1 of 2" and row["weakest"] == "a: 0.50"
    assert row["hours_per_broken_rule"] == 0.125 and not any(key.startswith("hours_per_collision") for key in row)
    fleets = leading_row("dnv", leading_entry().suites["dnv_own"])
    assert fleets["hours_per_collision"] == 8 * 20.25 / 3600.0
    assert not {"situations", "weakest"} & leading_row("fresh", result("sc")).keys()
    assert leading_row("fresh", result("ss", ("a", "b")))["weakest"] == "all groups: 1.00"


def test_an_entry_has_a_row_for_each_leading_suite_that_it_has():
    assert [row["suite"] for row in leading_table(leading_entry()).rows] == [
        "fresh",
        "dnv_own",
        "unruly",
        "encounters_own",
    ]


def test_entries_are_compared_by_suite_and_metric():
    entries = {"mine": leading_entry(), "none": entry()}
    rates = rates_table(entries)
    assert rates.titles[:3] == ["", "fresh: hours per collision", "dnv_own: hours per broken rule"]
    assert rates.titles[-1] == "encounters_own: hours per broken rule" and rates.cells[0][-1] == "0.125 [0.100, 0.250]"
    others = external_table(entries)
    assert others.titles == [
        "",
        "dnv_own: situations without collision",
        "dnv_own: rules kept",
        "unruly: avoided",
        "encounters_own: weakest group",
    ]
    assert others.cells == [["mine", "1 of 2", "0.75", "0.50 [0.25, 0.75]", "b: 0.50"], ["none", *"----"]]
