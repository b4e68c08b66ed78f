"""The runtime on board against the environment and its policies."""

import copy
import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
import torch

from marinenav_env import Curriculum, Level, MarineNavEnv
from marinenav_env.physics.routes import next_waypoint
from marinenav_env.vessels import scale_of_vessel, scaled_level, vessel_files
from tests.train_RL_agents.boat.helpers import GOAL, OWN, PATIENT, ROWS, contract_of
from tests.train_RL_agents.exporting.helpers import make_policy, require_onnx
from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.quantile import nearness_risk
from train_RL_agents.boat import runtime
from train_RL_agents.boat.runtime import BoatError, Odometry, Pilot, Settings, Tracks
from train_RL_agents.exporting.deployed import DeployedAgent
from train_RL_agents.exporting.export import FORMATS, export
from train_RL_agents.policy_wrapper import PolicyWrapper

BOAT = Path(runtime.__file__).parent
EXACT = {"world.sensor.pos_std": 0.0, "world.sensor.vel_std": 0.0, "world.sensor.r_mean_ratio": 1.0}
"""A sensor without noise: what it measures is known."""
CALM = Level(5, 0, 4, 30.0)
ENCOUNTER = replace(Level(4, 0, 0, 0.0, encounter=True, traffic=0.3), speed_spread=0.5, time_spread=1.0)
"""Vessels that are under way from the start, since one at rest is no vessel yet for the runtime."""


def network_of(policy):
    """What an ONNX file computes, by torch."""
    deployed = DeployedAgent(policy.agent)

    def network(inputs):
        tensors = [torch.from_numpy(np.ascontiguousarray(each)) for each in inputs.values()]
        found = dict(zip(deployed.output_names, deployed.outputs_and_action(*tensors), strict=True))
        action = found["selected_action"].numpy()
        return (action, found["next_memory"].numpy()) if "next_memory" in found else action

    return network


# The environment in ROS's frames


def odometry_of(state, e, r, stamp=0.0):
    """A vessel: the world has x to the north, y to the east and yaw clockwise from the north."""
    north, east, heading = state.pose[e, r].tolist()
    v_north, v_east, turn = state.velocity_ground[e, r].tolist()
    cos, sin = math.cos(heading), math.sin(heading)
    forward, starboard = cos * v_north + sin * v_east, cos * v_east - sin * v_north
    return Odometry(stamp, east, north, 0.5 * math.pi - heading, forward, -starboard, -turn)


def tracks_of(env, e, r, stamp=0.0):
    state, scenario, radius = env.state, env.scenario, env.config.vessel.detect_radius
    others = [n for n in range(state.pose.shape[1]) if n != r and state.active[e, n]]
    motions = zip(state.pose[e, others].tolist(), state.velocity_ground[e, others].tolist(), strict=True)
    rows = [[y, x, vy, vx, radius] for (x, y, _), (vx, vy, _) in motions]
    headings = (0.5 * math.pi - state.pose[e, others, 2]).tolist()
    obstacles = zip(scenario.obstacle_position[e].tolist(), scenario.obstacle_radius[e].tolist(), strict=True)
    fixed = [[y, x, 0.0, 0.0, size] for (x, y), size in obstacles]
    numbers = [7 + n for n in others] + [100 + n for n in range(len(fixed))]
    return Tracks(stamp, np.array(rows + fixed), np.array(numbers, int), np.array(headings + [0.0] * len(fixed)))


def goal_of(env, e, r):
    x, y = next_waypoint(env.state, env.scenario)[e, r].tolist()
    return y, x


def setpoints_of(command, vessel):
    """Return the setpoints [1, 2] (N) of the world that a command stands for."""
    if vessel.actuators.steering == "thrusters":
        return np.array([[command.left_thrust, command.right_thrust]])
    return np.array([[command.left_thrust, -command.angle / vessel.actuators.angle_limit * vessel.max_thrust]])


