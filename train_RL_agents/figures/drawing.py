"""Pictures of episodes, to scale: what the animation, still frames and overviews share.

North is up and east to the right. Colours are those of Okabe and Ito, told apart by colour-blind
readers; numbers and line styles tell vessels apart in grey, too.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from marinenav_env.current import current_velocity
from marinenav_env.validation import require
from train_RL_agents.figures.episode_view import NO_RULE, RULES, EpisodeView, Floats, zone_in_world
from train_RL_agents.utils.extras import need
from train_RL_agents.utils.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
HULL_EVERY, HULLS = 8, 10
"""Control steps between two hulls in an overview, at least, and about how many hulls at most."""
MOST_PANELS = 24
"""Episodes that an overview shows at most."""
MARGIN = 4.0
"""Room around everything that is drawn on a map (m)."""
STRONG_CURRENT = 1.0
"""Water this fast or faster has the darkest colour (m/s)."""
THRUST_SCALE = 0.0025
"""Length of an arrow of thrust (m/N)."""
SECONDS_AHEAD = 2.0
"""Arrows of velocity reach to where an object is in so many seconds."""

Limits = tuple[float, float, float, float]
"""Lowest and highest x, lowest and highest y (m)."""


def new_figure(width: float, height: float, layout: Any = None) -> Figure:
    """An empty figure (inches) that is drawn in memory.

    Raises:
        ConfigError: when matplotlib is not installed.
    """
    figures = need("matplotlib.figure", "plot")
    figure: Figure = figures.Figure(figsize=(width, height), dpi=100, layout=layout)
    need("matplotlib.backends.backend_agg", "plot").FigureCanvasAgg(figure)
    return figure


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """A drawn figure as pixels [height, width, 3]."""
    canvas: Any = figure.canvas
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def colour(vessel: int) -> str:
    """The colour of a vessel."""
    return COLOURS[vessel % len(COLOURS)]


def on_page(points: Floats) -> Floats:
    """From x north, y east to across and up, [..., 2]."""
    return points[..., ::-1]


def hull_outline(pose: Floats, size: Floats) -> Floats:
    """Corners [5, 2] in the world (m) of a hull with a pointed bow.

    Args:
        pose: [3] x, y (m), yaw (rad).
        size: [2] length and width (m).
    """
    outline = np.array([[0.5, 0.0], [0.2, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.2, -0.5]])
    return from_body(pose, outline * size)


def from_body(pose: Floats, points: NDArray[Any]) -> Floats:
    """From a body frame to the world, [N, 2] (m)."""
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    turned = points @ np.array([[cos, sin], [-sin, cos]])
    return np.asarray(turned + pose[:2], np.float32)


def map_limits(view: EpisodeView) -> Limits:
    """The part of the world that holds the map and all tracks, with a margin."""
    points = np.concatenate((
        np.zeros((1, 2)), np.array([view.map_size]), view.poses[..., :2].reshape(-1, 2), view.goals
    ))  # fmt: skip
    (x_low, y_low), (x_high, y_high) = points.min(0) - MARGIN, points.max(0) + MARGIN
    return float(x_low), float(x_high), float(y_low), float(y_high)


def current_field(
    view: EpisodeView, x: NDArray[Any], y: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Velocity of the water (m/s) along x and y at points of any shape."""
    cores = torch.as_tensor(view.cores)
    if len(cores) == 0:
        return np.zeros_like(x), np.zeros_like(x)
    north, east = (torch.as_tensor(each, dtype=cores.dtype).reshape(1, -1) for each in (x, y))
    flow = current_velocity(north, east, cores[None, :, :2], cores[None, :, 2], cores[:1, 3])
    return flow[0].numpy().reshape(x.shape), flow[1].numpy().reshape(x.shape)


def draw_current(axes: Axes, view: EpisodeView, limits: Limits) -> AxesImage | None:
    """Draw the water's speed as colour and its velocity as arrows; nothing where it is still."""
    if len(view.cores) == 0:
        return None
    x_low, x_high, y_low, y_high = limits
    fine = np.mgrid[x_low:x_high:200j, y_low:y_high:200j]
    image = axes.imshow(
        np.hypot(*current_field(view, *fine)), cmap="Blues", alpha=0.6, vmin=0.0,
        vmax=STRONG_CURRENT, origin="lower", extent=(y_low, y_high, x_low, x_high), zorder=0,
    )  # fmt: skip
    coarse = np.mgrid[x_low + 2.0 : x_high : 4.0, y_low + 2.0 : y_high : 4.0]
    north, east = current_field(view, *coarse)
    shortened = np.minimum(1.0, 0.6 / np.maximum(np.hypot(north, east), 1e-6))
    axes.quiver(
        coarse[1], coarse[0], east * shortened, north * shortened, color="0.35", width=0.0022,
        angles="xy", scale_units="xy", scale=0.17, pivot="mid", zorder=1,
    )  # fmt: skip
    return image


