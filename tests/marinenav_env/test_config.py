"""Defaults, and what is refused with which words."""

import math
import re
from dataclasses import fields

import pytest

from marinenav_env import config as cfg
from marinenav_env import levels
from marinenav_env.stepping.reset_pool import Curriculum
from tests.oracle import colregs, dynamics, perception, reward, scenario
from tests.refusals import refusal


@pytest.mark.parametrize(
    ("config", "expected", "names"),
    [
        (cfg.VesselConfig(), dynamics.VesselParams(), {}),
        (cfg.WorldConfig(), dynamics.VesselParams(), {}),
        (cfg.SensorConfig(), perception.Sensor(), {}),
        (cfg.RewardConfig(), reward.RewardParams(), {"colregs_penalty": "COLREGs_penalty"}),
        (cfg.ScenarioConfig(), scenario.ScenarioParams(), {}),
        (
            cfg.ColregsConfig(),
            colregs.ColregsParams(),
            {
                "crossing_psi": "crossing_heading",
                "head_on_y": "head_on_half_width",
                "head_on_psi": "head_on_heading",
                "margin": "clearance",
            },
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_defaults_are_those_of_the_specification(config, expected, names):
    compared = 0
    for item in fields(expected):
        name = names.get(item.name, item.name)
        if hasattr(config, name):
            assert getattr(config, name) == getattr(expected, item.name), name
            compared += 1
    assert compared >= 2


def test_more_defaults():
    corner = colregs.ColregsParams()
    zones = cfg.ColregsConfig()
    assert corner.crossing_corner == (zones.crossing_x[1], zones.crossing_corner_y)
    assert corner.crossing_slope == -zones.crossing_corner_slope
    vessel = cfg.VesselConfig()
    assert vessel.radius == vessel.detect_radius == pytest.approx(2.795, abs=1e-3)
    assert vessel.goal_distance == 2.0 and vessel.max_thrust_rate == 1000.0
    assert vessel.left_thrust_change == vessel.right_thrust_change == (0, -500, -1000, 500, 1000)
    assert cfg.WorldConfig().max_steps == 1000
    assert cfg.SensorConfig().slots == 5
    assert cfg.SensorConfig(max_objects=(2, 7, 3)).slots == 7


def test_levels_are_the_published_ones():
    got = [
        (level.num_robots, level.num_cores, level.num_obstacles, level.min_start_goal_dis) for level in levels.LEVELS
    ]
    assert got == [(3, 0, 0, 30), (4, 0, 0, 35), (5, 0, 0, 40), (5, 0, 2, 40), (5, 0, 3, 40), (5, 0, 4, 40)]
    assert Curriculum().levels == levels.LEVELS


NAN, INF = math.nan, math.inf
SECTIONS = {
    cfg.ActuatorConfig: "world.vessel.actuators",
    cfg.VesselConfig: "world.vessel",
    cfg.SensorConfig: "world.sensor",
    cfg.RewardConfig: "world.reward",
    cfg.ColregsConfig: "world.colregs",
    cfg.ScenarioConfig: "world.scenario",
    cfg.WeatherConfig: "world.weather",
    cfg.WorldConfig: "world",
    levels.Level: "level",
    Curriculum: "curriculum",
}
RANGES = [(2.0, 1.0), (-1.0, 1.0), (1.0,), (1.0, 2.0, 3.0), 3.0, (NAN, 1.0)]
# Values that fields refuse, by the names of the fields.
REFUSED = {
    cfg.VesselConfig: {
        "length width radius detect_radius goal_distance m Izz max_thrust_rate": [0.0],
        "m": [(400.0, -1.0), (), "heavy", True],
        "power_coefficient max_thrust": [-1.0],
        "min_thrust": [1.0],
        "left_thrust_change": [()],
        "right_thrust_change": [(0.0, INF)],
    },
    cfg.SensorConfig: {
        "range": [0.0],
        "angle r_kappa": [-1.0],
        "max_objects": [0, (5, 65), 2.5],
        "pos_std": [-0.1],
        "r_kappa": [501.0],
        "r_mean_ratio": [1.1],
    },
    cfg.RewardConfig: {"timestep_penalty COLREGs_penalty collision_penalty": [INF], "goal_reward": [INF, (1.0, 2.0)]},
    cfg.ColregsConfig: {
        "min_speed head_on_half_width clearance": [-1.0],
        "crossing_x crossing_y crossing_heading head_on_x": [(1.0, 0.0)],
    },
    cfg.ScenarioConfig: {
        "width height core_radius v_rel_max p": [0.0],
        "start_margin obstacle_margin": [-1.0, 27.5],
        "clear_r": [-1.0, (1.0,)],
        "draws": [0, 1e9, 10.5],
        "v_range obs_r_range": RANGES,
    },
    cfg.WorldConfig: {"dt": [(0.05,), 0.0, 1.5], "substeps": [0, 10.5], "max_steps": [0]},
    levels.Level: {"num_robots": [0, 2.5], "num_cores": [-1], "num_obstacles": [1001], "min_start_goal_dis": [-1.0]},
    Curriculum: {
        "levels": [()],
        "weights": [(1.0,), (0.0,) * 6, (2.0, -1.0, 1.0, 1.0, 1.0, 1.0), ("many",) * 6],
        "timesteps": [(0, 1), (1, 2, 3, 4, 5, 6), (0, 2, 1, 4, 5, 6)],
        "pool_size refresh_size refresh_interval": [0],
    },
}


@pytest.mark.parametrize(("config", "section"), SECTIONS.items(), ids=SECTIONS.values())
def test_bad_values_are_refused_by_key_and_value(config, section):
    refused = [(name, NAN) for name in (item.name for item in fields(config) if isinstance(item.default, float))]
    for names, values in REFUSED.get(config, {}).items():
        refused += [(name, value) for name in names.split() for value in values]
    assert refused
    for name, value in refused:
        message = refusal(config, **{name: value})
        assert re.search(rf"^{re.escape(section)}\.{name}=.*: must be \S", message) and repr(value) in message
