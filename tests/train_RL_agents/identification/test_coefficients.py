"""Scales and bounds of the coefficients that are fitted, and manoeuvres that determine them."""

from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import read_vessel
from marinenav_env.vessels import vessel_files
from train_RL_agents.commands.cli import main
from train_RL_agents.identification.coefficients import (
    FITTABLE_COEFFICIENTS,
    choose_coefficients,
    plan_manoeuvres,
    timed_commands,
)


@pytest.mark.parametrize("name", ["published", *vessel_files()])
def test_every_coefficient_has_a_scale(name):
    """A search divides by the scales; those of a boat without thrust astern are no exception."""
    for vessel in (read_vessel(name), replace(read_vessel(name), min_thrust=0.0)):
        scales = [item.scale for item in choose_coefficients(vessel, is_in_newtons=False, extra=FITTABLE_COEFFICIENTS)]
        assert np.isfinite(scales).all() and min(scales) > 0.0


@pytest.mark.parametrize("name", ["published", *vessel_files()])
def test_every_coefficient_of_every_boat_is_told_by_some_manoeuvre(name):
    vessel = read_vessel(name)
    manoeuvres = plan_manoeuvres(vessel)
    identified = {name for manoeuvre in manoeuvres for name in manoeuvre.identified_coefficients}
    assert {item.name for thrusts in (True, False) for item in choose_coefficients(vessel, thrusts)} <= identified
    rows = timed_commands(manoeuvres)
    assert np.abs(rows[:, 1:]).max() <= 1.0 and (np.diff(rows[:, 0]) > 0.0).all()
    assert 60.0 < rows[-1, 0] < 1200.0 and (rows[-1, 1:] == 0.0).all()


def test_the_plan_is_printed_and_written(tmp_path, capsys):
    file = tmp_path / "plan.csv"
    assert main(["identify", "--plan", "--vessel", "otter", "--out", str(file)]) == 0
    printed = capsys.readouterr().out
    for word in ("otter", "minutes", "turning circles", "zig-zag", "astern", "coast", "one side", "left", "right"):
        assert word in printed
    lines = file.read_text().splitlines()
    assert lines[0] == "time,left_command,right_command" and lines[1] == "0,1,1" and lines[-1].endswith(",0,0")
