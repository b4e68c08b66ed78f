"""Estimate of the remaining time of a training run."""

from __future__ import annotations

from collections import deque

_MAX_LOG_ENTRIES = 30
"""Largest number of the latest log entries over which the rate is averaged, because off-policy agents are faster
before they learn."""
_MAX_EVALUATIONS = 5
"""Largest number of the latest evaluations over which their duration is averaged."""


class TimeLeftEstimator:
    """Estimator of the remaining time from the latest log entries and evaluations.

    Args:
        total: env-steps of the run.
        eval_freq: env-steps between evaluations; 0: only one at the end.
    """

    def __init__(self, total: int, eval_freq: int = 0) -> None:
        self._total, self._eval_freq = total, eval_freq
        self._log_entries: deque[tuple[int, float]] = deque(maxlen=_MAX_LOG_ENTRIES)
        self._is_start = True
        self._evaluations: deque[float] = deque(maxlen=_MAX_EVALUATIONS)
        self._total_seconds, self._count = 0.0, 0

    def add_log_entry(self, env_steps: int, seconds: float) -> None:
        """Add the number of env-steps since the last log entry, and the seconds of training that they took."""
        if self._is_start and self._log_entries:
            self._is_start = False
            self._log_entries.clear()  # the first entry is before learning starts
        self._log_entries.append((env_steps, seconds))

    def add_evaluation(self, total_seconds: float, count: int) -> None:
        """Add the latest evaluation, by the totals of the run so far.

        Args:
            total_seconds: seconds of all evaluations of the run so far, with saving.
            count: number of these evaluations.
        """
        follows = count == self._count + 1  # false after a resume or a rewind
        if not follows or count == 2:  # the first evaluation of a run includes set-up
            self._evaluations.clear()
        self._evaluations.append(total_seconds - self._total_seconds if follows else total_seconds / count)
        self._total_seconds, self._count = total_seconds, count

    @property
    def mean_evaluation_seconds(self) -> float:
        """Return the mean duration of the latest evaluations (s), with saving; 0 before the first one."""
        return sum(self._evaluations) / len(self._evaluations) if self._evaluations else 0.0

    def remaining_seconds(self, env_steps: int) -> float | None:
        """Return the remaining seconds of the run, including its evaluations; None while no rate is known.

        Args:
            env_steps: env-steps of the run so far.
        """
        steps = sum(env_steps for env_steps, _ in self._log_entries)
        training = sum(seconds for _, seconds in self._log_entries)
        if steps <= 0 or training <= 0.0:
            return None
        left = max(self._total - env_steps, 0)
        evaluations = 1 if left else 0
        if self._eval_freq and left:
            # The last evaluation is at the end, even if that is not a multiple of the interval.
            evaluations = -(-self._total // self._eval_freq) - env_steps // self._eval_freq
        return left * training / steps + evaluations * self.mean_evaluation_seconds


def clock_text(seconds: float) -> str:
    """Return a duration as ``h:mm:ss``, or as ``m:ss`` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
