"""Searches for encounters with a small clearance: at random, or by the cross-entropy method.

A search proposes encounters (``ask``) and gets their outcomes (``tell``), whole populations at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from train_RL_agents.falsification.encounters import CELLS, PARAMETERS, Encounters, Space, joined

NICHES = 6
"""Distributions that are fitted beside each other, independently."""
ELITE, SMOOTHING = 0.2, 0.7
"""Share of the encounters of a niche that its distribution is fitted to, and weight of the new fit."""
LEAST_SPREAD, LEAST_CHANCE = 0.03, 0.02
"""Smallest standard deviation of a continuous parameter, and weight of the prior of the categorical ones."""
RICH, MATURE, STALE = 0.4, 8, 7
"""Share of failures at which a niche is rich, and generations after which it restarts: MATURE rich ones, or STALE
others."""
NEAR, WIDE, TRUST = 1.0, 0.15, 0.8
"""Largest score of an encounter around which a niche restarts (m), the standard deviation of the continuous
parameters around one, and the probability of its categorical ones."""
UNAVOIDABLE = 10.0
"""Score of unavoidable collisions, which are not searched for (m)."""


class Trials(NamedTuple):
    """Outcomes of P encounters."""

    clearance: Tensor
    """[P] smallest distance between the hull of the own vessel and another (m), negative if they collided."""
    collision: Tensor
    """[P] bool: the own vessel collided."""
    unavoidable: Tensor
    """[P] bool: no manoeuvre avoids the collision once the misbehaviour could be observed; see avoidance."""
    unavoidable_at_sight: Tensor
    """[P] bool: no manoeuvre avoids it from the first sight of a vessel on."""
    hit: Tensor
    """[P] int64 index, among the others, of the vessel that came closest."""

    def rows(self, chosen: Tensor) -> Trials:
        """Return some of the outcomes."""
        return Trials(*(tensor[chosen] for tensor in self))

    @property
    def failed(self) -> Tensor:
        """Return the failures: collisions that were avoidable, [P] bool."""
        return self.collision & ~self.unavoidable


class Search(Protocol):
    """Search for encounters."""

    def ask(self, episodes: int) -> Encounters:
        """Return encounters to run."""

    def tell(self, encounters: Encounters, trials: Trials) -> None:
        """Take the outcomes of the encounters that ``ask`` returned last."""


class RandomSearch:
    """Random encounters.

    Args:
        space: encounters to choose from.
        seed: seed of the random numbers.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._generator = space, torch.Generator().manual_seed(seed)

    def ask(self, episodes: int) -> Encounters:
        """See Search."""
        return self._space.draw(episodes, self._generator)

    def tell(self, encounters: Encounters, trials: Trials) -> None:
        """Learn nothing; see Search."""


class _Fit(NamedTuple):
    """Distributions of K niches."""

    others: Tensor
    """[K, V] probabilities of the number of other vessels."""
    cell: Tensor
    """[K, V, CELLS] probabilities of kind and behaviour."""
    mean: Tensor
    """[K, V, PARAMETERS] means of the continuous parameters."""
    spread: Tensor
    """[K, V, PARAMETERS] their standard deviations."""


class _Seen(NamedTuple):
    """A population of K niches with its outcomes."""

    encounters: Encounters
    """Encounters, [E, K]."""
    score: Tensor
    """[E, K] scores (m)."""
    hit: Tensor
    """[E, K] kind and behaviour of the vessel that came closest."""