def draw_disc(axes: Axes, x: float, y: float, radius: float, **look: Any) -> Artist:
    """Draw a disc around a point of the world (m)."""
    from matplotlib.patches import Circle

    return axes.add_artist(Circle((y, x), radius, **look))


def draw_map(axes: Axes, view: EpisodeView, limits: Limits) -> AxesImage | None:
    """Draw what does not move: map, currents, obstacles, goals.

    Returns:
        The field of the current, for a colour bar, if there is any.
    """
    from matplotlib.patches import Rectangle

    x_low, x_high, y_low, y_high = limits
    north, east = view.map_size
    image = draw_current(axes, view, limits)
    axes.add_artist(Rectangle((0.0, 0.0), east, north, fill=False, edgecolor="0.6", linewidth=0.8))
    for x, y, radius in view.obstacles.tolist():
        draw_disc(axes, x, y, radius, facecolor="0.35", edgecolor="black", zorder=2)
    for vessel, (x, y) in enumerate(view.goals.tolist()):
        axes.plot(y, x, "*", markersize=12, color=colour(vessel), markeredgecolor="black", zorder=3)
        axes.annotate(str(vessel + 1), (y, x), (6, 5), textcoords="offset points", fontsize=9,
                      zorder=3)  # fmt: skip
    axes.set(xlim=(y_low, y_high), ylim=(x_low, x_high), aspect="equal")
    axes.set(xlabel="y, east (m)", ylabel="x, north (m)")
    return image


def draw_track(axes: Axes, view: EpisodeView, vessel: int, last: int) -> list[Artist]:
    """Draw where a vessel went up to a frame."""
    track = view.poses[: last + 1, vessel]
    # With the colour it is unique among 42.
    style = STYLES[vessel % len(STYLES)]
    return list(axes.plot(track[:, 1], track[:, 0], color=colour(vessel), linestyle=style,
                          linewidth=1.3, zorder=4))  # fmt: skip


def draw_hull(axes: Axes, view: EpisodeView, vessel: int, frame: int, alpha: float) -> Artist:
    """Draw a vessel's hull, to scale."""
    from matplotlib.patches import Polygon

    outline = on_page(hull_outline(view.poses[frame, vessel], view.hulls[vessel]))
    edge = "black" if alpha == 1.0 else colour(vessel)
    patch = Polygon(outline, facecolor=colour(vessel), edgecolor=edge, alpha=alpha, zorder=5)
    return axes.add_artist(patch)


def draw_vessel(axes: Axes, view: EpisodeView, vessel: int, frame: int) -> list[Artist]:
    """Draw a vessel with its track, number and thrusts; pale, with a mark, when it has ended."""
    from matplotlib.patheffects import withStroke

    active, pose = view.active[frame, vessel], view.poses[frame, vessel]
    artists = draw_track(axes, view, vessel, frame)
    artists.append(draw_hull(axes, view, vessel, frame, 1.0 if active else 0.35))
    mark = "×" if view.collided[frame, vessel] else ""
    artists.append(axes.text(
        pose[1], pose[0], f"{vessel + 1}{mark}", fontsize=9, fontweight="bold", ha="center",
        va="center", zorder=7, clip_on=True,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    ))  # fmt: skip
    if active:
        artists += draw_thrust(axes, view, vessel, frame)
    return artists


def draw_thrust(axes: Axes, view: EpisodeView, vessel: int, frame: int) -> list[Artist]:
    """Draw the thrust of both sides as arrows beside the hull."""
    side = 0.5 * view.hulls[vessel, 1] + 0.5
    lengths = THRUST_SCALE * view.thrust[frame, vessel]
    body = np.array([[0.0, -side], [lengths[0], -side], [0.0, side], [lengths[1], side]])
    ends = on_page(from_body(view.poses[frame, vessel], body))
    return [draw_arrow(axes, ends[row], ends[row + 1], head="-|>") for row in (0, 2)]


