"""Evaluation: many episodes at once, and what is reported of them.

As published, an episode is a success when every robot arrives, and for success, collision,
time, energy and return it stops at the first collision. The world continues after it, so
that the share of single robots that arrive is known from the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP, Episode, Level, MarineNavEnv, WorldConfig
from marinenav_env.runtime.captured import Captured
from marinenav_env.runtime.compiling import compiled
from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.runtime.layout import copy_all, copy_in
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.complete import CompleteSampler, draws_for
from marinenav_env.scenarios.restart import steered
from marinenav_env.state import Outcome, ResetState, Scenario
from marinenav_env.stepping.actions import unusable
from marinenav_env.stepping.world import WorldState
from marinenav_env.support.validation import ConfigError
from train_RL_agents.utils.memory import require_room

Policy = Callable[[TensorDictBase], TensorDictBase]
GAMMA = 0.99
CHECK_EVERY = 25
"""Vector steps between two host reads of whether all episodes have ended, where reads cost time."""
_PAIR = 544
"""Bytes that a step takes in passing for each pair of a robot and an object it may see."""
SMALLEST_BATCH = 32
"""Episodes below which a batch is not reduced further."""
_TYPES = {
    "success": torch.bool, "collision": torch.bool,
    "time": torch.float64, "energy": torch.float64, "returns": torch.float64,
}  # fmt: skip
"""Of the tensors of Episodes; the others are int64."""


class Moment(NamedTuple):
    """A control step of the B episodes of the batch, which episodes that have ended may leave."""

    rows: Tensor
    """[B] int64, ascending: which of the N episodes these are."""
    acted: TensorDictBase
    """The policy's input and action."""
    before: WorldState
    after: WorldState
    outcome: Outcome


Watch = Callable[[Moment, MarineNavEnv], bool | None]
"""Called with every step, and with the world in which all N episodes started.

It may return False when it needs no further steps, which need not be prepared for it then."""


