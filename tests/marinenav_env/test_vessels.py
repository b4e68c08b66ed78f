"""Vessels by name and from files, and the settings that follow from their size."""

import json
import math
from dataclasses import replace

import pytest

from marinenav_env import LEVELS, ConfigError, Level, WorldConfig, read_vessel, scaled_world
from marinenav_env.config import ActuatorConfig, VesselConfig
from marinenav_env.vessels import (
    UNITS_BY_SETTING,
    VESSEL_FILE_FORMAT,
    complete_vessel,
    describe_vessel,
    make_vessel,
    read_vessel_file,
    scale_of_vessel,
    scaled_level,
    scaled_settings,
    stopping_distance,
    top_speed,
    vessel_files,
)
from tests.refusals import refusal

NUMBERS = {
    "length": 2.0,
    "width": 1.0,
    "m": 80.0,
    "Izz": 20.0,
    "min_thrust": -60.0,
    "max_thrust": 120.0,
    "xU": -40.0,
    "yV": -60.0,
    "nR": -30.0,
}


def content(numbers=None, **other):
    """A vessel file's content."""
    return {
        "format": VESSEL_FILE_FORMAT,
        "version": 1,
        "name": "mine",
        "vessel": NUMBERS if numbers is None else numbers,
    } | other


def written(folder, stated):
    file = folder / "boat.json"
    file.write_text(stated if isinstance(stated, str) else json.dumps(stated))
    return file


@pytest.mark.parametrize("name", vessel_files())
def test_vessels_of_the_package_say_where_they_are_from(name):
    file = read_vessel_file(name)
    assert file.name == name and file.about and file.source and file.licence and file.approximated
    stated = json.loads(vessel_files()[name].read_text())["vessel"]
    numbers = {**stated, **stated["actuators"]}
    for key, value in numbers.items():
        if key not in ("actuators", "steering"):
            assert value["unit"] == UNITS_BY_SETTING[key], key
    assert file.vessel.name == name and file.vessel.needs_actuator_parameters
    assert 0.3 < top_speed(file.vessel) < 6.0


def test_the_names_are_those_of_the_documentation():
    assert [*vessel_files()] == ["cybership2", "milliampere", "otter", "roboboat", "wamv"]
    assert read_vessel("published") == VesselConfig()
    assert scaled_world("published") == WorldConfig()


def test_a_file_states_numbers_with_or_without_units(tmp_path):
    plain = read_vessel(written(tmp_path, content()))
    units = {
        name: {"value": value, "unit": UNITS_BY_SETTING[name], "source": "measured"} for name, value in NUMBERS.items()
    }
    assert read_vessel(written(tmp_path, content(units))) == plain
    assert (plain.m, plain.xUU, plain.nDotR, plain.single_rotation) == (80.0, 0.0, 0.0, 1.0)


def test_what_is_not_stated_follows_from_size_and_thrust(tmp_path):
    vessel = read_vessel(written(tmp_path, content()))
    assert vessel.radius == vessel.detect_radius == pytest.approx(0.5 * math.hypot(2.0, 1.0), abs=1e-3)
    assert vessel.goal_distance == pytest.approx(0.8)
    time = scale_of_vessel(vessel).time
    assert vessel.max_thrust_rate == pytest.approx(120.0 / time, rel=0.01)
    rate = vessel.max_thrust_rate
    assert vessel.left_thrust_change == pytest.approx((0.0, -0.5 * rate, -rate, 0.5 * rate, rate), rel=1e-3)
    stated = read_vessel(written(tmp_path, content({**NUMBERS, "radius": 3.0, "max_thrust_rate": 50.0})))
    assert (stated.radius, stated.detect_radius, stated.max_thrust_rate) == (3.0, vessel.radius, 50.0)
    assert max(stated.left_thrust_change) == 50.0


