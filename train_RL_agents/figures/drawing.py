"""Matplotlib figures of recorded episodes: animations as MP4, stills, and overviews of tracks."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marinenav_env.pictures.drawing import (
    VESSEL_COLOURS,
    Limits,
    PartialRedraw,
    colour,
    draw_arrow,
    draw_disc,
    draw_hull,
    draw_map,
    draw_number,
    draw_track,
    draw_vessel,
    label_distance,
    map_limits,
    new_figure,
    start_places,
    to_page,
)
from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import require_overwritable
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.figures.episode_view import NO_RULE, RULE_NAMES, EpisodeView, zone_in_world
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_HULL_INTERVAL = 8
"""Smallest number of control steps between two hulls of a vessel in an overview."""
MAX_HULLS = 10
"""Approximate largest number of hulls of a vessel in an overview."""
MAX_PANELS = 24
"""Largest number of episodes in an overview."""
ARROW_DURATION = 2.0
"""Time (s) in which an object travels the length of its velocity arrow."""


def draw_perception(axes: Axes, view: EpisodeView, vessel: int, frame: int) -> list[Artist]:
    """Draw the detection range of a vessel and the objects as it measures them; return what was drawn."""
    if not view.active[frame, vessel]:
        return []
    x, y, _ = view.poses[frame, vessel].tolist()
    dashed: dict[str, Any] = {"fill": False, "edgecolor": "black", "linestyle": "--", "linewidth": 1.1, "zorder": 6}
    ring = dashed | {"edgecolor": colour(vessel), "linestyle": (0, (6, 3)), "linewidth": 1.2, "zorder": 3}
    artists = [draw_disc(axes, x, y, view.ranges[vessel], **ring)]
    for px, py, vx, vy, radius in view.objects[frame, vessel][view.seen[frame, vessel]].tolist():
        artists.append(draw_disc(axes, px, py, radius, **dashed))
        artists += axes.plot(py, px, "+", color="black", markersize=5, zorder=6)
        if math.hypot(vx, vy) > 0.3:
            centre, velocity = np.array([py, px]), np.array([vy, vx])
            artists.append(draw_arrow(axes, centre, centre + ARROW_DURATION * velocity))
    return artists


def draw_zone(axes: Axes, view: EpisodeView, vessel: int, frame: int) -> list[Artist]:
    """Draw the zone in which a vessel must give way, and the course to which it should turn; return both."""
    from matplotlib.patches import Polygon

    outline = zone_in_world(view, vessel, frame)
    if len(outline) == 0:
        return []
    patch = Polygon(
        to_page(outline), facecolor="#F0E442", edgecolor="black", alpha=0.35, hatch="//", linewidth=1.0, zorder=1.5
    )
    velocity, position = view.velocities[frame, vessel], view.poses[frame, vessel, :2]
    course = math.atan2(velocity[1], velocity[0]) + float(view.turn[frame, vessel])
    target = position + 7.0 * np.array([math.cos(course), math.sin(course)], np.float32)
    arrow = draw_arrow(axes, to_page(position), to_page(target), linestyle=(0, (3, 2)))
    return [axes.add_artist(patch), arrow]


def legend_entries(vessel: int) -> tuple[list[Artist], list[str]]:
    """Return the handles and labels of the legend of an animation that plots the vessel of a given index."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    dot = {"color": "white", "markeredgecolor": "black"}
    arrow = {"color": "black", "marker": ">", "markersize": 5}
    open_arrow = arrow | {"markerfacecolor": "white"}
    lines: dict[str, dict[str, Any]] = {
        "goal": dot | {"marker": "*", "markerfacecolor": "0.6", "markersize": 11},
        "obstacle": dot | {"marker": "o", "markerfacecolor": "0.35", "markersize": 9},
        f"detection range of {vessel + 1}": {"color": colour(vessel), "linestyle": (0, (6, 3))},
        f"as {vessel + 1} sees it (dashed)": dot | {"marker": "o", "markerfacecolor": "none", "markersize": 10},
        "thrust of each side": arrow,
        f"velocity seen, {ARROW_DURATION:g} s ahead": open_arrow,
        "course asked for": open_arrow | {"linestyle": (0, (3, 2))},
    }
    entries: dict[str, Artist] = {name: Line2D([], [], **style) for name, style in lines.items()}
    entries |= {
        "zone of the rule": Patch(facecolor="#F0E442", edgecolor="black", alpha=0.35, hatch="//"),
        "ended (×: collided)": Patch(facecolor="0.5", alpha=0.35),
    }
    return list(entries.values()), list(entries)


def status_text(view: EpisodeView, vessel: int, frame: int) -> str:
    """Return the status of a vessel in a frame as three lines of text."""
    ending = "collided" if view.collided[frame, vessel] else "at its goal"
    state = "active" if view.active[frame, vessel] else ending
    rule, turn = int(view.rule[frame, vessel]), math.degrees(view.turn[frame, vessel])
    required = "none" if rule == NO_RULE else f"{RULE_NAMES[rule]}, turn {turn:.0f}° to starboard"
    return (
        f"vessel {vessel + 1}: {state}, {view.speed[frame, vessel]:.1f} m/s, "
        f"{view.distance[frame, vessel]:.1f} m to its goal\n"
        f"objects seen: {int(view.seen[frame, vessel].sum())}\n"
        f"rule: {required}"
    )


