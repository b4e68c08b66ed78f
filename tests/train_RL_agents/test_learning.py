"""Every agent learns, through the whole trainer: a vessel alone must find its goal; and what takes memory."""

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.data import Binary, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

from marinenav_env.support import plugins
from tests.train_RL_agents.tiny_runs import small_pool
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import from_dict
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer

ALONE = {"num_robots": [1], "num_cores": [0], "num_obstacles": [0], "min_start_goal_dis": [12.0]}
EASY = {
    "total_timesteps": 12_800,
    "eval_freq": 12_800,
    "log_freq": 12_800,
    "execution": {"device": "cpu", "threads": 1, "compile": False},
    "save_replay": False,
    "world": {"max_steps": 40, "scenario": {"width": 25.0, "height": 25.0, "clear_r": 3.0}},
    "training_schedule": ALONE,
    "eval_schedule": {**ALONE, "num_episodes": [20]},
}
"""Goals are 12 m away or more, and 20 s are left to get there."""
TRAINER = {
    "off-policy": {
        "num_envs": 64,
        "batch_size": 128,
        "buffer_size": 20_000,
        "learning_starts": 1_000,
        "train_freq": 32,
        "learning_rate": 2e-3,
        "learning_rate_final": 5e-4,
        "tau": 0.05,
        "ema_decay": 0.95,
        "exploration_fraction": 0.5,
    },
    "on-policy": {
        "optimizer": "adam",
        "max_grad_norm": 1.0,
        "num_envs": 64,
        "rollout_steps": 10,
        "batch_size": 64,
        "epochs": 2,
        "learning_rate": 2e-3,
        "learning_rate_final": 5e-4,
        "ema_decay": 0.95,
    },
}
SLOWER = {"rollout_steps": 5, "learning_rate": 1e-3, "learning_rate_final": 2e-4}
OWN = {
    "Rainbow": {"agent.v_min": -1.0, "agent.v_max": 1.5},
    "A2C": {"total_timesteps": 25_600, "eval_freq": 25_600, "trainer": TRAINER["on-policy"] | SLOWER},
}
"""Rainbow's atoms lie as close as returns are small here, where nobody collides. A2C learns by
more and smaller updates than PPO: so it does with every seed, and not with some alone."""


def learned(folder, name, **settings):
    """Train an agent; returns its run and the success rates before and after."""
    with small_pool():
        trainer = {"trainer": TRAINER[AGENTS[name].algorithm]}
        config = from_dict(EASY | trainer | OWN.get(name, {}) | {"agent_type": name} | settings)
        trainer = TorchRLTrainer(RunFolder.create(config, 0, [], folder), quiet=True)
        trainer.evaluate()
        trainer.train()
    return trainer.run, *(row["success_rate"] for row in trainer.history.rows)


@pytest.mark.filterwarnings("ignore:the reward .* counts as")  # nobody is there to collide with
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "PPO")) for name in AGENTS])
def test_a_vessel_alone_learns_to_find_its_goal(tmp_path, name):
    _, before, after = learned(tmp_path, name)
    assert before < 0.3
    assert after > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AC-IQN", "SAC"])
def test_a_teacher_saves_experience(tmp_path, name):
    """Half of the env-steps are too few for a vessel that has none."""
    few = {"total_timesteps": 6_400, "eval_freq": 6_400}
    teacher, _, _ = learned(tmp_path / "teacher", "PPO")
    imitates = {"imitation_learning": True, "teacher": str(teacher.path)}
    _, _, alone = learned(tmp_path / "alone", name, **few)
    _, _, taught = learned(tmp_path / "taught", name, **few | imitates)
    assert alone < 0.5
    assert taught > 0.7


# Environments that take memory: what to do is told once, in this episode or in the last ----------

CUE_STEPS = 4
"""Steps of an episode; only the action of the last one counts."""