def test_vessels_of_unequal_size_in_one_fleet(tmp_path):
    sizes = {**NUMBERS, "length": [2.0, 4.0], "width": [1.0, 2.0], "m": [80.0, 600.0], "Izz": [20.0, 900.0]}
    vessel = read_vessel(written(tmp_path, content(sizes)))
    assert vessel.radius == pytest.approx((1.118, 2.236)) and vessel.goal_distance == pytest.approx((0.8, 1.6))
    world = scaled_world(vessel)
    assert world.sensor.range == world.scenario.width == 44.0  # those of the longest, which needs 170 m to stop
    assert describe_vessel(world)[0].startswith("boat: mine, 2 to 4 x 1 to 2 m")


def test_top_speed_balances_drag_and_thrust():
    assert top_speed(VesselConfig()) == pytest.approx(10.0 / 3.0)
    cubic = VesselConfig(xU=0.0, xUU=0.0, xUUU=-250.0)
    assert top_speed(cubic) == pytest.approx(2.0)
    steered = replace(cubic, actuators=ActuatorConfig(steering="azimuth"))
    assert top_speed(steered) == pytest.approx(4.0 ** (1.0 / 3.0))
    assert top_speed(replace(cubic, max_thrust=(1000.0, 3375.0))) == pytest.approx(3.0)
    mixed = replace(cubic, actuators=ActuatorConfig(steering=("azimuth", "thrusters")))
    assert top_speed(mixed) == top_speed(mixed, 1) == top_speed(cubic) and top_speed(mixed, 0) == top_speed(steered)


def test_weak_and_limited_thrusters_lower_the_top_speed():
    cubic = VesselConfig(xU=0.0, xUU=0.0, xUUU=-250.0)
    for thrust, changes in (
        (1000.0, {"left_limit": 0.5, "right_limit": 0.5}),
        (500.0, {"left_limit": 0.5, "right_limit": 0.5, "speed_exponent": 1.0}),
        (1250.0, {"left_strength": 0.25}),
        (500.0, {"left_limit": 0.01, "right_limit": 0.5, "dead_band": 0.2}),
        (400.0, {"left_strength": 0.4, "steering": "rudder", "rudder_lift": 10.0}),
    ):
        vessel = replace(cubic, actuators=ActuatorConfig(**changes))
        assert 250.0 * top_speed(vessel) ** 3 == pytest.approx(thrust), changes
        weaker = replace(cubic, max_thrust=0.5 * thrust, min_thrust=-0.25 * thrust)
        assert stopping_distance(vessel) == pytest.approx(stopping_distance(weaker))
    dead = replace(cubic, actuators=ActuatorConfig(left_strength=0.0, right_limit=(0.0, 1.0)))
    assert top_speed(dead, 0) < 1e-9 and stopping_distance(dead) > 0.0
    with pytest.raises(ConfigError, match="the boat has no thrust"):
        scaled_world(replace(cubic, max_thrust=0.0))


def test_lengths_speeds_and_times_are_scaled():
    world = scaled_world("otter")
    scale = scale_of_vessel(world.vessel)
    assert scale.length == 0.4 and scale.speed == pytest.approx(3.0864 / (10.0 / 3.0), rel=1e-4)
    assert (world.scenario.width, world.colregs.domain) == (22.0, 3.2)
    assert world.colregs.crossing_x == (-3.6, 4.8) and world.scenario.obs_r_range == (0.4, 0.4)
    assert world.colregs.min_speed == pytest.approx(0.5 * scale.speed, rel=0.01)
    assert world.dt == pytest.approx(0.05 * scale.time, rel=0.05)
    crossing = world.scenario.width / top_speed(world.vessel) / world.control_step
    usual = 55.0 / top_speed(VesselConfig()) / 0.5
    assert crossing == pytest.approx(usual, rel=0.05)
    # A step costs as much of the way as the published one; what does not follow from the boat stays.
    assert world.reward == replace(WorldConfig().reward, timestep_penalty=-0.04)
    assert world.sensor.pos_std == WorldConfig().sensor.pos_std
    assert scaled_world("otter", max_steps=7).max_steps == 7


