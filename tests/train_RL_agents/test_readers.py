"""Every reader of files: whatever is in one, it is taken or refused in one short sentence."""

import copy
import json
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

pytest.importorskip("hypothesis", reason="needs the extra test")
from hypothesis import given, settings
from hypothesis import strategies as st

from marinenav_env import ConfigError
from marinenav_env.scenarios.episode import episodes_from_scenarios
from marinenav_env.scenarios.scenario_file import parse_scenarios, scenario_text
from marinenav_env.waters.charts import Chart, read_chart
from tests.marinenav_env.helpers import DATA
from tests.train_RL_agents.boat.helpers import GOAL, OWN, ROWS
from tests.train_RL_agents.run.helpers import program_of
from tests.train_RL_agents.tiny_runs import CPU, TINY, new_run, tiny_settings
from train_RL_agents.boat import runtime
from train_RL_agents.boat.runtime import Tracks
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict, iterate_settings, restore_config, to_dict
from train_RL_agents.evaluation.running import recording
from train_RL_agents.evaluation.running.baselines import BASELINES
from train_RL_agents.evaluation.running.episodes import draw_scenarios
from train_RL_agents.experiments.study import read_study
from train_RL_agents.exporting.contract import make_contract
from train_RL_agents.figures.curves import curve_table, read_runs
from train_RL_agents.figures.episode_view import view_episode
from train_RL_agents.figures.replay_page import make_page
from train_RL_agents.run import onnx_policy
from train_RL_agents.run.checkpoint import (
    POLICY_FORMAT,
    LoadedPolicy,
    load_policy,
    read_checkpoint,
    read_manifest,
    save_policy,
)
from train_RL_agents.run.loggers import open_loggers
from train_RL_agents.run.published import published_config, read_weights
from train_RL_agents.run.run_folder import RunFolder, read_evaluations

CONFIG = from_dict(TINY)
KEYS = sorted(setting.key for setting in iterate_settings(CONFIG))
METRICS = {"success_rate": 0.5, "avg_return": 1.0, "avg_time": None}
QUICK = settings(max_examples=20, derandomize=True, deadline=None, database=None)
"""The same few examples every time."""
SCALARS: list[Any] = [
    None, True, -1, 0, 0.5, 2**63, 10**400, 1e9, 1e308, -1e308, 1e-300, math.nan, math.inf,
    "", "x" * 5000, "a\0b", "\ud800", "../../etc", "$\\frac", [], {}, [[]], [None], [1e308] * 3,
    [10**9] * 2, {"a": {}},
]  # fmt: skip
TENSORS: list[Any] = [
    torch.zeros(1).expand(2**40),
    torch.tensor(math.nan),
    torch.zeros(0),
    torch.zeros(3, 3),
    torch.tensor([5, -1]),
    torch.tensor(True),
    torch.zeros(2, 2).to_sparse(),
    torch.full((2,), 1e9),
    torch.zeros(2, device="meta"),
    torch.zeros(2, dtype=torch.complex64),
]


# What others might write into files, and what readers may answer ---------------------------------


def answers(read: Callable[[], Any]) -> bool:
    """Whether a reader accepts what it is given; if not, it must say so in one short sentence."""
    try:
        read()
    except ConfigError as error:
        assert "\n" not in str(error)
        assert len(f"marinenav: error: {error}") < 400
        return False
    return True


