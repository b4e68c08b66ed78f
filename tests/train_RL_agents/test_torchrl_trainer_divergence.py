"""Runs whose rewards, losses or weights become infinite or NaN."""

import math
import re
from functools import partial

import pytest
import torch

from marinenav_env import GROUP
from marinenav_env.support import plugins
from tests.train_RL_agents.tiny_runs import at, differences, new_run, results, saved, train
from train_RL_agents.commands.cli import main
from train_RL_agents.learning.checks import DivergedError
from train_RL_agents.run.checkpoint import STATE_FILE, load_policy
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer

pytestmark = pytest.mark.usefixtures("surroundings")
SEEN = {"DQN": 120, "SAC": 120, "PPO": 128}
"""When what goes wrong at 112 env-steps is seen: at the next entry in the log."""


def spoil_loss(trainer, value):
    """One loss of the next update is not finite."""
    gradients = trainer.algorithm.learner._gradients

    def spoilt(*given):
        trainer.algorithm.learner._gradients = gradients
        gradient, found = gradients(*given)
        name = next(name for name in found if name.startswith("loss"))
        return value * gradient, found | {name: value * found[name]}

    trainer.algorithm.learner._gradients = spoilt


def spoil_weight(trainer, value):
    """One weight is not finite."""
    with torch.no_grad():
        next(trainer.algorithm.learner.agent.networks.parameters()).view(-1)[0] = value


def spoil_reward(trainer, value):
    """One reward of the step at hand is not finite."""
    observe = trainer.algorithm.add_steps

    def spoilt(steps):
        trainer.algorithm.add_steps = observe
        steps["next", GROUP, "reward"][0, 0, 0] = value
        observe(steps)

    trainer.algorithm.add_steps = spoilt


FAULTS = {"loss": spoil_loss, "weights": spoil_weight, "reward": spoil_reward}


def spoil(trainer, fault, env_steps, value=math.nan):
    """Something goes wrong in the batch that ends at so many env-steps."""
    if fault == "reward":
        at(trainer, env_steps - 8 * trainer.config.trainer.vector_steps, lambda: spoil_reward(trainer, value))
    else:
        at(trainer, env_steps, lambda: FAULTS[fault](trainer, value))


@pytest.mark.parametrize(
    ("name", "fault", "value"),
    [
        pytest.param("SAC", "loss", math.nan, marks=pytest.mark.slow),
        ("PPO", "weights", math.inf),
        ("DQN", "reward", math.nan),
    ],
)
def test_the_first_one_stops_the_run_which_goes_on_from_the_last_good_state(
    tmp_path, uninterrupted, name, fault, value
):
    words = (f"agent_type={name}",)
    run = new_run(tmp_path, *words)
    trainer = TorchRLTrainer(run, quiet=True)
    spoil(trainer, fault, 112, value)
    with pytest.raises(DivergedError) as caught:
        trainer.train()
    said = str(caught.value)
    assert len(said) < 400 + len(str(run.path))
    assert re.fullmatch(
        rf"[\w, ]*\b{fault}[\w, ]* became infinite or NaN between 80 and {SEEN[name]} env-steps; "
        r"the state of 80 env-steps is kept; .*",
        said,
    )
    assert saved(run)["env_steps"] == 80
    assert load_policy(run.path, "latest").env_steps == 80
    assert [file.name for file in run.checkpoints.glob("policy_*")] == ["policy_000000000080.pt"]
    train(RunFolder.open(run.path))
    assert differences(uninterrupted(*words), results(run)) == []


REWARDS = "world.reward.function=tests.own_parts:becomes_"
SENSORS = "world.sensor.entries=tests.own_parts:Becomes"


@pytest.mark.parametrize(("name", "setting"), [("DQN", f"{REWARDS}nan"), ("PPO", f"{SENSORS}Infinite")])
def test_a_reward_or_a_sensor_of_a_users_own_stops_the_run(tmp_path, monkeypatch, name, setting):
    """It is named as what to check, whether losses are computed from it many times before it is seen or never."""
    monkeypatch.setattr(plugins, "_allowed_references", {setting.partition("=")[2]})
    run = new_run(tmp_path, f"agent_type={name}", setting, "log_freq=80")
    what = r"\breward\b" if setting.startswith(REWARDS) else "^observations"
    check = "(actions and )?reward" if setting.startswith(REWARDS) else "observations"
    message = rf"{what}.* became infinite or NaN between 0 and 80 env-steps; check the {check}"
    with pytest.raises(DivergedError, match=message):
        TorchRLTrainer(run, quiet=True).train()


WRONG = {"DQN": 25, "SAC": math.nan, "PPO": -1}
"""Actions that are none."""


@pytest.mark.parametrize("name", ["DQN", "SAC", pytest.param("PPO", marks=pytest.mark.slow)])
def test_an_action_that_is_none_stops_the_run(tmp_path, name):
    """One of a robot that acts; the world would take an index for the closest."""
    run = new_run(tmp_path, f"agent_type={name}")
    trainer = TorchRLTrainer(run, quiet=True)
    seen = []

    def spoilt(act, tensordict):
        acted = act(tensordict)
        mask = acted[GROUP, "mask"]
        seen.append(len(seen))
        if len(seen) == 13:
            robot = tuple(mask.nonzero()[0].tolist())
            acted[GROUP, "action"][robot] = WRONG[name]
        acted[GROUP, "action"][~mask] = WRONG[name]  # has no effect
        return acted

    forward = trainer.collector.policy.forward
    trainer.collector.policy.forward = partial(spoilt, forward)
    with pytest.raises(DivergedError) as caught:
        trainer.train()
    said = str(caught.value)
    more = "" if name != "SAC" else r"[\w, ]*"  # NaN goes on into rewards and losses
    words = "infinite, NaN or no index" if name != "SAC" else "infinite or NaN"
    assert re.match(rf"actions{more} became {words} between 80 and \d+ env-steps; ", said)
    assert "check the actions" in said
    assert saved(run)["env_steps"] == 80


@pytest.mark.parametrize("name", ["DQN", pytest.param("PPO", marks=pytest.mark.slow)])
def test_a_rate_that_is_too_large_can_be_made_smaller(tmp_path, capsys, command, no_plugins, name):
    run = new_run(
        tmp_path / "my runs",
        f"agent_type={name}",
        "log_freq=16",
        "total_timesteps=80",
        "trainer.learning_rate=1e30",
        "trainer.learning_rate_final=1e30",
    )
    resume = ["train", "--resume", str(run.path), "--no-bar"]
    assert main(resume) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(
        r"marinenav: error: .* became infinite or NaN between \d+ and \d+ env-steps; (check the "
        rf"[\w ]+, or )?go on with a smaller rate: marinenav train --resume '{run.path}' "
        r"trainer\.learning_rate=5e\+29 trainer\.learning_rate_final=5e\+29\n",
        said,
    )
    assert not (run.checkpoints / STATE_FILE).exists()
    rates = ["trainer.learning_rate=1e-3", "trainer.learning_rate_final=1e-4"]
    assert main([*resume, *rates]) == 0
    assert saved(run)["env_steps"] == 80
    assert RunFolder.open(run.path).config.trainer.learning_rate == 1e-3
