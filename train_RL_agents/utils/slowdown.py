"""Detection of runs that have become much slower."""

from __future__ import annotations

from statistics import median

_NUM_REFERENCE, _NUM_LATEST = 5, 3
"""Number of initial rates (env-steps/s) whose median is the reference, and number of latest rates that must all be
slow."""
_FACTOR = 3.0
"""Ratio of the reference to a rate above which the rate is slow."""


class Slowdown:
    """Detector that compares the latest rates of a run with its first ones.

    Args:
        advice: advice at the end of the reported sentence.
    """

    def __init__(self, advice: str) -> None:
        self._advice = advice
        self._rates: list[float] = []
        self._reference, self._noticed = 0.0, False

    def notice(self, rate: float) -> str:
        """Add a rate, and return a description of the slowdown when one begins.

        Args:
            rate: env-steps per second since the last call.

        Returns:
            A sentence; empty when the run is not slow, or its slowdown was already reported.
        """
        self._rates.append(rate)
        if not self._reference:
            if len(self._rates) == _NUM_REFERENCE:
                self._reference, self._rates = median(self._rates), []
            return ""
        self._rates = self._rates[-_NUM_LATEST:]
        slow = len(self._rates) == _NUM_LATEST and max(self._rates) * _FACTOR < self._reference
        begins = slow and not self._noticed
        self._noticed = slow
        if not begins:
            return ""
        times = self._reference / max(median(self._rates), 1e-9)
        return (
            f"training has become {times:.1f} times slower ({median(self._rates):,.0f} instead of "
            f"{self._reference:,.0f} env-steps/s); {self._advice}"
        )