def decisions(policy, pilots, steps=12, level=CALM):
    """Pairs (runtime, environment) of inputs by name and setpoints, while the policy steers."""
    world = policy.config.world
    scale = scale_of_vessel(world.vessel)
    level = scaled_level(level, scale.length, scale.speed)
    schedule = Curriculum((level,), pool_size=16, refresh_size=1)
    env = MarineNavEnv(
        world, len(pilots), scenarios=schedule, dtype=torch.float64, seed=3, continuous=policy.agent.continuous
    )
    wrapper = PolicyWrapper(copy.deepcopy(policy.agent).double(), len(pilots))
    now, tensordict = 0.0, env.reset()
    for _ in range(steps):
        tensordict = wrapper(tensordict)
        observed = tensordict["robots", "observation"]
        commands = {}
        for e, boats in enumerate(pilots):
            if not bool(env.state.active[e].all()):
                continue  # who ended is still seen in that step
            for r, pilot in enumerate(boats):
                inputs = odometry_of(env.state, e, r, now), tracks_of(env, e, r, now)
                found = pilot.inputs(*inputs, goal_of(env, e, r))
                expected = {name: entry[e, r].double().numpy() for name, entry in observed.items()}
                yield found, expected
                commands[e, r] = pilot.command(now, *inputs, goal_of(env, e, r))
        tensordict = env.step(tensordict)["next"]
        for (e, r), command in commands.items():
            assert not command.stop_reason, command
            yield {"thrust": setpoints_of(command, world.vessel)}, {"thrust": env.state.thrust[e, r].numpy()}
        now += world.control_step


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "boat"),
    [
        *((name, "published") for name in ("DQN", "IQN", "PPO")),
        ("DQN", "milliampere"),
        *(("SAC", boat) for boat in vessel_files()),
    ],
)
def test_observations_and_actions_are_the_environments(name, boat, tmp_path):
    memory = {"agent.memory.kind": {"PPO": "gru", "IQN": "frames"}.get(name, "none")}
    policy = make_policy(name, **EXACT, **memory, **({} if boat == "published" else {"world.vessel": boat}))
    contract, network = contract_of(policy, tmp_path), network_of(policy)
    pilots = [[Pilot(contract, network, PATIENT) for _ in range(5)]]
    seen = thrusts = 0
    for found, expected in decisions(policy, pilots):
        for key, each in expected.items():
            own = found[key][0]
            if key == "objects_id":  # numbers of one's own, for the same objects
                own, each = own > 0.0, each > 0.0
            np.testing.assert_allclose(own, each, rtol=0.0, atol=1e-9)
            seen += int(each.sum()) if key == "objects_mask" else 0
            thrusts += key == "thrust"
    assert seen > 20
    assert thrusts > 50


@pytest.mark.heavy
@pytest.mark.parametrize("boat", ["published", pytest.param("otter", marks=pytest.mark.slow)])
def test_duties_are_the_environments(boat, tmp_path):
    settings = {} if boat == "published" else {"world.vessel": boat}
    policy = make_policy("DQN", **EXACT, **settings, **{"world.sensor.duties": True})
    contract = contract_of(policy, tmp_path)
    pilots = [[Pilot(contract, lambda inputs: np.array([12]), PATIENT) for _ in range(4)] for _ in range(10)]
    rows = []
    for found, expected in decisions(policy, pilots, 32, ENCOUNTER):
        if "duties" in expected:  # thrusts differ, since vessels of encounters begin with one
            for key in ("objects_state", "duties"):
                np.testing.assert_allclose(found[key][0], expected[key], rtol=0.0, atol=1e-8)
            rows += [row for row in expected["duties"] if row.any()]
    seen = (np.abs(rows) > 0.0).sum(0)
    assert len(rows) > 500 and (seen > 5).all(), seen


def test_a_policy_remembers_until_a_pause(tmp_path):
    contract, seen = contract_of(make_policy("PPO", **{"agent.memory.kind": "gru"}), tmp_path), []

    def network(inputs):
        seen.append(float(inputs["memory"].mean()))
        return np.array([12]), inputs["memory"] + 1.0

    pilot = Pilot(contract, network, PATIENT)
    for now in (0.0, 0.5, 1.0, 9.0, 9.5, 10.0, 9.8, 10.3, 10.8):
        pilot.command(now, replace(OWN, stamp=now), Tracks(now, ROWS), GOAL)
    assert seen == [0.0, 1.0, 2.0, 0.0, 1.0, 0.0, 1.0]  # decisions after a pause, or before the last, are stops


