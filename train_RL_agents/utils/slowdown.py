"""Detection of training runs that have become much slower."""

from statistics import median

_NUM_REFERENCE_RATES = 5
"""Number of the first rates (env-steps/s) of a run whose median is the reference."""
_NUM_LATEST_RATES = 3
"""Number of the latest rates that must all be slow."""
_SLOWDOWN_RATIO = 3.0
"""Ratio of the reference rate to a rate above which that rate is slow."""


class SlowdownDetector:
    """Detector that compares the latest rates of a run (env-steps/s) with its first ones."""

    def __init__(self) -> None:
        self._rates: list[float] = []
        self._reference, self._is_slow = 0.0, False

    def add_rate(self, rate: float) -> str:
        """Add a rate, and return a sentence with rates if a slowdown begins with it, else an empty text."""
        self._rates.append(rate)
        if not self._reference:
            if len(self._rates) == _NUM_REFERENCE_RATES:
                self._reference, self._rates = median(self._rates), []
            return ""
        self._rates = self._rates[-_NUM_LATEST_RATES:]
        slow = len(self._rates) == _NUM_LATEST_RATES and max(self._rates) * _SLOWDOWN_RATIO < self._reference
        begins = slow and not self._is_slow
        self._is_slow = slow
        if not begins:
            return ""
        times = self._reference / max(median(self._rates), 1e-9)
        return (
            f"training has become {times:.1f} times slower ({median(self._rates):,.0f} instead of "
            f"{self._reference:,.0f} env-steps/s); other programs may be using this machine"
        )