def draw_arrow(
    axes: Axes, start: NDArray[Any], end: NDArray[Any], linestyle: Any = "-", head: str = "->"
) -> Artist:
    """Draw a black arrow between two points of the page (m)."""
    from matplotlib.patches import FancyArrowPatch

    patch = FancyArrowPatch(
        (float(start[0]), float(start[1])), (float(end[0]), float(end[1])), arrowstyle=head,
        mutation_scale=8, shrinkA=0, shrinkB=0, linestyle=linestyle, color="black", zorder=6,
    )  # fmt: skip
    return axes.add_artist(patch)


def draw_perception(axes: Axes, view: EpisodeView, vessel: int, frame: int) -> list[Artist]:
    """Draw how far a vessel sees, and the objects that it sees, as measured."""
    if not view.active[frame, vessel]:
        return []
    x, y, _ = view.poses[frame, vessel].tolist()
    artists = [draw_disc(axes, x, y, view.ranges[vessel], fill=False, edgecolor=colour(vessel),
                         linestyle=(0, (6, 3)), linewidth=1.2, zorder=3)]  # fmt: skip
    for px, py, vx, vy, radius in view.objects[frame, vessel][view.seen[frame, vessel]].tolist():
        artists.append(draw_disc(axes, px, py, radius, fill=False, edgecolor="black",
                                 linestyle="--", linewidth=1.1, zorder=6))  # fmt: skip
        artists += axes.plot(py, px, "+", color="black", markersize=5, zorder=6)
        if math.hypot(vx, vy) > 0.3:
            centre, velocity = np.array([py, px]), np.array([vy, vx])
            artists.append(draw_arrow(axes, centre, centre + SECONDS_AHEAD * velocity))
    return artists


def draw_zone(axes: Axes, view: EpisodeView, vessel: int, frame: int) -> list[Artist]:
    """Draw the zone in which a vessel must give way, and the course that it should turn to."""
    from matplotlib.patches import Polygon

    outline = zone_in_world(view, vessel, frame)
    if len(outline) == 0:
        return []
    patch = Polygon(on_page(outline), facecolor="#F0E442", edgecolor="black", alpha=0.35,
                    hatch="//", linewidth=1.0, zorder=1.5)  # fmt: skip
    velocity, position = view.velocities[frame, vessel], view.poses[frame, vessel, :2]
    course = math.atan2(velocity[1], velocity[0]) + float(view.turn[frame, vessel])
    asked = position + 7.0 * np.array([math.cos(course), math.sin(course)], np.float32)
    arrow = draw_arrow(axes, on_page(position), on_page(asked), linestyle=(0, (3, 2)))
    return [axes.add_artist(patch), arrow]


