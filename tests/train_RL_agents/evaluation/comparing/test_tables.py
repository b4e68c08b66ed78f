"""Tables of an evaluation by hand."""

import csv

from tests.train_RL_agents.evaluation.helpers import ENCOUNTER_METRICS
from train_RL_agents.evaluation.comparing.tables import (
    Evaluation,
    Result,
    compliance_table,
    metric_columns,
    metric_table,
)
from train_RL_agents.utils.table import Table

ROW = {
    "episodes": 10,
    "success_rate": 0.9,
    "success_low": 0.5958,
    "success_high": 0.9821,
    "collision_rate": 0.1,
    "timeout_rate": 0.0,
    "robot_success_rate": 0.95,
    "avg_time": 20.04,
    "avg_energy": 512.6,
    "avg_return": 3.456,
    "hours_per_collision": 12.34,
    "hours_per_collision_low": 3.04,
    "hours_per_collision_high": 98.76,
}
FAILED = ROW | {"success_rate": 0.0, "avg_time": None, "avg_energy": None}
BETTER = {"difference": 0.05, "difference_low": -0.01, "difference_high": 0.1}
SHOWN = ["10", "0.900 [0.596, 0.982]", "0.100", "0.000", "0.950", "20.0", "513", "3.46", "12.34 [3.04, 98.76]"]


ABOUT = {"checkpoint": None, "agent_type": "apf"}


def results():
    metrics = {"level 1": ROW, "overall": FAILED}
    differences = {"level 1": BETTER, "overall": BETTER | {"difference": 0.0}}
    return [Result("a", ABOUT, metrics), Result("b", ABOUT, metrics, differences)]


def evaluated(results):
    return Evaluation(results, {"suite": "paper", "scenarios": None, "seed": 3})


def test_a_row_for_each_group_and_policy():
    table = metric_table(results())
    assert table.titles[:3] == ["", "policy", "episodes"]
    assert [row[:2] for row in table.cells] == [["level 1", "a"], ["", "b"], ["overall", "a"], ["", "b"]]
    assert [row[-1] for row in table.cells] == ["-", "+0.050 [-0.010, +0.100]", "-", "+0.000 [-0.010, +0.100]"]
    assert (table.keys, table.titles[-1]) == (2, "than the first")
    alone = metric_table(results()[:1])
    assert (alone.keys, alone.titles) == (1, ["", "episodes", *(column.title for column in metric_columns(results()))])
    assert metric_table(results()[:1]).cells[0] == ["level 1", *SHOWN]


def test_markdown_and_csv_hold_the_same():
    lines = evaluated(results()[:1]).markdown().splitlines()
    assert lines[:2] == ["apf, on paper, seed 3", ""]
    assert lines[3].count("---") == 1 + len(SHOWN)
    assert lines[4] == f"| level 1 | {' | '.join(SHOWN)} |"
    rows = list(csv.DictReader(Table.from_rows(evaluated(results()).rows).csv().splitlines()))
    assert [row["policy"] for row in rows] == ["a", "b", "a", "b"]
    assert (rows[1]["difference"], rows[0]["difference"], rows[2]["avg_time"]) == ("0.05", "", "")


def test_compliance_has_a_column_for_each_metric():
    shares = {"all_kept": 0.25, "all_kept_low": 0.1, "all_kept_high": 0.55}
    result = Result("a", {}, {"overall": ROW}, compliance={"head-on": dict.fromkeys(ENCOUNTER_METRICS) | shares})
    table = compliance_table([result])
    assert table.titles[2:] == [name.replace("_", " ") for name in ENCOUNTER_METRICS]
    assert table.cells[0][:4] == ["head-on", "a", "0.25 [0.10, 0.55]", "-"] and table.keys == 2


def ruled():
    """Two policies, of which the second has half of the compliance."""
    return [
        Result(
            name,
            ABOUT,
            {"head-on": ROW},
            compliance={"head-on": dict.fromkeys(ENCOUNTER_METRICS) | {"all_kept": share, "fleeting": 3}},
        )
        for name, share in (("a", 0.5), ("b", 0.25))
    ]


def test_compliance_of_a_group_names_it_once():
    rows = compliance_table(ruled()).cells
    assert [row[:3] for row in rows] == [["head-on", "a", "0.50"], ["", "b", "0.25"]]


def test_compliance_follows_the_metrics_where_there_is_some(capsys):
    evaluated(results()[:1]).show()
    assert "Rules of the sea" not in capsys.readouterr().out
    evaluated(ruled()).show()
    shown = capsys.readouterr().out
    assert shown.startswith("apf; apf, on paper, seed 3\n") and "\n\nRules of the sea\n" in shown
    assert "than the first: success rate less" in shown
    assert "fleeting: risks of collision that ended before" in shown
    evaluated(ruled()[:1]).show()
    assert "all kept: encounters, of those with a duty" in capsys.readouterr().out
    safety = Result("a", ABOUT, {"stops": ROW}, compliance={"stops": {"no_collision": 0.5}})
    evaluated([safety]).show()
    assert "\n\nSafety\n" in capsys.readouterr().out
    text = evaluated(ruled()).markdown()
    assert [line for line in text.splitlines() if "all kept" in line] == [
        f"|  | policy | {' | '.join(ENCOUNTER_METRICS).replace('_', ' ')} |"
    ]
    assert "all kept" not in evaluated(results()).markdown()


def test_hours_per_broken_duty_have_three_decimals_as_in_the_benchmark():
    rate = {"hours_per_broken_duty": 0.0286, "hours_per_broken_duty_low": 0.0241, "hours_per_broken_duty_high": 0.034}
    result = Result("a", {}, {"overall": ROW}, compliance={"overall": dict.fromkeys(ENCOUNTER_METRICS, 0.5) | rate})
    assert compliance_table([result]).cells[0][-1] == "0.029 [0.024, 0.034]"


def test_rows_have_metrics_differences_and_compliance():
    rows = evaluated([*ruled(), Result("c", ABOUT, {"head-on": ROW}, {"head-on": BETTER})]).rows
    assert [row.get("all_kept") for row in rows] == [0.5, 0.25, None]
    assert [row.get("difference") for row in rows] == [None, None, 0.05]
    assert all(row["avg_time"] == 20.04 and row["group"] == "head-on" for row in rows)


def test_the_group_with_most_collisions_stands_below_the_tables():
    rows = {"head-on": (0.0, 10), "overtaken": (0.9, 10), "overall": (0.45, 20)}
    metrics = {name: {"collision_rate": rate, "episodes": count} for name, (rate, count) in rows.items()}
    result = Result("ppo", {}, metrics, situations={"without_collision": 11, "all": 20})
    assert result.collisions_line == (
        "ppo: situations without a collision: 11 of 20; fewest in overtaken: 1 of 10 episodes without one"
    )
    clear = {name: row | {"collision_rate": 0.0} for name, row in metrics.items()}
    result = Result("ppo", {}, clear, situations={"without_collision": 20, "all": 20})
    assert result.collisions_line == "ppo: situations without a collision: 20 of 20"
    assert Result("ppo", {}, metrics).collisions_line is None
