"""Files: written whole or not at all, read back the same, refused with a sentence when damaged."""

import io
import os

import pytest
import torch

from marinenav_env import ConfigError
from tests.refusals import refusal
from tests.train_RL_agents.helpers import fail, make_inputs, seeded
from tests.train_RL_agents.tiny_runs import CPU, TINY, differences, tiny_settings
from train_RL_agents.agents import AGENTS
from train_RL_agents.api import load
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.run.checkpoint import (
    FORMAT_VERSION,
    MANIFEST_FILE,
    POLICY_FORMAT,
    TRAINING_FORMAT,
    find_policy,
    load_policy,
    load_weights,
    read_checkpoint,
    read_manifest,
    save_policy,
)
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.utils.files import write_atomically
from train_RL_agents.utils.shipped import shipped_paths

METRICS = {"success_rate": 0.5, "avg_return": -1.25, "avg_time": None, "episodes": 3}
CONTENT = {
    "format": TRAINING_FORMAT,
    "version": FORMAT_VERSION,
    "weights": {"layer": torch.arange(12.0).view(3, 4)},
    "mask": torch.tensor([True, False]),
    "rows": [{"env_steps": 8, "avg_time": None, "name": "x"}],
}


def write_policy(path, agent_type="DQN", env_steps=80, **changes):
    words = [f"{key}={value}" for key, value in changes.items()]
    config = from_dict(tiny_settings(agent_type), words)
    torch.manual_seed(env_steps)
    agent = make_agent(config, config.world.vessel.num_actions, CPU)
    save_policy(path, agent, config, env_steps, METRICS)
    return agent, config


# Reading ----------------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "state.pt"
    write_atomically(path, CONTENT)
    return path


def test_no_flipped_byte_gets_through(state):
    whole = state.read_bytes()
    bits = [(place, place % 8) for place in range(0, len(whole), 13)]
    refused = 0
    for place, bit in bits:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        state.write_bytes(damaged)
        try:
            # Paddings and time stamps say nothing.
            content = read_checkpoint(state, TRAINING_FORMAT, CPU)
            assert differences(content, CONTENT) == [], (place, bit)
        except ConfigError as error:
            refused += 1
            assert str(error).startswith(f"{state}: damaged, or not a checkpoint"), (place, bit)
            assert len(str(error).splitlines()) == 1
    assert refused > 0.5 * len(bits)


def saved_as(content, **options):
    """The bytes of a file that torch saves."""
    stream = io.BytesIO()
    torch.save(content, stream, **options)
    return stream.getvalue()


class Payload:
    def __reduce__(self):
        return os.mkdir, ("broken-in",)


