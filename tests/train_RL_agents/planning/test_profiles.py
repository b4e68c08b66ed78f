"""Sizes by profile: what they set, what wins over them, and what auto chooses."""

from types import SimpleNamespace

import pytest
import torch

from marinenav_env import ConfigError
from train_RL_agents.agents import AGENTS
from train_RL_agents.cli import main
from train_RL_agents.config.reading import default_config, from_dict, stated_keys
from train_RL_agents.planning.profiles import (
    CHOICES,
    KEYS,
    PROFILES,
    RECIPE,
    apply_profile,
    automatic,
    planned,
)

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
GIB = 2**30


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of so many GiB, as far as profiles can see."""

    def appear(memory, free=None):
        found = SimpleNamespace(total_memory=memory * GIB)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
        there = {True: 64 * GIB, False: (memory if free is None else free) * GIB}
        monkeypatch.setattr("train_RL_agents.planning.plan._free", lambda device: there)

    return appear


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("profile", ["auto", "none", "cpu"])
def test_on_the_cpu_nothing_changes(agent, profile):
    config = default_config(agent)
    assert apply_profile(config, profile, set(), CPU) == config


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_named_profile_sets_all_but_what_was_stated(profile, device):
    config = from_dict({"trainer": {"batch_size": 100, "gamma": 0.5}})
    stated = {"trainer.batch_size", "trainer.gamma", "seed"}
    trainer = apply_profile(config, profile, stated, device).trainer
    assert {name: getattr(trainer, name) for name in KEYS} == PROFILES[profile] | {
        "batch_size": 100
    }
    assert trainer.gamma == 0.5


def test_a_transition_is_learned_from_as_often_with_every_profile():
    assert {each["batch_size"] / each["train_freq"] for each in PROFILES.values()} == {4.0}


@pytest.mark.parametrize(
    ("memory", "steps", "factor"),
    [(4, 10**9, 1), (7.8, 10**9, 8), (12, 10**9, 8), (15.6, 10**9, 16), (80, 10**9, 64),
     (141, 10**9, 64), (80, 4_000_000, 2), (80, 40_000_000, 16), (80, 1, 1)],
)  # fmt: skip
def test_auto_takes_what_the_gpu_holds_and_the_run_has_updates_for(memory, steps, factor):
    sizes = automatic(round(memory * GIB), steps)
    assert {name: sizes[name] for name in RECIPE} == {
        "num_envs": 256 * factor, "batch_size": 512 * factor, "train_freq": 128 * factor
    }  # fmt: skip
    assert sizes["buffer_size"] >= 1_000_000


def test_auto_leaves_the_recipe_if_any_of_it_was_stated(gpu):
    gpu(80)
    config = from_dict({"total_timesteps": 10**9, "trainer": {"num_envs": 32}})
    trainer = apply_profile(config, "auto", {"trainer.num_envs"}, GPU).trainer
    assert (trainer.num_envs, trainer.batch_size, trainer.train_freq) == (32, 512, 128)
    assert trainer.buffer_size == PROFILES["80gb"]["buffer_size"]


def test_auto_moves_replay_that_does_not_fit_to_the_host(gpu):
    gpu(80, free=2)
    config = from_dict({"total_timesteps": 10**9, "trainer": {"num_envs": 256}})
    for profile, stated, storage in (
        ("auto", set(), "host"),
        ("auto", {"trainer.replay_storage"}, "device"),
        ("80gb", set(), "device"),
    ):
        found, plan = planned(config, profile, {"trainer.num_envs", *stated}, GPU)
        assert found.trainer.replay_storage == storage
        assert plan.fits == (storage == "host")
    gpu(80)
    assert planned(config, "auto", set(), GPU)[0].trainer.replay_storage == "device"


def test_unknown_profiles_are_refused():
    with pytest.raises(ConfigError) as caught:
        apply_profile(default_config("DQN"), "7gb", set(), CPU)
    assert str(caught.value) == f"profile='7gb': must be one of {', '.join(CHOICES)}"


def test_stated_keys_are_those_of_file_and_arguments(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"trainer": {"num_envs": 3}, "trainer.gamma": 0.9, "seed": 1}')
    assert stated_keys(file, ["device=cpu"]) == {
        "trainer.num_envs", "trainer.gamma", "seed", "device"
    }  # fmt: skip
    assert stated_keys(None) == set()


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--profile", "7gb"], "profile='7gb': must be one of auto, none, cpu"),
     (["trainer.buffer_size=10000000000"], "trainer.buffer_size=10000000000: must be at most ")],
)  # fmt: skip
def test_a_run_that_cannot_be_leaves_no_folder(tmp_path, capsys, words, message):
    assert main(["train", f"save_dir={tmp_path / 'runs'}", *words]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"marinenav: error: {message}")
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "runs").exists()