class EpisodeScene:
    """Figure of an episode, drawn frame by frame: a map, and plots over time of a vessel, by its index."""

    def __init__(self, view: EpisodeView, vessel: int) -> None:
        require(0 <= vessel < view.vessels, "--vessel", vessel + 1, f"from 1 to {view.vessels}")
        self.view, self.vessel = view, vessel
        self.figure = new_figure(12.8, 7.2)
        self.map = self.figure.add_axes((0.05, 0.08, 0.5, 0.86))
        self.title = self.figure.text(0.3, 0.955, "", ha="center", fontsize=11)
        image = draw_map(self.map, view, map_limits(view))
        if image is not None:
            bar = self.figure.add_axes((0.565, 0.08, 0.011, 0.86))
            self.figure.colorbar(image, bar, extend="max", label="speed of the water (m/s)")
        self._draw_panels()
        self._moving: list[Artist] = []
        self._stage = PartialRedraw(self.figure)

    def _draw_panels(self) -> None:
        """Draw the plots of the chosen vessel over time, in which only a cursor moves, and the legend."""
        view, vessel = self.view, self.vessel
        time = np.arange(view.frames) * view.dt
        left, width = 0.68, 0.25
        self.text = self.figure.text(left - 0.03, 0.94, "", va="top", fontsize=9.5, linespacing=1.4)
        height, panels = 0.15, (0.66, 0.45)
        thrust, speed = (self.figure.add_axes((left, low, width, height)) for low in panels)
        distance = speed.twinx()
        thrust.plot(time, view.thrust[:, vessel, 0], color=VESSEL_COLOURS[0], label="left")
        thrust.plot(time, view.thrust[:, vessel, 1], "--", color=VESSEL_COLOURS[1], label="right")
        thrust.set(ylabel="thrust (N)", xlim=(0.0, time[-1]))
        lines = speed.plot(time, view.speed[:, vessel], color=VESSEL_COLOURS[0], label="speed")
        lines += distance.plot(time, view.distance[:, vessel], "--", color=VESSEL_COLOURS[1], label="to the goal")
        speed.set(ylabel="speed (m/s)", xlim=(0.0, time[-1]), ylim=(0.0, None), xlabel="time (s)")
        distance.set(ylabel="distance (m)", ylim=(0.0, None))
        legend: dict[str, Any] = {"ncols": 2, "frameon": False, "fontsize": 9}
        above = legend | {"loc": "lower right", "bbox_to_anchor": (1.0, 0.98), "borderaxespad": 0.0}
        thrust.legend(**above)
        speed.legend(handles=lines, **above)
        self._cursors = [axes.axvline(0.0, color="black", linewidth=1.0) for axes in (thrust, speed)]
        self.returns = self._draw_returns_axes((left, 0.225, width, height))
        self.figure.legend(*legend_entries(vessel), loc="lower left", bbox_to_anchor=(left - 0.045, 0.0), **legend)

    def _draw_returns_axes(self, place: tuple[float, float, float, float]) -> Axes | None:
        """Return axes for the distribution of the return."""
        if self.view.quantiles is None:
            return None
        axes = self.figure.add_axes(place)
        shown = self.view.quantiles[self.view.active[:, self.vessel], self.vessel]
        margin = 0.05 * float(np.ptp(shown)) + 1e-3
        axes.set(xlim=(shown.min() - margin, shown.max() + margin), ylim=(0.0, 1.0))
        axes.set(xlabel="return of the chosen action", ylabel="share below")
        return axes

    def draw_frame(self, frame: int) -> None:
        """Draw a frame of the episode in place of the previous one."""
        for artist in self._moving:
            artist.remove()
        view, vessel = self.view, self.vessel
        self._moving = [
            artist for number in range(view.vessels) for artist in draw_vessel(self.map, view, number, frame)
        ]
        self._moving += draw_perception(self.map, view, vessel, frame)
        self._moving += draw_zone(self.map, view, vessel, frame)
        self._moving += self._draw_returns(frame)
        for cursor in self._cursors:
            cursor.set_xdata([frame * view.dt] * 2)
        self.title.set_text(f"{view.policy}, {view.title}, t = {frame * view.dt:.1f} s")
        self.text.set_text(status_text(view, vessel, frame))

    def _draw_returns(self, frame: int) -> list[Artist]:
        """Draw the distribution of the return in a frame, and its mean; return the artists, none if there is none."""
        quantiles, axes = self.view.quantiles, self.returns
        if axes is None or quantiles is None or not self.view.active[frame, self.vessel]:
            return []
        values = np.sort(quantiles[frame, self.vessel])
        share = (np.arange(len(values)) + 0.5) / len(values)
        artists: list[Artist] = list(axes.plot(values, share, color=VESSEL_COLOURS[0], marker=".", markersize=4))
        mean = float(values.mean())
        artists.append(axes.axvline(mean, color=VESSEL_COLOURS[1], linestyle="--"))
        artists.append(
            axes.text(1.0, 1.03, f"dashed: mean {mean:.2f}", fontsize=9, ha="right", transform=axes.transAxes)
        )
        return artists

    def image(self, frame: int) -> NDArray[np.uint8]:
        """Return a frame as pixels [height, width, 3] (RGB); everything that does not move is drawn only once."""
        self.draw_frame(frame)
        return self._stage.image([*self._moving, *self._cursors, self.title, self.text])

    def save_frame(self, frame: int, path: Path) -> None:
        """Write a frame to an image file, in the format of the path's suffix."""
        self.draw_frame(frame)
        for artist in (*self._cursors, self.title, self.text):
            artist.set_animated(False)
        save_figure(self.figure, path, dpi=150)