def _places(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys that lead to every part of a tree."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, part in parts:
        yield (*place, key)
        if isinstance(part, dict | list):
            yield from _places(part, (*place, key))


@st.composite
def damaged_trees(draw: Any, tree: Any, values: list[Any]) -> Any:
    """A nested dict or list in which one part is replaced, removed, repeated or renamed."""
    place = draw(st.sampled_from(list(_places(tree))))
    tree = copy.deepcopy(tree)
    parent, key = tree, place[-1]
    for step in place[:-1]:
        parent = parent[step]
    act = draw(st.sampled_from(["replace", "replace", "remove", "repeat", "rename"]))
    if act == "remove":
        del parent[key]
    elif act == "repeat":
        parent[key] = [parent[key]] * 3
    elif act == "rename" and isinstance(parent, dict):
        parent[f"{key}\0"] = parent.pop(key)
    else:
        parent[key] = draw(st.sampled_from(values))
    return tree


@st.composite
def damaged_bytes(draw: Any, whole: bytes) -> bytes:
    """A file that is cut, or in which some bytes are others."""
    place = draw(st.integers(0, len(whole) - 1))
    act = draw(st.sampled_from(["cut", "flip", "zeros", "insert", "double"]))
    if act == "cut":
        return whole[:place]
    if act == "double":
        return whole + whole
    middle = {
        "flip": bytes([whole[place] ^ (1 << draw(st.integers(0, 7)))]),
        "zeros": bytes(8),
        "insert": whole[place : place + 1] + b"\xff\0",
    }[act]
    skipped = 8 if act == "zeros" else 1
    return whole[:place] + middle + whole[place + skipped :]


@st.composite
def damaged_arrays(draw: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays by name, of which one is of other numbers, of another type or shape, or missing."""
    name = draw(st.sampled_from(sorted(arrays)))
    array = np.asarray(arrays[name])
    changes: list[Callable[[], Any]] = [
        lambda: array[:0] if array.ndim else np.zeros(0),
        lambda: array[None],
        lambda: array.ravel(),
        lambda: np.array("x"),
        lambda: np.array(b"x"),
        lambda: np.zeros(array.shape, np.complex64),
        lambda: np.zeros(array.shape, ">f8"),
        lambda: np.zeros(array.shape, np.longdouble),
        lambda: np.zeros(array.shape, "M8[s]"),
        lambda: np.full(array.shape, np.nan, np.float32),
        lambda: np.full(array.shape, 10**6),
        lambda: np.full(array.shape, -1e30, np.float32),
        lambda: np.full(array.shape, True),
    ]
    rest = {each: value for each, value in arrays.items() if each != name}
    return rest | draw(st.sampled_from([{}, *({name: change()} for change in changes)]))


# Readers ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one good file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    config = from_dict(tiny_settings("PPO"))
    torch.manual_seed(0)
    agent = make_agent(config, config.world.vessel.num_actions, CPU)
    save_policy(folder / "policy.pt", agent, config, 8, METRICS)
    schedule, world = CONFIG.eval_schedule, CONFIG.world
    drawn = draw_scenarios(world, schedule.levels, schedule.num_episodes, 0)
    _, seen = recording.record(
        BASELINES["straight"](world),
        drawn,
        world,
        name="straight",
        groups=["all"] * len(drawn),
        continuous=True,
        device=CPU,
    )
    recording.save(seen, folder / "seen.npz")
    (folder / "scenarios.json").write_text(scenario_text(episodes_from_scenarios(drawn, world)))
    net = make_agent(published_config("DQN"), 25, CPU).networks
    torch.save(dict(net["critic_0"].named_parameters()), folder / "weights.pt")
    (folder / "program.pt").write_bytes(program_of("DQN"))
    run = new_run(folder)
    run.write_evaluations(
        [{"env_steps": 8, "wall_time": 1.5, "success_rate": 0.5}] * 2,
        {"timesteps": [8, 16], "successes": np.ones((2, 3)), "rewards": np.zeros((2, 3))},
    )
    run.add_policy("policy_8.pt", 8, METRICS)
    (folder / "chart.json").write_bytes((DATA / "waters/miami_marina_300.json").read_bytes())
    read_chart(folder / "chart.json").save(folder / "harbour.json")
    (folder / "tiny.json").write_text(json.dumps(TINY))
    study = {
        "agents": [str(folder / "tiny.json")],
        "seeds": [0],
        "settings": {"a": {"seed": 1}},
        "common": {"eval_freq": 80},
        "suites": {"fresh": {"episodes": 1, "seed": 3}},
        "which": "best",
    }
    (folder / "study.json").write_text(json.dumps(study))
    return folder


@QUICK
@given(st.data())
def test_settings(data):
    tree = data.draw(damaged_trees(to_dict(CONFIG), SCALARS))
    answers(lambda: restore_config(json.loads(json.dumps(tree)), "x"))
    key, value = data.draw(st.sampled_from(KEYS)), data.draw(st.sampled_from(SCALARS))
    answers(lambda: from_dict(TINY, [f"{key}={value}"]))
    answers(lambda: from_dict({key: value, "": value}))


READERS = {
    "scenarios.json": lambda path: parse_scenarios(json.loads(path.read_text())),
    "chart.json": read_chart,
    "harbour.json": lambda path: Chart.load(path).sample(),
    "study.json": read_study,
}


@QUICK
@given(st.data())
@pytest.mark.parametrize("name", READERS)
@pytest.mark.filterwarnings("ignore:scenarios. left out unknown keys")
def test_files_of_json(folder, name, data):
    path = folder / name
    whole = path.read_text()
    path.write_text(json.dumps(data.draw(damaged_trees(json.loads(whole), SCALARS))))
    try:
        answers(lambda: READERS[name](path))
    finally:
        path.write_text(whole)


@QUICK
@given(st.data())
def test_bytes_of_every_kind(folder, data):
    readers = {
        "policy.pt": load_policy,
        "seen.npz": recording.load,
        "weights.pt": read_weights,
        "program.pt": load_policy,
        "seed_0/evaluations.npz": lambda path: read_runs([path]),
        "seed_0/evaluations.csv": lambda path: read_runs([path.with_suffix(".npz")]),
        "seed_0/checkpoints/manifest.json": lambda path: read_manifest(path.parent),
    }
    name = data.draw(st.sampled_from(sorted(readers)))
    path, whole = folder / name, (folder / name).read_bytes()
    path.write_bytes(data.draw(damaged_bytes(whole)))
    try:
        answers(lambda: readers[name](path))
    finally:
        path.write_bytes(whole)


@QUICK
@given(st.data())
def test_policies(folder, data):
    path, other = folder / "policy.pt", folder / "other.pt"
    content = read_checkpoint(path, POLICY_FORMAT, CPU)
    if data.draw(st.booleans()):
        config = data.draw(damaged_trees(json.loads(content["config"]), SCALARS))
        content["config"] = json.dumps(config)
    else:
        content = data.draw(damaged_trees(content, SCALARS + TENSORS))
    torch.save(content, other)
    if answers(lambda: load_policy(other)):
        weights = load_policy(other).agent.networks.parameters()
        assert all(each.isfinite().all() for each in weights)


@QUICK
@given(st.data())
def test_published_weights(folder, data):
    path = folder / "other_weights.pt"
    content = torch.load(folder / "weights.pt", weights_only=True)
    torch.save(data.draw(damaged_trees(content, SCALARS + TENSORS)), path)
    answers(lambda: read_weights(path))


@QUICK
@given(st.data())
def test_manifests(folder, data):
    path = folder / "seed_0" / "checkpoints" / "manifest.json"
    before = path.read_text()
    path.write_text(json.dumps(data.draw(damaged_trees(json.loads(before), SCALARS))))
    try:
        if answers(lambda: read_manifest(path.parent)):
            RunFolder.open(folder / "seed_0").add_policy("policy_16.pt", 16, METRICS)
    finally:
        path.write_text(before)


@QUICK
@given(st.data())
def test_recordings(folder, data):
    path, other = folder / "seen.npz", folder / "other.npz"
    with np.load(path) as file:
        arrays = dict(file)
    if data.draw(st.booleans()):
        about = data.draw(damaged_trees(json.loads(str(arrays["about"])), SCALARS))
        arrays["about"] = np.array(json.dumps(about))
    else:
        arrays = data.draw(damaged_arrays(arrays))
    np.savez(other, **arrays)
    if answers(lambda: recording.load(other)):
        views = [view_episode(recording.load(other), number) for number in (1, 2, 3)]
        assert make_page([views])


@QUICK
@given(st.data())
def test_evaluations(folder, data):
    path = folder / "seed_0" / "other.npz"
    with np.load(path.with_name("evaluations.npz")) as file:
        np.savez(path, **data.draw(damaged_arrays(dict(file))))
    answers(lambda: curve_table({"all": read_runs([path])}))
    table = folder / "evaluations.csv"
    whole = b"env_steps,train_time,wall_time\n8,1.5,2.5\n"
    table.write_bytes(data.draw(damaged_bytes(whole)))
    answers(lambda: read_evaluations(folder))


@QUICK
@given(st.data())
def test_contracts(folder, data):
    policy = LoadedPolicy(make_agent(CONFIG, 25, CPU), CONFIG, folder, 7, {})
    contract = json.loads(json.dumps(make_contract(policy, {})))
    path, examples = folder / "DQN.onnx", contract["examples"]
    path.write_bytes(b"x" * 100_000)
    (folder / "contract.json").write_text(json.dumps(data.draw(damaged_trees(contract, SCALARS))))
    outputs = {"selected_action": np.array(examples["action"])}
    outputs |= {name: np.array(rows) for name, rows in examples["outputs"].items()}
    with patch.object(onnx_policy, "load_outputs", lambda file: lambda inputs: outputs):
        answers(lambda: onnx_policy.load_onnx_policy(path))


@QUICK
@given(st.data())
def test_contracts_on_board(folder, data):
    action = {
        "control_step": {"value": 0.5},
        "thrust_limits": {"value": [-500.0, 1000.0]},
        "rates": {"value": [[0.0, 0.0], [100.0, 0.0]]},
    }
    seen = {"max_objects": 5, "range": [20.0, 20.0], "angle": 6.28}
    contract = {
        "version": runtime.CONTRACT_VERSION,
        "files": {"onnx": {"file": "x.onnx"}},
        "action": action,
        "inputs": [
            {"name": "self_state"},
            {"name": "objects_state", "shape": [1, 5], "seen": seen},
            {"name": "taus", "usual": [0.5], "risk": "adaptive"},
        ],
        "goal_distance": {"value": 2.0},
        "examples": {"tolerance": 1e-5, "inputs": {"x": [[1.0]]}, "action": [0]},
    }
    content = json.dumps(data.draw(damaged_trees(contract, SCALARS)))
    (folder / "contract.json").write_text(content)
    with patch.object(runtime, "load_network", lambda file: lambda inputs: np.zeros(1)):
        try:
            pilot = runtime.Pilot.load(folder)
        except runtime.BoatError as error:
            assert "\n" not in str(error)
            return
    assert math.isfinite(pilot.control_step)
    command = pilot.command(0.0, OWN, Tracks(0.0, ROWS), GOAL)
    assert math.isfinite(command.left_thrust) and math.isfinite(command.right_thrust)


@QUICK
@given(st.data())
def test_tables_of_loggers(folder, data):
    table = folder / "csv" / "scalars" / "loss.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_bytes(data.draw(damaged_bytes(b"8,0.5\n16,0.25\n24,0.125\n")))
    # A logger that fails is left out, with a warning.
    config = from_dict(TINY, ["loggers=csv"])
    for each in open_loggers(folder, config, 16, []):
        each.log({"loss": 1.0}, 24)
        each.close()
