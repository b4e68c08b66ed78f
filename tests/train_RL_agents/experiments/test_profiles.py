"""Sizes by profile: what they set, what wins over them, and what auto chooses."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.trainer_configs import OnPolicyConfig
from train_RL_agents.config.reading import from_dict
from train_RL_agents.experiments.profiles import PROFILE_FACTORS, apply_profile, profile_sizes, size_config

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
GIB = 2**30
A2C = from_dict({"agent_type": "A2C"}).trainer
ROLLOUT = A2C.num_envs * A2C.rollout_steps


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of so many GiB, as far as profiles can see."""

    def appear(memory, free=None):
        found = SimpleNamespace(total_memory=round(memory * GIB))
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
        there = (memory if free is None else free) * GIB
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (there, memory * GIB))
        monkeypatch.setattr("train_RL_agents.experiments.memory_plan.free_host_memory", lambda: 64 * GIB)

    return appear


@pytest.mark.parametrize("agent", ["DQN", "PPO"])
@pytest.mark.parametrize("profile", PROFILE_FACTORS)
@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_named_profile_sets_all_but_what_was_stated(agent, profile, device):
    config = from_dict({"agent_type": agent, "trainer": {"batch_size": 100, "gamma": 0.5}})
    stated = {"trainer.batch_size", "trainer.gamma", "seed"}
    known = AGENTS[agent]
    sizes = profile_sizes(known.algorithm, profile, **known.trainer_defaults)
    sizes |= {"batch_size": 100}
    trainer = apply_profile(config, profile, stated, device).trainer
    assert trainer == replace(config.trainer, **sizes)
    assert trainer.gamma == 0.5


@pytest.mark.parametrize("profile", PROFILE_FACTORS)
def test_a_step_is_learned_from_as_often_with_every_profile(profile):
    sizes = profile_sizes("off-policy", profile)
    assert sizes["batch_size"] / sizes["train_freq"] == 4.0
    # Of a rollout there are as many updates.
    sizes, default = profile_sizes("on-policy", profile), OnPolicyConfig()
    assert sizes.keys() == {"num_envs", "batch_size"}
    ratio = default.num_envs / default.batch_size
    assert sizes["num_envs"] / sizes["batch_size"] == ratio


@pytest.mark.parametrize(
    ("agent", "memory", "steps", "factor"),
    [
        *(("AC-IQN", memory, 10**9, factor) for memory, factor in ((4, 1), (7.8, 8), (15.6, 16), (141, 64))),
        *(("AC-IQN", 80, steps, factor) for steps, factor in ((4_000_000, 2), (1, 1))),
        *(
            ("A2C", memory, rollouts * ROLLOUT, factor)
            for memory, rollouts, factor in ((8, 10**6, 8), (80, 10**6, 64), (80, 959, 2), (80, 960, 4), (80, 1, 1))
        ),
    ],
)
def test_auto_takes_what_the_gpu_holds_and_the_run_has_updates_for(gpu, agent, memory, steps, factor):
    gpu(memory)
    config = from_dict({"agent_type": agent, "total_timesteps": steps})
    trainer = apply_profile(config, "auto", set(), GPU).trainer
    for name in trainer.coupled_sizes:
        assert getattr(trainer, name) == factor * getattr(config.trainer, name)
    assert agent == "A2C" or trainer.buffer_size >= 1_000_000


@pytest.mark.parametrize("agent", ["DQN", "PPO"])
def test_auto_leaves_the_recipe_if_any_of_it_was_stated(gpu, agent):
    gpu(80)
    config = from_dict({"agent_type": agent, "total_timesteps": 10**9, "trainer": {"num_envs": 32}})
    trainer = apply_profile(config, "auto", {"trainer.num_envs"}, GPU).trainer
    own = {} if agent == "PPO" else {"buffer_size": 20_000_000}
    assert trainer == replace(config.trainer, **own)


@pytest.mark.heavy
def test_auto_moves_replay_that_does_not_fit_to_the_host(gpu):
    gpu(80, free=2)
    config = from_dict({"total_timesteps": 10**9, "trainer": {"num_envs": 256}})
    for profile, stated, storage in (
        ("auto", set(), "host"),
        ("auto", {"trainer.replay_storage"}, "device"),
        ("80gb", set(), "device"),
    ):
        sized = size_config(config, profile, {"trainer.num_envs", *stated}, GPU)
        assert sized.config.trainer.replay_storage == storage
        assert (max(map(sized.memory_plan.missing_bytes, sized.memory_plan.free_bytes)) <= 0) == (storage == "host")
    gpu(80)
    assert size_config(config, "auto", set(), GPU).config.trainer.replay_storage == "device"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--profile", "7gb"], "profile='7gb': must be one of auto, none, cpu"),
        (["trainer.buffer_size=10000000000"], "trainer.buffer_size=10000000000: must be at most "),
        (["imitation_learning=true", f"teacher={'t/' * 2500}"], "t/t/"),
    ],
)
def test_a_run_that_cannot_be_leaves_no_folder(tmp_path, capsys, words, message):
    said = refused(capsys, "train", f"save_dir={tmp_path / 'runs'}", *words)
    assert said.startswith(message) and len(said) < 400
    assert not any((tmp_path / "runs").glob("*"))
    # The parent is made before a teacher is looked for.
    assert message == "t/t/" or not (tmp_path / "runs").exists()
