"""Rendering of a running world, as pixels or in a window that shows them while it runs."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import Level
from marinenav_env.pictures.drawing import PartialRedraw, VesselTracks, draw_map, draw_vessel, map_limits, new_figure
from marinenav_env.state import Scenario, WorldState
from marinenav_env.stepping.reset_pool import Curriculum
from marinenav_env.support.extras import import_optional
from marinenav_env.support.validation import is_number, require

RENDER_MODES = ("rgb_array", "human")
"""Render modes: ``rgb_array`` for pixels, ``human`` for a window."""
DEFAULT_FPS = 10.0
"""Default frames per second of a window: five times real time in the published world."""
PICTURE_SIZE = 6.4
"""Width and height of a picture (inches, at 100 pixels per inch)."""


class Renderer:
    """Renderer of the first environment of a world, with the tracks since the start of its episode.

    It needs matplotlib, from the extra ``plot``. Map sizes of levels replace ``map_size`` (m) unless they are 0.
    """

    def __init__(self, map_size: tuple[float, float], levels: Sequence[Level] = ()) -> None:
        self._size = map_size
        self._sides = {number: level.map_size for number, level in enumerate(levels)}
        self._poses: list[Tensor] = []
        self._steps, self._places = -1, torch.empty(0)
        self._redraw: PartialRedraw | None = None
        self._window: Window | None = None
        import_optional("matplotlib", "plot")

    def render(self, world: WorldState, mode: str, fps: float) -> NDArray[np.uint8] | None:
        """Return the current state as pixels [height, width, 3], or show it in a window and return None.

        The window (mode ``human``) has the ``fps`` of the first call, and is shown until the user closes it.
        """
        require(mode in RENDER_MODES, "mode", mode, " or ".join(RENDER_MODES))
        self._append_poses(world)
        if mode == "rgb_array":
            return self._draw(world)
        self._window = self._window or Window(fps)
        if self._window.is_open():
            self._window.show(self._draw(world))
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
        self._window = None

    def _append_poses(self, world: WorldState) -> None:
        """Append the current poses to the tracks, or start new tracks in a new episode."""
        state, scenario = world.now.state[0], world.now.scenario[0]
        pose, steps = state.pose.float().cpu(), int(state.steps)
        places = torch.cat((scenario.start, scenario.goal, scenario.obstacle_position, scenario.core_position)).cpu()
        # A caller that draws rarely may miss the first steps of a new episode, so the scenario is compared, too.
        same = torch.equal(places, self._places)
        if same and steps == self._steps and torch.equal(pose, self._poses[-1]):
            return
        if not same or steps <= self._steps:
            self._poses, self._redraw = [], None
        self._steps, self._places = steps, places
        self._poses.append(pose)

    def _draw(self, world: WorldState) -> NDArray[np.uint8]:
        tracks = self._tracks(world)
        if self._redraw is None:
            figure = new_figure(PICTURE_SIZE, PICTURE_SIZE)
            self._axes, self._redraw = figure.add_axes((0.08, 0.07, 0.9, 0.91)), PartialRedraw(figure)
            draw_map(self._axes, tracks, map_limits(tracks))
        moving = [artist for vessel in range(tracks.vessels) for artist in draw_vessel(self._axes, tracks, vessel, -1)]
        pixels = self._redraw.image(moving)
        for artist in moving:
            artist.remove()
        return pixels

    def _tracks(self, world: WorldState) -> VesselTracks:
        """Return the tracks of the first environment up to now, with its current thrust and flags."""
        now, constants = world.now[0].cpu(), world.parameters[0].cpu()
        state, scenario, exists = now.state, now.scenario, now.scenario.robot_mask
        cores, obstacles = scenario.core_circulation != 0.0, scenario.obstacle_mask
        hulls = torch.stack((constants.vessel.length, constants.vessel.width), -1)
        circulation = scenario.core_circulation[cores][:, None]
        radius = constants.rules.core_radius.expand_as(circulation)
        side = self._sides.get(int(scenario.level))
        size = (side, side) if side else self._size
        if scenario.map_size is not None:
            size = (float(scenario.map_size[0]), float(scenario.map_size[1]))
        return VesselTracks(
            poses=torch.stack(self._poses)[:, exists].numpy(),
            thrust=state.thrust[None, exists].numpy(),
            active=state.active[None, exists].numpy(),
            collided=state.collided[None, exists].numpy(),
            goals=scenario.goal[exists].numpy(),
            hulls=hulls.expand(len(exists), 2)[exists].numpy(),
            obstacles=torch.cat((scenario.obstacle_position, scenario.obstacle_radius[:, None]), -1)[obstacles].numpy(),
            cores=torch.cat((scenario.core_position[cores], circulation, radius), -1).numpy(),
            map_size=size,
            shores=np.zeros((0, 4), np.float32) if scenario.shores is None else scenario.shores.numpy(),
        )


def make_renderer(scenarios: Any, usual: ScenarioConfig) -> Renderer:
    """Return a renderer with the maps of the levels of a Curriculum, or the largest map of the given episodes."""
    levels = scenarios.levels if isinstance(scenarios, Curriculum) else ()
    maps = [usual]
    if not isinstance(scenarios, Curriculum | Scenario):
        maps = [episode.world.scenario for episode in scenarios]
    return Renderer((max(each.width for each in maps), max(each.height for each in maps)), levels)


class Window:
    """Window of matplotlib that shows pictures; without a display it shows nothing.

    Args:
        fps: pictures per second, kept by waiting in ``show``.
    """

    def __init__(self, fps: float) -> None:
        require(is_number(fps) and fps > 0.0, "render_fps", fps, "a number above 0")
        self._pyplot, self._pause = import_optional("matplotlib.pyplot", "plot"), 1.0 / fps
        self._figure = self._pyplot.figure("marinenav", figsize=(PICTURE_SIZE, PICTURE_SIZE), dpi=100)
        self._picture: Any = None
        self._next = time.monotonic()

    def is_open(self) -> bool:
        """Return whether the user has not closed the window."""
        return bool(self._pyplot.fignum_exists(self._figure.number))

    def show(self, pixels: NDArray[np.uint8]) -> None:
        """Show a picture [height, width, 3] once the last picture has been shown long enough."""
        if self._picture is None:
            axes = self._figure.add_axes((0.0, 0.0, 1.0, 1.0), xticks=[], yticks=[])
            self._picture = axes.imshow(pixels)
            with suppress(import_optional("matplotlib.backend_bases", "plot").NonGuiException):
                self._figure.canvas.manager.show()
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._picture.set_data(pixels)
        self._figure.canvas.draw_idle()
        # This also lets the window react to the mouse.
        self._figure.canvas.flush_events()
        self._next = time.monotonic() + self._pause

    def close(self) -> None:
        """Close the window."""
        self._pyplot.close(self._figure)
