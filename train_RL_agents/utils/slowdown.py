"""Noticing that a run has become much slower than it was."""

from __future__ import annotations

from statistics import median

_FIRST, _LATEST = 5, 3
"""Rates whose median is the usual one, and rates that must all be slow."""
_FACTOR = 3.0


class Slowdown:
    """Compares the latest rates of a run with its first ones.

    Args:
        advice: what would help, for the end of the sentence.
    """

    def __init__(self, advice: str) -> None:
        self._advice = advice
        self._rates: list[float] = []
        self._usual, self._noticed = 0.0, False

    def notice(self, rate: float) -> str:
        """Take a rate, and describe the slowdown when one begins.

        Args:
            rate: env-steps per second since the last call.

        Returns:
            A sentence; empty when the run is as fast as usual or its slowness was noticed before.
        """
        self._rates.append(rate)
        if not self._usual:
            if len(self._rates) == _FIRST:
                self._usual, self._rates = median(self._rates), []
            return ""
        self._rates = self._rates[-_LATEST:]
        slow = len(self._rates) == _LATEST and max(self._rates) * _FACTOR < self._usual
        begins = slow and not self._noticed
        self._noticed = slow
        if not begins:
            return ""
        times = self._usual / max(median(self._rates), 1e-9)
        return (
            f"training has become {times:.1f} times slower ({median(self._rates):,.0f} instead of "
            f"{self._usual:,.0f} env-steps/s); {self._advice}"
        )