DAMAGED = ": damaged, or not a checkpoint of this program; give a run or a policy_*.pt of one"
EARLIER = ": version=1: must be 2; it is of a version before 0.2, which this one does not read"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{}", DAMAGED),
        (saved_as(torch.nn.Linear(2, 2)), DAMAGED),
        (saved_as(CONTENT, _use_new_zipfile_serialization=False), DAMAGED),
        (saved_as(CONTENT | {"rows": Payload()}), DAMAGED),  # code, which is not run
        (saved_as(torch.zeros(2)), "=None: must be a marinenav training state"),
        (saved_as(CONTENT | {"format": POLICY_FORMAT}), "='marinenav policy': must be a marinenav training state"),
        (saved_as(CONTENT | {"version": 1}), EARLIER),
        (saved_as(CONTENT | {"version": 3}), ": version=3: must be 2; update marinenav"),
        (None, ": cannot be read as a checkpoint (No such file or directory)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_files_are_refused(tmp_path, monkeypatch, content, expected):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "state.pt"
    if content is not None:
        path.write_bytes(content)
    assert refusal(read_checkpoint, path, TRAINING_FORMAT, CPU) == f"{path}{expected}"
    assert refusal(read_checkpoint, tmp_path, TRAINING_FORMAT, CPU).endswith("(not a regular file)")
    assert not (tmp_path / "broken-in").exists()


def test_a_gpu_without_room_is_not_called_damage(state, monkeypatch):
    monkeypatch.setattr(torch, "load", fail(torch.OutOfMemoryError("CUDA out of memory")))
    with pytest.raises(torch.OutOfMemoryError):
        read_checkpoint(state, TRAINING_FORMAT, CPU)


# Policies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent_type", AGENTS)
def test_a_policy_acts_as_it_did(tmp_path, agent_type):
    path = tmp_path / "policy.pt"
    agent, config = write_policy(path, agent_type)
    before = torch.get_rng_state()
    loaded = load_policy(path)
    assert torch.equal(torch.get_rng_state(), before)
    inputs = make_inputs(32, generator=seeded())
    assert torch.equal(loaded.agent.act(inputs), agent.eval().act(inputs))
    assert not loaded.agent.training
    assert (loaded.config, loaded.path, loaded.env_steps) == (config, path, 80)
    assert loaded.metrics == METRICS
    weights = read_checkpoint(path, POLICY_FORMAT, CPU)["weights"]
    assert differences(dict(weights), {name: agent.networks.state_dict()[name] for name in weights}) == []


def test_a_policy_does_not_ask_for_a_gpu(tmp_path):
    path = tmp_path / "policy.pt"
    write_policy(path, **{"execution.device": "cuda"})
    assert load(path).evaluate(levels=[1], episodes=1).overall["episodes"] == 1


@pytest.fixture
def run(tmp_path):
    """A run folder with three policies."""
    run = RunFolder.create(from_dict(TINY), 4, ["marinenav"], tmp_path / "training")
    for env_steps, success in ((80, 0.2), (160, 0.6), (240, 0.4)):
        write_policy(run.checkpoints / f"policy_{env_steps}.pt", env_steps=env_steps)
        run.add_policy(f"policy_{env_steps}.pt", env_steps, METRICS | {"success_rate": success})
    return run


def test_policies_are_found_by_what_they_are(run):
    for path in (run.path, str(run.path), run.path.parent):
        assert load_policy(path).env_steps == 160
        assert load_policy(path, "best").env_steps == 160
        assert load_policy(path, "latest").env_steps == 240
        assert load_policy(path, "policy_80.pt").env_steps == 80
    single = run.checkpoints / "policy_240.pt"
    assert load_policy(single).env_steps == 240
    message = refusal(load_policy, run.path, "policy_7.pt")
    known = "best, latest, policy_160.pt, policy_240.pt, policy_80.pt"
    assert message == f"--which='policy_7.pt': must be of {run.path}, one of {known}"


def test_folders_without_a_policy_are_refused(run, tmp_path):
    (run.checkpoints / MANIFEST_FILE).unlink()
    assert read_manifest(run.checkpoints) == {"policies": []}
    assert refusal(find_policy, run.path).startswith(f"{run.path}: has no policy yet")
    said = (
        f"checkpoint={str(tmp_path / 'absent')!r}: must be a policy file or a run folder, "
        f"or one of {', '.join(shipped_paths('pretrained'))}"
    )
    assert refusal(find_policy, tmp_path / "absent") == str(ConfigError(said))  # cut in the middle if the path is long


@pytest.mark.parametrize(
    ("changes", "misfit"),
    [
        ({"agent_type": "AC-IQN"}, "actor."),
        ({"agent.critics": 1}, "critic_1."),
        ({"agent.dueling": "false"}, "critic_0.value_layer.bias is absent, here [1]"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_change_nothing(tmp_path, changes, misfit):
    path = tmp_path / "policy.pt"
    write_policy(path, **{"agent_type": "DQN", **changes})
    weights = read_checkpoint(path, POLICY_FORMAT, CPU)["weights"]
    agent, _ = write_policy(tmp_path / "own.pt")
    before = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
    message = refusal(load_weights, agent, weights, path)
    assert message.startswith(f"{path}: does not fit this agent (")
    assert misfit in message
    assert differences(dict(agent.state_dict()), before) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": None},
        {"weights": {"critic_0.bias": torch.zeros(1).expand(2**40)}},
        {"metrics": {"success_rate": "high"}},
        {"num_actions": None},
        {"env_steps": "many"},
    ],
    ids=str,
)
def test_policies_of_other_content_are_refused(tmp_path, changes):
    path = tmp_path / "policy.pt"
    write_policy(path)
    torch.save(torch.load(path) | changes, path)
    assert f"{path}{DAMAGED}" in refusal(load_policy, path)


def test_weights_of_another_boat_are_refused(tmp_path):
    small = from_dict(tiny_settings("DQN") | {"world": {"vessel": "roboboat"}})
    agent = make_agent(small, small.world.vessel.num_actions, CPU)
    _, path = write_policy(tmp_path / "policy.pt"), tmp_path / "policy.pt"
    weights = read_checkpoint(path, POLICY_FORMAT, CPU)["weights"]
    assert "self_scale is not that of this boat" in refusal(load_weights, agent, weights, path)
