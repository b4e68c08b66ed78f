"""Tracks and return quantiles of an evaluation, for TensorBoard."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env import GROUP, MarineNavEnv
from marinenav_env.pictures.drawing import Limits, new_figure, pixels
from train_RL_agents.agents import Agent
from train_RL_agents.evaluation.episodes import Moment
from train_RL_agents.evaluation.recording import Recorder, Recording
from train_RL_agents.figures import drawing
from train_RL_agents.figures.episode_view import EpisodeView, view_episode
from train_RL_agents.figures.plotting import styles
from train_RL_agents.networks.observation import OBSERVATION, observation_of

_PANEL, _MARGIN = 2.9, 2.0
"""Size of a panel (inches), and room around the map in it (m)."""


def can_draw() -> bool:
    """Whether matplotlib, of the extra ``plot``, is installed."""
    return find_spec("matplotlib") is not None


def first_of_each_level(level: Tensor) -> Tensor:
    """Index of the first scenario of each level, of as many levels as a picture has room for.

    Args:
        level: [N] int64.

    Returns:
        [L] int64, by level.
    """
    levels = level.unique()[: drawing.MOST_PANELS]
    return (level == levels[:, None]).to(torch.int8).argmax(-1)


class EvaluationProbe:
    """Looks on while an agent is evaluated.

    Args:
        agent: who steers.
        level: [N] of the scenarios.
        device: where the world is.
        draws: whether a picture is wanted.
    """

    def __init__(self, agent: Agent[Any], level: Tensor, device: torch.device, draws: bool) -> None:
        self._agent = agent
        chosen = first_of_each_level(level)
        self._groups = [f"level {number + 1}" for number in level[chosen].tolist()]
        self._recorder = Recorder(chosen.to(device)) if draws and can_draw() else None
        self._looked = False
        self.first_quantiles: Tensor | None = None
        """Quantiles of the return of the first actions of all robots (scaled rewards), in one row;
        None if the agent does not know them."""

    def __call__(self, moment: Moment, env: MarineNavEnv) -> bool:
        """Record a control step; returns whether further ones are wanted (see Watch)."""
        if not self._looked:
            self._looked = True
            action, active = moment.acted.get((GROUP, "action")), moment.before.now.state.active
            observation = observation_of(moment.acted.get(OBSERVATION))
            known = self._agent.return_quantiles(observation, action)
            self.first_quantiles = None if known is None else known[active].flatten().cpu()
        if self._recorder is not None:
            self._recorder(moment, env)
        return self._recorder is not None

    def picture(self, title: str, map_size: tuple[float, float]) -> NDArray[np.uint8] | None:
        """Draw the first episode of each level.

        Args:
            title: above the picture.
            map_size: along x and y (m).

        Returns:
            Pixels [height, width, 3]; None without matplotlib, if no picture is wanted, or when the
            world's values are not finite.
        """
        if self._recorder is None:
            return None
        sizes = torch.tensor([map_size] * len(self._groups))
        return draw(self._recorder.finish(title, self._groups, sizes))

    def success_by_level(self, env_steps: list[int], rates: dict[str, list[float]]) -> NDArray[np.uint8] | None:
        """Draw success over the evaluations so far.

        Args:
            env_steps: of the evaluations.
            rates: success rates of each, by level and overall.

        Returns:
            Pixels [height, width, 3]; None without matplotlib, or if no picture is wanted.
        """
        return draw_levels(env_steps, rates) if self._recorder is not None else None


def draw(recording: Recording) -> NDArray[np.uint8] | None:
    """Draw all episodes of a recording small, side by side; None where positions are not finite."""
    if not recording.poses.isfinite().all():
        return None
    views = [view_episode(recording, number + 1) for number in range(len(recording.steps))]
    height = _PANEL * -(-len(views) // 3) + 0.7
    figure = new_figure(_PANEL * min(3, len(views)), height)
    drawing.draw_panels(figure, views, _maps_alone(views))
    for axes in figure.axes:
        axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
    figure.suptitle(recording.policy, fontsize=11, y=1.0 - 0.1 / height)
    caption = f"north up, {views[0].map_size[0]:g} m; stars: goals, discs: obstacles, ×: collision"
    figure.text(0.5, 0.1 / height, caption, fontsize=9, ha="center")
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.33 / height, top=1.0 - 0.6 / height, wspace=0.04, hspace=0.1)
    figure.canvas.draw()
    drawn = pixels(figure)
    # Figures refer to themselves, and a long run would keep dozens of them.
    del figure
    gc.collect()
    return drawn


def draw_levels(env_steps: list[int], rates: dict[str, list[float]]) -> NDArray[np.uint8]:
    """Draw success over env-steps, a line for each of ``rates``, in colours of their own."""
    figure = new_figure(7.0, 4.0, "constrained")
    axes = figure.subplots()
    looks = styles([name for name in rates if name != "overall"])
    for name, values in rates.items():
        look = looks.get(name, {"color": "black", "linestyle": "-", "marker": ""})
        axes.plot(
            env_steps,
            values,
            label=name,
            color=look["color"],
            linestyle=look["linestyle"],
            marker=look["marker"],
            markersize=4,
        )
    axes.set(xlabel="env-steps", ylabel="success rate", ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center")
    figure.canvas.draw()
    return pixels(figure)


def _maps_alone(views: Sequence[EpisodeView]) -> Limits:
    """The largest map; tracks that leave it are cut."""
    north, east = np.max([view.map_size for view in views], 0).tolist()
    return -_MARGIN, north + _MARGIN, -_MARGIN, east + _MARGIN


__all__ = ["EvaluationProbe", "can_draw", "draw", "draw_levels", "first_of_each_level"]
