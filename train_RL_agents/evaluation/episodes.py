"""Evaluation: many episodes at once, and what is reported of them.

As published, an episode is a success when every robot arrives, and for success, collision,
time, energy and return it stops at the first collision. The world continues after it, so
that the share of single robots that arrive is known from the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env import GROUP, Episode, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import RewardConfig
from marinenav_env.runtime.execution import EAGER, Execution
from marinenav_env.runtime.host_reads import rows_where
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.complete import CompleteSampler, draws_for
from marinenav_env.scenarios.reset import controlled
from marinenav_env.state import Outcome, ResetState, Scenario, WorldState
from marinenav_env.stepping.actions import unusable
from marinenav_env.support.validation import ConfigError
from train_RL_agents.results.rows import Episodes, finite
from train_RL_agents.results.statistics import wilson_interval
from train_RL_agents.utils.memory import require_room

Policy = Callable[[TensorDictBase], TensorDictBase]
GAMMA = 0.99
CHECK_EVERY = 25
"""Vector steps between two host reads of whether all episodes have ended, where reads cost time."""
_PAIR = 544
"""Bytes that a step takes in passing for each pair of a robot and an object it may see."""
SMALLEST_BATCH = 32
"""Episodes below which a batch is not reduced further."""
_TENSORS = ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward")
"""Settings of the reward that compiled code reads from tensors (see Rules)."""


class Moment(NamedTuple):
    """A control step of the B episodes of the batch, which episodes that have ended may leave."""

    rows: Tensor
    """[B] int64, ascending: which of the N episodes these are."""
    acted: TensorDictBase
    """The policy's input and action."""
    before: WorldState
    after: WorldState
    outcome: Outcome

    def first(self, count: int) -> Moment:
        """Return the step of the first so many episodes."""
        if count == len(self.outcome):
            return self

        def cut(world: WorldState) -> WorldState:
            now, parameters = world
            shared = parameters.batch_size[0] == 1
            return WorldState(now[:count], parameters if shared else parameters[:count])

        rows, acted, before, after, outcome = self
        return Moment(rows[:count], acted[:count], cut(before), cut(after), outcome[:count])


Watch = Callable[[Moment, MarineNavEnv], bool | None]
"""Called with every step, and with the world in which all N episodes started.

It may return False when it needs no further steps, which need not be prepared for it then."""


Progress = Callable[[int, int], None]
"""Called now and then with the number of episodes that have ended, and of all."""


def step_bytes(world: WorldConfig, robots: int, obstacles: int) -> int:
    """Bytes that a step of one environment takes in passing, about."""
    pairs = robots * (robots + obstacles)
    return pairs * (_PAIR + 8 * world.sensor.scan_beams) + 400 * robots * world.sensor.slots


def drawing_bytes(world: WorldConfig, levels: Sequence[Level], episodes: Sequence[int]) -> int:
    """Bytes that draw_scenarios takes in passing, about.

    Raises:
        ConfigError: for a level that there is no room for.
    """
    ends, cores = (max(getattr(level, name) for level in levels) for name in ("num_robots", "num_cores"))
    # Of each candidate its own numbers, and both differences to each end or core.
    numbers = 16 + 2 * max(2 * ends, cores)
    return 8 * sum(episodes) * draws_for(world.scenario, tuple(levels)) * numbers


