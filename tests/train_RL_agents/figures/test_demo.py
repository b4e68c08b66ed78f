"""The page in which a policy steers: what is in it, and what Node makes of it.

The page's scripts compute in float64, so that they agree with Python to rounding.
"""

import copy
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from marinenav_env import ConfigError, Episode, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import ActuatorConfig, SensorConfig, VesselConfig, WeatherConfig
from marinenav_env.physics.shores import shore_clearance
from marinenav_env.rules.roles import ROLES
from marinenav_env.scenarios.episode import episodes_from_scenarios
from marinenav_env.scenarios.scenario_file import parse_scenarios
from marinenav_env.vessels import scaled_world, vessel_files
from tests.marinenav_env.helpers import QUIET, simple_episode
from tests.train_RL_agents.boat.helpers import SECONDS, random_scenes, random_shores
from tests.train_RL_agents.figures.helpers import (
    TOLERANCE,
    agree,
    data_in,
    in_node,
    page_of,
    pretrained,
    recordings_agree,
)
from train_RL_agents.boat.shield import BoatShield
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.evaluation.judging.shield import Shield
from train_RL_agents.evaluation.running.episodes import draw_scenarios
from train_RL_agents.evaluation.running.steps import StepShare
from train_RL_agents.evaluation.suites.sets import Part
from train_RL_agents.evaluation.suites.suites import make_scenario_set
from train_RL_agents.exporting.deployed import DeployedAgent
from train_RL_agents.exporting.graph import policy_graphs
from train_RL_agents.figures.demo import SHIELD_SETTINGS, file_template, make_page, world_settings
from train_RL_agents.policy_wrapper import PolicyWrapper

PHASES = ("none", "candidate", "confirmed", "past and clear", "fleeting")
GRU, FRAMES = ({"memory": {"kind": "gru", "size": 6}}, {"memory": {"kind": "frames", "number": 3}})
VARIANTS = {
    "AC-IQN": (
        {},
        {"embedding": "published", "layer_norm": False, "refine": False},
        {"memory": {"kind": "frames"}},
        {"features": "raw", "critics": 1, "risk": "neutral"},
    ),
    "IQN": (
        {"embedding": "published", "dueling": False},
        {"encoder": "max"},
        {"risk": "neutral", "acting_quantiles": 7},
    ),
    "DDPG": ({}, {"critic": "scalar", "dropped": 0}, {"action_input": "published"}),
    "DQN": ({"encoder": "attention"}, FRAMES, {"features": "scaled", "dueling": False, "critics": 1}),
    "SAC": ({}, {"hidden_sizes": (33, 17, 6)}),
    "Rainbow": ({}, {"atoms": 11, "excluded": ("objects_state",)}),
    "PPO": ({}, GRU, {"actions": "gaussian"}, {"actions": "clipped_gaussian", "critic": "fleet"}),
    "A2C": ({"encoder": "concat"},),
}
"""Settings under which networks differ, for each agent."""


# What is in it


def test_scenarios_are_those_of_the_suites():
    scenarios = data_in(page_of("dqn"))["scenarios"]
    names = [each["name"] for each in scenarios]
    assert names[:60] == [f"level {row}, {number}" for row in range(1, 7) for number in range(1, 11)]
    assert {"head-on, 3", "overtaking, 3", "case 1", "case 22"} <= set(names)
    assert len(set(names)) == len(names)
    sixth = scenarios[names.index("level 6, 1")]["episode"]
    assert len(sixth["start"]) == 5 and len(sixth["obstacles"]) == 4
    groups = list(dict.fromkeys(each["group"] for each in scenarios))
    assert len(groups) == 12 and groups[0] == "Published levels, level 1"
    data = data_in(page_of("dqn"))
    assert scenarios[data["first"]]["suite"] == "currents"
    assert len(scenarios[data["first"]]["episode"]["cores"]) == 8
    slow = scenarios[names.index("overtaking, 1")]["episode"]
    assert slow["vessel"]["max_thrust"] == [1000.0, 120.0]


def test_operators_that_the_page_lacks_are_named():
    policy = {"graphs": {"act": {"nodes": [["linear", []], ["fft_fft", []]]}}}
    with pytest.raises(ConfigError, match=r"a policy.*fft_fft"):
        make_page("a policy", WorldConfig(), policy, False, None, 1.0)


# Its world and its policies, in Node


def test_world_reproduces_the_recorded_episodes():
    recordings_agree(in_node)


