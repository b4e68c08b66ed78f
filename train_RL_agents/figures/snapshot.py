"""Pictures of tracks and return quantiles of an evaluation, for TensorBoard."""

from __future__ import annotations

import gc
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env import GROUP, MarineNavEnv
from marinenav_env.pictures.drawing import new_figure, pixels
from train_RL_agents.agents import Agent
from train_RL_agents.evaluation.running.recording import Recorder, Recording
from train_RL_agents.evaluation.running.steps import Transition
from train_RL_agents.figures import drawing
from train_RL_agents.figures.episode_view import view_episode
from train_RL_agents.networks.observation import OBSERVATION_KEY, to_observation

_PANEL_SIZE = 2.9
"""Width and height of a panel (inches)."""
_MAP_MARGIN = 2.0
"""Margin around the map in a panel (m)."""


def first_index_per_level(level: Tensor) -> Tensor:
    """Return the index of the first scenario of every level [L], up to the number of panels, of levels [N]."""
    levels = level.unique()[: drawing.MAX_PANELS]
    return (level == levels[:, None]).to(torch.int8).argmax(-1)


class EvaluationProbe:
    """Callback of an evaluation that records tracks of some episodes and the return quantiles of the first actions."""

    def __init__(self, agent: Agent[Any], level: Tensor, device: torch.device, draws: bool) -> None:
        self._agent = agent
        first = first_index_per_level(level)
        self._groups = [f"level {number + 1}" for number in level[first].tolist()]
        can_draw = find_spec("matplotlib") is not None
        self._recorder = Recorder(first.to(device)) if draws and can_draw else None
        self._has_quantiles = False
        self.first_quantiles: Tensor | None = None
        """Quantiles of the return of the first actions of all robots (scaled rewards), flat; None if the agent does not
        estimate them."""

    def __call__(self, transition: Transition, env: MarineNavEnv) -> bool:
        """Record a control step of the evaluation, and return whether it should be called for further steps."""
        if not self._has_quantiles:
            self._has_quantiles = True
            action, active = transition.acted.get((GROUP, "action")), transition.before.now.state.active
            observation = to_observation(transition.acted.get(OBSERVATION_KEY))
            quantiles = self._agent.return_quantiles(observation, action)
            self.first_quantiles = None if quantiles is None else quantiles[active].flatten().cpu()
        if self._recorder is not None:
            self._recorder(transition, env)
        return self._recorder is not None

    def picture(self, title: str, map_size: tuple[float, float]) -> NDArray[np.uint8] | None:
        """Return a picture of the first episode of every level, on maps of a size (m), if it can be drawn."""
        if self._recorder is None:
            return None
        sizes = torch.tensor([map_size] * len(self._groups))
        return draw_tracks(self._recorder.finish(title, self._groups, sizes))


def draw_tracks(recording: Recording) -> NDArray[np.uint8] | None:
    """Return a picture of the tracks of all episodes as pixels [height, width, 3]; None if a position is not finite."""
    if not recording.poses.isfinite().all():
        return None
    views = [view_episode(recording, number + 1) for number in range(len(recording.steps))]
    height = _PANEL_SIZE * -(-len(views) // 3) + 0.7
    figure = new_figure(_PANEL_SIZE * min(3, len(views)), height)
    north, east = np.max([view.map_size for view in views], 0).tolist()
    # The largest map; longer tracks are cut.
    limits = -_MAP_MARGIN, north + _MAP_MARGIN, -_MAP_MARGIN, east + _MAP_MARGIN
    drawing.draw_panels(figure, views, limits)
    for axes in figure.axes:
        axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
    figure.suptitle(recording.policy, fontsize=11, y=1.0 - 0.1 / height)
    caption = f"north up, {views[0].map_size[0]:g} m; stars: goals, discs: obstacles, ×: collision"
    figure.text(0.5, 0.1 / height, caption, fontsize=9, ha="center")
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.33 / height, top=1.0 - 0.6 / height, wspace=0.04, hspace=0.1)
    figure.canvas.draw()
    image = pixels(figure)
    # Figures contain reference cycles; without collection a long run would keep dozens of them.
    del figure
    gc.collect()
    return image
