"""Tracks of the vessels in failed episodes, for pictures of them."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from marinenav_env import MarineNavEnv
from train_RL_agents.evaluation.judging.seamanship import ASTERN_SPEED
from train_RL_agents.evaluation.running.steps import StepShare, Transition
from train_RL_agents.evaluation.suites.sets import ScenarioSet
from train_RL_agents.utils.rows import Episodes

MAX_FAILURES = 6
"""Largest number of failed episodes of a suite whose tracks are kept."""
TRACK_INTERVAL = 1.0
"""Time between two points of a track (s)."""


class Failure(NamedTuple):
    """An episode that failed, with the tracks of its vessels."""

    group: str
    number: int
    """Number of the episode in the suite."""
    has_collision: bool
    """True for a collision, false if some vessel did not arrive in time."""
    tracks: tuple[Tensor, ...]
    """Positions [T, 2] (m) of each vessel, one per second while it acts."""


class EpisodeWatch(StepShare):
    """Callback that keeps the positions of all vessels, and counts the steps in which they go astern."""

    def __init__(self) -> None:
        super().__init__()
        self._env: MarineNavEnv | None = None
        # Of each part of the set, the rows [B] and the positions [B, R, 2] of each step; nan if not active.
        self._parts: list[list[tuple[Tensor, Tensor]]] = []
        self._interval = 1

    def __call__(self, transition: Transition, env: MarineNavEnv) -> None:
        """Keep the positions of a control step; see StepCallback."""
        if env is not self._env:
            self._env = env
            self._parts.append([])
            self._interval = max(1, round(TRACK_INTERVAL / env.config.control_step))
        before, after = transition.before.now.state, transition.after.now.state
        heading, (vx, vy) = after.pose[..., 2], after.velocity_ground[..., :2].unbind(-1)
        self.add(heading.cos() * vx + heading.sin() * vy < ASTERN_SPEED, before.active)
        place = torch.where(before.active[..., None], before.pose[..., :2], torch.nan)
        self._parts[-1].append((transition.rows.cpu(), place.float().cpu()))

    def failures(self, episodes: Episodes, chosen: ScenarioSet) -> tuple[Failure, ...]:
        """Return failed episodes of a set: one of each group in turn, of the groups with the least success first."""
        level, success = episodes.level, episodes.success
        failed = {group: (~success & (level == group)).nonzero().flatten().tolist() for group in set(level.tolist())}
        share = {group: len(numbers) / int((level == group).sum()) for group, numbers in failed.items()}
        worst = sorted(failed, key=lambda group: -share[group])
        turns = zip_longest(*(failed[group] for group in worst))
        numbers = [number for turn in turns for number in turn if number is not None][:MAX_FAILURES]
        places = [(part, row) for part, item in enumerate(chosen.parts) for row in range(len(item.scenarios))]
        return tuple(
            Failure(
                chosen.groups[int(level[number])] if chosen.groups else "all",
                number,
                bool(episodes.collision[number]),
                self._tracks(*places[number]),
            )
            for number in numbers
        )

    def _tracks(self, part: int, row: int) -> tuple[Tensor, ...]:
        """Return the positions [T, 2] of each vessel of an episode, one per second."""
        path = torch.cat([place[rows == row] for rows, place in self._parts[part]])[:: self._interval]
        tracks = (path[:, vessel] for vessel in range(path.shape[1]))
        return tuple(track[~track.isnan().any(-1)] for track in tracks if not track.isnan().all())
