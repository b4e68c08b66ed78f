"""Drawing of vessels in their world, to scale, for films, overviews and ``render``.

North is up and east to the right. Colours are those of Okabe and Ito, which colour-blind readers can
distinguish; numbers and line styles distinguish vessels in grey, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from marinenav_env.physics.current import current_share, current_velocity
from marinenav_env.physics.shores import shore_clearance
from marinenav_env.support.extras import import_optional

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Limits = tuple[float, float, float, float]
"""Limits of a map: lowest and highest x, lowest and highest y (m)."""

VESSEL_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
"""Colours of vessels by index, in the order of their use."""
TRACK_STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
"""Line styles of matplotlib for the tracks of vessels, by index of the vessel."""
MAP_MARGIN = 4.0
"""Margin around everything that is drawn on a map (m)."""
MAX_COLOUR_SPEED = 1.0
"""Speed of the water (m/s) that the darkest colour of a map shows."""
THRUST_SCALE = 0.0025
"""Length of a thrust arrow per newton (m/N)."""
LABEL_DISTANCE = 11.0
"""Distance from a goal to its number, and from other marks to the number of a start (points)."""
LAND_SAMPLES = 160
"""Places along each side of a picture at which it is looked for land."""


@dataclass(frozen=True)
class VesselTracks:
    """Tracks of R vessels over T control steps, hence T + 1 frames."""

    poses: Floats
    """[T+1, R, 3] x north, y east (m), yaw (rad)."""
    thrust: Floats
    """[T+1, R, 2] left and right thrust (N); to draw only the last frame, thrust and flags of that frame suffice."""
    active: Flags
    """[T+1, R] bool: the vessel has neither arrived nor collided yet."""
    collided: Flags
    """[T+1, R] bool: the vessel has collided, in this frame or earlier."""
    goals: Floats
    """[R, 2] x, y of the goals (m)."""
    hulls: Floats
    """[R, 2] length and width of the hulls (m)."""
    obstacles: Floats
    """[O, 3] x, y, radius of the obstacles (m)."""
    cores: Floats
    """[C, 4] x, y (m), circulation (m^2/s), radius (m) of the vortex cores."""
    map_size: tuple[float, float]
    """Size of the map along x and y (m)."""
    shores: Floats
    """[S, 4] begin x, y and end x, y of segments of shore, with land on their left (m); none in open water."""

    @property
    def frames(self) -> int:
        """Number of frames T + 1."""
        return len(self.poses)

    @property
    def vessels(self) -> int:
        """Number of vessels R."""
        return len(self.goals)


def new_figure(width: float, height: float, layout: Any = None) -> Figure:
    """Return an empty figure, drawn in memory, whose width and height are given in inches."""
    figures = import_optional("matplotlib.figure", "plot")
    figure: Figure = figures.Figure(figsize=(width, height), dpi=100, layout=layout)
    import_optional("matplotlib.backends.backend_agg", "plot").FigureCanvasAgg(figure)
    return figure


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """Return the pixels [height, width, 3] of a drawn figure."""
    canvas: Any = figure.canvas
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def colour(vessel: int) -> str:
    """Return the colour of a vessel as a hexadecimal string, given its index."""
    return VESSEL_COLOURS[vessel % len(VESSEL_COLOURS)]


def to_page(points: Floats) -> Floats:
    """Convert points [..., 2] from x north, y east (m) to page coordinates x right, y up (m)."""
    return points[..., ::-1]


def hull_outline(pose: Floats, size: Floats) -> Floats:
    """Return the corners [5, 2] in the world (m) of a hull with a pointed bow, of a length and width (m)."""
    outline = np.array([[0.5, 0.0], [0.2, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.2, -0.5]])
    return body_to_world(pose, outline * size)


def body_to_world(pose: Floats, points: NDArray[Any]) -> Floats:
    """Convert points [N, 2] (m) from the body frame of a vessel with the pose [3] (x, y, yaw) to the world frame."""
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    turned = points @ np.array([[cos, sin], [-sin, cos]])
    return np.asarray(turned + pose[:2], np.float32)


def map_limits(*views: VesselTracks) -> Limits:
    """Return limits (m) that contain the maps, tracks and goals of all views, with a margin of MAP_MARGIN."""
    parts: list[NDArray[Any]] = [np.zeros((1, 2)), np.array([view.map_size for view in views])]
    parts += [part for view in views for part in (view.poses[..., :2].reshape(-1, 2), view.goals)]
    points = np.concatenate(parts)
    (x_low, y_low), (x_high, y_high) = points.min(0) - MAP_MARGIN, points.max(0) + MAP_MARGIN
    return float(x_low), float(x_high), float(y_low), float(y_high)


def current_field(view: VesselTracks, x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the velocity of the water (m/s) along x (north) and y (east) at points of any shape."""
    cores = torch.as_tensor(view.cores)
    north, east = (torch.as_tensor(axis, dtype=cores.dtype).reshape(1, -1) for axis in (x, y))
    shores = torch.as_tensor(view.shores)[None] if len(view.shores) else None
    share = current_share(torch.stack((north, east), -1), shores, cores[None, :, :2], cores[:1, 3])
    flow = current_velocity(north, east, cores[None, :, :2], cores[None, :, 2], cores[:1, 3], share)
    return flow[0].numpy().reshape(x.shape), flow[1].numpy().reshape(x.shape)


