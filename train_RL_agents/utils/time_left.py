"""Estimate of the remaining time of a run."""

from __future__ import annotations

from collections import deque

_LAPS = 30
"""Number of the latest log entries that the rate is averaged over, because off-policy agents are faster before they
learn."""
_EVALUATIONS = 5
"""Number of the latest evaluations that their time is averaged over."""


class TimeLeft:
    """Estimator of the remaining time from the latest log entries and evaluations.

    Args:
        total: env-steps of the run.
        eval_freq: env-steps between evaluations; 0: only one at the end.
    """

    def __init__(self, total: int, eval_freq: int = 0) -> None:
        self._total, self._eval_freq = total, eval_freq
        self._laps: deque[tuple[int, float]] = deque(maxlen=_LAPS)
        self._starts = True
        self._pauses: deque[float] = deque(maxlen=_EVALUATIONS)
        self._paused, self._count = 0.0, 0

    def lap(self, env_steps: int, seconds: float) -> None:
        """Add the env-steps since the last log entry, and their seconds of training."""
        if self._starts and self._laps:
            self._starts = False
            self._laps.clear()  # the first entry is before learning starts
        self._laps.append((env_steps, seconds))

    def evaluated(self, paused: float, count: int) -> None:
        """Add an evaluation.

        Args:
            paused: seconds of all evaluations of the run so far, with saving.
            count: number of these evaluations.
        """
        follows = count == self._count + 1  # false after a resume or a rewind
        if not follows or count == 2:  # the first evaluation of a run includes set-up
            self._pauses.clear()
        self._pauses.append(paused - self._paused if follows else paused / count)
        self._paused, self._count = paused, count

    @property
    def evaluation(self) -> float:
        """Return the mean seconds of the latest evaluations, with saving; 0 before the first one."""
        return sum(self._pauses) / len(self._pauses) if self._pauses else 0.0

    def seconds(self, env_steps: int) -> float | None:
        """Return the remaining seconds, including evaluations; None while no rate is known.

        Args:
            env_steps: env-steps of the run so far.
        """
        steps = sum(env_steps for env_steps, _ in self._laps)
        training = sum(seconds for _, seconds in self._laps)
        if steps <= 0 or training <= 0.0:
            return None
        left = max(self._total - env_steps, 0)
        evaluations = 1 if left else 0
        if self._eval_freq and left:
            # The last evaluation is at the end, even if that is not a multiple of the interval.
            evaluations = -(-self._total // self._eval_freq) - env_steps // self._eval_freq
        return left * training / steps + evaluations * self.evaluation


def clock_text(seconds: float) -> str:
    """Return a duration as ``h:mm:ss``, or as ``m:ss`` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
