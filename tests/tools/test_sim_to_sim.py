"""The second world behind topics: without disturbance it is the oracle's own."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from tests.oracle.episode import command_rates, replay
from tests.ros_stand_in import stood_in
from train_RL_agents.boat.runtime import Command

pytest.importorskip("matplotlib")
from tools.sim_to_sim import DISTURBANCES, SimulatedEpisode, count_endings, draw_success

RECORDED = Path(__file__).parents[1] / "data" / "episodes.json"
STEPS = 12
RATES = [[800.0, -300.0], [-600.0, 900.0], [1000.0, 1000.0]]


class Pilot:
    """In place of the runtime: the same commands again and again."""

    control_step, steering = 0.5, "thrusters"
    made: ClassVar = []
    """All of a test, in the order of the vessels."""

    def __init__(self, folder, settings):
        self.thrust, self.calls, self.settings = np.zeros(2), [], settings
        self.made.append(self)

    def command(self, *given):
        self.calls.append(given)
        rates = RATES[len(self.calls) % 3]
        self.thrust = np.clip(self.thrust + 0.5 * np.array(rates), -500.0, 1000.0)
        return Command(*map(float, self.thrust))


@pytest.fixture
def fleet(monkeypatch):
    config = json.loads(RECORDED.read_text())[0]["config"]
    with stood_in() as module:
        monkeypatch.setattr(module.Pilot, "load", Pilot)
        monkeypatch.setattr(Pilot, "made", [])
        yield lambda name="delay", value=0.0: (
            config,
            SimulatedEpisode(config, module, Path("none"), (name, value), seed=0),
        )


def test_without_disturbance_vessels_move_as_in_the_oracle(fleet):
    config, flown = fleet()
    assert flown.run(0.5 * STEPS) == "timeout"
    actions = [[np.array(RATES[(t + 1) % 3]) / 1000.0] * len(flown.nodes) for t in range(STEPS)]
    assert command_rates(actions[0][0], None) == tuple(RATES[1])
    expected = replay(config, actions)["state"][-1]
    got = [robot.state for robot in flown.world.robots]
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)
    assert np.abs(expected[:, 9:]).max() > 100.0


def test_nodes_measure_the_present(fleet):
    config, flown = fleet()
    flown.run(0.05)
    for i, pilot in enumerate(Pilot.made):
        ((now, own, tracks, goal),) = pilot.calls
        x, y = config["robots"]["start"][i]
        assert (now, own.stamp, tracks.stamp) == (0.0, 0.0, 0.0)
        assert (own.x, own.y) == (y, x)
        assert goal == tuple(reversed(config["robots"]["goal"][i]))
        near = [np.hypot(*(row[:2] - (y, x))) - row[4] for row in tracks.objects]
        assert max(near, default=0.0) <= 20.0


@pytest.mark.parametrize(
    ("name", "value", "ages"),
    [
        ("delay", 0.25, {0.25}),
        ("delay, not extrapolated", 0.5, {0.5}),
        ("clock offset", 0.2, {0.2}),
        ("loss", 0.5, {0.0, 0.25, 0.5}),
        ("jitter", 0.5, {0.25, 0.5}),
    ],
)
def test_disturbances_reach_the_nodes(name, value, ages, fleet):
    _, flown = fleet(name, value)
    flown.run(6.0)
    calls = [each for pilot in Pilot.made for each in pilot.calls if each[1] is not None]
    seen = {round(now - own.stamp, 6) for now, own, *_ in calls}
    assert seen >= ages if len(ages) > 1 else seen == ages
    assert Pilot.made[0].settings.extrapolate == ("not" not in name)


def test_thrusts_arrive_late_too(fleet):
    _, flown = fleet("delay", 0.25)
    flown.run(0.25)
    assert flown.world.robots[0].state[9:] == [0.0, 0.0]
    assert Pilot.made[0].thrust.any()


def test_an_episode_ends_by_collision_or_arrival(fleet):
    _, flown = fleet()
    world = flown.world
    for robot in world.robots:
        robot.goal = robot.state[0] + 1.0, robot.state[1]
    assert flown.run(0.6) == "success"
    _, flown = fleet()
    state = flown.world.robots[0].state
    state[0], state[1], _ = flown.world.obstacles[0]
    assert flown.run(0.6) == "collision"


def test_outcomes_have_intervals():
    found = count_endings(["success"] * 9 + ["timeout"])
    assert SimpleNamespace(**found).success == 9
    assert found["timeout"] == 1
    assert found["success_low"] < 0.9 < found["success_high"]


def test_figure_has_every_condition(tmp_path):
    cells = {"off": count_endings(["success"])}
    for name, values in DISTURBANCES.items():
        cells |= {f"{name} {value:g}": count_endings(["success", "collision"]) for value in values}
    draw_success(cells, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    cells.popitem()
    with pytest.raises(KeyError):
        draw_success(cells, tmp_path / "figure.png")
