"""Train PPO, in one file and with torch alone, on the Gymnasium or the PettingZoo interface.

    python tools/ppo_example.py gymnasium --steps 20000
    python tools/ppo_example.py pettingzoo --steps 20000

An example of training something else on this world, after Huang et al. (CleanRL, JMLR 2022). One
world at a time is slow; `marinenav train` steps hundreds at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from marinenav_env import Curriculum, Level, WorldConfig

GAMMA, LAMBDA, CLIP, EPOCHS, BATCH = 0.99, 0.95, 0.2, 10, 64
SCALE = torch.tensor([20.0, 20.0, 2.0, 2.0, 1.0, 1e3, 1e3] + [20.0, 20.0, 2.0, 2.0, 2.0] * 5
                     + [1.0] * 5)  # fmt: skip
"""Divides observations, so that networks are given numbers of order one."""


class Track(NamedTuple):
    """What one vessel saw, did and got, T steps in a row."""

    seen: Tensor
    """[T, 37]."""
    action: Tensor
    """[T, 2]."""
    reward: Tensor
    """[T]."""
    last: Tensor
    """[37], what it saw in the end."""
    terminated: bool
    success: bool


class Policy(nn.Module):
    """A Gaussian policy and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(37, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
                                   nn.Linear(64, 2))  # fmt: skip
        self.critic = nn.Sequential(nn.Linear(37, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
                                    nn.Linear(64, 1))  # fmt: skip
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, seen: Tensor) -> Normal:
        """The distribution of actions."""
        return Normal(self.actor(seen), self.log_std.exp())

    def value(self, seen: Tensor) -> Tensor:
        """Expected return."""
        return self.critic(seen).squeeze(-1)


def flat(observation: dict[str, np.ndarray]) -> Tensor:
    """An observation as one scaled vector [37]."""
    parts = (observation[name] for name in ("self_state", "objects_state", "objects_mask"))
    return torch.from_numpy(np.concatenate([part.ravel() for part in parts])).float() / SCALE


def track(steps: list[tuple[Tensor, Tensor, float]], last: Tensor, ended: bool,
          info: dict[str, Any]) -> Track:  # fmt: skip
    """Put the steps of one vessel together."""
    seen, action, reward = zip(*steps, strict=True)
    return Track(torch.stack(seen), torch.stack(action), torch.tensor(reward), last, ended,
                 info["is_success"])  # fmt: skip


@torch.no_grad()
def gymnasium_tracks(policy: Policy, world: WorldConfig, level: Level) -> Iterator[Track]:
    """Episode after episode of the first vessel; the others head straight for their goals."""
    env = gymnasium.make("MarineNav-v0", config=world, scenarios=Curriculum((level,)))
    observation, _ = env.reset(seed=0)
    while True:
        steps, over = [], False
        while not over:
            seen = flat(observation)
            action = policy(seen).sample()
            observation, reward, ended, cut, info = env.step(action.clamp(-1.0, 1.0).numpy())
            steps.append((seen, action, float(reward)))
            over = ended or cut
        yield track(steps, flat(observation), ended, info)
        observation, _ = env.reset()


@torch.no_grad()
def pettingzoo_tracks(policy: Policy, world: WorldConfig, level: Level) -> Iterator[Track]:
    """Episode after episode of all vessels, which share one policy."""
    from marinenav_env.pettingzoo_env import MarineNavParallelEnv

    env = MarineNavParallelEnv(world, scenarios=Curriculum((level,)))
    observations, _ = env.reset(seed=0)
    while True:
        steps: dict[str, list[Any]] = {name: [] for name in env.agents}
        while env.agents:
            seen = {name: flat(observations[name]) for name in env.agents}
            actions = {name: policy(seen[name]).sample() for name in env.agents}
            observations, rewards, ended, cut, infos = env.step(
                {name: action.clamp(-1.0, 1.0).numpy() for name, action in actions.items()}
            )
            for name, reward in rewards.items():
                steps[name].append((seen[name], actions[name], reward))
                if ended[name] or cut[name]:
                    last = flat(observations[name])
                    yield track(steps[name], last, ended[name], infos[name])
        observations, _ = env.reset()


@torch.no_grad()
def advantages(policy: Policy, one: Track) -> Tensor:
    """Generalised advantages [T] (Schulman et al. 2016); a time-out bootstraps."""
    values = policy.value(torch.cat((one.seen, one.last[None])))
    values[-1] = 0.0 if one.terminated else values[-1]
    errors = one.reward + GAMMA * values[1:] - values[:-1]
    result, total = torch.empty_like(errors), torch.zeros(())
    for index in reversed(range(len(errors))):
        total = errors[index] + GAMMA * LAMBDA * total
        result[index] = total
    return result


def update(policy: Policy, optimizer: torch.optim.Optimizer, tracks: list[Track]) -> None:
    """Clipped policy gradient and value regression on some tracks."""
    gained = torch.cat([advantages(policy, one) for one in tracks])
    seen, action = (torch.cat([one[column] for one in tracks]) for column in (0, 1))
    with torch.no_grad():
        before = policy(seen).log_prob(action).sum(-1)
        returns = gained + policy.value(seen)
    gained = (gained - gained.mean()) / (gained.std() + 1e-8)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(seen)).split(BATCH):
            ratio = (policy(seen[rows]).log_prob(action[rows]).sum(-1) - before[rows]).exp()
            clipped = ratio.clamp(1.0 - CLIP, 1.0 + CLIP)
            gain = torch.minimum(ratio * gained[rows], clipped * gained[rows]).mean()
            error = (policy.value(seen[rows]) - returns[rows]).square().mean()
            optimizer.zero_grad()
            (0.05 * error - gain).backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()


def main() -> None:
    """Collect, update, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("interface", choices=("gymnasium", "pettingzoo"))
    parser.add_argument("--steps", type=int, default=20_000, help="decisions of single vessels")
    parser.add_argument("--rollout", type=int, default=2_000, help="of them between updates")
    parser.add_argument("--robots", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=150, help="control steps of an episode")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    source = {"gymnasium": gymnasium_tracks, "pettingzoo": pettingzoo_tracks}[args.interface]
    stream = source(policy, WorldConfig(max_steps=args.max_steps), Level(args.robots, 0, 0, 20.0))
    done = 0
    while done < args.steps:
        tracks: list[Track] = []
        while sum(len(one.reward) for one in tracks) < args.rollout:
            tracks.append(next(stream))
        update(policy, optimizer, tracks)
        done += sum(len(one.reward) for one in tracks)
        gained = np.mean([float(one.reward.sum()) for one in tracks])
        arrived = np.mean([one.success for one in tracks])
        print(f"{done:>8,} decisions  return {gained:7.2f}  arrived {arrived:.2f}", flush=True)


if __name__ == "__main__":
    main()