def test_sensors_reach_as_far_as_boats_need_to_stop():
    """The distances are those of the table in docs/boats.md."""
    stated = {"published": 1.12, "cybership2": 1.65, "milliampere": 6.84, "otter": 3.19, "roboboat": 2.12, "wamv": 0.74}
    for name, way in stated.items():
        assert stopping_distance(read_vessel(name)) == pytest.approx(way, rel=0.015), name
    assert scaled_world("wamv").sensor.range == 19.6  # four lengths
    ferry = scaled_world("milliampere")
    assert ferry.sensor.range == pytest.approx(4.0 * (6.83 + 2.865), rel=0.01)
    creeping = replace(read_vessel("otter"), min_thrust=0.0)
    assert 3.0 < stopping_distance(creeping) < 10.0
    both = replace(creeping, min_thrust=(0.0, -66.0))
    assert stopping_distance(both) == stopping_distance(creeping)


def test_every_scaled_setting_is_one():
    for key, value in scaled_settings(read_vessel("otter")).items():
        section, _, name = f"world.{key}".rpartition(".")
        config = WorldConfig()
        for part in section.split(".")[1:]:
            config = getattr(config, part)
        usual = getattr(config, name)
        assert type(value) is type(usual), key
        assert value != usual, key


def test_levels_are_scaled():
    level = Level(3, 1, 2, 40.0, map_size=60.0, core_speed=2.0)
    assert scaled_level(level, 0.5, 0.25) == Level(3, 1, 2, 20.0, map_size=30.0, core_speed=0.5)
    assert [scaled_level(each, 1.0, 1.0) for each in LEVELS] == [*LEVELS]


def test_settings_of_a_file_can_be_completed_after_changes():
    settings = {**read_vessel_file("otter").settings, "length": 4.0}
    assert make_vessel(complete_vessel(settings)).goal_distance == 1.6


