"""Evaluation of many episodes at once.

As published, an episode is a success when every robot arrives, and for success, collision,
time, energy and return it stops at the first collision. The world continues after the collision,
so that the share of single robots that arrive is known from the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from marinenav_env import GROUP, Episode, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import RewardConfig
from marinenav_env.scenarios.complete import CompleteSampler, required_draws
from marinenav_env.scenarios.reset import controlled_robots, select_entries
from marinenav_env.state import Scenario
from train_RL_agents.evaluation.repeated_evaluation import RepeatedEvaluation, can_shrink_batch
from train_RL_agents.evaluation.tally import CHECK_INTERVAL, Policy, ProgressCallback, StepCallback, Tally, Transition
from train_RL_agents.results.rows import Episodes
from train_RL_agents.utils.memory import require_memory

_BYTES_PER_PAIR = 544
"""Estimated temporary memory of a step (bytes) per pair of a robot and an object."""
MIN_BATCH_SIZE = 32
"""Smallest number of episodes to which a batch is reduced."""
_VARIABLE_REWARD_SETTINGS = ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward")
"""Names of the reward settings that compiled code reads from tensors, so that they may differ from those it was
compiled for."""


def step_bytes(world: WorldConfig, robots: int, obstacles: int) -> int:
    """Estimate the temporary memory (bytes) of a step of one environment, for its numbers of robots and obstacles."""
    pairs = robots * (robots + obstacles)
    return pairs * (_BYTES_PER_PAIR + 8 * world.sensor.scan_beams) + 400 * robots * world.sensor.slots


def drawing_bytes(world: WorldConfig, levels: Sequence[Level], episodes: Sequence[int]) -> int:
    """Estimate the temporary memory (bytes) of ``draw_scenarios`` for a number of episodes of each level.

    Raises:
        ConfigError: when the map has no room for a level.
    """
    ends, cores = (max(getattr(level, name) for level in levels) for name in ("num_robots", "num_cores"))
    # Each candidate has 16 numbers, and two differences to each end or core.
    numbers = 16 + 2 * max(2 * ends, cores)
    return 8 * sum(episodes) * required_draws(world.scenario, tuple(levels)) * numbers


def draw_scenarios(world: WorldConfig, levels: Sequence[Level], episodes: Sequence[int], seed: int) -> Scenario:
    """Draw a fixed evaluation set; the same seed gives the same scenarios on every machine.

    Args:
        world: configuration of the world; its ``scenario`` section constrains the scenarios.
        levels: levels of the scenarios.
        episodes: number of scenarios of each level.
        seed: seed of the draw.

    Returns:
        Scenarios, level after level, float64 on the CPU.

    Raises:
        ConfigError: when the map has no room for a level, or there is not enough memory.
    """
    require_memory(f"drawing {sum(episodes):,} scenarios", drawing_bytes(world, levels, episodes))
    sampler = CompleteSampler(world.scenario, tuple(levels), torch.device("cpu"), torch.float64)
    level = torch.repeat_interleave(torch.arange(len(levels)), torch.tensor(list(episodes)))
    return sampler.sample(level, torch.Generator().manual_seed(seed))


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
    drop_ended: bool = True,
    on_step: StepCallback | None = None,
    progress: ProgressCallback | None = None,
) -> Episodes:
    """Run every scenario once, all in one batch.

    On a CPU the batch shrinks as episodes end; on a GPU RepeatedEvaluation runs the scenarios. The measurement noise
    depends only on the seed, the index of the episode and the number of the step in it.

    Args:
        policy: policy in evaluation mode, which writes actions.
        scenarios: N scenarios.
        world: configuration of the world.
        continuous: whether the policy's actions are continuous.
        device: device of the world.
        seed: seed of the measurement noise.
        dtype: floating-point type of the world.
        drop_ended: whether the batch may shrink; false for policies that draw random numbers.
        on_step: callback after every step.
        progress: callback with the number of ended episodes and the number of all episodes.

    Returns:
        The episodes; the same arguments give the same numbers.

    Raises:
        ConfigError: when a scenario has no robot, or an action is not finite or not a valid index.
    """
    options = {"continuous": continuous, "device": device, "dtype": dtype, "seed": seed}
    env = make_evaluation_env(scenarios, world, **options)
    if not can_shrink_batch(env):
        return RepeatedEvaluation(policy, env, seed).run(on_step, progress)
    step, now = env.reset(), env.world_state
    tally, rows, source = Tally(env), torch.arange(env.num_envs, device=device), env.next_noise_source()
    for number in range(world.max_steps):
        running = controlled_robots(now.now).any(-1)
        if progress is not None and number % CHECK_INTERVAL == 0:
            progress(env.num_envs - int(running.sum()), env.num_envs)
        if not running.any():
            break
        kept = _rows_to_keep(running) if drop_ended else None
        if kept is not None:
            rows, now = rows[kept], select_entries(now, kept)
            step = env.to_tensordict(now)
        acted = policy(step)
        action = acted.get((GROUP, "action"))
        noise = source._replace(environment=rows, step=now.now.state.steps)
        result = env.world.step(now, action, noise)
        after, outcome = result.world, result.outcome
        if on_step is not None:
            on_step(Transition(rows, acted, now, after, outcome), env)
        tally.add(rows, now.now, action, outcome)
        now = after
        step = env.to_tensordict(now, outcome).exclude((GROUP, "reward"))
    return tally.episodes(env.scenario)


def make_evaluation_env(scenarios: Scenario | Sequence[Episode], world: WorldConfig, **options: Any) -> MarineNavEnv:
    """Return the environments of an evaluation, one for each scenario, which do not end at the first collision.

    Args:
        scenarios: N scenarios.
        world: configuration of the world.
        **options: further arguments of MarineNavEnv.
    """
    # Environments continue after a collision; the tally stops there.
    return MarineNavEnv(replace(world, ends_at_first_collision=False), scenarios=scenarios, **options)


def can_share_code(training: MarineNavEnv, evaluation: MarineNavEnv) -> bool:
    """Return whether the compiled step of a training environment can be used for an evaluation.

    Args:
        training: environment whose code is compiled.
        evaluation: environment of the evaluation, which never ends at the first collision.
    """

    def in_code(world: WorldConfig) -> WorldConfig:
        published = {name: getattr(RewardConfig(), name) for name in _VARIABLE_REWARD_SETTINGS}
        return replace(world, reward=replace(world.reward, **published))

    return (
        in_code(training.config) == in_code(evaluation.config)
        and training.num_robots == evaluation.num_robots
        and torch.equal(training.world.quantiles, evaluation.world.quantiles)  # a constant of the code
        # Code of a world without weather would be compiled once more.
        and (training.constants.weather is not None or evaluation.constants.weather is None)
    )


def _rows_to_keep(running: Tensor) -> Tensor | None:
    """Return the rows of a batch that remain in it, ascending; None if all do.

    Sizes are powers of two, filled up with episodes that have ended, because matrix products of
    other sizes may be rounded differently.

    Args:
        running: [B] bool mask of the episodes that have not ended, at least one.
    """
    size = max(MIN_BATCH_SIZE, 1 << (int(running.sum()) - 1).bit_length())
    if size >= len(running):
        return None
    return running.to(torch.int8).argsort(descending=True, stable=True)[:size].sort().values
