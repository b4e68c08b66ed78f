"""Defaults, and what is refused with which words."""

import math
import re
from dataclasses import fields
from typing import Any

import pytest

from marinenav_env import config as ours
from marinenav_env import levels
from marinenav_env.stepping.reset_pool import Curriculum
from marinenav_env.support.validation import ConfigError
from tests.oracle import colregs, dynamics, perception, reward, scenario


@pytest.mark.parametrize(
    ("config", "expected", "names"),
    [
        (ours.VesselConfig(), dynamics.VesselParams(), {}),
        (ours.WorldConfig(), dynamics.VesselParams(), {}),
        (ours.SensorConfig(), perception.Sensor(), {}),
        (ours.RewardConfig(), reward.RewardParams(), {"colregs_penalty": "COLREGs_penalty"}),
        (
            ours.ScenarioConfig(),
            scenario.ScenarioParams(),
            {"robot_margin": "start_margin", "budget": "draws"},
        ),
        (
            ours.ColregsConfig(),
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
def test_defaults_are_those_of_the_specification(config: Any, expected: Any, names: dict[str, str]) -> None:
    compared = 0
    for item in fields(expected):
        name = names.get(item.name, item.name)
        if hasattr(config, name):
            assert getattr(config, name) == getattr(expected, item.name), name
            compared += 1
    assert compared >= 2


def test_more_defaults() -> None:
    corner = colregs.ColregsParams()
    zones = ours.ColregsConfig()
    assert corner.crossing_corner == (zones.crossing_x[1], zones.crossing_corner_y)
    assert corner.crossing_slope == -zones.crossing_corner_slope
    vessel = ours.VesselConfig()
    assert vessel.radius == vessel.detect_radius == pytest.approx(2.795, abs=1e-3)
    assert vessel.goal_distance == 2.0 and vessel.max_thrust_rate == 1000.0
    assert vessel.left_thrust_change == vessel.right_thrust_change == (0, -500, -1000, 500, 1000)
    assert ours.WorldConfig().max_steps == 1000
    assert ours.SensorConfig().slots == 5
    assert ours.SensorConfig(max_objects=(2, 7, 3)).slots == 7


def test_levels_are_the_published_ones() -> None:
    got = [
        (level.num_robots, level.num_cores, level.num_obstacles, level.min_start_goal_dis) for level in levels.LEVELS
    ]
    assert got == [
        (level.robots, level.cores, level.obstacles, level.min_start_goal_dis) for level in scenario.LEVELS.values()
    ]
    assert Curriculum().levels == levels.LEVELS


NAN, INF = math.nan, math.inf
SECTIONS: list[tuple[Any, str]] = [
    (ours.ActuatorConfig, "world.vessel.actuators"),
    (ours.VesselConfig, "world.vessel"),
    (ours.SensorConfig, "world.sensor"),
    (ours.RewardConfig, "world.reward"),
    (ours.ColregsConfig, "world.colregs"),
    (ours.ScenarioConfig, "world.scenario"),
    (ours.WeatherConfig, "world.weather"),
    (ours.WorldConfig, "world"),
    (levels.Level, "level"),
]
REFUSED: list[tuple[type, str, str, Any]] = [
    *(
        (config, section, item.name, NAN)
        for config, section in SECTIONS
        for item in fields(config)
        if isinstance(item.default, float)
    ),
    *(
        (ours.VesselConfig, "world.vessel", name, 0.0)
        for name in ("length", "width", "radius", "detect_radius", "goal_distance", "m", "Izz", "max_thrust_rate")
    ),
    (ours.VesselConfig, "world.vessel", "m", (400.0, -1.0)),
    (ours.VesselConfig, "world.vessel", "m", ()),
    (ours.VesselConfig, "world.vessel", "m", "heavy"),
    (ours.VesselConfig, "world.vessel", "m", True),
    (ours.VesselConfig, "world.vessel", "power_coefficient", -1.0),
    (ours.VesselConfig, "world.vessel", "min_thrust", 1.0),
    (ours.VesselConfig, "world.vessel", "max_thrust", -1.0),
    (ours.VesselConfig, "world.vessel", "left_thrust_change", ()),
    (ours.VesselConfig, "world.vessel", "right_thrust_change", (0.0, INF)),
    (ours.SensorConfig, "world.sensor", "range", 0.0),
    (ours.SensorConfig, "world.sensor", "angle", -1.0),
    (ours.SensorConfig, "world.sensor", "max_objects", 0),
    (ours.SensorConfig, "world.sensor", "max_objects", (5, 65)),
    (ours.SensorConfig, "world.sensor", "max_objects", 2.5),
    (ours.SensorConfig, "world.sensor", "pos_std", -0.1),
    (ours.SensorConfig, "world.sensor", "r_kappa", -1.0),
    (ours.SensorConfig, "world.sensor", "r_kappa", 501.0),
    (ours.SensorConfig, "world.sensor", "r_mean_ratio", 1.1),
    *(
        (ours.RewardConfig, "world.reward", name, INF)
        for name in ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward")
    ),
    *((ours.ColregsConfig, "world.colregs", name, -1.0) for name in ("min_speed", "head_on_half_width", "clearance")),
    *(
        (ours.ColregsConfig, "world.colregs", name, (1.0, 0.0))
        for name in ("crossing_x", "crossing_y", "crossing_heading", "head_on_x")
    ),
    *(
        (ours.ScenarioConfig, "world.scenario", name, 0.0)
        for name in ("width", "height", "core_radius", "v_rel_max", "p")
    ),
    *((ours.ScenarioConfig, "world.scenario", name, -1.0) for name in ("start_margin", "obstacle_margin", "clear_r")),
    *((ours.ScenarioConfig, "world.scenario", name, 27.5) for name in ("start_margin", "obstacle_margin")),
    (ours.ScenarioConfig, "world.scenario", "draws", 0),
    (ours.ScenarioConfig, "world.scenario", "draws", 1e9),
    (ours.ScenarioConfig, "world.scenario", "draws", 10.5),
    *(
        (ours.ScenarioConfig, "world.scenario", name, value)
        for name in ("v_range", "obs_r_range")
        for value in ((2.0, 1.0), (-1.0, 1.0), (1.0,), (1.0, 2.0, 3.0), 3.0, (NAN, 1.0))
    ),
    (ours.ScenarioConfig, "world.scenario", "clear_r", (1.0,)),
    (ours.RewardConfig, "world.reward", "goal_reward", (1.0, 2.0)),
    (ours.WorldConfig, "world", "dt", (0.05,)),
    (ours.WorldConfig, "world", "dt", 0.0),
    (ours.WorldConfig, "world", "dt", 1.5),
    (ours.WorldConfig, "world", "substeps", 0),
    (ours.WorldConfig, "world", "substeps", 10.5),
    (ours.WorldConfig, "world", "max_steps", 0),
    (levels.Level, "level", "num_robots", 0),
    (levels.Level, "level", "num_robots", 2.5),
    (levels.Level, "level", "num_cores", -1),
    (levels.Level, "level", "num_obstacles", 1001),
    (levels.Level, "level", "min_start_goal_dis", -1.0),
    (Curriculum, "curriculum", "levels", ()),
    (Curriculum, "curriculum", "weights", (1.0,)),
    (Curriculum, "curriculum", "weights", (0.0,) * 6),
    (Curriculum, "curriculum", "weights", (2.0, -1.0, 1.0, 1.0, 1.0, 1.0)),
    (Curriculum, "curriculum", "weights", ("many",) * 6),
    (Curriculum, "curriculum", "timesteps", (0, 1)),
    (Curriculum, "curriculum", "timesteps", (1, 2, 3, 4, 5, 6)),
    (Curriculum, "curriculum", "timesteps", (0, 2, 1, 4, 5, 6)),
    (Curriculum, "curriculum", "pool_size", 0),
    (Curriculum, "curriculum", "refresh_size", 0),
    (Curriculum, "curriculum", "refresh_interval", 0),
]


@pytest.mark.parametrize(
    ("cls", "section", "name", "value"),
    REFUSED,
    ids=[f"{section}.{name}={value!r}" for _, section, name, value in REFUSED],
)
def test_bad_values_are_refused_by_key_and_value(cls: type, section: str, name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        cls(**{name: value})
    text = str(error.value)
    assert re.fullmatch(rf"{section}\.{name}=.*: must be \S.*", text), text
    assert repr(value) in text


def test_weights_and_timesteps_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"^curriculum\.weights=.*left out when timesteps"):
        Curriculum(weights=(1.0,) * 6, timesteps=(0, 1, 2, 3, 4, 5))


def test_a_pool_is_refreshed_in_equal_parts() -> None:
    with pytest.raises(ConfigError, match="a multiple of refresh_size"):
        Curriculum(pool_size=12, refresh_size=5)


def test_the_bounds_themselves_are_allowed() -> None:
    ours.VesselConfig(min_thrust=0.0, max_thrust=0.0, power_coefficient=0.0)
    ours.SensorConfig(pos_std=0, vel_std=0, r_kappa=500.0, r_mean_ratio=1, max_objects=64)
    ours.SensorConfig(r_kappa=0.0, r_mean_ratio=0.0, max_objects=1)
    ours.ScenarioConfig(clear_r=0.0, obs_r_range=(0.0, 0.0), draws=1)
    ours.WorldConfig(dt=1.0, substeps=1, max_steps=1)
    levels.Level(1, 0, 0, 0.0)
    Curriculum(levels=(levels.Level(),), pool_size=1, refresh_size=1, refresh_interval=1)