def draw_current(axes: Axes, view: VesselTracks, limits: Limits) -> AxesImage | None:
    """Draw the speed of the water as colour and its velocity as arrows; nothing without currents."""
    if len(view.cores) == 0:
        return None
    x_low, x_high, y_low, y_high = limits
    dense = np.mgrid[x_low:x_high:200j, y_low:y_high:200j]
    extent, speed = (y_low, y_high, x_low, x_high), np.hypot(*current_field(view, *dense))
    colours: Any = {"cmap": "Blues", "alpha": 0.6, "vmin": 0.0, "vmax": MAX_COLOUR_SPEED}
    image = axes.imshow(speed, origin="lower", extent=extent, zorder=0, **colours)
    sparse = np.mgrid[x_low + 2.0 : x_high : 4.0, y_low + 2.0 : y_high : 4.0]
    north, east = current_field(view, *sparse)
    shortened = np.minimum(1.0, 0.6 / np.maximum(np.hypot(north, east), 1e-6))
    arrows: Any = {"color": "0.35", "width": 0.0022, "angles": "xy", "scale_units": "xy", "scale": 0.17}
    axes.quiver(sparse[1], sparse[0], east * shortened, north * shortened, pivot="mid", zorder=1, **arrows)
    return image


def label_distance(axes: Axes, limits: Limits) -> float:
    """Return LABEL_DISTANCE converted to metres on a map with the given limits."""
    height = 72.0 * axes.bbox.height / axes.figure.dpi
    return LABEL_DISTANCE * (limits[1] - limits[0]) / height


def label_places(view: VesselTracks, distance: float) -> list[NDArray[Any]]:
    """Return the positions of the numbers of goals (m): next to the goals, as far as possible from other marks."""
    ends = view.poses[[0, -1], :, :2].reshape(-1, 2)
    taken = [*view.goals, *ends, *view.obstacles[:, :2]]
    places: list[NDArray[Any]] = []
    for goal in view.goals:
        places.append(_farthest_place(goal + _label_offsets(distance), [*taken, *places]))
    return places


def start_places(view: VesselTracks, distance: float) -> list[NDArray[Any]]:
    """Return the positions of the numbers of starts (m): on the starts, or next to them if another mark is near."""
    taken = [*view.goals, *view.poses[-1, :, :2], *view.obstacles[:, :2], *label_places(view, distance)]
    starts: list[NDArray[Any]] = list(view.poses[0, :, :2])
    for vessel, start in enumerate(starts):
        others = [*taken, *starts[:vessel], *starts[vessel + 1 :]]
        if np.linalg.norm(np.stack(others) - start, axis=-1).min() < distance:
            starts[vessel] = _farthest_place(start + _label_offsets(distance), others)
    return starts


def _label_offsets(distance: float) -> NDArray[Any]:
    """Return offsets [16, 2] of candidate positions for a number around its mark (m)."""
    angles = np.linspace(0.0, 2.0 * math.pi, 16, endpoint=False) + math.pi / 4
    return distance * np.stack((np.cos(angles), np.sin(angles)), -1)