@pytest.mark.parametrize(
    ("agent_type", "settings"),
    [
        pytest.param(name, each, marks=[pytest.mark.slow] * (each not in (all_[-1], GRU, FRAMES)))
        for name, all_ in VARIANTS.items()
        for each in all_
    ],
    ids=lambda each: str(each),
)
def test_policy_acts_as_in_python(agent_type, settings):
    torch.manual_seed(0)
    config = from_dict({"agent_type": agent_type, "agent": settings})
    agent = make_agent(config, 25, torch.device("cpu"))
    agree(in_node, agent, DeployedAgent(agent).observations(20, seed=2))


def voyage(name, scenario, weather, steps):
    """Poses [T + 1, R, 3] of a voyage without noise, at most so many steps, in Python."""
    loaded = pretrained(name)
    given = data_in(page_of(name))["scenarios"][scenario]["episode"]
    sensor = replace(QUIET, max_objects=loaded.config.world.sensor.max_objects)
    episode = Episode(**given, world=replace(loaded.config.world, sensor=sensor, weather=weather))
    env = MarineNavEnv(scenarios=[episode], continuous=loaded.agent.continuous, dtype=torch.float64, seed=0)
    policy = PolicyWrapper(copy.deepcopy(loaded.agent).double().eval())
    step, poses = env.reset(), [env.state.pose[0]]
    while env.state.active.any() and len(poses) <= steps:
        step = env.step(policy(step))["next"]
        poses.append(env.state.pose[0].clone())
    return torch.stack(poses).numpy()


def voyages_agree(name, weather, steps=1000):
    scenario = 50  # the first of level 6
    given = {"wind": weather.wind_speed, "direction": weather.wind_direction, "waves": weather.wave_height}
    expected = voyage(name, scenario, weather, steps)
    found = np.array(
        in_node("sailed", {"data": data_in(page_of(name)), "scenario": scenario, "weather": given, "steps": steps})
    )
    assert found.shape == expected.shape and len(found) > min(steps, 30)
    assert np.abs(found - expected).max() <= TOLERANCE
    return expected


WIND = WeatherConfig(wind_speed=8.0, wind_direction=2.0)
WAVES = WeatherConfig(wave_height=0.4, wave_direction=2.0, wind_direction=2.0)
BOTH = replace(WIND, wave_height=0.4, wave_direction=2.0)


def test_wind_and_waves_are_pythons():
    """The vessels drift apart, so that the forces count."""
    ends = [voyages_agree("dqn", weather, 10)[-1] for weather in (WIND, WAVES)]
    assert np.abs(ends[0] - ends[1]).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("weather", [WeatherConfig(), BOTH], ids=["calm", "weather"])
@pytest.mark.parametrize("name", ["ac_iqn", "dqn"])
def test_a_whole_voyage_is_pythons(name, weather):
    voyages_agree(name, weather)


FLEET = VesselConfig(
    nUV=(1.0, 2.0, 5.0),
    xUUU=-3.0,
    yVVV=-4.0,
    nRRR=-20.0,
    cross_flow=30.0,
    actuators=ActuatorConfig(
        steering=("rudder", "azimuth", "thrusters"),
        lag=(0.3, 0.0, 0.2),
        speed_exponent=0.8,
        dead_band=0.1,
        left_limit=0.7,
        right_strength=0.6,
        rudder_lift=20.0,
        propeller_diameter=(0.4, 0.0, 0.0),
        position=(0.0, 1.5, 0.0),
    ),
)
"""Vessels with every actuator and hull term, and currents."""