def check_picture_format(path: Path) -> str:
    """Return the format of a picture, its suffix; a ConfigError says that it is none, or that matplotlib is missing."""
    formats = import_optional("matplotlib.backends.backend_agg", "plot").FigureCanvasAgg.filetypes
    suffix = path.suffix.removeprefix(".").lower()
    require(suffix in formats, "picture", str(path), f"a file that ends in {', '.join(formats)}")
    return suffix


def save_figure(figure: Figure, path: Path, dpi: float = 100) -> None:
    """Write a figure in the format of the path's suffix; a ConfigError says why it cannot be written."""
    suffix = check_picture_format(path)
    content = io.BytesIO()
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # about labels that do not fit
        figure.savefig(content, format=suffix, dpi=dpi)
    write_atomically(path, content.getvalue())


def draw_overview(views: Sequence[EpisodeView]) -> Figure:
    """Return a figure of the tracks of several episodes, at most MAX_PANELS, side by side."""
    count = len(views)
    require(1 <= count <= MAX_PANELS, "--overview", count, f"from 1 to {MAX_PANELS} episodes")
    columns = min(3 if count <= 12 else 6, count)
    size = max(3.4 * columns, 5.0), 3.4 * -(-count // columns) + 0.4
    figure = new_figure(*size, "constrained")
    grid = figure.subplots(-(-count // columns), columns, squeeze=False).flat
    for axes, view in zip_longest(grid, views):
        if view is None:
            axes.remove()
        else:
            draw_whole_episode(axes, view, map_limits(*views))
    figure.suptitle(f"{views[0].policy}\nhulls to scale, bold numbers at starts, stars at goals", fontsize=11)
    for axes in figure.axes:
        axes.label_outer()
    return figure


def draw_whole_episode(axes: Axes, view: EpisodeView, limits: Limits) -> None:
    """Draw the tracks of an episode in an area of the world, with hulls at equal intervals and at the end."""
    draw_map(axes, view, limits)
    starts = start_places(view, label_distance(axes, limits))
    for vessel in range(view.vessels):
        last = min(int(view.active[:, vessel].sum()), view.frames - 1)
        draw_track(axes, view, vessel, last)
        for frame in range(0, last, max(MIN_HULL_INTERVAL, view.frames // MAX_HULLS)):
            draw_hull(axes, view, vessel, frame, 0.4)
        draw_hull(axes, view, vessel, last, 1.0)
        x, y = starts[vessel]
        draw_number(axes, x, y, str(vessel + 1), fontweight="bold")
        if view.collided[-1, vessel]:
            y, x = to_page(view.poses[last, vessel, :2])
            axes.plot(y, x, "X", color="white", markeredgecolor="black", markersize=8, zorder=8)
    axes.set_title(view.title, fontsize=10)


def require_ffmpeg() -> None:
    """Raise a ConfigError if ffmpeg, which writes videos, or a package is missing."""
    import_optional("imageio", "plot")
    try:
        import_optional("imageio_ffmpeg", "plot").get_ffmpeg_version()
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            "ffmpeg, which writes videos, was not found: install it, or the package imageio-ffmpeg for this platform"
        ) from error


def write_animation(scene: EpisodeScene, folder: Path, name: str, speed: float) -> list[Path]:
    """Write an episode as MP4, shown ``speed`` times as fast as it was, and return a list with its path."""
    imageio, ffmpeg = import_optional("imageio.v2", "plot"), import_optional("imageio_ffmpeg", "plot")
    try:
        with TemporaryDirectory(dir=folder) as temporary:
            path = Path(temporary) / f"{name}.mp4"
            with imageio.get_writer(path, format="FFMPEG", fps=speed / scene.view.dt) as video:
                for frame in range(scene.view.frames):
                    video.append_data(scene.image(frame))
            # ffmpeg reports no error if it could not write the end.
            ffmpeg.count_frames_and_secs(str(path))
            require_overwritable(folder / path.name)
            return [path.replace(folder / path.name)]
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{folder / name}: cannot be written ({first_line(error)})") from error
