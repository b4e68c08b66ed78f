"""Logs of boats."""

import math

import numpy as np
import pytest

from marinenav_env import ConfigError, read_vessel
from train_RL_agents.identification.log import cut, read_log

OTTER = read_vessel("otter")


def written(folder, header="time,left,right,x,y,yaw", rows=None):
    rows = [f"{0.2 * k},{10 + k % 7},20,{0.1 * k},0,{0.01 * k}" for k in range(400)] if rows is None else rows
    file = folder / "log.csv"
    file.write_text("\n".join([header, *rows]))
    return file


def test_a_log_is_read_with_holes_and_out_of_order(tmp_path):
    rows = [f"{100 + 0.2 * k},{10 + k % 7},{'' if k % 2 else 20},{0.1 * k},0,{math.remainder(0.1 * k, 2 * math.pi)}"
            for k in range(400)]  # fmt: skip
    rows[5], rows[6] = rows[6], rows[5]
    rows[9] = rows[9].rsplit(",", 3)[0] + ",,nan,"
    log = read_log(written(tmp_path, rows=rows), OTTER)
    assert log.time[0] == 0.0 and (np.diff(log.time) > 0.0).all() and log.seconds == pytest.approx(79.8)
    assert (log.commands[:, 1] == 20.0).all()
    assert np.isnan(log.pose[9]).all() and log.pose[-1, 2] == pytest.approx(39.9)


def test_commands_may_be_shares_and_angles_degrees(tmp_path):
    rows = [f"{0.2 * k},{-1 if k % 2 else 0.5},1,0,{0.1 * k},{k}" for k in range(400)]
    log = read_log(written(tmp_path, "time,left_command,right_command,north,east,yaw_deg", rows), OTTER)
    assert log.commands[:2].tolist() == [
        [0.5 * OTTER.max_thrust, OTTER.max_thrust],
        [OTTER.min_thrust, OTTER.max_thrust],
    ]
    assert log.pose[90, 2] == pytest.approx(math.pi / 2)


def test_parts_have_the_mean_of_their_commands(tmp_path):
    log = read_log(written(tmp_path), OTTER)
    parts = cut(log, np.array([0.1, 10.0, 75.0]), 10.0, 0.1)
    assert parts.start.tolist() == [0.1, 10.0] and parts.commands.shape == (2, 100, 2)
    assert parts.commands[0, :3, 0] == pytest.approx([10.0, 11.0, 11.0])
    assert parts.stamp[0, 0] == pytest.approx(0.1) and parts.pose[0, 0, 0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("header", "rows", "sentence"),
    [
        ("", [], "time=None: must be there: time"),
        ("time,left,x,y,yaw", None, "commands=None: must be there: left and right or left_command and right_command"),
        ("time,left,right,x,yaw", None, "position=None: must be there: x and y or north and east"),
        ("time,left,right,x,y", None, "yaw=None: must be there: yaw or yaw_deg"),
        ("time,left,right,x,y,yaw", [], "samples=0: must be more than one"),
        ("time,left,right,x,y,yaw", ["0,1,2,3,4"], "line 2=5: must be 6 values"),
        ("time,left,right,x,y,yaw", ["0,1,2,3,4,east"], "line 2='east': must be a number"),
        ("time,left,right,x,y,yaw", ["0,1,2,3,4,inf"], "line 2='inf': must be a number"),
        ("time,left,right,x,y,yaw", ["0,1,2,3,4,5", ",1,2,3,4,5"], "time='nan': must be there in every row"),
        ("time,left,right,x,y,yaw", ["0,1,2,3,4,5", "9,1,2,3,4,5"], "length=9.0: must be from 60 to 7200 s"),
        ("time,left,right,x,y,yaw", ["0,,2,3,4,5", "90,1,2,3,4,5"], "must be there in the first row"),
        ("time,left,right,x,y,yaw", ["0,1,1,3,4,5", "90,1,1,9,4,5"], "commands=1.0: must be more than one number"),
        ("time,left,right,x,y,yaw", ["0,1,2,3,4,5", "90,3,2,3,4,5"], "must be that of a boat that moves"),
        ("time,left_command,right_command,x,y,yaw", ["0,1,2,3,4,5", "90,1,2,9,4,5"], "must be from -1 to 1"),
    ],
)
def test_damaged_logs_are_refused_in_one_sentence(tmp_path, header, rows, sentence):
    with pytest.raises(ConfigError) as error:
        read_log(written(tmp_path, header, rows), OTTER)
    assert sentence in str(error.value) and "\n" not in str(error.value)
