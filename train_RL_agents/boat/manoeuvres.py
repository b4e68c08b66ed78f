"""Escape manoeuvres of a boat with two thrusters: two phases of constant commands each. This is the only list of them.

The safety shield tries the short list in a prediction: on board, in evaluations, and on the page of the demo, which is
given the list. Whether a collision was avoidable is found with the dense list, in the world itself.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

LOW, NEUTRAL, HIGH = range(3)
"""Levels of the command of a side: its lowest one, that which changes the thrust least, and its highest one."""
Pair = tuple[int, int]
"""Levels of the left and of the right side."""


class Manoeuvre(NamedTuple):
    """Manoeuvre of two phases; among equally good ones, those to starboard come first."""

    first: Pair
    """Commands of the first phase."""
    second: Pair | None
    """Commands of the second phase; None: it brings both thrusts to zero."""
    first_steps: int
    """Length of the first phase (control steps)."""


PAIRS: tuple[Pair, ...] = tuple(product((NEUTRAL, HIGH, LOW), (NEUTRAL, LOW, HIGH)))


def list_manoeuvres(second: Sequence[Pair | None], first_steps: Sequence[int]) -> tuple[Manoeuvre, ...]:
    """Return the manoeuvres with every pair of commands in the first phase, and given second phases and lengths."""
    return tuple(Manoeuvre(*phases, steps) for steps in first_steps for phases in product(PAIRS, second))


SHORT_LIST = list_manoeuvres(((NEUTRAL, NEUTRAL), (HIGH, HIGH), None, (LOW, LOW)), (2, 4, 8))
"""The 108 manoeuvres of the shield, the first of which keeps the thrust."""
DENSE_LIST = list_manoeuvres(PAIRS, (1, 2, 4, 8))
"""The 324 manoeuvres of which one has to avoid an avoidable collision."""


class EscapeManoeuvres(NamedTuple):
    """M manoeuvres as arrays.

    Commands are the rates of the left and the right thrust as multiples of ``max_thrust_rate``, which only rates that a
    policy chooses from can exceed.
    """

    first_commands: Any
    """[M, 2] or [N, M, 2] commands of the first phase."""
    second_commands: Any
    """Commands of the second phase, of the same shape."""
    first_steps: Any
    """[M] numbers of control steps of the first phase."""
    ends_without_thrust: Any
    """[M] bool: whether the second phase brings both thrusts to zero instead."""

    def subset(self, begin: int, end: int | None) -> "EscapeManoeuvres":
        """Return the manoeuvres with indices from ``begin`` to ``end``, exclusive."""
        first, second = (column[..., begin:end, :] for column in self[:2])
        return EscapeManoeuvres(first, second, self.first_steps[begin:end], self.ends_without_thrust[begin:end])

    def of_vessels(self, rows: Any) -> "EscapeManoeuvres":
        """Return the manoeuvres, which have commands [N, M, 2], of the vessels that indices or a slice select."""
        return self._replace(first_commands=self.first_commands[rows], second_commands=self.second_commands[rows])


def escape_manoeuvres(
    xp: Any, sides: Any, listed: Sequence[Manoeuvre] = SHORT_LIST, **options: Any
) -> EscapeManoeuvres:
    """Return listed manoeuvres as arrays of ``xp``, numpy or torch, with its ``options`` such as the device.

    ``sides`` [2, 3] or [N, 2, 3] are the lowest, neutral and highest command of the left and of the right side.
    """
    first, second, steps = zip(*listed, strict=True)

    def commands(pairs: Iterable[Pair | None]) -> Any:
        levels = zip(*(pair or (NEUTRAL, NEUTRAL) for pair in pairs), strict=True)
        return xp.stack([sides[..., side, list(chosen)] for side, chosen in enumerate(levels)], -1)

    stops = [pair is None for pair in second]
    return EscapeManoeuvres(
        commands(first), commands(second), xp.asarray(steps, **options), xp.asarray(stops, **options)
    )