def test_an_encounter_outlives_its_track(tmp_path):
    """A vessel that keeps course and speed is lost for a while, also while a pilot stops; another for good."""
    policy = make_policy("DQN", **EXACT, **{"world.sensor.duties": True})
    contract = contract_of(policy, tmp_path)
    pilots = [Pilot(contract, lambda inputs: np.array([12]), PATIENT) for _ in range(3)]
    own = Odometry(0.0, 0.0, 0.0, 0.5 * math.pi, 1.0, 0.0, 0.0)

    def given(step, numbers):
        east = {1: 12.0 - 0.5 * step, 2: -12.0 + 0.4 * step}
        rows = [[east[n], 13.0, -1.0 if n == 1 else 0.8, 0.0, 2.795] for n in numbers]
        now = 0.5 * step
        return now, replace(own, stamp=now, y=now), Tracks(now, np.reshape(rows, (-1, 5)), numbers)

    duties, lost = [], range(8, 14)
    for step in range(22):
        frames = [given(step, [1, 2]), *[given(step, [] if step in lost else [1])] * 2]
        inputs = [pilot.inputs(*frame[1:], GOAL)["duties"][0] for pilot, frame in zip(pilots, frames, strict=True)]
        for pilot, frame in zip(pilots, frames, strict=True):
            goal = None if pilot is pilots[2] and step in lost else GOAL
            assert (not pilot.command(*frame, goal).stop_reason) == (goal is GOAL)
        duties.append(inputs)
    np.testing.assert_allclose(duties[-1][2], duties[-1][1])
    for step, (expected, found, _) in enumerate(duties):
        assert found.any() == (step not in lost)
        if step not in lost:
            first = [row for row in expected if (row == found[0]).all()]
            assert len(first) == 1, step
    assert duties[-1][1][0, 5] == 1.0, "confirmed while it was lost"


def test_a_vessel_stays_one_when_it_is_lost_at_rest(tmp_path):
    contract = contract_of(make_policy("DQN", **EXACT, **{"world.sensor.duties": True}), tmp_path)
    pilot, own = Pilot(contract, lambda inputs: np.array([12]), PATIENT), replace(OWN, x=0.0, y=0.0)
    for step, (speed, ids) in enumerate([(1.0, [5]), (0.0, [5]), (0.0, []), (0.0, [5])]):
        tracks = Tracks(0.5 * step, [[0.0, 14.0, speed, 0.0, 2.0]][: len(ids)], ids)
        frame = replace(own, stamp=0.5 * step, yaw=0.5 * math.pi, forward_velocity=1.0), tracks
        found = pilot.inputs(*frame, GOAL)["duties"][0, 0]
        assert not pilot.command(0.5 * step, *frame, GOAL).stop_reason
    assert found.any()


@pytest.mark.parametrize(
    ("ids", "headings", "words"),
    [
        (None, None, "not every track has a number"),
        ([1], None, "not every track has a number"),
        ([1.5, 2.0], None, "not every track has a number"),
        ([1, 1], None, "two tracks have the same number"),
        ([1, 2], [0.0], "not every track has a heading"),
        ([1, 2], [0.0, math.nan], "headings of tracks: a value is not finite"),
    ],
)
def test_a_policy_with_duties_needs_numbered_tracks(ids, headings, words, tmp_path):
    contract = contract_of(make_policy("DQN", **{"world.sensor.duties": True}), tmp_path)
    pilot = Pilot(contract, lambda inputs: np.array([12]), PATIENT)
    assert words in pilot.command(0.0, OWN, Tracks(0.0, ROWS, ids, headings), GOAL).stop_reason


def test_nearest_objects_are_those_of_the_smallest_clearance_in_range(make_pilot):
    pilot = make_pilot()
    own = replace(OWN, x=0.0, y=0.0, yaw=0.0)
    east = [(9.0, 1.0), (10.0, 3.0), (24.0, 4.1), (24.0, 3.9), (5.0, 0.1), (6.0, 0.1), (7.0, 0.1)]
    tracks = Tracks(0.0, np.array([[x, 0.0, 0.0, 0.0, radius] for x, radius in east]))
    objects = pilot.inputs(own, tracks, GOAL)["objects_state"][0]
    assert objects[:, 0].tolist() == [5.0, 6.0, 7.0, 10.0, 9.0]
    mask = pilot.inputs(own, Tracks(0.0, tracks.objects[2:4]), GOAL)["objects_mask"][0]
    assert mask.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]  # the range is to the hull
    for rows in ([], np.zeros(0), np.zeros((0, 5)), [[]]):
        empty = pilot.inputs(own, Tracks(0.0, rows), GOAL)
        assert not empty["objects_mask"].any() and not empty["objects_state"].any()


