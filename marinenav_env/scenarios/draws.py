"""Random numbers for scenarios, from a generator or from a counter-based source.

With a counter-based source, the numbers of a scenario depend neither on the other scenarios of its batch nor on the
number of candidates. A CPU can therefore examine a few candidates first, and more of them only for scenarios
for which these were not enough.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.runtime.philox import RandomSource, uniform

ROBOTS, COURSES, DISTANCES, PLACE_OFFSETS, INITIAL_MOTION, HEADINGS, CORES, OBSTACLES = range(2**16, 2**16 + 8)
VESSELS, WEATHER, LEVEL_CHOICES, POOL_ENTRIES, BEHAVIOUR_CHOICES, FAULTS, DELAYS, MAPS = range(2**16 + 8, 2**16 + 16)
"""Identifiers of the quantities that are drawn, called purposes; random numbers of different purposes are independent.
The noise of the world has the purposes from 0."""
ATTEMPT_STRIDE = 2**12
"""Number by which the purpose of random numbers (the identifier of the quantity that is drawn) grows when a scenario is
drawn again, so that each attempt has independent numbers."""
FIRST_CANDIDATES = 64
"""Number of candidates per scenario that are examined first."""
CANDIDATE_GROWTH = 4
"""Factor by which the number of examined candidates grows while scenarios lack some."""

ExamineCandidates = Callable[["Draws", Tensor | slice, int], tuple[tuple[Tensor, ...], Tensor]]
"""Function that examines the first candidates of scenarios, from the random numbers of P scenarios, their rows in the
batch and the number of candidates. It returns a tuple of results, each [P, ...], and a mask [P] of the scenarios that
have enough candidates."""


def scale_to_range(unit: Tensor, limits: tuple[float, float]) -> Tensor:
    """Scale numbers on [0, 1) linearly to the range from the first of the limits to the second."""
    low, high = limits
    return low + (high - low) * unit


@dataclass(frozen=True)
class GeneratorDraws:
    """Random numbers of P scenarios from a generator; unlike in CounterDraws, they depend on the order of the calls."""

    generator: torch.Generator
    size: int
    """Number of scenarios P."""
    dtype: torch.dtype

    def uniform(self, purpose: int, before: Sequence[int], after: Sequence[int]) -> Tensor:
        """Draw numbers uniform on [0, 1), of shape [*before, P, *after]; the purpose is ignored."""
        return self._uniform(*before, self.size, *after)

    def candidates(self, purpose: int, count: int, sizes: Sequence[int], choices: int = 0) -> list[Tensor]:
        """Draw numbers of candidates as CounterDraws does; the purpose is ignored."""
        generator, parts = self.generator, []
        for number, size in enumerate(sizes):
            shape = self.size, count, size
            if choices and number == 0:
                drawn = torch.randint(choices, shape, generator=generator, device=generator.device)
            else:
                drawn = self._uniform(*shape)
            parts.append(drawn.movedim(-1, 0).contiguous())
        return parts

    def _uniform(self, *shape: int) -> Tensor:
        generator = self.generator
        return torch.rand(shape, generator=generator, device=generator.device, dtype=self.dtype)


@dataclass(frozen=True)
class CounterDraws:
    """Random numbers of P scenarios from a counter-based source, with one environment of the source per scenario.

    The numbers depend only on the source (seed, environment and step), the purpose (what is drawn, such as ROBOTS) and
    the attempt.
    """

    source: RandomSource
    dtype: torch.dtype
    attempt: int = 0
    """Number of times that these scenarios were drawn before; every attempt has independent numbers."""

    @property
    def can_draw_parts(self) -> bool:
        """Return whether numbers may be drawn for a part of the scenarios: which need more is read on the host."""
        return host_reads_are_free(self.source.environment.device)

    def rows(self, rows: Tensor | slice) -> "Draws":
        """Return the random numbers of some of the scenarios; use it only if ``can_draw_parts``."""
        return replace(self, source=self.source.select(rows))

    def uniform(self, purpose: int, before: Sequence[int], after: Sequence[int]) -> Tensor:
        """Draw numbers uniform on [0, 1) for a purpose, such as DELAYS, of shape [*before, P, *after]."""
        numbers = self._numbers(purpose, 1, math.prod(before) * math.prod(after))
        return numbers.view(*before, *after, -1).movedim(-1, len(before)).contiguous()

    def candidates(self, purpose: int, count: int, sizes: Sequence[int], choices: int = 0) -> list[Tensor]:
        """Draw numbers of ``count`` candidates per scenario, one tensor [size, P, count] for each of the sizes.

        They are uniform on [0, 1); with ``choices`` above 0, the first tensor has whole numbers below ``choices``.
        """
        first, *others = self._numbers(purpose, count, sum(sizes)).split(list(sizes))
        if choices:
            first = (first * choices).to(torch.int64)
        return [first, *others]

    def _numbers(self, purpose: int, count: int, size: int) -> Tensor:
        """Return numbers uniform on [0, 1) for a purpose, ``size`` numbers per candidate, [size, P, count]."""
        calls = -(-size // 4)
        words = self.source.with_purpose(purpose + ATTEMPT_STRIDE * self.attempt).words(count, calls)
        numbers = torch.stack([uniform(word, self.dtype) for word in words])
        # From [4, count, calls, P], the words of one call become adjacent.
        return numbers.permute(2, 0, 3, 1).flatten(0, 1)[:size].contiguous()


Draws = GeneratorDraws | CounterDraws
"""Random numbers of P scenarios, from a generator or from a counter-based source."""


def make_draws(source: torch.Generator | RandomSource, size: int, dtype: torch.dtype, attempt: int = 0) -> Draws:
    """Return the random numbers of ``size`` scenarios; ``attempt`` counts earlier ones, from a counter-based source."""
    if isinstance(source, torch.Generator):
        return GeneratorDraws(source, size, dtype)
    return CounterDraws(source, dtype, attempt)


def examine_until_enough(draws: Draws, max_candidates: int, examine: ExamineCandidates) -> tuple[Tensor, ...]:
    """Examine as few candidates as needed, and return the results that examining all candidates would give.

    The results of ``examine`` for a scenario do not change once there are enough candidates.
    """
    if not (isinstance(draws, CounterDraws) and draws.can_draw_parts):
        return examine(draws, slice(None), max_candidates)[0]
    count = min(FIRST_CANDIDATES, max_candidates)
    results, enough = examine(draws, slice(None), count)
    rows = torch.arange(len(enough), device=enough.device)
    while count < max_candidates:
        rows = rows[~enough]  # host: free, as draws.can_draw_parts says
        if not len(rows):
            break
        count = min(CANDIDATE_GROWTH * count, max_candidates)
        further, enough = examine(draws.rows(rows), rows, count)
        for result, new in zip(results, further, strict=True):
            result.index_copy_(0, rows, new)
    return results
