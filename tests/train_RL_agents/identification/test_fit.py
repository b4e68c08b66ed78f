"""Identification of the Otter from a log that its source's equations sailed."""

import json

import numpy as np
import pytest

from marinenav_env import read_vessel
from marinenav_env.vessels import read_vessel_file
from tests.oracle import otter
from train_RL_agents.cli import main
from train_RL_agents.identification.fit import FITTED, coefficient
from train_RL_agents.identification.report import PLAN


def write_log(path, seconds, seed=0):
    """A log of random commands, with noise, uneven times and missing positions."""
    random, boat, rows, commands, change = np.random.default_rng(seed), otter.Otter(True), [], np.zeros(2), 0.0
    for step in range(round(seconds / 0.02)):
        time = 0.02 * step
        if step % 10 == 0:
            if time >= change:
                commands, change = random.uniform(-60.0, 119.0, 2), time + random.uniform(3.0, 12.0)
            x, y = boat.eta[:2] + 0.1 * random.normal(size=2)
            yaw = boat.eta[5] + np.radians(1.0) * random.normal()
            place = "," if random.random() < 0.03 else f"{x:.4f},{y:.4f}"
            rows.append(f"{time + random.uniform(-0.01, 0.01):.4f},{commands[0]},{commands[1]},{place},{yaw:.5f}")
        curve = np.where(commands > 0.0, otter.AHEAD, otter.ASTERN)
        boat.step(np.sign(commands) * np.sqrt(np.abs(commands) / curve), 0.02)
    path.write_text("\n".join(["time,left,right,x,y,yaw", *rows]))


@pytest.mark.slow
def test_the_otter_is_identified_from_wrong_coefficients(tmp_path, capsys):
    write_log(tmp_path / "log.csv", 420.0)
    content = json.loads(json.dumps(read_vessel_file("otter")._asdict()["settings"]))
    random, truth = np.random.default_rng(1), read_vessel("otter")
    names = [name for name in FITTED if coefficient(truth, name) != 0.0]
    numbers = {key: value for key, value in content.items() if not key.startswith("actuators.") and key != "name"}
    actuators = {"lag": 1.3, "spacing": truth.actuators.spacing}
    numbers |= {name: numbers[name] * random.uniform(0.6, 1.6) for name in names if name != "lag"}
    start = {"format": "marinenav vessel", "version": 1, "name": "wrong", "vessel": numbers | {"actuators": actuators}}
    (tmp_path / "wrong.json").write_text(json.dumps(start))
    words = ["identify", str(tmp_path / "log.csv"), "--boat", str(tmp_path / "wrong.json")]
    main([*words, "--out", str(tmp_path / "boat.json")])
    printed = capsys.readouterr().out
    found = read_vessel(tmp_path / "boat.json")
    assert found.name == "boat" and found.m == 80.0
    assert found.xU == pytest.approx(truth.xU, rel=0.02) and found.nRR == pytest.approx(truth.nRR, rel=0.1)
    for name in names:
        assert coefficient(found, name) == pytest.approx(coefficient(truth, name), rel=0.5, abs=10.0), name
    last = next(line for line in printed.splitlines() if line.startswith("prediction over 60 s"))
    assert float(last.split("off by ")[1].split(" m")[0]) < 0.6


def test_the_plan_names_every_manoeuvre(capsys):
    main(["identify", "--plan"])
    assert capsys.readouterr().out == f"{PLAN}\n" and "zig-zag" in PLAN and PLAN.count("\n") == 7