@pytest.mark.parametrize("boat", [*(pytest.param(name, marks=pytest.mark.slow) for name in vessel_files()), "a fleet"])
def test_boats_with_actuators_move_as_in_python(boat):
    config = WorldConfig(vessel=FLEET, sensor=QUIET) if boat == "a fleet" else scaled_world(boat, sensor=QUIET)
    episode = simple_episode(
        [(10.0, 10.0, 0.5), (90.0, 15.0, 1.0), (40.0, 90.0, 2.0)], [(500.0, 500.0)] * 3, [], config.sensor
    )
    cores = [[50.0, 40.0, 20.0]]
    thrust = [[0.2 * config.vessel.max_thrust, -0.1 * config.vessel.max_thrust]] * 3
    episode = replace(episode, world=config, cores=cores, thrust=thrust)
    env = MarineNavEnv(scenarios=[episode], dtype=torch.float64, seed=0)
    env.reset()

    steering = np.broadcast_to(config.vessel.actuators.steering, 3)
    counted = torch.tensor([[1.0, float(kind == "thrusters")] for kind in steering], dtype=torch.float64)

    def row(seconds):
        state = env.state
        energy = (state.thrust.abs() * counted).sum(-1, keepdim=True) * seconds
        parts = (state.pose, state.velocity_water, state.thrust, state.actuator, energy)
        return torch.cat([part[0] for part in parts], -1)

    actions = torch.rand(60, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2.4 - 1.0
    expected = [row(0.0)]
    for action in actions:
        env.step(TensorDict({"robots": {"action": action[None]}}, [1]))
        expected.append(row(config.control_step))
    rates = (actions.clamp(-1.0, 1.0) * config.vessel.max_thrust_rate).tolist()
    given = {"config": asdict(config), "episode": asdict(episode), "rates": rates}
    driven = np.array(in_node("driven", given))
    expected = torch.stack(expected).numpy()
    assert np.abs(expected[-1, :, :2] - expected[0, :, :2]).max() > 1.0
    assert np.abs(driven - expected).max() <= TOLERANCE * max(1.0, config.vessel.max_thrust)


@pytest.mark.parametrize("rotation", [0.0, 1.0])
def test_the_shield_is_pythons(rotation):
    """In open water, and beside land."""
    (own, objects, seen, command), (shore, is_shore) = random_scenes(24), random_shores(24)
    is_shore[::2] = False
    vessel = VesselConfig(single_rotation=rotation)
    most = vessel.max_thrust_rate
    board = BoatShield.from_contract(asdict(vessel), (vessel.min_thrust, vessel.max_thrust, most), SECONDS)
    scenes, expected = [], []
    for number in range(len(own)):
        there = objects[number][seen[number]]
        slots = {"seen": list(range(len(there))), "objects": there.tolist()}
        land = {"shore": shore[number].tolist(), "shore_mask": is_shore[number].tolist()}
        scenes.append({"command": command[number].tolist(), "self_state": own[number].tolist()} | slots | land)
        rows = (each[number][None] for each in (own, objects, seen, shore, is_shore))
        expected.append(board(most * command[number], *rows)[0] / most)
    given = {"scenes": scenes, "hull": asdict(vessel), "seconds": SECONDS, "shield": SHIELD_SETTINGS}
    found = in_node("guarded", given)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-9)
    is_replaced = np.any(np.array(found) != command, 1)
    assert min(is_replaced[::2].sum(), (~is_replaced[::2]).sum(), is_replaced[1::2].sum()) > 3


def meetings(count):
    """Episodes of three vessels that make for the middle, and an obstacle, without noise."""
    sensor, rng = replace(QUIET, duties=True, max_objects=2), np.random.default_rng(1)
    for _ in range(count):
        bearings = rng.uniform(0.0, 2.0 * math.pi, 3)
        poses = [(30.0 - 18.0 * math.cos(a), 30.0 - 18.0 * math.sin(a), a + rng.normal(0.0, 0.2)) for a in bearings]
        goals = [(30.0 + 14.0 * math.cos(a), 30.0 + 14.0 * math.sin(a)) for a in bearings]
        episode = simple_episode(poses, goals, [(30.0, 60.0, 1.0)], sensor)
        pace = rng.uniform(0.8, 2.2, 3)
        velocity = [[v * math.cos(p[2]), v * math.sin(p[2]), 0.0] for v, p in zip(pace, poses, strict=True)]
        yield replace(episode, velocity=velocity, thrust=[[150.0 * v * v] * 2 for v in pace])


def test_encounters_and_duties_are_those_of_the_world():
    """Vessels turn and slow down at random; some of them arrive, or collide."""
    episodes, generator = [*meetings(12)], torch.Generator().manual_seed(0)
    config = WorldConfig(sensor=episodes[0].world.sensor)
    env = MarineNavEnv(config, scenarios=episodes, dtype=torch.float64, seed=0)
    observed, actions = [(env.reset()["robots", "observation", "duties"], env.state.encounters)], []
    for step in range(60):
        if step % 12 == 0:
            action = 0.15 * torch.randn(12, 3, 2, generator=generator, dtype=torch.float64)
        actions.append(action)
        td = env.step(TensorDict({"robots": {"action": action}}, [12]))["next"]
        observed.append((td["robots", "observation", "duties"], env.state.encounters))
    rates = (torch.stack(actions, 1) * config.vessel.max_thrust_rate).tolist()
    scenes = [
        {"config": world_settings(config), "episode": asdict(episode), "rates": each}
        for episode, each in zip(episodes, rates, strict=True)
    ]
    seen = set()
    for e, frames in enumerate(in_node("met", scenes)):
        for frame, (duties, known) in zip(frames, observed, strict=True):
            np.testing.assert_allclose(frame["duties"], duties[e].flatten(1), atol=1e-7)
            phase, role = (known[e, ..., field].T.long() for field in (0, 1))  # of the own vessel, then the other
            pairs = phase.nonzero().tolist()
            named = [[*pair, PHASES[phase[*pair]], ROLES[role[*pair]]] for pair in pairs]
            # Those of a vessel that has ended are gone at once in the page, a step later in the world.
            found = frame["encounters"]
            assert [pair for pair in named if pair in found or pair[2] in PHASES[1:3]] == found
            seen.update((pair[2], pair[3]) for pair in found)
    assert {phase for phase, _ in seen} == {*PHASES[1:]} and {role for _, role in seen} == {*ROLES[1:]}, seen