def draw_scenarios(world: WorldConfig, levels: Sequence[Level], episodes: Sequence[int], seed: int) -> Scenario:
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
        self._robots = env.state.pose[:1, :, 0]
        self.sums = self.blank(env.num_envs)
        self.seconds = env.config.dt * env.config.substeps
        self._pairs = None if env.continuous else env.num_discrete_actions

    def blank(self, count: int) -> dict[str, Tensor]:
        """Return the sums of so many episodes before their first step."""
        robots = self._robots.new_zeros(count, self._robots.shape[1])
        flags = torch.zeros_like(robots[:, 0], dtype=torch.bool)
        names = ("time", "energy", "return")
        return {
            "counting": ~flags,
            "collided": flags,
            "unusable": flags.clone(),
            "arrived": torch.zeros_like(robots, dtype=torch.bool),
            **{name: robots.clone() for name in names},
        }

    def after(
        self,
        sums: dict[str, Tensor],
        discount: float | Tensor,
        before: ResetState,
        action: Tensor,
        outcome: Outcome,
    ) -> dict[str, Tensor]:
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
        wrong = unusable(action, controlled(before), self._pairs)
        return {
            "counting": counting & ~collided & ~outcome.episode_done,
            "collided": sums["collided"] | (collided & counting),
            "unusable": sums["unusable"] | wrong.any(-1),
            "arrived": sums["arrived"] | outcome.arrived,
            "time": sums["time"] + self.seconds * active,
            "energy": sums["energy"] + outcome.energy * active,
            "return": sums["return"] + discount * outcome.reward * active,
        }

    def add(self, discount: float, rows: Tensor, before: ResetState, action: Tensor, outcome: Outcome) -> None:
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
            raise ConfigError(f"actions in {wrong:,} of {len(robots):,} episodes: must be {allowed}")
        means = {name: (sums[name].sum(-1) / robots).double().cpu() for name in ("time", "energy", "return")}
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
    its number, not from when others end. See also
    RepeatedEvaluation.

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
    if not may_shrink(env):
        return RepeatedEvaluation(policy, env, seed).run(watch, progress)
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
        made = env.world.step(now, action, source)
        after, outcome = made.world, made.outcome
        if watch is not None:
            watch(Moment(rows, acted, now, after, outcome), env)
        tally.add(GAMMA**number, rows, now.now, action, outcome)
        now = after
        step = env.to_tensordict(now, outcome).exclude((GROUP, "reward"))
    return tally.episodes(env.scenario)


def evaluation_world(
    scenarios: Scenario | Sequence[Episode],
    world: WorldConfig,
    continuous: bool,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    kernel: str = "compiled",
) -> MarineNavEnv:
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


def same_code(training: MarineNavEnv, evaluation: MarineNavEnv) -> bool:
    """Return whether the compiled step of a training world also computes an evaluation.

    Args:
        training: whose code is compiled.
        evaluation: the world of the evaluation, which never ends at the first collision.
    """

    def in_code(world: WorldConfig) -> WorldConfig:
        published = {name: getattr(RewardConfig(), name) for name in _TENSORS}
        return replace(world, reward=replace(world.reward, **published))

    ours, theirs = training.world, evaluation.world
    return (
        in_code(training.config) == in_code(evaluation.config)
        and training.num_robots == evaluation.num_robots
        # Constants of the code: noise of measured radii, and whether detections can be missed.
        and torch.equal(ours.quantiles, theirs.quantiles)
        and (ours.weather or not theirs.weather)
    )


_Running = tuple[WorldState, dict[str, Tensor], Tensor]
"""The world, sums of the episodes, and the number of steps made, [1] float64."""