class Recall(EnvBase):
    """A choice of two at the end of an episode, rewarded by 1 where it is the one told at the beginning, else by -1.

    Args:
        num_envs: number of environments.
        device: not used.
        seed: seed of what is told.
        tells: when it is told: in the first step of the episode, or in the last step of the episode before.
    """

    saves_state = True

    def __init__(self, num_envs: int, device: torch.device, seed: int, tells: str = "first") -> None:
        super().__init__(device=torch.device("cpu"), batch_size=[num_envs])
        self.tells = tells
        self.observation_spec = Composite(cue=Unbounded((num_envs, 2)), shape=[num_envs])
        self.action_spec = Categorical(2, (num_envs,))
        self.reward_spec = Unbounded((num_envs, 1))
        self.done_spec = Binary(1, (num_envs, 1), dtype=torch.bool)
        self.age = torch.zeros(num_envs, dtype=torch.int64)
        self.answer = torch.ones(num_envs)
        self.set_seed(seed)

    def _set_seed(self, seed: int | None) -> None:
        self.generator = torch.Generator().manual_seed(seed or 0)
        self.following = self._draw()

    def _draw(self) -> Tensor:
        return torch.randint(2, self.batch_size, generator=self.generator) * 2.0 - 1.0

    def _content(self, done: Tensor) -> TensorDict:
        hint = self.answer * (self.age == 0) if self.tells == "first" else self.following * (self.age == CUE_STEPS - 1)
        cue = torch.stack((hint, self.age / CUE_STEPS), -1)
        return TensorDict({"cue": cue, "done": done, "terminated": done.clone()}, self.batch_size)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> TensorDict:
        again = None if tensordict is None else tensordict.get("_reset", None)
        over = torch.ones(self.batch_size, dtype=torch.bool) if again is None else again.view(-1)
        drawn = self._draw()
        self.answer = torch.where(over, self.following, self.answer)
        self.following = torch.where(over, drawn, self.following)
        self.age = torch.where(over, 0, self.age)
        return self._content(torch.zeros(*self.batch_size, 1, dtype=torch.bool))

    def _step(self, tensordict: Any) -> TensorDict:
        ends = self.age == CUE_STEPS - 1
        right = (tensordict["action"] * 2 - 1) == self.answer
        self.age = self.age + 1
        content = self._content(ends[:, None])
        return content.set("reward", (ends * torch.where(right, 1.0, -1.0))[:, None])

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {"age": self.age, "answers": (self.answer, self.following), "drawn": self.generator.get_state()}

    def load_state_dict(self, state: Any, *args: Any, **kwargs: Any) -> None:
        self.age, (self.answer, self.following) = state["age"], state["answers"]
        self.generator.set_state(state["drawn"])


RECALL = "tests.train_RL_agents.test_learning:Recall"


def recalling(agent_type, total, **trainer):
    """The settings of a run that needs a memory, but for that."""
    return {
        "agent_type": agent_type,
        **dict.fromkeys(("total_timesteps", "eval_freq", "log_freq"), total),
        "execution": {"device": "cpu", "threads": 1, "compile": False},
        "agent": {"hidden_sizes": [32], "self_width": 16},
        "trainer": {"ema_decay": 0.9, "reward_scale": 1.0, **trainer},
    }


# The length of a rollout is no multiple of that of an episode.
RECALLING = recalling("PPO", 30_720, num_envs=128, rollout_steps=10, batch_size=320, learning_rate=5e-3)
OFF_POLICY = recalling(
    "DQN",
    8_192,
    num_envs=32,
    batch_size=128,
    buffer_size=4096,
    learning_starts=1024,
    train_freq=16,
    learning_rate=3e-3,
    tau=0.05,
    target_update_interval=0,
)


def returned(folder, tells, memory, settings=RECALLING):
    """The mean return of 200 episodes after training; 0 if nothing was learned, at most 1."""
    plugins.allow(RECALL)
    env = {"name": RECALL, "options": [f"tells={tells}"], "eval_episodes": 200}
    agent = settings["agent"] | {"memory": memory}
    config = from_dict(settings | {"env": env, "agent": agent})
    trainer = TorchRLTrainer(RunFolder.create(config, 0, [], folder), quiet=True)
    trainer.train()
    return trainer.history.rows[-1]["avg_return"]


@pytest.mark.parametrize(
    ("settings", "memory"),
    [
        (RECALLING, {"kind": "gru", "size": 16}),
        pytest.param(RECALLING, {"kind": "frames"}, marks=pytest.mark.slow),
        pytest.param(OFF_POLICY, {"kind": "frames"}, marks=pytest.mark.slow),
    ],
    ids=["PPO gru", "PPO frames", "DQN frames"],
)
def test_what_was_told_in_the_first_step_is_remembered(settings, memory, tmp_path):
    assert returned(tmp_path, "first", memory, settings) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tells", "memory", "settings"),
    [
        ("first", {"kind": "none"}, RECALLING),
        ("last", {"kind": "gru", "size": 16}, RECALLING),
        ("last", {"kind": "frames"}, RECALLING),
        ("last", {"kind": "frames", "number": 8}, OFF_POLICY),
    ],
    ids=["none", "last gru", "last frames", "last frames of DQN"],
)
def test_nothing_is_known_without_memory_or_from_the_last_episode(tmp_path, tells, memory, settings):
    assert abs(returned(tmp_path, tells, memory, settings)) < 0.3