def in_order(vessels):
    """The segments that each vessel observes by distance, equally near ones by their begin."""
    rows = np.round(np.asarray(vessels), 7).tolist()
    return [sorted(each, key=lambda row: (round(row[6], 5), row[:2])) for each in rows]


def test_waters_are_those_of_the_world():
    """Vessels leave for their goals in windows of charts and currents at random; some of them run aground."""
    world = WorldConfig(sensor=QUIET)
    episodes = episodes_from_scenarios(make_scenario_set("harbours", world, 5).parts[0].scenarios[7::10], world)
    episodes = [replace(each, cores=[[x + 2.0, y, 15.0] for x, y in each.start]) for each in episodes]
    generator = torch.Generator().manual_seed(0)
    env = MarineNavEnv(world, scenarios=episodes, dtype=torch.float64, seed=0)
    names = ("shore", "shore_mask", "objects_mask", "self_state")
    observed, actions = [dict(env.reset()["robots", "observation"].items())], []
    observed[0] |= {"grounded": env.state.grounded, "reward": None}
    for step in range(70):
        if step % 10 == 0:
            action = 0.1 + 0.15 * torch.randn(len(episodes), 3, 2, generator=generator, dtype=torch.float64)
        actions.append(action)
        td = env.step(TensorDict({"robots": {"action": action}}, [len(episodes)]))["next"]
        observed.append({name: td["robots", "observation", name] for name in names})
        observed[-1] |= {"grounded": env.state.grounded, "reward": td["robots", "reward"][..., 0]}
    rates = (torch.stack(actions, 1) * world.vessel.max_thrust_rate).tolist()
    scenes = [
        {"config": world_settings(env.config), "episode": asdict(episode), "rates": each}
        for episode, each in zip(episodes, rates, strict=True)
    ]
    for e, frames in enumerate(in_node("harboured", scenes)):
        for number, (frame, expected) in enumerate(zip(frames, observed, strict=True)):
            for name in (*names, "grounded", *(["reward"] if number else [])):
                wanted = expected[name][e].double()
                found = np.array(frame[name], float).reshape(wanted.shape)
                if name == "shore":  # segments that share the nearest corner may be in any order
                    found, wanted = map(in_order, (found, wanted))
                np.testing.assert_allclose(found, wanted, atol=1e-7, err_msg=f"{name} in frame {number} of {e}")
    assert 3 < env.state.grounded.sum() < env.state.grounded.numel() - 3
    assert observed[0]["shore_mask"].any()
    assert len({row["self_state"][0, 0, 0].item() for row in observed}) > 50


@pytest.mark.parametrize("turn", [1, -1])
def test_a_scenario_that_was_drawn_is_a_scenario_file(turn):
    """Land is inside of the line, whichever way it was drawn."""
    config = WorldConfig()
    episode = episodes_from_scenarios(make_scenario_set("currents", config, 1).parts[0].scenarios, config)[0]
    line = [[20.0, 20.0], [20.2, 20.1], [20.0, 26.0], [24.0, 28.0], [26.0, 22.0], [20.3, 20.0]][::turn]
    route = [[12.0, 30.0], [30.0, 31.5]]
    given = {"config": world_settings(config), "episode": asdict(episode), "file": file_template(config)}
    found = in_node("drafted", given | {"line": line, "route": route})
    (read,) = parse_scenarios(found["content"])
    assert read == replace(episode, shores=read.shores, route=read.route, seed=0)
    assert read.route == [route, *[[]] * (len(read.start) - 1)] and len(read.shores) == 4
    clearance = shore_clearance(torch.tensor([[[22.0, 24.0], [19.0, 24.0]]]), torch.tensor([read.shores]))
    assert clearance[0].tolist() == pytest.approx([-2.0, 1.0], abs=0.15)
    for state in (found["again"], found["state"]):
        del state["encounters"]  # which land hides
    assert found["again"] == found["state"]
    assert found["onChart"]["shores"] == [[1, 2, 3, 4]] and found["onChart"]["start"] == read.start
    assert found["crossing"] == []