class RepeatedEvaluation:
    """Runs the same scenarios again and again, with all state in the same tensors on a GPU.

    A step can thus be compiled and captured once there, for all scenarios together. Whether all
    have ended is read now and then only.

    On a CPU the world's step of a training can be used in place of the evaluation's own, if that is
    compiled: it takes a tenth of the time. As its code is made for a number of environments, the
    scenarios are run in batches of that number. All episodes of a batch start together, since the
    measurement noise follows from the step of the batch.

    Args:
        policy: see ``evaluate``.
        env: freshly made from the N scenarios and the seed.
        seed: see ``evaluate``.
        stepper: whose world makes the steps of B environments at a time, see ``same_code``; its
            state is not touched. None: ``env``.
        execution: whether a step becomes generated code on a GPU, for a PolicyWrapper only, and
            whether it is captured there; what it gives is then overwritten by the next.
        log: prints a line if the capture fails.
    """

    def __init__(
        self,
        policy: Policy,
        env: MarineNavEnv,
        seed: int,
        stepper: MarineNavEnv | None = None,
        execution: Execution = EAGER,
        log: Callable[[str], None] = print,
    ) -> None:
        self.policy, self._env, self._seed = policy, env, seed
        self._stepper, self._tally = stepper or env, Tally(env)
        self._start, device = env.world_state, env.generator.device
        self._rows = torch.arange(min(env.num_envs, self._stepper.num_envs), device=device)
        self._source = RandomSource.seeded(seed, self._stepper.num_envs, device)
        # Compiled code of a training world is only the same with the arguments of that.
        self._episodes = None if stepper is None else stepper.no_episodes(self._source)
        self._watched = False
        self.loop = execution.loop(
            self._step,
            self._begun(self._rows),
            device,
            draws=lambda: (self._source.take(),),
            name="an evaluation step",
            log=log,
        )
        """Makes control steps of a batch."""

    @torch.no_grad()
    def run(self, watch: Watch | None = None, progress: Progress | None = None) -> Episodes:
        """Run every scenario once.

        Args:
            watch: see ``evaluate``.
            progress: is told how many episodes have ended.

        Returns:
            What happened, by episode; the same as ``evaluate`` gives, to rounding.
        """
        total, ended = self._env.num_envs, 0
        sums = self._tally.sums
        for rows in torch.arange(total, device=self._rows.device).split(self._stepper.num_envs):
            for running in self._run_batch(rows, watch):
                if progress is not None:
                    progress(ended + len(rows) - running, total)
            ended += len(rows)
            for name, each in self.loop.state[1].items():
                sums[name][rows] = each[: len(rows)]
        return self._tally.episodes(self._env.scenario)

    def _begun(self, rows: Tensor) -> _Running:
        """Return the state in which some scenarios, at most B, begin."""
        # The other environments of the batch hold the last scenario, and nobody looks at them.
        spare = self._stepper.num_envs - len(rows)
        padded = torch.cat((rows, rows[-1:].expand(spare)))
        self._source.restart(self._seed)
        self._source.environment.copy_(padded)
        world = self._env.world.begin(self._start, padded)
        # Of a dimension: code that torch 2.11 generates leaves out copies of a scalar in float64.
        number = torch.zeros(1, dtype=torch.float64, device=rows.device)
        return world, self._tally.blank(len(padded)), number

    def _run_batch(self, rows: Tensor, watch: Watch | None) -> Iterator[int]:
        """Run some scenarios.

        Args:
            rows: [n] int64 ascending: which scenarios, at most B.
            watch: see ``evaluate``.

        Yields:
            Episodes that have not ended, every few steps.
        """
        self._rows, self.loop.state = rows, self._begun(rows)
        for number in range(self._env.config.max_steps):
            if number % CHECK_EVERY == 0:
                world = self.loop.state[0]
                running = int(world.now.state.active[: len(rows)].any(-1).sum())
                yield running
                if not running:
                    break
            self._watched = watch is not None
            moment = self.loop()
            if watch is not None and watch(moment.first(len(rows)), self._env) is False:
                watch = None

    def _step(self, state: _Running, noise: RandomSource) -> tuple[_Running, Moment]:
        """Make a control step of all environments; see Loop."""
        world, sums, number = state
        if self.loop.captures:  # what is seen shares no memory with the state
            world = WorldState(world.now.apply(Tensor.clone), world.parameters)
        acted = self._act(world)
        action = acted.get((GROUP, "action"))
        made = self._stepper.world.step(world, action, noise, self._episodes)
        sums = self._tally.after(sums, GAMMA ** number[0], world.now, action, made.outcome)
        after = WorldState(made.world.now, world.parameters)
        moment = Moment(self._rows, acted, world, after, made.outcome)
        return (after, sums, number + 1.0), moment

    def _act(self, world: WorldState) -> TensorDictBase:
        """Return what the policy is given, with its actions; on a CPU only in some environments.

        There it acts where a robot still does, and what it is given is complete only if watched.
        """
        active = controlled(world.now)
        acting = rows_where(active[: len(self._rows)].any(-1))
        if acting is None or self._episodes is None:
            return self.policy(self._env.to_tensordict(world))
        # Contiguous: PyTorch's norms take ten times as long with environments innermost.
        seen = {name: each[acting].contiguous() for name, each in world.now.observation.items()}
        mask = active[acting]
        group = TensorDict({"observation": TensorDict(seen, mask.shape), "mask": mask}, mask.shape)
        actions = self._stepper.action_spec.zero().get((GROUP, "action"))
        if len(acting):
            acted = self.policy(TensorDict({GROUP: group}, mask.shape[:1]))
            actions[acting] = acted.get((GROUP, "action")).to(actions)
        if self._watched:
            return self._env.to_tensordict(world).set((GROUP, "action"), actions)
        return TensorDict({(GROUP, "action"): actions}, active.shape[:1])


def may_shrink(env: MarineNavEnv) -> bool:
    """Return whether ended episodes may leave a batch: only where counting them is free."""
    return rows_where(env.state.active[:, 0]) is not None


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


__all__ = [
    "Episodes",
    "Moment",
    "Policy",
    "Watch",
    "draw_scenarios",
    "evaluate",
    "finite",
    "wilson_interval",
]