def test_thrusts_are_observed_as_late_as_the_policys_world_commands_them(tmp_path):
    policy = make_policy("DQN", **EXACT, **{"world.weather.delay": 2})
    contract = contract_of(policy, tmp_path)
    assert contract["action"]["delay"]["value"] == 2
    pilot, action = Pilot(contract, lambda inputs: np.array([24]), PATIENT), torch.full((1, 1), 24)
    schedule = Curriculum((Level(1, 0, 0, 40.0),), pool_size=2, refresh_size=1)
    env = MarineNavEnv(policy.config.world, 1, scenarios=schedule, dtype=torch.float64, seed=3, continuous=False)
    observed, thrusts = env.reset(), []
    for step in range(6):
        given = odometry_of(env.state, 0, 0, 0.5 * step), Tracks(0.5 * step, []), goal_of(env, 0, 0)
        own = observed["robots", "observation", "self_state"][0, 0].numpy()
        np.testing.assert_allclose(pilot.inputs(*given)["self_state"][0], own, rtol=0.0, atol=1e-9)
        thrusts.append(own[5])
        assert not pilot.command(0.5 * step, *given).stop_reason
        observed = env.step(observed.set(("robots", "action"), action))["next"]
    assert thrusts == [0.0, 0.0, 0.0, 500.0, 1000.0, 1000.0]


def test_risk_is_the_policys_own_or_the_one_asked_for(make_pilot):
    own = replace(OWN, x=15.0, y=21.0)
    whole = make_pilot("IQN", replace(PATIENT, risk=1.0)).inputs(own, Tracks(0.0, ROWS), GOAL)
    usual = whole["taus"][0]
    assert usual[0] < 0.1 and usual[-1] > 0.9
    inputs = make_pilot("IQN").inputs(own, Tracks(0.0, ROWS), GOAL)
    tensors = {name: torch.from_numpy(each) for name, each in inputs.items()}
    expected = float(nearness_risk(tensors, 10.0)) * usual
    np.testing.assert_allclose(inputs["taus"][0], expected, rtol=1e-12)
    assert 0.2 < expected[0] / usual[0] < 0.5
    requested = make_pilot("IQN", replace(PATIENT, risk=0.25)).inputs(own, Tracks(0.0, ROWS), GOAL)
    np.testing.assert_allclose(requested["taus"][0], 0.25 * usual, rtol=1e-12)
    with pytest.raises(BoatError, match="this policy takes no risk level"):
        make_pilot("DQN", replace(PATIENT, risk=0.25))


def test_thrust_keeps_to_limits_and_rate(make_pilot):
    pilot = make_pilot(settings=replace(PATIENT, max_thrust=300.0, min_thrust=-100.0, max_rate=400.0))
    given = replace(OWN), Tracks(0.0, ROWS), GOAL
    for n, thrust in enumerate((200.0, 300.0, 300.0)):
        command = pilot.command(0.5 * n, replace(OWN, stamp=0.5 * n), *given[1:])
        assert (command.left_thrust, command.right_thrust, command.stop_reason) == (thrust, thrust, "")
    back = make_pilot(settings=replace(PATIENT, min_thrust=-100.0), network=lambda inputs: np.array([12]))
    assert back.command(0.0, *given).left_thrust == -100.0


def test_inputs_are_moved_on_to_the_present(make_pilot):
    own = replace(OWN, yaw=0.5 * math.pi, forward_velocity=2.0, port_velocity=1.0, yaw_rate=0.1)
    moved, rows = replace(own, x=9.5, y=21.0, yaw=0.5 * math.pi + 0.05), ROWS.copy()
    rows[:, 0] = 15.2, 18.0
    for extrapolate, expected in ((True, (moved, rows)), (False, (own, ROWS))):
        seen = []
        pilot = make_pilot(
            settings=replace(PATIENT, extrapolate=extrapolate),
            network=lambda inputs, seen=seen: seen.append(inputs) or np.array([24]),
        )
        wanted = pilot.inputs(expected[0], Tracks(0.5, expected[1]), GOAL)
        assert not pilot.command(0.5, own, Tracks(0.1, ROWS), GOAL).stop_reason
        for name, each in seen[0].items():
            np.testing.assert_allclose(each, wanted[name], atol=1e-12, err_msg=name)