# Damaged files: the content, and what the refusal says.
DAMAGED = [
    ("", "it is empty"),
    ("[]", "must be a JSON object"),
    ({}, "format=None: must be marinenav vessel"),
    (content(version="1"), "version='1': must be 1"),
    (content(hull="x"), "key='hull': must be one of format"),
    (content(name=""), "name='': must be a name"),
    (content(name="published"), "name='published': must be a name other than published"),
    (content(name=7), "name=7: must be text"),
    (content(about="a\nb"), "about='a\\nb': must be text"),
    (content(approximated=[1]), "approximated=[1]: must be a list of texts"),
    (content(vessel=[1]), "vessel=[1]: must be an object with numbers"),
    (content({}), "length=None: must be stated, in m"),
    (json.dumps(content())[:-1] + ",}", "cannot be read as a vessel file"),
    (json.dumps(content()).replace("80.0", "1e999"), "m=inf: must be a number"),
]
# Settings of a vessel, those of its actuators with a dot, and what the refusal says.
CHANGED = [
    ({"mass": 80.0}, "setting='mass': must be one of length"),
    ({".delay": 1.0}, "setting='actuators.delay': must be one of steering"),
    *(({"m": value}, f"m={value!r}: must be a number") for value in ("80", None, True, [], [80.0, "x"])),
    ({"m": {"value": 80.0, "unit": "lb"}}, "m: unit='lb': must be kg"),
    ({".lag": {"value": 1.0, "unit": "ms"}}, "actuators.lag: unit='ms': must be s"),
    ({"m": {"unit": "kg"}}, "must be an object of value, unit and source"),
    ({"m": {"value": 80.0, "note": "x"}}, "must be an object of value, unit and source"),
    ({"m": {"value": 80.0, "source": 3}}, "m: source=3: must be text"),
    *(({name: 0.0}, f"{name}=0.0: must be above 0") for name in ("m", "Izz", "max_thrust", "max_thrust_rate")),
    *(({name: -1.0}, f"{name}=-1.0: must be at least 0") for name in ("cross_flow", "max_thrust", "power_coefficient")),
    ({"min_thrust": 60.0}, "min_thrust=60.0: must be at most 0"),
    ({"single_rotation": 2.0}, "single_rotation=2.0: must be at least 0 and at most 1"),
    ({"m": 1e6, "Izz": 1e4}, "m=1000000.0: must be smaller: for its size it would be"),
    ({"length": 0.01}, "length=0.01: must be from 0.1 to 500 m"),
    ({"length": [2.0, 600.0]}, "length=600.0: must be from 0.1 to 500 m"),
    *(({"width": value}, f"width={value}: must be from 0.04 to 6 in a boat of 2 m") for value in (0.01, 30.0)),
    *(({"Izz": value}, f"Izz={value}: must be from 0.128 to 320 in a boat of 2 m") for value in (1e-4, 1e5)),
    ({"m": 1e-9}, "Izz=20.0: must be from 1.6e-12 to 4e-09"),
    *(({name: 1.0}, f"{name}=1.0: must be from -inf to 0: damping") for name in ("xU", "yVV", "nRRR")),
    *(({name: 5.5}, f"{name}=5.5: must be from -2000 to 0: water adds") for name in ("xDotU", "yDotV")),
    *(({"nDotR": value}, "must be from -500 to 0: water adds") for value in (1.0, -1e9)),
    ({"xU": 0.0}, "xU=0.0: must be below 0, or another damping of surge"),
    ({"nR": 0.0}, "nR=0.0: must be below 0, or another damping of yaw"),
    ({"yDotR": -60.0, "nDotV": -60.0}, "must be such that the mass matrix can be inverted"),
    ({"radius": [1.0, 1e6]}, "radius=1000000.0: must be from 0 to 20 in a boat of 2 m"),
    ({"xU": -1e-3}, "xU=-0.001: must be larger in size: the top speed of"),
    ({"max_thrust": 1e-12}, "max_thrust=1e-12: must be larger: the top speed of"),
    ({"left_thrust_change": [1.0] * 33}, "at most 32 numbers"),
    ({"actuators": 3}, "actuators=3: must be an object with numbers such as lag"),
    *(({".steering": kind}, "must be one of thrusters, azimuth, rudder") for kind in ("sail", 1, ["azimuth", "sail"])),
    ({".steering": []}, "actuators.steering=[]: must be a kind of steering"),
    ({".steering": "rudder"}, "actuators.rudder_lift=0.0: must be above 0 for a boat with a rudder"),
    ({".lag": [0.1, 1e9]}, "actuators.lag=1000000000.0: must be from 0 to 60 s"),
    ({".dead_band": 1.0}, "actuators.dead_band=1.0: must be from 0 to 0.99: the propellers"),
    ({".left_limit": 0.0, ".right_limit": 0.0}, "actuators.left_limit=0.0: must be above 0 on one side"),
    ({".left_strength": 0.0, ".steering": "azimuth"}, "left_strength=0.0: must be above 0 on one side"),
    *(({f".{name}": 1e6}, f"{name}=1000000.0: must be from -6 to 6") for name in ("spacing", "position")),
]


@pytest.mark.parametrize(("stated", "sentence"), DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_files_are_refused_in_one_sentence(tmp_path, stated, sentence):
    refused(written(tmp_path, stated), sentence)


def test_absurd_vessels_are_refused_in_one_sentence(tmp_path):
    for changes, sentence in CHANGED:
        own = {name: value for name, value in changes.items() if name[0] != "."}
        actuators = {name[1:]: value for name, value in changes.items() if name[0] == "."}
        numbers = NUMBERS | ({"actuators": actuators} if actuators else {}) | own
        refused(written(tmp_path, content(numbers)), sentence)
    for name in ("length", "width", "m", "Izz", "min_thrust", "max_thrust"):
        fewer = {key: value for key, value in NUMBERS.items() if key != name}
        refused(written(tmp_path, content(fewer)), f"{name}=None: must be stated, in {UNITS_BY_SETTING[name]}")


@pytest.mark.parametrize("name", ["ottr", "", "nowhere.json", ".", "a\0b"])
def test_there_must_be_such_a_vessel(name):
    refusal(read_vessel, name)


def refused(file, sentence):
    message = refusal(read_vessel, file)
    assert message.startswith(str(file)) and sentence in message
