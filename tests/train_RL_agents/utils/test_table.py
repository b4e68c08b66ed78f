"""Tables: their formats, and that they fit into lines of any width.

Keys and numbers stay whole, and columns leave by importance.
"""

import csv
import sys
from dataclasses import replace

import pytest

from train_RL_agents.utils import table as module
from train_RL_agents.utils.table import Column, Table, line_width


def of_texts(titles, rows, keys=1, important=()):
    columns = [Column(title) for title in titles]
    return Table(columns, [dict(zip(titles, row, strict=True)) for row in rows], keys, important)


ONE = of_texts(
    ["", "episodes", "success", "robot success", "energy"],
    [
        ["level 1", "100", "0.971 [0.955, 0.982]", "0.988", "31193"],
        ["overall", "600", "1.000 [0.994, 1.000]", "0.500", "9"],
    ],
    important=("success", "robot success"),
)
TWO = of_texts(
    ["", "policy", "episodes", "success", "than the first"],
    [
        ["crossing from port", "runs/a_long_name/seed_0", "25", "0.971 [0.955, 0.982]", "-"],
        ["", "orca", "25", "0.500 [0.250, 0.750]", "-0.471 [-0.500, -0.250]"],
    ],
    2,
    ("success", "than the first"),
)

MEANINGS = {
    "success": "episodes in which every robot arrives in time",
    "energy": "thrust spent, of which there is no room to speak",
}


@pytest.mark.parametrize(("table", "least"), [(ONE, 30), (TWO, 66)])
@pytest.mark.parametrize("width", range(30, 140, 12))
def test_lines_fit_and_nothing_is_cut(table, least, width):
    width = max(width, least)
    lines, left_out = table.lines(width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for row in table.cells:
        for title, cell in zip(table.titles, row, strict=True):
            assert (cell in text) or title in left_out, (title, cell)
    assert "success" not in left_out
    # What is left out is less important than what is shown.
    order = [*table.important, *(t for t in table.titles if t and t not in table.important)]
    shown = [title for title in order if title not in left_out and title != "policy"]
    assert order.index(shown[-1]) < min([order.index(t) for t in left_out], default=99)


def test_a_table_with_room_has_every_column_in_its_order():
    lines, left_out = ONE.lines(100)
    assert left_out == []
    assert lines == [
        "                                           robot",
        "         episodes               success  success  energy",
        "────────────────────────────────────────────────────────",
        "level 1       100  0.971 [0.955, 0.982]    0.988   31193",
        "overall       600  1.000 [0.994, 1.000]    0.500       9",
    ]


def test_keys_longer_than_a_line_are_not_cut():
    key = "runs/" + 90 * "a"
    lines, left_out = of_texts(["", "success", "energy"], [[key, "0.5", "9"]]).lines(80)
    assert lines[-1] == f"{key}      0.5" and left_out == ["energy"]


def test_columns_without_room_follow_below(capsys, monkeypatch):
    monkeypatch.setattr(module, "line_width", lambda: 40)
    columns = [replace(each, meaning=MEANINGS.get(each.name, "")) for each in ONE.columns]
    replace(ONE, columns=columns).print("A heading of several words, which is wrapped")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40 and [line.split() for line in lines if line.startswith("level 1")] == [
        ["level", "1", "0.971", "[0.955,", "0.982]", "0.988"],
        ["level", "1", "100", "31193"],
    ]
    assert lines[-4:-2] == ["success: episodes in which every robot", "  arrives in time"]


def test_the_width_is_that_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert line_width() == 100
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert line_width() == 80


def test_tables_escape_text():
    text = Table.from_rows([{"a<b": "1 & 2"}]).html('of "some"')
    assert '<th scope="col">a&lt;b</th>' in text
    assert "<td>1 &amp; 2</td>" in text
    assert 'aria-label="of &quot;some&quot;"' in text
    assert Table.from_rows([]).html("nothing") == ""


METRICS = Table(
    [
        Column("group", ""),
        Column("rate", "success", ".3f", ("low", "high")),
        Column("time", "travel time (s)", ".1f"),
        Column("steps", format=lambda steps: f"{steps / 1000:g}k"),
    ],
    [
        {"group": "a", "rate": 0.5, "low": 0.25, "high": 0.75, "time": 20.04, "steps": 1500},
        {"group": "b", "rate": 1.0, "low": 0.5, "high": None, "time": None, "other": 7},
    ],
)


def test_columns_say_how_metrics_are_shown():
    assert METRICS.titles == ["", "success", "travel time (s)", "steps"]
    assert METRICS.cells == [["a", "0.500 [0.250, 0.750]", "20.0", "1.5k"], ["b", "1.000", "-", "-"]]
    assert Column("share", format=".1%").text({"share": 0.125}) == "12.5%"
    assert Column("name").text({"name": ["a", 1]}) == "['a', 1]"


def test_markdown_has_what_is_shown():
    assert METRICS.markdown().splitlines() == [
        "|  | success | travel time (s) | steps |",
        "| --- | --- | --- | --- |",
        "| a | 0.500 [0.250, 0.750] | 20.0 | 1.5k |",
        "| b | 1.000 | - | - |",
    ]


def test_csv_has_the_metrics_as_they_are_by_name():
    text = METRICS.csv()
    assert text.startswith("group,rate,time,steps\na,0.5,20.04,1500\n")
    rows = list(csv.DictReader(Table.from_rows(METRICS.rows).csv().splitlines()))
    assert rows[1] == {"group": "b", "rate": "1.0", "low": "0.5", "high": "", "time": "", "steps": "", "other": "7"}


def test_a_lower_end_alone_is_a_bound():
    column = Column("rate", format=".1f", ends=("low", "high"))
    assert column.text({"rate": None, "low": 21.68, "high": None}) == "> 21.7"
    assert column.text({"rate": 2.0, "low": 1.0, "high": None}) == "2.0"
    assert column.text({"rate": None}) == "-"
