"""Sampling of scenarios with all the robots, cores and obstacles that their levels require.

The published rejection loops may run out of draws, which leaves a scenario incomplete. A level for which most scenarios
are incomplete raises an error before anything is drawn; otherwise the incomplete scenarios are drawn again.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import NoReturn

import torch
from torch import Tensor

from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import Level
from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.draws import make_draws
from marinenav_env.scenarios.reset import select_environments
from marinenav_env.scenarios.scenario import ScenarioSampler
from marinenav_env.state import Scenario
from marinenav_env.support.validation import ConfigError

COUNT_FIELDS = ("num_robots", "num_cores", "num_obstacles")
"""Fields of Level with the numbers of objects that it requires, in the order in which these are drawn."""
MAX_TRIAL_SCENARIOS, MAX_TRIAL_OBJECTS = 64, 2048
"""Largest number of scenarios that are drawn on trial for a level, and, roughly, of all objects in them."""
DRAW_BUDGET_FACTORS = (1, 4, 16, 64)
"""Factors on the configured number of draws that are tried one after another until they suffice."""
MAX_DRAWS = 50_000
"""Largest number of candidates that are drawn for the robots, the cores or the obstacles of a scenario."""
MAX_ATTEMPTS = 200
"""Largest number of attempts at a scenario; each succeeds with a probability of about a half or more."""
MAX_INCOMPLETE_SHARE = 0.02
"""Largest expected share of a level's scenarios that stay incomplete where scenarios cannot be redrawn on the host."""


def object_counts(scenario: Scenario) -> Tensor:
    """Return the numbers of robots, cores and obstacles of P scenarios, [P, 3] int64."""
    masks = scenario.robot_mask, scenario.core_circulation != 0.0, scenario.obstacle_mask
    return torch.stack([mask.sum(-1) for mask in masks], -1)


def _required_counts(config: ScenarioConfig, level: Level) -> list[int]:
    """Return how many robots, cores that turn, and obstacles a level requires; only these show in scenarios."""
    flows = level.core_speed or config.v_range[1]
    return [level.num_robots, level.num_cores if flows else 0, level.num_obstacles]


