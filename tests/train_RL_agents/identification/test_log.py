"""Logs: what is read, repaired and refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import ConfigError, read_vessel
from tests.refusals import refusal
from tests.train_RL_agents.identification.helpers import HEADER, rows_in_waves, simple_rows, text_of
from train_RL_agents.identification.log import read_log

OTTER = read_vessel("otter")
TIME, LEFT, RIGHT, X, Y, YAW = range(6)
SIDES = slice(LEFT, X)


def read(folder, text, frame="ned", vessel=OTTER):
    file = folder / "log.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_log(file, vessel, frame)


def test_a_log_is_read_as_it_is(tmp_path):
    rows = simple_rows()
    log = read(tmp_path, text_of(rows))
    assert log.is_in_newtons and not log.notes and log.duration == pytest.approx(79.8)
    assert log.pose == pytest.approx(rows[:, X:], abs=1e-4)
    assert log.commands[0] == pytest.approx(rows[0, [LEFT, RIGHT]] / OTTER.max_thrust)


def test_other_columns_units_and_frames_give_the_same(tmp_path):
    rows = simple_rows()
    plain = read(tmp_path, text_of(rows))
    degrees = rows.copy()
    degrees[:, YAW] = np.degrees(rows[:, YAW]) % 360.0
    other = read(tmp_path, text_of(degrees, " Time ,left,right,north,east,yaw_deg"))
    assert other.pose == pytest.approx(plain.pose, abs=1e-4)
    enu = rows[:, [TIME, LEFT, RIGHT, Y, X, YAW]]
    enu[:, YAW] = math.pi / 2 - rows[:, YAW]
    assert read(tmp_path, text_of(enu), "enu").pose == pytest.approx(plain.pose, abs=1e-4)
    shares = rows.copy()
    shares[:, [LEFT, RIGHT]] /= OTTER.max_thrust
    of_shares = read(tmp_path, text_of(shares, "time,left_command,right_command,x,y,yaw"))
    assert not of_shares.is_in_newtons and of_shares.commands == pytest.approx(plain.commands, abs=1e-4)
    globe = rows.copy()
    # Lengths of a degree at 60 degrees of latitude (m).
    globe[:, X], globe[:, Y] = 60.0 + rows[:, X] / 111_412.3, 10.0 + rows[:, Y] / 55_800.0
    lines = "\n".join(
        ["time,left,right,latitude,longitude,yaw", *(",".join(f"{v:.10f}" for v in row) for row in globe)]
    )
    assert read(tmp_path, lines).pose == pytest.approx(plain.pose, abs=2e-3)


def test_what_can_be_repaired_is_said(tmp_path):
    rows = simple_rows()
    rows[50:60, X:] = np.nan
    rows[70, [LEFT, RIGHT]] = np.nan
    rows[100, X] += 500.0
    rows[200:202] = rows[[201, 200]]
    rows[300] = rows[299]
    rows[310, TIME] = np.nan
    log = read(tmp_path, text_of(rows))
    assert np.isnan(log.pose[50:60]).all() and np.isnan(log.pose[100]).all() and (np.diff(log.time) > 0.0).all()
    assert log.commands[70] == pytest.approx(log.commands[69])
    assert len(log.notes) == 3 and "3 rows without a later time are not used" in log.notes
    assert "1 positions that no boat can jump to are not used" in log.notes


def test_marks_of_windows_change_nothing(tmp_path):
    rows = simple_rows()
    plain = read(tmp_path, text_of(rows))
    text, decimal = text_of(rows), text_of(rows).replace(",", ";").replace(".", ",")
    others = (
        "\ufeff" + text.replace("\n", "\r\n"),
        text.encode("utf-16"),
        text.replace("\n", "\r"),
        "sep=,\n" + text,
        decimal,
        "\ufeffsep=;\r\n" + decimal,
        text.replace(",", "\t"),
    )
    for other in others:
        marked = read(tmp_path, other)
        assert (marked.pose == plain.pose).all() and (marked.commands == plain.commands).all()


@pytest.mark.parametrize("origin", [10.0, 190.0, 359.9997, -0.0003, 179.9997])
def test_longitudes_may_be_counted_from_0_to_360(origin, tmp_path):
    rows = simple_rows()
    globe = rows.copy()
    globe[:, X], globe[:, Y] = 60.0 + rows[:, X] / 111_412.3, origin + rows[:, Y] / 55_800.0
    globe[:, Y] = globe[:, Y] % 360.0 if origin != 179.9997 else (globe[:, Y] + 180.0) % 360.0 - 180.0
    lines = [",".join(f"{value:.10f}" for value in row) for row in globe]
    log = read(tmp_path, "\n".join(["time,left,right,latitude,longitude,yaw", *lines]))
    assert log.pose == pytest.approx(read(tmp_path, text_of(rows)).pose, abs=2e-3)


def test_a_speed_that_thrusts_do_not_give_is_questioned(tmp_path):
    """As of positions in feet, or thrusts in kilograms-force."""
    rows = simple_rows()
    feet, kilograms = rows.copy(), rows.copy()
    feet[:, [X, Y]] /= 0.3048
    kilograms[:, [LEFT, RIGHT]] /= 9.80665
    for doubtful in (feet, kilograms):
        (note,) = read(tmp_path, text_of(doubtful)).notes
        assert note.startswith("doubtful: the boat sails at") and "in meters and thrusts in newtons?" in note


def test_a_constant_offset_of_the_yaw_is_named_with_its_size(tmp_path):
    rows = simple_rows()
    rows[:, YAW] += math.radians(15.0)
    (note,) = read(tmp_path, text_of(rows)).notes
    size = float(note.partition(" degrees")[0].rpartition(" ")[2])
    assert note.startswith("doubtful: the yaw is") and size == pytest.approx(15.0, abs=3.0)


def changed(column, function):
    """Rows with other numbers in a column, or in several."""

    def change(rows):
        rows = rows.copy()
        rows[:, column] = function(rows[:, column])
        return rows

    return change


def put(place, column, value):
    def change(rows):
        rows = rows.copy()
        rows[place, column] = value
        return rows

    return change


def swapped(first, second):
    return changed([first, second], lambda columns: columns[:, ::-1])


ROWS = {
    "a huge position": (put(100, X, 1e300), "x, y: up to 1e+300; must be in meters"),
    "no fix at first": (put(slice(0, 100), slice(X, YAW), 0.0), "must be without jumps: cut the log there"),
    "x where y is not": (lambda rows: put(slice(1, None, 2), Y, np.nan)(put(slice(0, None, 2), X, np.nan)(rows)),
                         "x, y, yaw: together in 0% of the rows"),
    "too short": (lambda rows: rows[:150], "length: 29.8 s; must be at least 60 s"),
    "few rows": (lambda rows: rows[:20], "rows: 20; must be at least 100"),
    "too sparse": (lambda rows: np.column_stack((rows[:, 0] * 10, rows[:, 1:])), "must be at most 1 s apart"),
    "milliseconds": (changed(TIME, lambda t: 1e3 * t), "must be at most 7200 s: is it in seconds?"),
    "time starts again": (changed(TIME, lambda t: t % 40.0), "not later than before in 200 of 400 rows"),
    "constant commands": (put(slice(None), SIDES, 40.0), "must be commands that change"),
    "commands missing": (put(slice(0, 300), LEFT, np.nan), "left: missing in 300 of 400 rows"),
    "too much thrust": (changed(LEFT, lambda v: 10 * v), "the limits of otter"),
    "shares as newtons": (changed(SIDES, lambda v: v / 100), "name columns of shares left_command and right_command"),
    "x stuck": (put(slice(None), X, 3.0), "x: 3 in every row; must be measured: a sensor may be stuck"),
    "yaw stuck": (put(slice(None), YAW, 1.5), "yaw: 1.5 in every row"),
    "yaw in degrees": (changed(YAW, lambda v: np.degrees(v) % 360.0), "or yaw_deg in degrees?"),
    "yaw constant but noisy": (changed(YAW, lambda v: 0.01 * np.sin(1e3 * v)), "of a boat that turns"),
    "yaw the other way": (changed(YAW, lambda v: -v), "is it --frame enu"),
    "yaw off by a half": (changed(YAW, lambda v: v + math.pi), "degrees off the course"),
    "x and y exchanged": (swapped(X, Y), "are x and y exchanged"),
    "sides exchanged": (swapped(LEFT, RIGHT), "are the sides exchanged"),
    "enu": (lambda rows: changed(YAW, lambda v: math.pi / 2 - v)(swapped(X, Y)(rows)), "--frame enu"),
    "millimeters": (changed(slice(X, YAW), lambda v: 1e3 * v), "in meters"),
    "commands a while later": (lambda rows: np.column_stack((rows[:, 0], np.roll(rows[:, 1:3], 70, 0), rows[:, 3:])),
                               "against the thrusts"),
    "leaping positions": (changed(X, lambda v: v + 1e8 * (np.arange(len(v)) % 2)), "is it in meters and seconds?"),
    "at anchor": (put(slice(None), slice(X, YAW), 0.2 * np.random.default_rng(0).random((400, 2))),
                  "the boat does not move"),
    "a drifting yaw": (changed(YAW, lambda v: v + np.linspace(0.0, 6.0, len(v))), "not along the course"),
}  # fmt: skip


FERRY = read_vessel("milliampere")
STEERED = "time,thrust,angle,x,y,yaw"
SHARES = "time,thrust_command,angle_command,x,y,yaw"
STEERED_ROWS = {
    "all constant": (STEERED, lambda rows: put(slice(None), slice(1, 3), 0.5)(rows), "must be commands that change"),
    "angle in degrees": (STEERED, changed(RIGHT, lambda v: v - 40.0), "from -1.0472 to 1.0472 rad"),
    "thrusts as shares": (STEERED, changed(SIDES, lambda v: v / 100),
                          "name columns of shares thrust_command and angle_command"),
    "thrusts of two": (HEADER, lambda rows: rows, "lacks the columns thrust and angle, or"),
    "shares in degrees": (SHARES, changed(LEFT, lambda v: v / 100), "angle_command: 20 to 80; must be from -1 to 1"),
    "too much": (STEERED, changed(SIDES, lambda v: v * (50.0, 0.01)), "the limits of milliampere"),
}  # fmt: skip


def test_angles_have_the_sense_of_the_yaw(tmp_path):
    ned = simple_rows()
    # A thruster at the stern that pushes it to port turns the bow to starboard.
    ned[:, [LEFT, RIGHT]] = np.stack((5.0 * ned[:, LEFT : RIGHT + 1].sum(1), 0.01 * (ned[:, RIGHT] - ned[:, LEFT])), 1)
    enu = ned[:, [TIME, LEFT, RIGHT, Y, X, YAW]]
    enu[:, [RIGHT, YAW]] = np.stack((-ned[:, RIGHT], math.pi / 2 - ned[:, YAW]), 1)
    log = read(tmp_path, text_of(ned, STEERED), vessel=FERRY)
    assert log.commands[0, 1] == pytest.approx(-0.6 / FERRY.actuators.angle_limit)
    assert read(tmp_path, text_of(enu, STEERED), "enu", FERRY).commands == pytest.approx(log.commands)
    for rows, frame in ((ned, "ned"), (enu, "enu")):
        rows[:, RIGHT] *= -1.0
        with pytest.raises(ConfigError, match=r"yaw: against the angle .* is it clockwise from above"):
            read(tmp_path, text_of(rows, STEERED), frame, FERRY)
    ahead = replace(FERRY, actuators=replace(FERRY.actuators, position=1.8))
    assert read(tmp_path, text_of(ned, STEERED), vessel=ahead).commands == pytest.approx(-log.commands * (-1, 1))


def test_commands_against_waves_have_the_right_sense(tmp_path):
    rows = rows_in_waves()
    turn = np.gradient(rows[:, YAW], rows[:, TIME])
    assert np.corrcoef(rows[:, LEFT] - rows[:, RIGHT], turn)[0, 1] < -0.7
    assert not read(tmp_path, text_of(rows)).notes


GOOD = text_of(simple_rows())
LINES = GOOD.splitlines()
TEXTS = {
    "names": ("name\nAnna\nBen\n", "or latitude and longitude; yaw, or yaw_deg; it has name"),
    "a bag": (b"#ROSBAG V2.0\nE\x00\x00\x00\xff", "cannot be read as a log"),
    "a comment": ("# logger 1.2\n" + GOOD, "not a log of such a boat: it lacks the columns time; left"),
    "empty": ("", "a table with the names of its columns"),
    "names only": (HEADER + "\n", "rows: 0; must be at least 100"),
    "thousands": (GOOD.replace(LINES[7], '"1,234",20,20,0,0,0'), "line 8: values: 7; must be 6"),
    "decimal commas": (GOOD.replace(".", ","), "must be 6, as many as names of columns; decimal commas need"),
    "no time": (GOOD.replace("time", "stamp", 1), "lacks the columns time; it has stamp, left"),
    "words": (GOOD.replace("\n", ",ahead\n").replace("yaw,ahead", "yaw,left", 1).replace(",left", ",port", 1),
              "left: missing in 400 of 400 rows"),
    "radians as degrees": (GOOD.replace("yaw", "yaw_deg", 1), "or yaw_deg in degrees?"),
    "a long cell": (GOOD.replace(LINES[9], "9" * 200_000), "line 10: values: 1; must be 6"),
    "percent": (GOOD.replace("left,right", "left_command,right_command", 1), "shares are from -1 to 1"),
}  # fmt: skip


REFUSED = {
    **{name: (text_of(change(simple_rows())), sentence, OTTER) for name, (change, sentence) in ROWS.items()},
    **{name: (text_of(change(simple_rows()), header), sentence, FERRY)
       for name, (header, change, sentence) in STEERED_ROWS.items()},
    **{name: (text, sentence, OTTER) for name, (text, sentence) in TEXTS.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_absurd_logs_are_refused_in_one_sentence(name, tmp_path):
    text, sentence, vessel = REFUSED[name]
    message = refusal(read, tmp_path, text, vessel=vessel)
    assert message.startswith(f"{tmp_path / 'log.csv'}: ") and sentence in message and len(message) < 400


def test_files_that_are_none_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(ConfigError, match="cannot be read as a log"):
            read_log(path, OTTER)
