"""Published weights: imported networks answer as published, and become policies like any other."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.train_RL_agents.helpers import each_entry, explored
from tests.train_RL_agents.run.helpers import PROBE, import_command, named_weights, observed, read_probe, weights_of
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.iqn import IQNConfig
from train_RL_agents.commands.cli import main
from train_RL_agents.config.reading import load_config
from train_RL_agents.run.checkpoint import save_policy
from train_RL_agents.run.published import PUBLISHED_AGENTS, import_agent, published_config

ROOT = Path(__file__).parents[3]
FAITHFUL = {load_config(path).agent_type: path for path in (ROOT / "configs/faithful").iterdir()}
PROBED = ("IQN", "SAC")


@pytest.fixture(scope="module")
def probe():
    return read_probe()


@pytest.mark.parametrize("name", PROBED)
def test_published_networks_answer_as_published(probe, name):
    agent = import_agent(name, weights_of(probe, name), PROBE)
    network = agent.networks[agent.output_networks()[0]].double()
    given, taus = observed(probe), torch.from_numpy(probe["taus"])
    answer = network(given, taus) if name == "IQN" else network(given)
    for index, part in enumerate(answer if isinstance(answer, tuple) else (answer,)):
        assert part.dtype == torch.float64
        expected = torch.from_numpy(probe[f"{name}/answer/{index}"])
        torch.testing.assert_close(part, expected, atol=1e-6, rtol=0.0)


def test_imported_policies_evaluate_like_any_other(capsys, tmp_path, probe):
    path, out = tmp_path / "policy.pt", tmp_path / "policy.json"
    save_policy(path, import_agent("SAC", weights_of(probe, "SAC"), PROBE), published_config("SAC"), 0, {})
    words = ["--levels", "1", "--episodes", "2", "--stochastic", "-D", "cpu", "--json", str(out)]
    assert main(["evaluate", str(path), *words]) == 0
    # Untrained ones never arrive.
    assert json.loads(out.read_text())["figures"]["overall"]["robot_success_rate"] > 0.0
    capsys.readouterr()


def test_published_iqn_acts_on_random_fractions_while_training(probe):
    """Then every robot draws its own: equal observations get different actions."""
    agent = import_agent("IQN", weights_of(probe, "IQN"), PROBE)
    given = each_entry(observed(probe), lambda each: each[:, None].expand(-1, 200, *each.shape[1:]).float())
    with torch.no_grad():
        steady, drawn = agent.act(given), explored(agent, given)
        assert torch.equal(explored(agent, given), drawn)
        assert not torch.equal(explored(agent, given, seed=1), drawn)
    assert (steady == steady[:, :1]).all()
    assert (drawn != drawn[:, :1]).any()
    # The steady choice is what most draws lead to, or close.
    assert (drawn == steady).float().mean() > 0.3
    assert IQNConfig().random_fractions is False


def changed(**changes):
    """The weights of DQN with others; None: without them."""
    weights = named_weights("DQN") | {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in weights.items() if value is not None}


PICKLED = np.array([{}], dtype=object)


@pytest.mark.parametrize(
    ("agent", "file", "content", "words"),
    [
        ("DQN", "w.npz", lambda: changed(hidden_layer__bias=None), "DQN network (hidden_layer.bias is missing)"),
        ("DQN", "w.pt", lambda: changed(extra__bias=torch.zeros(1)), "a published DQN network (extra.bias is unknown)"),
        ("DQN", "w.npz", lambda: changed(hidden_layer__bias=torch.zeros(64)), "bias is (64,), must be (128,))"),
        (
            "DQN",
            "w.pt",
            lambda: changed(hidden_layer__bias=torch.full((128,), torch.nan)),
            "'nan or inf': must be finite",
        ),
        ("DQN", "w.npz", lambda: {"a.b": torch.ones(3).int()}, "a.b='Tensor': must be an array of real numbers"),
        ("DQN", "w.pt", lambda: {"a": torch.ones(2, 2).to_sparse()}, "a='Tensor': must be an array of real numbers"),
        ("DQN", "w.pt", dict, "object_encoder.0.weight is missing and 7 more)"),
        ("PPO", "w.npz", lambda: named_weights("DQN"), "agent='PPO': must be one of AC-IQN, IQN, DDPG, DQN, SAC"),
        ("DQN", "absent.npz", lambda: None, "No such file or directory"),
        ("DQN", "w.txt", lambda: b"1 2 3", "must be a file in .npz, .pt, .pth"),
        ("DQN", "w.npz", lambda: {"weights": PICKLED}, "damaged, or not a file of weights"),
        ("DQN", "w.pt", lambda: [torch.zeros(3)], "damaged, or not a file of weights"),
        *(
            ("DQN", f"w.{suffix}", lambda content=content: content, "damaged, or not a file of weights")
            for suffix, content in (("npz", b""), ("pt", b"PK\x03\x04 torn"), ("pth", b"\x80\x02}q\x00."))
        ),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_is_no_published_network_is_refused(capsys, tmp_path, agent, file, content, words):
    path, out = tmp_path / file, tmp_path / "policy.pt"
    weights_or_bytes = content()
    if isinstance(weights_or_bytes, bytes):
        path.write_bytes(weights_or_bytes)
    elif weights_or_bytes is not None and path.suffix == ".npz":
        np.savez(path, **{name: np.asarray(value) for name, value in weights_or_bytes.items()})
    elif weights_or_bytes is not None:
        torch.save(weights_or_bytes, path)
    assert words in refused(capsys, *import_command(agent, path, out))
    assert not out.exists()


def test_every_published_agent_has_a_faithful_configuration():
    """With the published networks, so that imported weights can be trained on (load_model)."""
    assert FAITHFUL.keys() == {*PUBLISHED_AGENTS, "Rainbow"}
    for name, path in FAITHFUL.items():
        assert path.name == f"{name.lower().replace('-', '_')}.json"
    agent = published_config("AC-IQN").agent
    assert (agent.target_noise, agent.actor_noise, agent.saturation_penalty) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("name", FAITHFUL)
def test_faithful_schedules(name):
    config = load_config(FAITHFUL[name])
    assert config.total_timesteps == 6_000_000
    assert config.training_schedule.curriculum().timesteps == tuple(range(0, 6_000_000, 1_000_000))
    trainer = config.trainer
    assert (trainer.batch_size, trainer.buffer_size, trainer.train_freq) == (64, 1_000_000, 4)
    assert trainer.num_envs % trainer.train_freq == 0
    assert (trainer.learning_starts, trainer.gamma) == (2000, 0.99)
    assert trainer.learning_rate == trainer.learning_rate_final == 1e-4
    assert (trainer.tau, trainer.target_update_interval, trainer.ema_decay) == (1.0, 10_000, 0)
    assert (trainer.max_grad_norm, trainer.reward_scale) == (0.5, 1.0)
    assert config.training.reward.collision_penalty == -5.0
    assert config.world.reward.collision_penalty == -5.0
    names = ("initial_eps", "final_eps", "fraction", "spread")
    assert [getattr(trainer, f"exploration_{name}") for name in names] == [0.6, 0.05, 0.25, 1.0]
    assert (trainer.exploration == "uniform") == AGENTS[name].continuous
    steps = (3, True) if name == "Rainbow" else (1, False)
    assert (trainer.n_steps, trainer.prioritized) == steps