def test_the_shield_of_a_session_is_that_of_evaluations():
    """With measured radii, and discrete commands that differ between the sides."""
    vessel = {"left_thrust_change": [0.0, 1000.0, -250.0], "right_thrust_change": [200.0, -500.0, 100.0]}
    vessel["actuators"] = {"left_limit": 0.5, "right_limit": 0.9}
    config = from_dict({"agent_type": "DQN", "world": {"vessel": vessel, "sensor": {"r_mean_ratio": 0.8}}})
    torch.manual_seed(0)
    agent = make_agent(config, 9, torch.device("cpu"))
    data = data_in(make_page("uneven", config.world, policy_graphs(agent), False, None, 1.0))
    rng = np.random.default_rng(0)
    scenes = rng.uniform([20.0, 20.0, 0.0, 0.5], [42.0, 42.0, 6.28, 2.5], (8, 5, 4))
    actions = torch.from_numpy(rng.integers(9, size=(8, 5)))
    given = {"data": data, "scenario": 50, "scenes": scenes.tolist(), "actions": actions.tolist()}
    found = in_node("guardedInSession", given)
    names = {"state": "self_state", "objects": "objects_state", "mask": "objects_mask"}
    columns = {
        entry: torch.tensor([[row[name] for row in scene] for scene in found], dtype=torch.float64)
        for name, entry in names.items()
    }
    columns["objects_state"] = columns["objects_state"].unflatten(-1, (-1, 5))
    columns["objects_mask"] = columns["objects_mask"] > 0.0
    active = torch.ones(8, 5, dtype=torch.bool)
    group = TensorDict({"observation": TensorDict(columns, [8, 5]), "mask": active}, [8, 5])
    step = TensorDict({"robots": group}, [8])
    drawn = draw_scenarios(config.world, (Level(5, 0, 0, 20.0),), (1,), 0)
    shield = Shield(
        lambda step: step.set(("robots", "action"), actions),
        config.world,
        Part(config.world, drawn),
        False,
        StepShare(),
    )
    index = shield(step)["robots", "action"]
    pairs = np.array([[a, b] for a in vessel["left_thrust_change"] for b in vessel["right_thrust_change"]])
    np.testing.assert_allclose([[row["rates"] for row in scene] for scene in found], pairs[index.numpy()], atol=1e-9)
    assert 3 < (index != actions).sum() < 37


def test_the_shield_is_off_until_it_is_switched_on():
    data = data_in(page_of("ppo"))
    scenario = next(index for index, entry in enumerate(data["scenarios"]) if entry["suite"] == "rules")
    off, on = in_node("shielded", {"data": data, "scenario": scenario})
    assert off["steps"] == on["steps"] == 2
    assert off["replaced"] == 0 and on["replaced"] > 0
    assert on["thrust"] != off["thrust"] and on["thrust"][0] > on["thrust"][1]


def test_vessels_collide_with_what_they_do_not_see():
    blind = SensorConfig(range=0.1, angle=1.0)
    episode = simple_episode(
        [(10.0, 10.0, 0.0), (10.0, 15.0, 0.0), (40.0, 40.0, 0.0), (10.0, 40.0, 0.0)],
        [(50.0, 50.0)] * 4, [(40.0, 43.0, 1.0), (10.0, 44.0, 1.0)], blind,
    )  # fmt: skip
    found = in_node("collided", {"config": world_settings(episode.world), "episode": asdict(episode)})
    assert found == [True, True, True, False]


def test_noise_is_that_of_the_specification():
    config, count = data_in(page_of("dqn"))["config"], 20_000
    found = np.array(in_node("measured", {"config": config, "noise": 2.0, "count": count}))
    assert found.mean(0) == pytest.approx([10.0, 0.0, 0.0, 0.0, 0.8], abs=0.01)
    assert found.std(0)[:4] == pytest.approx(0.1, rel=0.03)
    none = np.array(in_node("measured", {"config": config, "noise": 0, "count": 2}))
    assert none.tolist() == [[10.0, 0.0, 0.0, 0.0, 1.0]] * 2
