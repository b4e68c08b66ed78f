"""Estimate of the time that a run still takes."""

from __future__ import annotations

from collections import deque

_LAPS = 30
"""Log entries that the rate is the mean of: off-policy agents are fast before they learn."""
_EVALUATIONS = 5
"""Evaluations that the time of one is the mean of."""


class TimeLeft:
    """Estimates the time left from the rate of the latest log entries and the latest evaluations.

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
        """Note the env-steps since the last log entry, and the seconds of training they took."""
        if self._starts and self._laps:
            self._starts = False
            self._laps.clear()  # the first entry is from before learning
        self._laps.append((env_steps, seconds))

    def evaluated(self, paused: float, count: int) -> None:
        """Note an evaluation.

        Args:
            paused: seconds of all evaluations of the run so far, with saving.
            count: of these evaluations.
        """
        follows = count == self._count + 1  # not in a run that was resumed or rewound
        if not follows or count == 2:  # the first one of a run sets up what later ones use
            self._pauses.clear()
        self._pauses.append(paused - self._paused if follows else paused / count)
        self._paused, self._count = paused, count

    @property
    def evaluation(self) -> float:
        """Return the seconds that an evaluation takes, with saving; 0 until one was made."""
        return sum(self._pauses) / len(self._pauses) if self._pauses else 0.0

    def seconds(self, env_steps: int) -> float | None:
        """Return the seconds left, evaluations included; None while no rate is known.

        Args:
            env_steps: of the run so far.
        """
        made = sum(env_steps for env_steps, _ in self._laps)
        taken = sum(seconds for _, seconds in self._laps)
        if made <= 0 or taken <= 0.0:
            return None
        left = max(self._total - env_steps, 0)
        evaluations = 1 if left else 0
        if self._eval_freq and left:
            # The last one is made at the end, whether that is a multiple or not.
            evaluations = -(-self._total // self._eval_freq) - env_steps // self._eval_freq
        return left * taken / made + evaluations * self.evaluation


def clock_text(seconds: float) -> str:
    """Return a duration as ``h:mm:ss``, or as ``m:ss`` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