class CrossEntropy:
    """Cross-entropy method (Rubinstein 1999) with several niches, each of which restarts where it has found enough.

    Encounters are drawn from categorical and normal distributions (reflected at the ends of the ranges), which are
    fitted to the encounters with the smallest clearance, of this generation and the best of those before. A niche
    begins with random encounters, and goes on around the one with the smallest clearance. If it has found many
    failures, or few for long, it restarts without the kind and behaviour that it found most often: around the best
    of all other encounters that it has seen, or at random if none was a near miss. Niches learn nothing from each
    other, so that their results are independent. Row r of a population belongs to niche r modulo NICHES.

    Args:
        space: encounters to choose from.
        seed: seed of the random numbers.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._generator = space, torch.Generator().manual_seed(seed)
        self._banned = torch.zeros(NICHES, CELLS, dtype=torch.bool)
        self._fit = self._priors()
        self._is_new = torch.ones(NICHES, dtype=torch.bool)
        self._generations = torch.zeros(2, NICHES, dtype=torch.int64)
        self._best: tuple[Encounters, Tensor] | None = None
        self._seen: list[_Seen] = []

    def _priors(self) -> _Fit:
        """Return the distributions with which niches begin."""
        others = self._space.others
        cell = (self._space.prior * ~self._banned)[:, None].expand(-1, others, -1)
        blank = torch.zeros(NICHES, others, PARAMETERS, dtype=torch.float64)
        count = torch.full((NICHES, others), 1.0 / others, dtype=torch.float64)
        return _Fit(count, cell / cell.sum(-1, keepdim=True), blank + 0.5, blank + 0.3)

    def ask(self, episodes: int) -> Encounters:
        """See Search."""
        rows, others = -(-episodes // NICHES), self._space.others
        drawn: dict[str, Any] = {"num_samples": rows, "replacement": True, "generator": self._generator}
        count = 1 + torch.multinomial(self._fit.others, **drawn).T
        cell = torch.multinomial(self._fit.cell.flatten(0, 1), **drawn).T.view(rows, NICHES, others)
        shape = (rows, NICHES, others, PARAMETERS)
        options: dict[str, Any] = {"generator": self._generator, "dtype": torch.float64}
        normal = self._fit.mean + self._fit.spread * torch.randn(shape, **options)
        reflected = (1.0 - (1.0 - normal.abs()).abs()).clamp(0.0, 1.0)
        unit = torch.where(self._is_new[:, None, None], torch.rand(shape, **options), reflected)
        return Encounters(*(tensor.flatten(0, 1)[:episodes] for tensor in (count, cell, unit)))

    def tell(self, encounters: Encounters, trials: Trials) -> None:
        """See Search; a population that is not the same for all niches is the last, and teaches nothing."""
        rows, left = divmod(len(encounters.others), NICHES)
        if left or not rows:
            return
        by_niche = Encounters(*(tensor.view(rows, NICHES, *tensor.shape[1:]) for tensor in encounters))
        score = torch.where(trials.unavoidable, UNAVOIDABLE, trials.clearance).double().view(rows, NICHES)
        hit = trials.hit.view(rows, NICHES)
        self._seen.append(_Seen(by_niche, score, by_niche.cell.gather(-1, hit[..., None])[..., 0]))
        if self._best is not None:
            by_niche = Encounters(*(torch.cat(pair) for pair in zip(by_niche, self._best[0], strict=True)))
            score = torch.cat((score, self._best[1]))
        lowest, index = score.topk(max(3, round(ELITE * rows)), 0, largest=False)
        elite = Encounters(*(tensor[index, torch.arange(NICHES)] for tensor in by_niche))
        self._best = elite, lowest
        self._learn(elite)
        self._restart(encounters, trials)

    def _learn(self, elite: Encounters) -> None:
        """Fit the distributions to the elite, [E, K] encounters; those of new niches to their best one."""
        old, prior = self._fit, self._priors()
        others = torch.nn.functional.one_hot(elite.others - 1, self._space.others).double().mean(0)
        cells = torch.nn.functional.one_hot(elite.cell, CELLS).double().mean(0)
        elites = _Fit(others, cells, elite.unit.mean(0), elite.unit.std(0))
        others, cell, mean, spread = (torch.lerp(*pair, SMOOTHING) for pair in zip(old, elites, strict=True))
        others, cell = torch.lerp(others, prior.others, LEAST_CHANCE), torch.lerp(cell, prior.cell, LEAST_CHANCE)
        fitted = _Fit(others, cell, mean, spread.clamp_min(LEAST_SPREAD))
        self._fit = _choose(self._is_new, self._around_best()[0], fitted)
        self._is_new = torch.zeros_like(self._is_new)

    def _restart(self, encounters: Encounters, trials: Trials) -> None:
        """Let niches restart that have found enough, or too little for long.

        Args:
            encounters: population.
            trials: its outcomes.
        """
        failed = trials.failed.view(-1, NICHES)
        is_rich = failed.double().mean(0) >= RICH
        self._generations += torch.stack((is_rich, ~is_rich))
        restarts = (self._generations >= torch.tensor([[MATURE], [STALE]])).any(0)
        hit = encounters.cell[torch.arange(len(trials.hit)), trials.hit].view(-1, NICHES)
        counts = (torch.nn.functional.one_hot(hit, CELLS) * failed[..., None]).sum(0)
        is_most = torch.nn.functional.one_hot(counts.argmax(-1), CELLS).bool()
        self._banned |= is_most & restarts[:, None] & (counts > 0)
        exhausted = ((self._space.prior > 0.0) & ~self._banned).sum(-1) == 0
        self._banned &= ~exhausted[:, None]
        around, lowest = self._around_best()
        is_far = lowest > NEAR
        self._fit = _choose(restarts, _choose(is_far, self._priors(), around), self._fit)
        self._is_new = restarts & is_far
        self._generations = torch.where(restarts, 0, self._generations)
        assert self._best is not None
        self._best = self._best[0], torch.where(restarts, torch.inf, self._best[1])

    def _around_best(self) -> tuple[_Fit, Tensor]:
        """Return distributions around the best encounter that each niche has seen and may choose, and its score [K]."""
        niche, prior = torch.arange(NICHES), self._priors()
        encounters = joined([seen.encounters for seen in self._seen])
        cell = torch.cat([seen.hit for seen in self._seen])
        score = torch.cat([seen.score for seen in self._seen]).masked_fill(self._banned[niche, cell], torch.inf)
        lowest, row = score.min(0)
        best = Encounters(*(tensor[row, niche] for tensor in encounters))
        others = torch.nn.functional.one_hot(best.others - 1, self._space.others).double()
        cells = torch.nn.functional.one_hot(best.cell, CELLS).double()
        return _Fit(
            torch.lerp(prior.others, others, TRUST),
            torch.lerp(prior.cell, cells, TRUST),
            best.unit,
            torch.full_like(prior.spread, WIDE),
        ), lowest


def _choose(mask: Tensor, ours: _Fit, theirs: _Fit) -> _Fit:
    """Return the first distributions of the niches of a mask [K], and the second ones of others."""
    pairs = zip(ours, theirs, strict=True)
    return _Fit(*(torch.where(mask.view(-1, *[1] * (one.ndim - 1)), one, other) for one, other in pairs))


METHODS: dict[str, Callable[[Space, int], Search]] = {"cross-entropy": CrossEntropy, "random": RandomSearch}
"""Searches by name."""