def test_it_stops_at_the_goal(make_pilot):
    command = make_pilot().command(0.0, replace(OWN, x=49.0), Tracks(0.0, ROWS), GOAL)
    assert command == runtime.Command(0.0, 0.0, "the goal is reached")


# Refusals


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_thrust": 2000.0}, "max_thrust: must be from 0 to 1000, not 2000.0"),
        ({"min_thrust": 10.0}, "min_thrust: must be from -500 to 0, not 10"),
        ({"max_rate": math.nan}, "max_rate: must be from 0 to 1000, not nan"),
        ({"max_gap": 0.1}, "max_gap: must be from 0.5"),
        ({"max_gap": "1"}, "max_gap: must be from 0.5 to 10000, not 1"),
        ({"risk": 1.5}, r"risk: must be in \(0, 1\], not 1.5"),
        ({"risk": "adaptive"}, r"risk: must be in \(0, 1\], not adaptive"),
        ({"boat": "wamv"}, "the policy is for the boat published, not for wamv"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, words, make_pilot):
    with pytest.raises(BoatError, match=words):
        make_pilot("IQN", Settings(**settings))


@pytest.mark.parametrize(
    ("stated", "version", "words"),
    [
        ({}, runtime.CONTRACT_VERSION - 1, "of another version, export the policy again"),
        ({"world.sensor.scan_beams": 4}, None, "needs inputs that a boat does not have here: scan"),
        ({"world.vessel.max_thrust": [900.0, 1000.0]}, None, "has a thrust of its own for every robot"),
        (
            {"world.vessel.actuators.steering": ["azimuth", "thrusters"]},
            None,
            "has a steering of its own for every robot",
        ),
    ],
)
def test_contracts_that_do_not_fit_are_refused(stated, version, words, tmp_path):
    contract = contract_of(make_policy("DQN", **stated), tmp_path)
    with pytest.raises(BoatError, match=words):
        Pilot(contract | ({} if version is None else {"version": version}), None)
    with pytest.raises(BoatError, match="no contract of an ONNX policy"):
        Pilot.load(tmp_path)


def test_a_boat_is_compared_with_its_name_and_its_file(tmp_path):
    contract = contract_of(make_policy("DQN", **{"world.vessel": "otter"}), tmp_path)
    content, file = json.loads(vessel_files()["otter"].read_text()), tmp_path / "boat.json"
    numbers = content["vessel"]
    assert contract["boat"] == {"name": "otter", "steering": "thrusters"}
    for boat in ("", "otter", str(vessel_files()["otter"])):
        assert Pilot(contract, None, Settings(boat=boat)).steering == "thrusters"
    for changes, words in (
        ({"vessel": numbers | {"m": 90.0}}, "the policy is for a boat with m=80.0, not 90.0"),
        ({"vessel": numbers | {"actuators": {"lag": {"value": 0.5}}}}, "with lag=1.0, not 0.5"),
        ({"name": "mine"}, "the policy is for the boat otter, not for mine"),
        (None, r"boat\.json: no vessel file"),
    ):
        file.write_text("{" if changes is None else json.dumps(content | changes))
        with pytest.raises(BoatError, match=words):
            Pilot(contract, None, Settings(boat=str(file)))
    del contract["config"]["world"]["vessel"]["name"]  # as of earlier versions
    Pilot(contract, None, Settings(boat="published"))


def test_an_angle_keeps_its_limit_whatever_the_thrust_may_be(tmp_path):
    contract = contract_of(make_policy("DDPG", **{"world.vessel": "milliampere"}), tmp_path)
    assert contract["action"]["angle_limit"]["value"] == 1.0472
    pilot = Pilot(contract, lambda inputs: np.ones((1, 2)), replace(PATIENT, max_thrust=300.0, max_rate=200.0))
    assert pilot.steering == "azimuth"
    for step in range(12):
        now = pilot.control_step * step
        command = pilot.command(now, replace(OWN, stamp=now), Tracks(now, ROWS), GOAL)
        assert command.left_thrust == pytest.approx(min(300.0, 200.0 * pilot.control_step * (step + 1)))
        assert (command.right_thrust, command.stop_reason) == (0.0, "")
    assert command.angle == pytest.approx(-1.0472)
    stopped = pilot.command(now, None, None, None)
    assert (stopped.left_thrust, stopped.right_thrust, stopped.angle) == (0.0, 0.0, 0.0) and stopped.stop_reason