@lru_cache(maxsize=1024)
def _trial_counts(config: ScenarioConfig, level: Level, draws: int) -> Tensor:
    """Return the numbers of robots, cores and obstacles in N scenarios drawn on trial for a level, [N, 3]."""
    size = max(4, min(MAX_TRIAL_SCENARIOS, MAX_TRIAL_OBJECTS // max(1, sum(_required_counts(config, level)))))
    cpu = torch.device("cpu")
    sampler = ScenarioSampler(replace(config, draws=draws), (level,), cpu, torch.float32)
    return object_counts(sampler.sample(torch.zeros(size, dtype=torch.int64), RandomSource.from_seed(0, size, cpu)))


def _sufficient_draws(config: ScenarioConfig, level: Level) -> int:
    """Return the smallest number of draws that completes half the scenarios of a level; 0 if none does."""
    budgets = (min(factor * config.draws, MAX_DRAWS) for factor in DRAW_BUDGET_FACTORS)
    return next((draws for draws in budgets if _share_complete(config, level, draws) >= 0.5), 0)


def _share_complete(config: ScenarioConfig, level: Level, draws: int) -> float:
    """Return the share of a level's scenarios that are complete with a number of draws per scenario, from 0 to 1."""
    if level.encounter and not level.num_cores + level.num_obstacles:  # no candidates are drawn
        return 1.0
    complete = (_trial_counts(config, level, draws) >= torch.tensor(_required_counts(config, level))).all(-1)
    return complete.double().mean().item()  # host: before there is a world


@lru_cache(maxsize=1024)
def required_draws(config: ScenarioConfig, levels: tuple[Level, ...]) -> int:
    """Return the number of draws per scenario that levels which are drawn together need: ``config.draws`` or more."""
    budgets = [_sufficient_draws(config, level) for level in levels]
    if 0 in budgets:
        _raise_no_room(config, levels, budgets.index(0))
    return max(budgets)


@lru_cache(maxsize=1024)
def required_attempts(config: ScenarioConfig, levels: tuple[Level, ...]) -> int:
    """Return how many attempts per scenario leave at most MAX_INCOMPLETE_SHARE of each level's scenarios incomplete."""
    lacking = max(1.0 - _share_complete(config, level, config.draws) for level in levels)
    # The share is at most a half for levels with enough room.
    return math.ceil(math.log(MAX_INCOMPLETE_SHARE) / math.log(min(lacking, 0.5))) if lacking else 1


def _raise_no_room(config: ScenarioConfig, levels: tuple[Level, ...], number: int) -> NoReturn:
    """Raise the error for ``levels[number]``, of which most scenarios lack something however many draws are made."""
    level = levels[number]
    lacking = _trial_counts(config, level, MAX_DRAWS) < torch.tensor(_required_counts(config, level))
    worst = COUNT_FIELDS[int(lacking.sum(0).argmax())]  # host: before there is a world
    wide, high = level.map_size or config.width, level.map_size or config.height
    far = "" if level.encounter else f", min_start_goal_dis={level.min_start_goal_dis:g}"
    raise ConfigError(
        f"level {number + 1}: {worst}={getattr(level, worst)}: too many for the map of {wide:.10g} x {high:.10g} m "
        f"(clear_r={config.clear_r:g}{far})"
    )


class CompleteSampler(ScenarioSampler):
    """Sampler of scenarios that have all robots, cores and obstacles that their levels require.

    Incomplete scenarios are drawn again. Where host reads are not free, all scenarios of a batch are drawn equally
    often, and one that is then still incomplete becomes a copy of a complete one of the batch, of the same level if
    possible. If the batch has no complete one, it stays incomplete; see ``replace_if_complete``.
    """

    def __init__(
        self, config: ScenarioConfig, levels: tuple[Level, ...], device: torch.device, dtype: torch.dtype
    ) -> None:
        super().__init__(config, levels, device, dtype)
        self.config = replace(config, draws=required_draws(config, tuple(levels)))
        self._required = torch.tensor([_required_counts(config, level) for level in levels], device=device)
        self._levels = tuple(levels)
        self.redraws_on_host = host_reads_are_free(device)
        """True if reads by the host are free, so that it finds incomplete scenarios, and only those are redrawn."""

    def sample(self, level: Tensor, generator: torch.Generator | RandomSource) -> Scenario:
        """Draw one complete scenario per entry of ``level``; for the arguments see ScenarioSampler.sample."""
        scenario = super().sample(level, generator)
        if self.redraws_on_host:
            return self.redraw_incomplete(scenario, level, generator, 1)
        for attempt in range(1, required_attempts(self.config, self._levels)):
            draws = make_draws(generator, len(level), self._options["dtype"], attempt)
            again = self.draw(level, draws)
            scenario = select_environments(self.is_complete(scenario), scenario, again)
        return scenario[_complete_rows(level, self.is_complete(scenario))]

    def redraw_incomplete(
        self, scenario: Scenario, level: Tensor, generator: torch.Generator | RandomSource, attempts: int | None = None
    ) -> Scenario:
        """Draw incomplete scenarios again, in place, after ``attempts`` (None: as many as without host reads)."""
        for attempt in range(attempts or required_attempts(self.config, self._levels), MAX_ATTEMPTS):
            complete = self.is_complete(scenario)
            if complete.all():  # host: where reads are free, or when the pool is first filled
                return scenario
            rows = (~complete).nonzero().squeeze(-1)  # host: as above
            source = generator.select(rows) if isinstance(generator, RandomSource) else generator
            draws = make_draws(source, len(rows), self._options["dtype"], attempt)
            scenario[rows] = self.draw(level[rows], draws)
        raise ConfigError(
            f"level {int(level[rows[0]]) + 1}: no scenario with all that it asks for "
            f"was found in {MAX_ATTEMPTS} attempts; make its map larger"
        )

    def replace_if_complete(self, new: Scenario, old: Scenario, num_kept: Tensor) -> Scenario:
        """Return new scenarios [P] where complete, else old ones; the number of old ones is added to ``num_kept``."""
        complete = self.is_complete(new)
        num_kept.add_((~complete).sum())
        return select_environments(complete, new, old)

    def is_complete(self, scenario: Scenario) -> Tensor:
        """Return which scenarios have all robots, cores and obstacles that their levels require, [P] bool."""
        return (object_counts(scenario) >= self._required[scenario.level]).all(-1)


def _complete_rows(level: Tensor, complete: Tensor) -> Tensor:
    """Return for each of P scenarios its own index if it is complete, else that of a complete replacement, [P]."""
    size = len(level)
    number = torch.arange(size, device=level.device)
    after = (number - number[:, None]) % size
    other = (level != level[:, None]).to(torch.int64)
    missing = (~complete).to(torch.int64)
    return (after + size * (other + 2 * missing)).argmin(-1)