def legend_entries(vessel: int) -> tuple[list[Artist], list[str]]:
    """Samples and texts that explain an animation."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    dot = {"color": "white", "markeredgecolor": "black"}
    arrow = {"color": "black", "marker": ">", "markersize": 5}
    open_arrow = arrow | {"markerfacecolor": "white"}
    lines: dict[str, dict[str, Any]] = {
        "goal": dot | {"marker": "*", "markerfacecolor": "0.6", "markersize": 11},
        "obstacle": dot | {"marker": "o", "markerfacecolor": "0.35", "markersize": 9},
        f"detection range of {vessel + 1}": {"color": colour(vessel), "linestyle": (0, (6, 3))},
        f"as {vessel + 1} sees it (dashed)": dot
        | {"marker": "o", "markerfacecolor": "none", "markersize": 10},
        "thrust of each side": arrow,
        f"velocity seen, {SECONDS_AHEAD:g} s ahead": open_arrow,
        "course asked for": open_arrow | {"linestyle": (0, (3, 2))},
    }
    entries: dict[str, Artist] = {name: Line2D([], [], **look) for name, look in lines.items()}
    entries |= {
        "zone of the rule": Patch(facecolor="#F0E442", edgecolor="black", alpha=0.35, hatch="//"),
        "ended (×: collided)": Patch(facecolor="0.5", alpha=0.35),
    }
    return list(entries.values()), list(entries)


def status(view: EpisodeView, vessel: int, frame: int) -> str:
    """How a vessel fares in a frame, in three lines."""
    ended = "collided" if view.collided[frame, vessel] else "at its goal"
    state = "active" if view.active[frame, vessel] else ended
    rule, turn = int(view.rule[frame, vessel]), math.degrees(view.turn[frame, vessel])
    asked = "none" if rule == NO_RULE else f"{RULES[rule]}, turn {turn:.0f}° to starboard"
    return (
        f"vessel {vessel + 1}: {state}, {view.speed[frame, vessel]:.1f} m/s, "
        f"{view.distance[frame, vessel]:.1f} m to its goal\n"
        f"objects seen: {int(view.seen[frame, vessel].sum())}\n"
        f"rule: {asked}"
    )


class Scene:
    """An episode with the numbers of one vessel, drawn frame by frame.

    Args:
        view: the episode.
        vessel: the chosen vessel, from 0.
    """

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
        self._still: Any = None

    def _draw_panels(self) -> None:
        """Draw the numbers of the chosen vessel over time; only a cursor moves in them."""
        view, vessel = self.view, self.vessel
        time = np.arange(view.frames) * view.dt
        left, width = 0.68, 0.25
        self.text = self.figure.text(left - 0.03, 0.94, "", va="top", fontsize=9.5, linespacing=1.4)
        height, panels = 0.15, (0.66, 0.45)
        thrust, speed = (self.figure.add_axes((left, low, width, height)) for low in panels)
        distance = speed.twinx()
        thrust.plot(time, view.thrust[:, vessel, 0], color=COLOURS[0], label="left")
        thrust.plot(time, view.thrust[:, vessel, 1], "--", color=COLOURS[1], label="right")
        thrust.set(ylabel="thrust (N)", xlim=(0.0, time[-1]))
        lines = speed.plot(time, view.speed[:, vessel], color=COLOURS[0], label="speed")
        lines += distance.plot(time, view.distance[:, vessel], "--", color=COLOURS[1],
                               label="to the goal")  # fmt: skip
        speed.set(ylabel="speed (m/s)", xlim=(0.0, time[-1]), ylim=(0.0, None), xlabel="time (s)")
        distance.set(ylabel="distance (m)", ylim=(0.0, None))
        above: dict[str, Any] = {
            "loc": "lower right", "bbox_to_anchor": (1.0, 0.98), "ncols": 2, "frameon": False,
            "fontsize": 9, "borderaxespad": 0.0,
        }  # fmt: skip
        thrust.legend(**above)
        speed.legend(handles=lines, **above)
        self._cursors = [axes.axvline(0.0, color="black", linewidth=1.0)
                         for axes in (thrust, speed)]  # fmt: skip
        self.returns = self._draw_returns_axes((left, 0.225, width, height))
        self.figure.legend(*legend_entries(vessel), loc="lower left", ncols=2, fontsize=9,
                           bbox_to_anchor=(left - 0.045, 0.0), frameon=False)  # fmt: skip

    def _draw_returns_axes(self, place: tuple[float, float, float, float]) -> Axes | None:
        """Axes for the distribution of the return, where the policy knows it."""
        if self.view.quantiles is None:
            return None
        axes = self.figure.add_axes(place)
        shown = self.view.quantiles[self.view.active[:, self.vessel], self.vessel]
        margin = 0.05 * float(np.ptp(shown)) + 1e-3
        axes.set(xlim=(shown.min() - margin, shown.max() + margin), ylim=(0.0, 1.0))
        axes.set(xlabel="return of the chosen action (scaled)", ylabel="share below")
        return axes

    def show(self, frame: int) -> None:
        """Draw a frame, instead of the one before.

        Args:
            frame: from 0.
        """
        for artist in self._moving:
            artist.remove()
        view, vessel = self.view, self.vessel
        self._moving = [artist for each in range(view.vessels)
                        for artist in draw_vessel(self.map, view, each, frame)]  # fmt: skip
        self._moving += draw_perception(self.map, view, vessel, frame)
        self._moving += draw_zone(self.map, view, vessel, frame)
        self._moving += self._show_returns(frame)
        for cursor in self._cursors:
            cursor.set_xdata([frame * view.dt] * 2)
        self.title.set_text(f"{view.policy}, {view.title}, t = {frame * view.dt:.1f} s")
        self.text.set_text(status(view, vessel, frame))

    def _show_returns(self, frame: int) -> list[Artist]:
        """Draw the distribution of the return, and its mean."""
        quantiles, axes = self.view.quantiles, self.returns
        if axes is None or quantiles is None or not self.view.active[frame, self.vessel]:
            return []
        values = np.sort(quantiles[frame, self.vessel])
        share = (np.arange(len(values)) + 0.5) / len(values)
        artists: list[Artist] = list(axes.plot(values, share, color=COLOURS[0], marker=".",
                                               markersize=4))  # fmt: skip
        mean = float(values.mean())
        artists.append(axes.axvline(mean, color=COLOURS[1], linestyle="--"))
        artists.append(axes.text(0.98, 0.08, f"dashed: mean {mean:.2f}", fontsize=9, ha="right",
                                 transform=axes.transAxes))  # fmt: skip
        return artists

    def image(self, frame: int) -> NDArray[np.uint8]:
        """A frame as pixels [height, width, 3]; what does not move is drawn once."""
        self.show(frame)
        moving = [*self._moving, *self._cursors, self.title, self.text]
        for artist in moving:
            artist.set_animated(True)
        canvas: Any = self.figure.canvas
        if self._still is None:
            canvas.draw()
            self._still = canvas.copy_from_bbox(self.figure.bbox)
        canvas.restore_region(self._still)
        for artist in sorted(moving, key=lambda each: each.get_zorder()):
            artist.draw(canvas.get_renderer())
        return pixels(self.figure)

    def save(self, frame: int, path: Path) -> None:
        """Write a frame as a picture."""
        self.show(frame)
        for artist in (*self._cursors, self.title, self.text):
            artist.set_animated(False)
        save_figure(self.figure, path, dpi=150)


def save_figure(figure: Figure, path: Path, dpi: float = 100) -> None:
    """Write a figure in the format that its file's name ends in.

    Raises:
        ConfigError: when there is no such format, or it cannot be written.
    """
    formats = figure.canvas.get_supported_filetypes()
    ending = path.suffix.removeprefix(".").lower()
    require(ending in formats, "picture", str(path), f"a file that ends in {', '.join(formats)}")
    content = io.BytesIO()
    figure.savefig(content, format=ending, dpi=dpi)
    write_atomically(path, content.getvalue())


def draw_overview(views: Sequence[EpisodeView]) -> Figure:
    """Draw the tracks of several episodes side by side.

    Raises:
        ConfigError: when there are too many.
    """
    count = len(views)
    require(1 <= count <= MOST_PANELS, "--overview", count, f"from 1 to {MOST_PANELS} episodes")
    across = _columns(count)
    size = max(3.4 * across, 5.0), 3.4 * -(-count // across) + 0.4
    figure = new_figure(*size, "constrained")
    draw_panels(figure, views, map_limits)
    figure.suptitle(f"{views[0].policy}\nhulls to scale, goals as stars, obstacles in grey",
                    fontsize=11)  # fmt: skip
    return figure


def draw_panels(
    figure: Figure, views: Sequence[EpisodeView], limits: Callable[[EpisodeView], Limits]
) -> None:
    """Draw the tracks of whole episodes, three panels in a row, or six if there are many.

    Args:
        figure: an empty one.
        views: the episodes.
        limits: the part of the world that is shown of each.
    """
    columns = _columns(len(views))
    grid = figure.subplots(-(-len(views) // columns), columns, squeeze=False).flat
    for axes, view in zip_longest(grid, views):
        if view is None:
            axes.remove()
        else:
            draw_whole_episode(axes, view, limits(view))


def _columns(panels: int) -> int:
    """Panels in a row."""
    return min(3 if panels <= 12 else 6, panels)


def draw_whole_episode(axes: Axes, view: EpisodeView, limits: Limits) -> None:
    """Draw the tracks of an episode with a hull every few seconds."""
    draw_map(axes, view, limits)
    for vessel in range(view.vessels):
        last = min(int(view.active[:, vessel].sum()), view.frames - 1)
        draw_track(axes, view, vessel, last)
        for frame in range(0, last, max(HULL_EVERY, view.frames // HULLS)):
            draw_hull(axes, view, vessel, frame, 0.4)
        draw_hull(axes, view, vessel, last, 1.0)
        y, x = on_page(view.poses[0, vessel, :2])
        axes.text(y, x, str(vessel + 1), fontsize=8, ha="center", va="center", zorder=7,
                  clip_on=True)  # fmt: skip
        if view.collided[-1, vessel]:
            y, x = on_page(view.poses[last, vessel, :2])
            axes.plot(y, x, "X", color="white", markeredgecolor="black", markersize=8, zorder=8)
    axes.set_title(view.title, fontsize=10)


__all__ = ["Scene", "draw_overview", "save_figure"]
