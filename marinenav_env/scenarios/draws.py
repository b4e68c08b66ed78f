"""Random numbers that scenarios are drawn from: of a generator, or by counter.

By counter, the numbers of a scenario depend neither on the other scenarios that are drawn with it
nor on how many candidates are. So on a CPU a few candidates are examined at first, and more of them
only for the scenarios for which these were not enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from marinenav_env.runtime.host_reads import rows_where
from marinenav_env.runtime.philox import RandomSource, uniform

ROBOTS, COURSES, REACH, OFFSETS, MOTION, HEADINGS, CORES, OBSTACLES = range(2**16, 2**16 + 8)
VESSELS, WEATHER, LEVEL, START = range(2**16 + 8, 2**16 + 12)
"""Purposes of random numbers; those of noise are counted from 0 on."""
ATTEMPT = 2**12
"""Between the purposes of one attempt at a scenario and of the next."""
FEW, FURTHER = 64, 4
"""Candidates that are examined at first, and the factor from one try to the next."""

Examine = Callable[["Draws", Tensor | slice, int], tuple[tuple[Tensor, ...], Tensor]]
"""From the numbers of some scenarios, their rows and how many candidates to examine, to results,
each [P, ...], and [P] bool: whether these candidates were enough."""


class Draws(Protocol):
    """Random numbers of P scenarios."""

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type."""

    @property
    def in_parts(self) -> bool:
        """Whether some scenarios, or the first candidates, can be drawn alone."""

    def rows(self, rows: Tensor | slice) -> Draws:
        """The numbers of some scenarios; only if ``in_parts``."""

    def uniform(self, purpose: int, before: Sequence[int], after: Sequence[int]) -> Tensor:
        """Numbers uniform on [0, 1), of the shape [*before, P, *after]."""

    def candidates(self, purpose: int, count: int, sizes: Sequence[int], choices: int = 0) -> list[Tensor]:
        """Numbers of ``count`` candidates, uniform on [0, 1).

        Args:
            purpose: what they are for.
            count: B.
            sizes: numbers of a candidate, in parts.
            choices: if given, the first part has whole numbers below it.

        Returns:
            For each part [size, P, B].
        """


@dataclass(frozen=True)
class GeneratorDraws:
    """Numbers of a generator, in the order of the calls."""

    generator: torch.Generator
    size: int
    """P."""
    dtype: torch.dtype
    in_parts = False

    def rows(self, rows: Tensor | slice) -> Draws:
        """See Draws."""
        raise NotImplementedError

    def uniform(self, purpose: int, before: Sequence[int], after: Sequence[int]) -> Tensor:
        """See Draws."""
        return self._uniform(*before, self.size, *after)

    def candidates(self, purpose: int, count: int, sizes: Sequence[int], choices: int = 0) -> list[Tensor]:
        """See Draws."""
        generator, found = self.generator, []
        for number, size in enumerate(sizes):
            shape = self.size, count, size
            if choices and number == 0:
                drawn = torch.randint(choices, shape, generator=generator, device=generator.device)
            else:
                drawn = self._uniform(*shape)
            found.append(drawn.movedim(-1, 0).contiguous())
        return found

    def _uniform(self, *shape: int) -> Tensor:
        generator = self.generator
        return torch.rand(shape, generator=generator, device=generator.device, dtype=self.dtype)


@dataclass(frozen=True)
class CounterDraws:
    """Numbers by counter; each scenario counts as an environment of the source."""

    source: RandomSource
    dtype: torch.dtype
    attempt: int = 0
    """Each has other numbers."""

    @property
    def in_parts(self) -> bool:
        """See Draws; which scenarios need more is read on the host."""
        return rows_where(self.source.environment < 0) is not None

    def rows(self, rows: Tensor | slice) -> Draws:
        """See Draws."""
        return replace(self, source=self.source.rows(rows))

    def uniform(self, purpose: int, before: Sequence[int], after: Sequence[int]) -> Tensor:
        """See Draws."""
        numbers = self._numbers(purpose, 1, math.prod(before) * math.prod(after))
        return numbers.view(*before, *after, -1).movedim(-1, len(before)).contiguous()

    def candidates(self, purpose: int, count: int, sizes: Sequence[int], choices: int = 0) -> list[Tensor]:
        """See Draws."""
        first, *others = self._numbers(purpose, count, sum(sizes)).split(list(sizes))
        if choices:
            first = (first * choices).to(torch.int64)
        return [first, *others]

    def _numbers(self, purpose: int, count: int, size: int) -> Tensor:
        """Numbers [size, P, count]: those of a candidate do not depend on how many there are."""
        calls = -(-size // 4)
        words = self.source.of(purpose + ATTEMPT * self.attempt).words(count, calls)
        found = torch.stack([uniform(word, self.dtype) for word in words])
        # [4, count, calls, P]: the words of a call follow one another.
        return found.permute(2, 0, 3, 1).flatten(0, 1)[:size].contiguous()


def make_draws(source: torch.Generator | RandomSource, size: int, dtype: torch.dtype, attempt: int = 0) -> Draws:
    """Numbers of so many scenarios.

    Args:
        source: a generator, or what they follow from, of as many environments.
        size: P.
        dtype: floating-point type.
        attempt: how often these scenarios were drawn before.
    """
    if isinstance(source, torch.Generator):
        return GeneratorDraws(source, size, dtype)
    return CounterDraws(source, dtype, attempt)


def first_enough(draws: Draws, most: int, examine: Examine) -> tuple[Tensor, ...]:
    """Examine as many candidates as are needed; the results are those of examining all.

    Args:
        draws: of P scenarios.
        most: candidates there are at most.
        examine: gives the same results for more candidates than were enough.

    Returns:
        Results, each [P, ...].
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
        for result, found in zip(results, further, strict=True):
            result.index_copy_(0, rows, found)
    return results
