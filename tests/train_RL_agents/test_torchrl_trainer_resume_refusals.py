"""Runs that are not resumed, with one clear sentence, and settings that may change."""

import signal

import pytest
import torch

from marinenav_env import ConfigError
from tests.refusals import GONE, changed, refusal
from tests.train_RL_agents.tiny_runs import CPU, at, begin, files, new_run, small_pool, train
from train_RL_agents.run.checkpoint import STATE_FILE, TRAINING_FORMAT, read_checkpoint
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer, resume

pytestmark = pytest.mark.usefixtures("surroundings")


def refused(run, expected):
    """Resuming is refused with one sentence, and changes nothing on the disk."""
    before = files(run.path)
    message = refusal(resume, RunFolder.open(run.path), quiet=True)
    assert expected in message and str(run.path) in message
    assert files(run.path) == before
    return message


def test_a_run_without_replay_buffer_is_not_resumed(tmp_path, capsys):
    run = new_run(tmp_path, "save_replay=false")
    trainer = TorchRLTrainer(run, bar=False)
    at(trainer, 104, lambda: signal.raise_signal(signal.SIGINT))
    trainer.train()
    assert "--resume" not in capsys.readouterr().out
    refused(run, "saved without its replay buffer (save_replay=false)")


def test_a_run_whose_state_is_gone_does_not_begin_again(ended):
    """Its policies and evaluations would be written over."""
    (ended.checkpoints / STATE_FILE).unlink()
    refused(ended, f"training_state.pt: missing, so that the run cannot go on; load_model={ended.path} starts a new")


def test_a_run_that_has_not_begun_needs_no_folder_of_checkpoints(tmp_path):
    """Copies may lack empty folders."""
    run = new_run(tmp_path, "total_timesteps=8", "eval_freq=8")
    run.checkpoints.rmdir()
    train(run)
    assert (run.checkpoints / STATE_FILE).exists()


@pytest.mark.parametrize(
    "words",
    [("agent_type=AC-IQN",), ("trainer.reward_scale=0.2", "trainer.tau=0.5"), ("training_schedule.num_robots=2,4",)],
    ids=" ".join,
)
def test_a_state_of_another_configuration_is_refused(tmp_path, trained, words):
    other = new_run(tmp_path, *words)
    (other.checkpoints / STATE_FILE).write_bytes((trained.checkpoints / STATE_FILE).read_bytes())
    message = refused(other, f"{other.checkpoints / STATE_FILE}: was made with other settings than ")
    for word in words:
        key = word.partition("=")[0]
        key = key.replace("_schedule.num_robots", "_schedule.levels: level 2: num_robots")
        assert f"{key}=" in message
    assert message.count("(was ") == len(words) or words[0].startswith("agent_type")


@pytest.fixture(scope="module")
def prioritised(tmp_path_factory):
    """A trainer with everything that a state may hold on one device, and its state."""
    words = "agent_type=Rainbow", "trainer.n_steps=2", "trainer.prioritized=true"
    run = new_run(tmp_path_factory.mktemp("form"), *words)
    with small_pool():
        train(run, stop_at=96)
        trainer = begin(run)
    run.writer.release()
    return trainer, read_checkpoint(run.checkpoints / STATE_FILE, TRAINING_FORMAT, CPU)


WRONG = [
    ("world/now", {}),
    ("world/now/state/pose", GONE),
    ("world/reset_pool/states/extra", 1),
    ("learner/agent", {}),
    ("learner/updates", True),
    ("learner/ema/networks.critic.object_scale", GONE),
    ("learner/optimizer/state", {}),
    ("learner/optimizer/state/0/exp_avg", GONE),
    ("learner/optimizer/state/0/step", torch.ones(1)),
    ("meter/counts", GONE),
    ("meter/sums/loss", torch.tensor(1)),
    ("n_step", "text"),
    ("n_step/open", GONE),
    ("replay/capacity", 151),
    ("replay/filled", torch.tensor(3)),
    ("replay/cursor", True),
    ("replay/cursor", torch.tensor(0.0)),
    ("replay/rows/reward", GONE),
    ("replay/sampler/priorities", torch.zeros(1)),
    ("replay/sampler/highest", torch.ones(1)),
    ("clock/total", -1.0),
    ("clock/seconds", {"update": True}),
    ("generators/policy", GONE),
    ("evaluations/0/level", torch.zeros(3)),
    ("evaluations/0/success", torch.zeros(3, 1).bool()),
]


@pytest.mark.parametrize(("place", "value"), WRONG, ids=[f"{a} {b!r:.12}" for a, b in WRONG])
def test_a_state_of_another_form_is_refused(prioritised, place, value):
    trainer, state = prioritised
    with pytest.raises(ConfigError, match="does not fit the run's configuration"):
        trainer._load_state(changed(state, place, value))


def test_a_state_that_does_not_fit_is_refused(tmp_path, trained):
    other = new_run(tmp_path)
    state = torch.load(trained.checkpoints / STATE_FILE)
    torch.save({key: state[key] for key in state if key != "config"}, other.checkpoints / STATE_FILE)
    refused(other, f"{other.checkpoints / STATE_FILE}: does not say which settings it was made with")
    for name in ("env_steps", "ranks"):
        torch.save(state | {name: "x"}, other.checkpoints / STATE_FILE)
        refused(other, f"{other.checkpoints / STATE_FILE}: {name}='x': must be a whole number")
    without = dict(state)
    del without["replay"], state["learner"]["agent"]
    for broken in (without, state, state | {"clock": torch.zeros(3)}):
        torch.save(broken, other.checkpoints / STATE_FILE)
        refused(other, f"{other.checkpoints / STATE_FILE}: does not fit the run's configuration (")
