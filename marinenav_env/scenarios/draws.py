"""Random numbers for scenarios: from a generator, or by counter.

By counter, the numbers of a scenario depend neither on the other scenarios of its batch nor on the
number of candidates. So a CPU examines a few candidates first, and more of them only for scenarios
for which these were not enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.runtime.philox import RandomSource, uniform

ROBOTS, COURSES, REACH, OFFSETS, MOTION, HEADINGS, CORES, OBSTACLES = range(2**16, 2**16 + 8)
VESSELS, WEATHER, LEVEL, START, BEHAVIOUR, FAULTS, DELAYS = range(2**16 + 8, 2**16 + 15)
"""Purposes of random numbers; those of noise start at 0."""
ATTEMPT = 2**12
"""Difference between the purposes of successive attempts at a scenario."""
FEW, FURTHER = 64, 4
"""Number of candidates that are examined first, and the factor from one try to the next."""

Examine = Callable[["Draws", Tensor | slice, int], tuple[tuple[Tensor, ...], Tensor]]
"""Function from the numbers of some scenarios, their rows and the number of candidates to results,
all [P, ...], and [P] bool: whether these candidates were enough."""


def between(unit: Tensor, ends: tuple[float, float]) -> Tensor:
    """Scale numbers on [0, 1) to a range."""
    low, high = ends
    return low + (high - low) * unit


@dataclass(frozen=True)
class GeneratorDraws:
    """Random numbers of P scenarios from a generator, in the order of the calls; see CounterDraws."""

    generator: torch.Generator
    size: int
    """Number of scenarios P."""
    dtype: torch.dtype
    in_parts = False

    def rows(self, rows: Tensor | slice) -> Draws:
        """Raise an error: numbers of a generator cannot be drawn in parts."""
        raise NotImplementedError

    def uniform(self, purpose: int, before: Sequence[int], after: Sequence[int]) -> Tensor:
        """Draw numbers uniform on [0, 1), of the shape [*before, P, *after], whatever the purpose."""
        return self._uniform(*before, self.size, *after)

    def candidates(self, purpose: int, count: int, sizes: Sequence[int], choices: int = 0) -> list[Tensor]:
        """Draw numbers of ``count`` candidates, as CounterDraws.candidates does, whatever the purpose."""
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
    """Random numbers of P scenarios by counter; a scenario is an environment of the source.

    The numbers depend on seed, purpose and attempt only.
    """

    source: RandomSource
    dtype: torch.dtype
    attempt: int = 0
    """Number of the attempt; every attempt has different numbers."""

    @property
    def in_parts(self) -> bool:
        """Return whether some scenarios, or the first candidates, can be drawn alone.

        Host reads, which tell the scenarios that need more candidates, must be free.
        """
        return host_reads_are_free(self.source.environment.device)

    def rows(self, rows: Tensor | slice) -> Draws:
        """Return the numbers of some scenarios; only if ``in_parts``."""
        return replace(self, source=self.source.rows(rows))

    def uniform(self, purpose: int, before: Sequence[int], after: Sequence[int]) -> Tensor:
        """Draw numbers uniform on [0, 1), of the shape [*before, P, *after]."""
        numbers = self._numbers(purpose, 1, math.prod(before) * math.prod(after))
        return numbers.view(*before, *after, -1).movedim(-1, len(before)).contiguous()

    def candidates(self, purpose: int, count: int, sizes: Sequence[int], choices: int = 0) -> list[Tensor]:
        """Draw numbers of ``count`` candidates, uniform on [0, 1).

        Args:
            purpose: purpose of the numbers.
            count: number of candidates B.
            sizes: sizes of the parts of a candidate's numbers.
            choices: bound of the first part, which then has whole numbers below it; 0: none.

        Returns:
            One tensor [size, P, B] per part.
        """
        first, *others = self._numbers(purpose, count, sum(sizes)).split(list(sizes))
        if choices:
            first = (first * choices).to(torch.int64)
        return [first, *others]

    def _numbers(self, purpose: int, count: int, size: int) -> Tensor:
        """Return numbers [size, P, count]; those of a candidate do not depend on ``count``."""
        calls = -(-size // 4)
        words = self.source.of(purpose + ATTEMPT * self.attempt).words(count, calls)
        numbers = torch.stack([uniform(word, self.dtype) for word in words])
        # [4, count, calls, P]: the words of a call become adjacent.
        return numbers.permute(2, 0, 3, 1).flatten(0, 1)[:size].contiguous()


Draws = GeneratorDraws | CounterDraws
"""Random numbers of P scenarios."""


def make_draws(source: torch.Generator | RandomSource, size: int, dtype: torch.dtype, attempt: int = 0) -> Draws:
    """Return the random numbers for a batch of scenarios.

    Args:
        source: generator, or random source of P environments.
        size: number of scenarios P.
        dtype: floating-point type.
        attempt: number of earlier attempts at these scenarios.
    """
    if isinstance(source, torch.Generator):
        return GeneratorDraws(source, size, dtype)
    return CounterDraws(source, dtype, attempt)


def first_enough(draws: Draws, most: int, examine: Examine) -> tuple[Tensor, ...]:
    """Examine as many candidates as needed; the results are those of examining all.

    Args:
        draws: random numbers of P scenarios.
        most: most candidates.
        examine: function whose results do not change with more candidates than enough.

    Returns:
        Results, all [P, ...].
    """
    count = min(FEW, most) if draws.in_parts else most
    results, enough = examine(draws, slice(None), count)
    rows = torch.arange(len(enough), device=enough.device)
    while count < most:
        rows = rows[~enough]  # host: free where there are parts
        if not len(rows):
            break
        count = min(FURTHER * count, most)
        further, enough = examine(draws.rows(rows), rows, count)
        for result, new in zip(results, further, strict=True):
            result.index_copy_(0, rows, new)
    return results