Progress = Callable[[int, int], None]
"""Called now and then with the number of episodes that have ended, and of all."""


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
    """Outcomes of N episodes; tensors [N] on the CPU."""

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
        """The inverse of state_dict.

        Raises:
            ValueError: when a tensor is of another type.
        """
        found = cls(**{name: tensor.cpu() for name, tensor in state.items()})
        for name, tensor in vars(found).items():
            if tensor.dtype != _TYPES.get(name, torch.int64) or tensor.ndim != 1:
                raise ValueError(f"{name} is {tensor.ndim}-dimensional, {tensor.dtype}")
        return found

    def table(self, names: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Reports by level and overall, as plain numbers.

        Args:
            names: of the levels; "level 1" and so on if None.
        """
        levels = sorted(set(self.level.tolist()))
        named = {level: f"level {level + 1}" if names is None else names[level] for level in levels}
        table = {name: asdict(self.report(level)) for level, name in named.items()}
        return table | {"overall": asdict(self.report())}


def step_bytes(world: WorldConfig, robots: int, obstacles: int) -> int:
    """Bytes that a step of one environment takes in passing, about."""
    pairs = robots * (robots + obstacles)
    return pairs * (_PAIR + 8 * world.sensor.scan_beams) + 400 * robots * world.sensor.slots


def drawing_bytes(world: WorldConfig, levels: Sequence[Level], episodes: Sequence[int]) -> int:
    """Bytes that draw_scenarios takes in passing, about.

    Raises:
        ConfigError: for a level that there is no room for.
    """
    ends, cores = (max(getattr(level, name) for level in levels)
                   for name in ("num_robots", "num_cores"))  # fmt: skip
    # Of each candidate its own numbers, and both differences to each end or core.
    numbers = 16 + 2 * max(2 * ends, cores)
    return 8 * sum(episodes) * draws_for(world.scenario, tuple(levels)) * numbers


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

    Raises:
        ConfigError: for a level that there is no room for, and when there is not enough memory.
    """
    require_room(f"drawing {sum(episodes):,} scenarios", drawing_bytes(world, levels, episodes))
    sampler = CompleteSampler(world.scenario, tuple(levels), torch.device("cpu"), torch.float64)
    level = torch.repeat_interleave(torch.arange(len(levels)), torch.tensor(list(episodes)))
    return sampler.sample(level, torch.Generator().manual_seed(seed))


class Tally:
    """Accumulates outcomes of episodes, each up to its first collision.

    Args:
        env: the world, freshly reset.
    """

    def __init__(self, env: MarineNavEnv) -> None:
        counting = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        self.sums = {
            "counting": counting,
            "collided": torch.zeros_like(counting),
            "unusable": torch.zeros_like(counting),
            "arrived": torch.zeros_like(env.state.active),
            **{name: torch.zeros_like(env.state.pose[..., 0])
               for name in ("time", "energy", "return")},
        }  # fmt: skip
        self.seconds = env.config.dt * env.config.substeps
        self._pairs = None if env.continuous else env.num_discrete_actions

    def clear(self) -> None:
        """Begin again, in the same tensors."""
        for name, each in self.sums.items():
            each.fill_(name == "counting")

    def after(
        self, sums: dict[str, Tensor], discount: float | Tensor, before: ResetState,
        action: Tensor, outcome: Outcome,
    ) -> dict[str, Tensor]:  # fmt: skip
        """Return the sums of some episodes after a step of theirs.

        Args:
            sums: before it, [B, ...] each.
            discount: of the step's reward in the returns.
            before: it, batch [B].
            action: of all robots.
            outcome: of the step, batch [B].
        """
        counting = sums["counting"]
        active = before.state.active & counting[:, None]
        collided = outcome.collided.any(-1)
        wrong = unusable(action, steered(before), self._pairs)
        return {
            "counting": counting & ~collided & ~outcome.episode_done,
            "collided": sums["collided"] | (collided & counting),
            "unusable": sums["unusable"] | wrong.any(-1),
            "arrived": sums["arrived"] | outcome.arrived,
            "time": sums["time"] + self.seconds * active,
            "energy": sums["energy"] + outcome.energy * active,
            "return": sums["return"] + discount * outcome.reward * active,
        }

    def add(
        self, discount: float, rows: Tensor, before: ResetState, action: Tensor, outcome: Outcome
    ) -> None:
        """Add a step of some episodes.

        Args:
            discount: of its reward in the returns.
            rows: [B] int64: which episodes.
            before: see ``after``.
            action: see ``after``.
            outcome: of the step, batch [B].
        """
        chosen: Tensor | slice = rows if len(rows) < len(self.sums["counting"]) else slice(None)
        own = {name: each[chosen] for name, each in self.sums.items()}
        for name, value in self.after(own, discount, before, action, outcome).items():
            self.sums[name][chosen] = value

    def episodes(self, scenario: Scenario) -> Episodes:
        """Outcomes of the episodes, once all have ended.

        Raises:
            ConfigError: when an action was not finite, or no index.
        """
        present, robots = scenario.robot_mask, scenario.robot_mask.sum(-1)
        sums = self.sums
        wrong, pairs = int(sums["unusable"].sum()), self._pairs
        if wrong:
            allowed = "finite" if pairs is None else f"indices from 0 to {pairs - 1}"
            raise ConfigError(
                f"actions in {wrong:,} of {len(robots):,} episodes: must be {allowed}"
            )
        means = {name: (sums[name].sum(-1) / robots).double().cpu()
                 for name in ("time", "energy", "return")}  # fmt: skip
        return Episodes(
            level=scenario.level.cpu(),
            success=(sums["arrived"] | ~present).all(-1).cpu(),
            collision=sums["collided"].cpu(),
            robots=robots.cpu(),
            robots_arrived=sums["arrived"].sum(-1).cpu(),
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
    kernel: str = "compiled",
    drop_ended: bool = True,
    watch: Watch | None = None,
    progress: Progress | None = None,
) -> Episodes:
    """Run every scenario once, all in one batch.

    On the CPU the batch shrinks as episodes end. The measurement noise of an episode follows from
    its number, not from when others end. See also Evaluation.

    Args:
        policy: writes actions; must be in evaluation mode.
        scenarios: N of them.
        world: the world.
        continuous: whether the policy's actions are continuous.
        device: where to run.
        seed: of the measurement noise.
        dtype: of the world.
        kernel: see MarineNavEnv.
        drop_ended: whether the batch may shrink; false for policies that draw random numbers.
        watch: looks on.
        progress: is told how many episodes have ended.

    Returns:
        What happened, by episode. The same arguments give the same numbers.

    Raises:
        ConfigError: when a scenario has no robot, or an action cannot be used.
    """
    env = evaluation_world(scenarios, world, continuous, device, dtype, seed, kernel)
    if not host_reads_are_free(device):
        return Evaluation(policy, env, seed).run(watch, progress)
    step, now = env.reset(), env.world_state
    tally, rows = Tally(env), torch.arange(env.num_envs, device=device)
    for number in range(world.max_steps):
        running = now.now.state.active.any(-1)
        if progress is not None and number % CHECK_EVERY == 0:
            progress(env.num_envs - int(running.sum()), env.num_envs)
        if not running.any():
            break
        kept = _kept(running) if drop_ended else None
        if kept is not None:
            rows, now = rows[kept], env.world.begin(now, kept)
            step = env.to_tensordict(now)
        acted = policy(step)
        action = acted.get((GROUP, "action"))
        source = env.next_source()._replace(environment=rows)
        after, outcome = env.world.step(now, action, source)
        if watch is not None:
            watch(Moment(rows, acted, now, after, outcome), env)
        tally.add(GAMMA**number, rows, now.now, action, outcome)
        now = after
        step = env.to_tensordict(now, outcome).exclude((GROUP, "reward"))
    return tally.episodes(env.scenario)


def evaluation_world(
    scenarios: Scenario | Sequence[Episode], world: WorldConfig, continuous: bool,
    device: torch.device, dtype: torch.dtype, seed: int, kernel: str = "compiled",
) -> MarineNavEnv:  # fmt: skip
    """The world of an evaluation, see ``evaluate``."""
    # Nothing ends at a collision here: the tally stops there by itself.
    world = replace(world, ends_at_first_collision=False)
    return MarineNavEnv(
        world,
        scenarios=scenarios,
        continuous=continuous,
        device=device,
        dtype=dtype,
        seed=seed,
        kernel=kernel,
    )


class Evaluation:
    """Runs the same scenarios again and again, with all state in the same tensors.

    On a GPU a step can thus be compiled and captured once. It takes as long for few episodes as for
    many there, and whether all have ended is read now and then only.

    Args:
        policy: see ``evaluate``.
        env: freshly made from the scenarios and the seed.
        seed: see ``evaluate``.
        compile: whether a step becomes generated code; for a PolicyWrapper only.
        capture: whether a step is captured on a GPU; what it gives is then overwritten by the next.
        say: prints a line if the capture fails.
    """

    def __init__(
        self,
        policy: Policy,
        env: MarineNavEnv,
        seed: int,
        compile: bool = False,
        capture: bool = False,
        say: Callable[[str], None] = print,
    ) -> None:
        self.policy, self._env, self._seed = policy, env, seed
        device = env.generator.device
        now, parameters = env.world_state
        self._world, self._tally = WorldState(now.clone(), parameters), Tally(env)
        self._rows = torch.arange(env.num_envs, device=device)
        self._discount = torch.ones((), dtype=torch.float64, device=device)
        self._make_step, self._write = self._step, self._written
        if compile:
            self._make_step, self._write = (
                compiled(each, device) for each in (self._step, self._written)
            )
        self._next = Captured(
            self._next_step, device, name="an evaluation step", capture=capture, say=say
        )

    def run(self, watch: Watch | None = None, progress: Progress | None = None) -> Episodes:
        """See ``evaluate``."""
        env = self._env
        env.set_seed(self._seed)
        copy_in(self._world.now, env.world_state.now)
        self._tally.clear()
        self._discount.fill_(1.0)
        for number in range(env.config.max_steps):
            if number % CHECK_EVERY == 0:
                running = int(self._world.now.state.active.any(-1).sum())
                if progress is not None:
                    progress(env.num_envs - running, env.num_envs)
                if not running:
                    break
            moment = self._next()
            if watch is not None:
                watch(moment, env)
        return self._tally.episodes(env.scenario)

    def _next_step(self) -> Moment:
        """A control step of all episodes; leaves what it led to."""
        moment, sums = self._make_step(self._env.next_source())
        self._write(moment.after.now, sums)
        # As it is: code that torch 2.11 generates leaves out copies of a scalar in float64.
        self._discount.mul_(GAMMA)
        return moment

    def _step(self, source: RandomSource) -> tuple[Moment, dict[str, Tensor]]:
        """A control step, and the sums after it; nothing is written (see ``_written``)."""
        before = WorldState(self._world.now.clone(), self._world.parameters)
        acted = self.policy(self._env.to_tensordict(before))
        action = acted.get((GROUP, "action"))
        after, outcome = self._env.world.step(before, action, source)
        moment = Moment(self._rows, acted, before, after, outcome)
        sums = self._tally.after(self._tally.sums, self._discount, before.now, action, outcome)
        return moment, sums

    def _written(self, now: ResetState, sums: dict[str, Tensor]) -> None:
        """Write what a step led to to the static tensors.

        It is a function of its own since torch 2.11 may generate wrong code for one that writes
        what it also reads.
        """
        copy_in(self._world.now, now)
        copy_all(self._tally.sums.values(), [sums[name] for name in self._tally.sums])


def evaluation_of(
    policy: Policy, scenarios: Scenario | Sequence[Episode], world: WorldConfig, *,
    continuous: bool, device: torch.device, seed: int, kernel: str = "compiled", **options: Any,
) -> Evaluation:  # fmt: skip
    """An evaluation to be run several times; see ``evaluate`` and Evaluation."""
    env = evaluation_world(scenarios, world, continuous, device, torch.float32, seed, kernel)
    return Evaluation(policy, env, seed, **options)


def _kept(running: Tensor) -> Tensor | None:
    """Rows of a batch that a smaller one consists of, ascending; None as long as it stays.

    Sizes are powers of two, filled with episodes that have ended: matrix products of other sizes
    may be rounded differently.

    Args:
        running: [B] bool, at least one.
    """
    size = max(SMALLEST_BATCH, 1 << (int(running.sum()) - 1).bit_length())
    if size >= len(running):
        return None
    return running.to(torch.int8).argsort(descending=True, stable=True)[:size].sort().values


__all__ = ["Episodes", "Moment", "Policy", "Report", "Watch", "draw_scenarios", "evaluate"]
