"""Scenario files that are refused, and with which words."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from marinenav_env import ConfigError, read_scenarios
from marinenav_env.scenarios.scenario_file import parse_scenarios
from tests.marinenav_env.helpers import recorded_entry

Entry = dict[str, Any]


def changed(*path: str, to: Any = None, drop: bool = False) -> Callable[[Entry], Any]:
    """Replaces or removes one value of an entry."""

    def change(given: Entry) -> Any:
        at = given
        for name in path[:-1]:
            at = at[name]
        if drop:
            del at[path[-1]]
        else:
            at[path[-1]] = to(at[path[-1]]) if callable(to) else to
        return given

    return change


def first(value: Any) -> Callable[[list[Any]], list[Any]]:
    """Replaces the first of a list."""
    return lambda values: [value, *values[1:]]


def shorter(values: list[Any]) -> list[Any]:
    return values[:-1]


ROBOTS, SEEN = ("robots",), ("robots", "perception")
BAD: dict[str, tuple[Callable[[Entry], Any], str]] = {
    "an entry that is no object": (lambda _: [1], r"a\[1\]=\[1\]: must be a JSON object"),
    "a config that is none": (lambda _: {"config": 3}, r"a\[1\]\.config=3: must be a JSON object"),
    "no env": (changed("env", drop=True), r"a\[1\]: the key 'env' is missing"),
    "no robots": (changed("robots", drop=True), r"a\[1\]: the key 'robots' is missing"),
    "no perception": (changed(*SEEN, drop=True), r"a\[1\]: the key 'perception' is missing"),
    "no start": (changed("robots", "start", drop=True), r"a\[1\]: the key 'start' is missing"),
    "no dt": (changed("robots", "dt", drop=True), r"a\[1\]: the key 'dt' is missing"),
    "no Gamma": (changed("env", "cores", "Gamma", drop=True), r".*the key 'Gamma' is missing"),
    "no obstacles": (changed("env", "obstacles", drop=True), r".*the key 'obstacles' is missing"),
    "env a list": (changed("env", to=[1, 2]), r"a\[1\]\.env=\[1, 2\]: must be a JSON object"),
    "cores a list": (changed("env", "cores", to=[1]), r"a\[1\]\.env\.cores=\[1\]: .*JSON object"),
    "zero robots": (changed("robots", "start", to=[]), r"a\[1\]\.robots\.start=\[\]: .*at least one robot"),
    "start a number": (changed("robots", "start", to=3.0), r"a\[1\]\.robots\.start=3\.0: must be a list.*"),
    "a robot too few": (
        changed("robots", "goal", to=shorter),
        r"a\[1\]\.robots\.goal=\[.*: must be a list of 6 lists of 2 finite.*",
    ),
    "start in 3D": (
        changed("robots", "start", to=first([1.0, 2.0, 3.0])),
        r"a\[1\]\.robots\.start=\[\[1\.0, 2\.0, 3\.0\],.*lists of 2 finite numbers",
    ),
    "start not finite": (
        changed("robots", "start", to=first([1.0, float("nan")])),
        r"a\[1\]\.robots\.start=\[\[1\.0, nan\],.*finite numbers",
    ),
    "start in words": (
        changed("robots", "start", to=first(["here", "there"])),
        r"a\[1\]\.robots\.start=\[\['here', 'there'\],.*finite numbers",
    ),
    "seed in words": (changed("env", "seed", to="x"), r"a\[1\]\.env\.seed='x': .*whole number.*"),
    "heading in a list": (
        changed("robots", "init_theta", to=first([1.0])),
        r"a\[1\]\.robots\.init_theta=\[\[1\.0\],.*a list of 6 finite numbers",
    ),
    "velocity in 2D": (
        changed("robots", "init_velocity_r", to=first([0.0, 0.0])),
        r"a\[1\]\.robots\.init_velocity_r=.*lists of 3 finite numbers",
    ),
    "thrust missing": (
        changed("robots", "init_left_thrust", to=None),
        r"a\[1\]\.robots\.init_left_thrust=None: must be a list of 6 .*",
    ),
    "length of one number": (
        changed("robots", "length", to=5.0),
        r"a\[1\]\.robots\.length=5\.0: must be a list with one value.*",
    ),
    "a length too few": (
        changed("robots", "length", to=shorter),
        r"a\[1\]\.robots\.length=\[.*one value for each of 6",
    ),
    "length in words": (
        changed("robots", "length", to=first("long")),
        r"a\[1\]: world\.vessel\.length=\['long', .*: must be a number or .*",
    ),
    "length negative": (
        changed("robots", "length", to=first(-5.0)),
        r"a\[1\]: world\.vessel\.length=\[-5\.0, .*: must be above 0",
    ),
    "range too few": (
        changed(*SEEN, "range", to=shorter),
        r"a\[1\]\.robots\.perception\.range=\[.*one value for each of 6",
    ),
    "range negative": (
        changed(*SEEN, "range", to=first(-1.0)),
        r"a\[1\]: world\.sensor\.range=\[-1\.0, .*: must be above 0",
    ),
    "half an object": (
        changed(*SEEN, "max_obj_num", to=first(0.5)),
        r"a\[1\]: world\.sensor\.max_objects=\[0\.5, .*: must be a whole number.*",
    ),
    "unequal dt": (
        changed("robots", "dt", to=first(0.1)),
        r"a\[1\]\.robots\.dt=\[0\.1, 0\.05,.*: must be equal for all robots",
    ),
    "negative dt": (changed("robots", "dt", to=[-0.1] * 6), r"a\[1\]: world\.dt=-0\.1: must be .*"),
    "half a substep": (changed("robots", "N", to=[2.5] * 6), r"a\[1\]: world\.substeps=2\.5: must be a whole number.*"),
    "unequal commands": (
        changed("robots", "left_thrust_change", to=first([1.0])),
        r"a\[1\]\.robots\.left_thrust_change=.*: must be equal for all robots",
    ),
    "no commands": (
        changed("robots", "left_thrust_change", to=[[]] * 6),
        r"a\[1\]: world\.vessel\.left_thrust_change=\[\]: must be one or .*",
    ),
    "another number of robots": (changed("env", "num_robots", to=7), r"a\[1\]\.env\.num_robots=7: must be 6, .*"),
    "v_range of one": (
        changed("env", "v_range", to=[1.0]),
        r"a\[1\]: world\.scenario\.v_range=\[1\.0\]: must be a list of 2 numbers",
    ),
    "v_range reversed": (
        changed("env", "v_range", to=[2.0, 1.0]),
        r"a\[1\]: world\.scenario\.v_range=\[2\.0, 1\.0\]: must be a range, .*",
    ),
    "core radius zero": (changed("env", "r", to=0.0), r"a\[1\]: world\.scenario\.core_radius=0\.0: must be above 0"),
    "reward in words": (
        changed("env", "goal_reward", to="much"),
        r"a\[1\]: world\.reward\.goal_reward='much': must be a number",
    ),
    "obstacle positions a number": (
        changed("env", "obstacles", "positions", to=1),
        r"a\[1\]\.env\.obstacles\.positions=1: must be a list.*",
    ),
    "an obstacle radius too few": (
        changed("env", "obstacles", "r", to=shorter),
        r"a\[1\]\.env\.obstacles\.r=\[.*a list of 8 finite numbers",
    ),
    "obstacle radius negative": (
        changed("env", "obstacles", "r", to=first(-1.0)),
        r"a\[1\]\.env\.obstacles\.r=\[-1\.0, .*: must be at least 0",
    ),
    "a circulation too few": (
        changed("env", "cores", "Gamma", to=shorter),
        r"a\[1\]\.env\.cores\.Gamma=\[.*a list of 8 finite numbers",
    ),
    "a rotation too few": (
        changed("env", "cores", "clockwise", to=shorter),
        r"a\[1\]\.env\.cores\.clockwise=\[.*a list of 8 truth values",
    ),
    "rotation in words": (
        changed("env", "cores", "clockwise", to=first("yes")),
        r"a\[1\]\.env\.cores\.clockwise=\['yes', .*truth values",
    ),
    "core in 3D": (
        changed("env", "cores", "positions", to=first([1.0, 2.0, 3.0])),
        r"a\[1\]\.env\.cores\.positions=.*a list of lists of 2 finite numbers",
    ),
    "clearance in a list": (
        changed("env", "clear_r", to=[1.0]),
        r"a\[1\]: world\.scenario\.clear_r=\[1\.0\]: must be a number",
    ),
    "a start far away": (
        changed("robots", "start", to=first([1e7, 0.0])),
        r"a\[1\]\.robots\.start=.*must be at most 1000, of numbers up to .*",
    ),
    "thousands of cores": (
        changed("env", "cores", "positions", to=[[1.0, 2.0]] * 2000),
        r"a\[1\]\.env\.cores\.positions=.*must be at most 1000, .*",
    ),
    "actuators a list": (changed("robots", "actuators", to=[1]), r"a\[1\]\.robots\.actuators=\[1\]: .*JSON object"),
    "a lag too few": (
        changed("robots", "actuators", to={"lag": [0.5] * 5}),
        r"a\[1\]\.robots\.actuators\.lag=\[.*one value for each of 6",
    ),
    "sails": (
        changed("robots", "actuators", to={"steering": ["sail"] * 6}),
        r"a\[1\]: world\.vessel\.actuators\.steering=.*: must be .*",
    ),
    "a boat that is a number": (changed("robots", "boat", to=3), r"a\[1\]\.robots\.boat=3: must be a text"),
    "commands of one number": (
        changed("robots", "left_thrust_change", to=[3.0] * 6),
        r"a\[1\]\.robots\.left_thrust_change\[0\]=3\.0: must be a list.*",
    ),
    "command in words": (
        changed("robots", "right_thrust_change", to=[[1.0, "x"]] * 6),
        r"a\[1\]\.robots\.right_thrust_change\[0\]=\[1\.0, 'x'\]: must be .*",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_entries_are_refused_by_key_and_value(name: str) -> None:
    change, message = BAD[name]
    with pytest.raises(ConfigError) as error:
        parse_scenarios([recorded_entry(), change(recorded_entry())], "a")
    assert re.fullmatch(message, str(error.value)), error.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{}", r".*bad\.json='dict': must be a JSON list of at least one episode"),
        (b"[]", r".*bad\.json='list': must be a JSON list of at least one episode"),
        (b"3", r".*bad\.json='int': must be a JSON list of at least one episode"),
        (b"[{", r".*bad\.json: cannot be read as a scenario file \(.*\)"),
        (b"[" * 100_000, r".*bad\.json: cannot be read as a scenario file \(.*\)"),
        (b"\xff\xfe[]", r".*bad\.json: cannot be read as a scenario file \(.*\)"),
        (None, r".*bad\.json: cannot be read as a scenario file \(.*No such file.*\)"),
    ],
)
def test_bad_files_are_refused(text: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ConfigError) as error:
        read_scenarios(path)
    assert re.fullmatch(message, str(error.value)), error.value
