"""Evaluation: many episodes at once, and what is reported of them.

As published, an episode is a success when every robot arrives, and for success, collision,
time, energy and return it stops at the first collision. The world continues after it, so
that the share of single robots that arrive is known from the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP, Episode, Level, MarineNavEnv, WorldConfig
from marinenav_env.scenario import ScenarioSampler
from marinenav_env.state import Scenario, State
from marinenav_env.validation import require

Policy = Callable[[TensorDictBase], TensorDictBase]
Watch = Callable[[TensorDictBase, State, MarineNavEnv], None]
"""Called with every step: the policy's input and action, the state before, and the world after."""
GAMMA = 0.99
_CHECK_EVERY = 25
"""Vector steps between two host reads of whether all episodes have ended."""


def finite(content: Any) -> Any:
    """Nested figures with None for values that are not finite, which JSON does not have."""
    if isinstance(content, dict):
        return {name: finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


@dataclass(frozen=True)
class Report:
    """Figures of a set of episodes."""

    episodes: int
    """Episodes evaluated."""
    success_rate: float
    """Share of episodes in which every robot arrived."""
    success_low: float
    """Lower end of its 95% Wilson interval."""
    success_high: float
    """Upper end."""
    collision_rate: float
    """Share of episodes with a collision."""
    collision_low: float
    """Lower end of its 95% Wilson interval."""
    collision_high: float
    """Upper end."""
    timeout_rate: float
    """Share of episodes without a collision in which some robot did not arrive in time."""
    timeout_low: float
    """Lower end of its 95% Wilson interval."""
    timeout_high: float
    """Upper end."""
    robot_success_rate: float
    """Share of robots that arrive when episodes continue after a collision."""
    avg_time: float | None
    """Travel time per robot (s), mean over successful episodes; None if there are none."""
    avg_energy: float | None
    """Thrust spent per robot (N s), mean over successful episodes; None if there are none."""
    avg_return: float
    """Sum of 0.99^t reward per robot, mean over all episodes."""


def wilson_interval(count: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """95% confidence interval of a proportion (Wilson, JASA 1927)."""
    if total == 0:
        return 0.0, 1.0
    share = count / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    half *= z / (1 + z * z / total)
    # Where they are 0 and 1, rounding would leave them beside it.
    return (0.0 if count == 0 else centre - half), (1.0 if count == total else centre + half)


@dataclass(frozen=True)
class Episodes:
    """What happened in each of N episodes; tensors [N] on the CPU."""

    level: Tensor
    success: Tensor
    collision: Tensor
    robots: Tensor
    robots_arrived: Tensor
    time: Tensor
    energy: Tensor
    returns: Tensor

    def report(self, level: int | None = None) -> Report:
        """Figures over all episodes, or over those of one level."""
        rows = torch.ones_like(self.success) if level is None else self.level == level
        total = int(rows.sum())
        success, collision = self.success & rows, self.collision & rows
        timeout = rows & ~success & ~collision
        counts = [int(flags.sum()) for flags in (success, collision, timeout)]
        intervals = [wilson_interval(count, total) for count in counts]
        rates = [count / max(total, 1) for count in counts]
        success_rate, collision_rate, timeout_rate = rates
        (success_low, success_high), (collision_low, collision_high), timeout_ends = intervals
        return Report(
            total, success_rate, success_low, success_high,
            collision_rate, collision_low, collision_high, timeout_rate, *timeout_ends,
            robot_success_rate=float(self.robots_arrived[rows].sum() / self.robots[rows].sum()),
            avg_time=float(self.time[success].mean()) if counts[0] else None,
            avg_energy=float(self.energy[success].mean()) if counts[0] else None,
            avg_return=float(self.returns[rows].mean()),
        )  # fmt: skip

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return dict(vars(self))

    @classmethod
    def from_state_dict(cls, state: dict[str, Tensor]) -> Episodes:
        """The inverse of state_dict."""
        return cls(**{name: tensor.cpu() for name, tensor in state.items()})

    def table(self, names: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Reports by level and overall, as plain numbers.

        Args:
            names: of the levels; "level 1" and so on if None.
        """
        levels = sorted(set(self.level.tolist()))
        named = {level: f"level {level + 1}" if names is None else names[level] for level in levels}
        table = {name: asdict(self.report(level)) for level, name in named.items()}
        return table | {"overall": asdict(self.report())}


def draw_scenarios(
    world: WorldConfig, levels: Sequence[Level], episodes: Sequence[int], seed: int
) -> Scenario:
    """A fixed evaluation set: the same seed gives the same scenarios on every machine.

    Args:
        world: how scenarios are drawn.
        levels: the levels.
        episodes: scenarios of each level.
        seed: of the draw.

    Returns:
        Scenarios, level after level, float64 on the CPU.
    """
    sampler = ScenarioSampler(world.scenario, tuple(levels), torch.device("cpu"), torch.float64)
    level = torch.repeat_interleave(torch.arange(len(levels)), torch.tensor(list(episodes)))
    return sampler.sample(level, torch.Generator().manual_seed(seed))


class _Tally:
    """What episodes come to; each counts up to its first collision.

    Args:
        env: the world, freshly reset.
    """

    def __init__(self, env: MarineNavEnv) -> None:
        self.counting = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        self.collided = torch.zeros_like(self.counting)
        self.sums = {
            name: torch.zeros_like(env.state.pose[..., 0]) for name in ("time", "energy", "return")
        }
        self.seconds = env.config.dt * env.config.substeps

    def add(self, number: int, active: Tensor, step: TensorDictBase, env: MarineNavEnv) -> None:
        """Add a step.

        Args:
            number: of the step, from 0.
            active: [E, R] robots that were active before it.
            step: what the world gave.
            env: the world after it.
        """
        active = active & self.counting[:, None]
        reward = step.get((GROUP, "reward")).squeeze(-1)
        self.sums["time"] += self.seconds * active
        self.sums["energy"] += env.outcome.energy * active
        self.sums["return"] += GAMMA**number * reward * active
        self.collided |= env.outcome.collided.any(-1) & self.counting
        self.counting &= ~self.collided & ~step.get("done").squeeze(-1)

    def episodes(self, env: MarineNavEnv) -> Episodes:
        """What happened, once all is over."""
        present, arrived = env.scenario.robot_mask, env.state.arrived
        robots = present.sum(-1)
        means = {name: (total.sum(-1) / robots).double().cpu() for name, total in self.sums.items()}
        return Episodes(
            level=env.scenario.level.cpu(),
            success=(arrived | ~present).all(-1).cpu(),
            collision=self.collided.cpu(),
            robots=robots.cpu(),
            robots_arrived=arrived.sum(-1).cpu(),
            time=means["time"],
            energy=means["energy"],
            returns=means["return"],
        )


@torch.no_grad()
def evaluate(
    policy: Policy,
    scenarios: Scenario | Sequence[Episode],
    world: WorldConfig,
    *,
    continuous: bool,
    device: torch.device,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    compile_step: bool = False,
    watch: Watch | None = None,
) -> Episodes:
    """Run every scenario once, all in one batch.

    Args:
        policy: writes actions; must be in evaluation mode.
        scenarios: N of them.
        world: the world.
        continuous: whether the policy's actions are continuous.
        device: where to run.
        seed: of the measurement noise.
        dtype: of the world.
        compile_step: see MarineNavEnv.
        watch: looks on.

    Returns:
        What happened, by episode. The same arguments give the same numbers.

    Raises:
        ConfigError: when a scenario has no robot.
    """
    # Nothing ends at a collision here: the tally stops there by itself.
    world = replace(world, ends_at_first_collision=False)
    env = MarineNavEnv(
        world, scenarios=scenarios, continuous=continuous, device=device, dtype=dtype, seed=seed,
        compile_step=compile_step,
    )  # fmt: skip
    empty = (~env.scenario.robot_mask.any(-1)).sum().item()
    require(empty == 0, "scenarios without a robot", empty, "0")
    step = env.reset()
    tally = _Tally(env)
    for number in range(world.max_steps):
        if number % _CHECK_EVERY == 0 and not env.state.active.any():
            break
        active, before = step.get((GROUP, "mask")), env.state
        acted = policy(step)
        step = env.step(acted).get("next")
        if watch is not None:
            watch(acted, before, env)
        tally.add(number, active, step, env)
        step = step.exclude((GROUP, "reward"))
    return tally.episodes(env)


__all__ = ["Episodes", "Policy", "Report", "Watch", "draw_scenarios", "evaluate"]