# Without torch, and on board


def python(*words, cwd):
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=cwd, env={"PATH": "", "PYTHONPATH": ""}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


LOADED = "import sys; print(sorted({each.partition('.')[0] for each in sys.modules}))"


@pytest.mark.heavy
def test_the_runtime_imports_numpy_alone(tmp_path):
    loaded = python("-c", f"import train_RL_agents.boat.runtime; {LOADED}", cwd=BOAT.parents[1])
    assert "'numpy'" in loaded and "'torch'" not in loaded
    shutil.copytree(BOAT, tmp_path / "boat", ignore=shutil.ignore_patterns("__pycache__"))
    loaded = python("-c", f"import boat.runtime; {LOADED}", cwd=tmp_path)
    assert "'numpy'" in loaded
    assert not any(f"'{name}'" in loaded for name in ("torch", "train_RL_agents", "marinenav_env"))


@pytest.mark.heavy
def test_the_package_is_copied_beside_onnx_files(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "onnx", FORMATS["torchscript"])  # which needs no package
    export(make_policy("DQN"), tmp_path, ["onnx"])
    names = {each.name for each in (tmp_path / "boat").iterdir()}
    assert names == {each.name for each in BOAT.glob("*.py")} >= {"runtime.py", "shield.py", "ros_node.py"}
    assert (tmp_path / "boat" / "runtime.py").read_text() == (BOAT / "runtime.py").read_text()


@pytest.fixture(scope="module")
def boats(tmp_path_factory):
    """From an agent's name to a folder with its policy for a boat."""
    require_onnx()

    @cache
    def make(name, dtype=torch.float64):
        folder = tmp_path_factory.mktemp(name)
        export(make_policy(name, **EXACT), folder, ["onnx"], dtype)
        return folder

    return make


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["DQN", "IQN", "SAC"])
def test_onnx_policies_steer_as_the_environments(name, dtype, boats):
    pilots = [[Pilot.load(boats(name, dtype), PATIENT) for _ in range(5)]]
    for found, expected in decisions(make_policy(name, **EXACT), pilots):
        for key, each in expected.items():
            # The arc tangent is of float32, and thrusts are of hundreds of newtons.
            np.testing.assert_allclose(found[key][0], each, rtol=0.0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_a_decision_takes_less_than_a_millisecond_of_a_core(name, boats):
    pilot, seconds = Pilot.load(boats(name), PATIENT), []
    for n in range(300):
        given = replace(OWN, stamp=0.5 * n), Tracks(0.5 * n, ROWS), GOAL
        began = perf_counter()
        assert pilot.command(0.5 * n, *given).stop_reason == ""
        seconds.append(perf_counter() - began)
    assert np.median(seconds) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DQN", "IQN", "SAC"])
def test_an_exported_folder_is_all_that_a_boat_needs(name, boats):
    code = (
        "from boat.runtime import *; import numpy as np; "
        "pilot = Pilot.load('.', Settings(max_seconds=60.0)); "
        "print(pilot.command(0.0, Odometry(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), "
        f"Tracks(0.0, np.zeros((0, 5))), (20.0, 0.0)).stop_reason == ''); {LOADED}"
    )
    printed = python("-c", code, cwd=boats(name))
    assert printed.startswith("True")
    assert not any(f"'{name}'" in printed for name in ("torch", "train_RL_agents", "marinenav_env"))


@pytest.mark.slow
def test_a_file_with_other_outputs_is_refused_on_board(boats, tmp_path):
    shutil.copytree(boats("DQN"), tmp_path, dirs_exist_ok=True)
    contract = json.loads((tmp_path / "contract.json").read_text())
    contract["examples"]["action"][3] += 1
    (tmp_path / "contract.json").write_text(json.dumps(contract))
    with pytest.raises(BoatError, match="the contract's examples lead to other actions"):
        Pilot.load(tmp_path)