def _farthest_place(places: NDArray[Any], taken: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the candidate position of ``places`` [N, 2] whose nearest position of ``taken`` is farthest away."""
    gaps = np.linalg.norm(places[:, None] - np.stack(taken), axis=-1)
    return np.asarray(places[gaps.min(-1).argmax()])


def draw_disc(axes: Axes, x: float, y: float, radius: float, **style_options: Any) -> Artist:
    """Draw a disc, given its centre and radius in the world (m)."""
    from matplotlib.patches import Circle

    return axes.add_artist(Circle((y, x), radius, **style_options))


def draw_number(axes: Axes, x: float, y: float, text: str, **style_options: Any) -> Artist:
    """Write a vessel's number at a point of the world (m), with an outline that keeps it legible."""
    from matplotlib.patheffects import withStroke

    outline = [withStroke(linewidth=2.0, foreground="white")]
    return axes.text(
        y, x, text, fontsize=9, ha="center", va="center", zorder=7, clip_on=True, path_effects=outline, **style_options
    )


def draw_land(axes: Axes, view: VesselTracks, limits: Limits) -> None:
    """Draw the shores of a world, with their land filled."""
    if not len(view.shores):
        return
    x_low, x_high, y_low, y_high = limits
    north, east = np.linspace(x_low, x_high, LAND_SAMPLES), np.linspace(y_low, y_high, LAND_SAMPLES)
    places = torch.as_tensor(np.stack(np.meshgrid(north, east, indexing="ij"), -1).reshape(1, -1, 2))
    clearance = shore_clearance(places, torch.as_tensor(view.shores)[None].to(places)).reshape(LAND_SAMPLES, -1)
    axes.contourf(east, north, clearance, levels=[-np.inf, 0.0], colors=["#e6d7a8"], zorder=0.5)
    for x, y, end_x, end_y in view.shores.tolist():
        axes.plot((y, end_y), (x, end_x), color="#6b5a2b", linewidth=1.2, zorder=1.5)


def draw_map(axes: Axes, view: VesselTracks, limits: Limits) -> AxesImage | None:
    """Draw the map, currents, obstacles and goals of a world; return the image of the current, if there is one."""
    from matplotlib.patches import Rectangle

    x_low, x_high, y_low, y_high = limits
    north, east = view.map_size
    draw_land(axes, view, limits)
    image = draw_current(axes, view, limits)
    axes.add_artist(Rectangle((0.0, 0.0), east, north, fill=False, edgecolor="0.6", linewidth=0.8))
    for x, y, radius in view.obstacles.tolist():
        draw_disc(axes, x, y, radius, facecolor="0.35", edgecolor="black", zorder=2)
    for vessel, (x, y) in enumerate(view.goals.tolist()):
        axes.plot(y, x, "*", markersize=12, color=colour(vessel), markeredgecolor="black", zorder=3)
    for vessel, (x, y) in enumerate(label_places(view, label_distance(axes, limits))):
        draw_number(axes, x, y, str(vessel + 1))
    axes.set(xlim=(y_low, y_high), ylim=(x_low, x_high), aspect="equal")
    axes.set(xlabel="y, east (m)", ylabel="x, north (m)")
    return image


def draw_track(axes: Axes, view: VesselTracks, vessel: int, last: int) -> list[Artist]:
    """Draw the track of a vessel up to a frame; -1: the last one."""
    track = view.poses[: last % view.frames + 1, vessel]
    # Colour and style together distinguish 42 vessels.
    style = TRACK_STYLES[vessel % len(TRACK_STYLES)]
    return list(axes.plot(track[:, 1], track[:, 0], color=colour(vessel), linestyle=style, linewidth=1.3, zorder=4))


def draw_hull(axes: Axes, view: VesselTracks, vessel: int, frame: int, alpha: float) -> Artist:
    """Draw a vessel's hull in a frame, to scale, with the opacity ``alpha`` from 0 to 1."""
    from matplotlib.patches import Polygon

    outline = to_page(hull_outline(view.poses[frame, vessel], view.hulls[vessel]))
    edge = "black" if alpha == 1.0 else colour(vessel)
    patch = Polygon(outline, facecolor=colour(vessel), edgecolor=edge, alpha=alpha, zorder=5)
    return axes.add_artist(patch)


def draw_vessel(axes: Axes, view: VesselTracks, vessel: int, frame: int) -> list[Artist]:
    """Draw a vessel with its track, number and thrusts; pale after its end, with a cross after a collision."""
    active, pose = view.active[frame, vessel], view.poses[frame, vessel]
    artists = draw_track(axes, view, vessel, frame)
    artists.append(draw_hull(axes, view, vessel, frame, 1.0 if active else 0.35))
    mark = "×" if view.collided[frame, vessel] else ""
    artists.append(draw_number(axes, pose[0], pose[1], f"{vessel + 1}{mark}", fontweight="bold"))
    if active:
        artists += draw_thrust(axes, view, vessel, frame)
    return artists


def draw_thrust(axes: Axes, view: VesselTracks, vessel: int, frame: int) -> list[Artist]:
    """Draw the thrust of both sides as arrows beside the hull."""
    side = 0.5 * view.hulls[vessel, 1] + 0.5
    lengths = THRUST_SCALE * view.thrust[frame, vessel]
    body = np.array([[0.0, -side], [lengths[0], -side], [0.0, side], [lengths[1], side]])
    ends = to_page(body_to_world(view.poses[frame, vessel], body))
    return [draw_arrow(axes, ends[row], ends[row + 1], head="-|>") for row in (0, 2)]


def draw_arrow(axes: Axes, start: NDArray[Any], end: NDArray[Any], linestyle: Any = "-", head: str = "->") -> Artist:
    """Draw a black arrow between two points of the page (m)."""
    from matplotlib.patches import FancyArrowPatch

    points = (float(start[0]), float(start[1])), (float(end[0]), float(end[1]))
    style: Any = {"arrowstyle": head, "mutation_scale": 8, "shrinkA": 0, "shrinkB": 0, "linestyle": linestyle}
    return axes.add_artist(FancyArrowPatch(*points, color="black", zorder=6, **style))


class PartialRedraw:
    """Drawing of a matplotlib figure in which few artists change from picture to picture; the rest is drawn once."""

    def __init__(self, figure: Figure) -> None:
        self._figure, self._still = figure, None

    def image(self, moving: Sequence[Artist]) -> NDArray[np.uint8]:
        """Return the figure as pixels [height, width, 3], with artists that differ from picture to picture."""
        for artist in moving:
            artist.set_animated(True)
        canvas: Any = self._figure.canvas
        if self._still is None:
            canvas.draw()
            self._still = canvas.copy_from_bbox(self._figure.bbox)
        canvas.restore_region(self._still)
        for artist in sorted(moving, key=lambda artist: artist.get_zorder()):
            artist.draw(canvas.get_renderer())
        return pixels(self._figure)
