"""Draw the figures of docs/world.md with the code of the world.

    python tools/draw_world.py docs

This writes world_current.png, world_vessel.png, world_perception.png, world_colregs.png and world_reward.png. It needs
the extra `plot`.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from marinenav_env import GROUP, ConfigError, Episode, WorldConfig
from marinenav_env.physics.current import current_velocity
from marinenav_env.pictures import drawing as shapes
from marinenav_env.rules.colregs import required_turn
from marinenav_env.state import Observation
from train_RL_agents.evaluation.contenders import ActingOptions, find_contender, run_set
from train_RL_agents.evaluation.recording import record
from train_RL_agents.evaluation.suites import make_scenario_set
from train_RL_agents.figures import drawing
from train_RL_agents.figures.episode_view import (
    CROSSING,
    HEAD_ON,
    EpisodeView,
    view_episode,
    zone_outline,
)

CPU = torch.device("cpu")
WORLD_CONFIG = WorldConfig()
"""Default world, which the figures show."""
VESSEL_CONFIG = WORLD_CONFIG.vessel
"""Default vessel."""
STEP_DURATION = WORLD_CONFIG.control_step
"""Length of a control step (s)."""
DRAWN_POLICY = "pretrained/rainbow"
"""Policy whose reward is drawn next to that of the baseline ``straight``."""
BLUE, RED, GREEN = shapes.VESSEL_COLOURS[:3]


# Small worlds -----------------------------------------------------------------------------------


def make_episode(
    starts: list[tuple[float, float, float]],
    obstacles: tuple[tuple[float, float, float], ...] = (),
    cores: tuple[tuple[float, float, float], ...] = (),
    speed: float = 0.0,
) -> Episode:
    """Return a scenario of vessels at x, y (m) with heading (degrees) and speed ahead (m/s), and goals 40 m ahead.

    Obstacles are x, y, radius (m); cores are x, y (m) and circulation (m^2/s).
    """
    headings = [math.radians(degrees) for _, _, degrees in starts]
    directions = [(math.cos(heading), math.sin(heading)) for heading in headings]
    places = [(x, y) for x, y, _ in starts]
    return Episode(
        start=[list(place) for place in places],
        goal=[[x + 40 * c, y + 40 * s] for (x, y), (c, s) in zip(places, directions, strict=True)],
        heading=headings,
        velocity=[[speed * c, speed * s, 0.0] for c, s in directions],
        thruster_angle=[[0.0, 0.0] for _ in starts],
        thrust=[[0.0, 0.0] for _ in starts],
        obstacles=[list(obstacle) for obstacle in obstacles],
        cores=[list(core) for core in cores],
    )


def simulate_view(episode: Episode, thrust: tuple[float, float], steps: int) -> EpisodeView:
    """Simulate control steps of vessels that all set the same left and right thrust (N), and return the episode."""

    def steer(step: Any) -> Any:
        current = step.get((GROUP, "observation", "self_state"))[..., 5:]
        missing = (torch.tensor(thrust) - current) / (VESSEL_CONFIG.max_thrust_rate * STEP_DURATION)
        return step.set((GROUP, "action"), missing.clamp(-1.0, 1.0))

    _, recording = record(
        steer, [episode], WorldConfig(max_steps=steps), name="", groups=[""], continuous=True, device=CPU
    )
    return view_episode(recording, 1)


def set_title(axes: Any, title: str) -> None:
    """Set the title of a panel."""
    axes.set_title(title, fontsize=10, loc="left")


def add_label(axes: Any, text: str, point: tuple[float, float], place: tuple[float, float]) -> None:
    """Label a point (in data coordinates) with text at another place, joined to it by a line."""
    axes.annotate(
        text,
        point,
        place,
        fontsize=9,
        ha="center",
        va="center",
        zorder=9,
        arrowprops={"arrowstyle": "-", "linewidth": 0.8},
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
    )


# The figures ------------------------------------------------------------------------------------


CORE_CIRCULATION = 2.0 * math.pi * WORLD_CONFIG.scenario.core_radius * WORLD_CONFIG.scenario.v_range[1]
"""Circulation of a core with the largest speed of the water at its edge (m^2/s)."""


def draw_field(figure: Any, axes: Any) -> None:
    """Draw the water around two vortex cores."""
    cores = ((15.0, 12.0, CORE_CIRCULATION), (15.0, 32.0, -CORE_CIRCULATION))
    view = simulate_view(make_episode([(2.0, 2.0, 0.0)], cores=cores), (0.0, 0.0), 1)
    x, y = np.linspace(0.0, 30.0, 181), np.linspace(0.0, 44.0, 265)
    north, east = shapes.current_field(view, *np.float32(np.meshgrid(x, y, indexing="ij")))
    image = axes.imshow(
        np.hypot(north, east), cmap="Blues", vmin=0.0, vmax=1.0, origin="lower", extent=(0, 44, 0, 30), alpha=0.7
    )
    axes.streamplot(y, x, east, north, color="0.25", density=1.1, linewidth=0.8, arrowsize=1.2)
    for (along, across, _), name in zip(cores, ("circulation above 0", "below 0"), strict=True):
        axes.plot(across, along, "o", color="black", markersize=5)
        add_label(axes, name, (across, along), (across, 3.0))
    axes.set(xlim=(0, 44), ylim=(0, 30), aspect="equal", xlabel="y, east (m)", ylabel="x, north (m)")
    figure.colorbar(image, ax=axes, extend="max", label="speed of the water (m/s)", shrink=0.8)
    set_title(axes, "two cores: their currents add up")


def draw_profile(axes: Any) -> None:
    """Draw the speed of the water over the distance from one core."""
    radius = WORLD_CONFIG.scenario.core_radius
    distance = torch.linspace(0.0, 6.0, 601)[None]
    core = torch.zeros(1, 1, 2), torch.tensor([[CORE_CIRCULATION]]), torch.tensor([radius])
    flow = current_velocity(distance, torch.zeros_like(distance), *core)
    axes.plot(distance[0], torch.hypot(*flow)[0], color=BLUE)
    axes.axvline(radius, color="black", linestyle=":", linewidth=1.0)
    axes.text(radius + 0.15, 2.9, f"edge of the core, {radius:g} m", fontsize=9, va="center")
    axes.text(1.9, 1.1, "outside: falls with\nthe inverse distance", fontsize=9)
    axes.set(xlabel="distance from the core (m)", ylabel="speed of the water (m/s)", xlim=(0, 6), ylim=(0, 3.2))
    set_title(axes, "one core")


def draw_current() -> Any:
    """Return the figure of two cores and the profile of one."""
    figure = shapes.new_figure(11.6, 4.2, "constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2.0, 1.0))
    draw_field(figure, left)
    draw_profile(right)
    return figure


def draw_frames(axes: Any) -> None:
    """Draw a hull with its frame, its thrusters and its disc in the frame of the world."""
    view = simulate_view(make_episode([(0.0, 0.0, 35.0)]), (600.0, 300.0), 2)
    pose = np.array([0.0, 0.0, math.radians(35.0)])
    still = shapes.to_page(shapes.hull_outline(pose, view.hulls[0]))
    axes.fill(*still.T, facecolor="0.85", edgecolor="black", zorder=2)
    shapes.draw_disc(axes, 0.0, 0.0, VESSEL_CONFIG.radius, fill=False, linestyle="--", zorder=2)
    for corner, name in (((4.2, 0.0), "x ahead"), ((0.0, 4.2), "y to starboard")):
        tip = shapes.to_page(shapes.body_to_world(pose, np.array([corner])))[0]
        shapes.draw_arrow(axes, np.zeros(2), tip)
        axes.annotate(name, tip, (4, 3), textcoords="offset points", fontsize=9)
    for side, thrust, name in ((-1, 600.0, "left thrust"), (1, 300.0, "right thrust")):
        body = np.array([[-2.5, side * 1.25], [-2.5 + 0.003 * thrust, side * 1.25]])
        start, tip = shapes.to_page(shapes.body_to_world(pose, body))
        shapes.draw_arrow(axes, start, tip, head="-|>")
        place = shapes.to_page(shapes.body_to_world(pose, np.array([[-4.4, side * 1.9]])))[0]
        add_label(axes, name, tuple(start), tuple(place))
    corner = np.array([-5.5, 2.9])
    for tip, name, offset in (((0.0, 2.0), "x north", (-4, 4)), ((2.0, 0.0), "y east", (0, 5))):
        shapes.draw_arrow(axes, corner, corner + tip)
        axes.annotate(name, corner + tip, offset, textcoords="offset points", fontsize=9)
    axes.plot([0, 0], [0, 4.4], ":", color="black", linewidth=1.0)
    angle = np.linspace(0.0, pose[2], 20)
    axes.plot(3.6 * np.sin(angle), 3.6 * np.cos(angle), color="black", linewidth=1.0)
    axes.text(0.95, 3.85, "yaw", fontsize=9, ha="center")
    add_label(axes, f"collision disc,\nradius {VESSEL_CONFIG.radius:.1f} m", (2.0, -1.95), (3.9, -3.9))
    axes.set(xlim=(-6.2, 7.6), ylim=(-6.2, 5.8), aspect="equal", xlabel="m", ylabel="m")
    set_title(axes, f"hull of {VESSEL_CONFIG.length:g} m x {VESSEL_CONFIG.width:g} m, frames, thrusters")


def draw_response(axes: Any) -> None:
    """Draw the speed from a standstill under full thrust ahead and astern."""
    for thrust, look, name in ((1000.0, (BLUE, "-"), "1000 N a side"), (-500.0, (RED, "--"), "-500 N a side")):
        view = simulate_view(make_episode([(0.0, 0.0, 0.0)]), (thrust, thrust), 20)
        time = np.arange(view.frames) * view.dt
        axes.plot(time, view.velocities[:, 0, 0], color=look[0], linestyle=look[1], label=name)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set(xlabel="time (s)", ylabel="speed ahead (m/s)", xlim=(0, 10))
    axes.legend(fontsize=9, loc="center right", frameon=False)
    axes.grid(alpha=0.3)
    set_title(axes, "full thrust from a standstill")


def draw_turning(axes: Any) -> None:
    """Draw tracks under constant thrust, with hulls to scale every two seconds."""
    for number, (left, right) in enumerate(((1000.0, 1000.0), (1000.0, 500.0), (1000.0, 0.0))):
        start = (0.0, 12.0 * number, 0.0)
        view = simulate_view(make_episode([start]), (left, right), 20)
        style = {"color": shapes.VESSEL_COLOURS[number], "linestyle": shapes.TRACK_STYLES[number]}
        track = view.poses[:, 0]
        axes.plot(track[:, 1], track[:, 0], linewidth=1.4, **style)
        for frame in range(0, view.frames, 4):
            outline = shapes.to_page(shapes.hull_outline(track[frame], view.hulls[0]))
            axes.fill(*outline.T, facecolor=style["color"], edgecolor="black", alpha=0.45)
        axes.text(start[1], -4.2, f"{left:g}\n{right:g}", fontsize=9, ha="center", va="top")
    axes.text(-5.0, -4.2, "left\nright", fontsize=9, ha="right", va="top")
    axes.set(aspect="equal", xlabel="y, east (m)", ylabel="x, north (m)", xlim=(-13, 34), ylim=(-10, 35))
    set_title(axes, "thrust of the sides (N), hulls every 2 s")


def draw_vessel() -> Any:
    """Return the figure of hull and frames, speed, and turning."""
    figure = shapes.new_figure(13.2, 4.6, "constrained")
    parts = figure.subplots(1, 3, width_ratios=(1.05, 0.85, 1.2))
    for axes, draw in zip(parts, (draw_frames, draw_response, draw_turning), strict=True):
        draw(axes)
    return figure


def draw_perception() -> Any:
    """Return the figure of the vessels and obstacles that one vessel sees and does not see."""
    starts = [(0.0, 0.0, 0.0), (11.0, 8.0, 200.0), (11.5, -8.5, 120.0), (-26.0, -9.0, 0.0)]
    obstacles = ((-6.0, 9.0, 1.0), (4.0, -13.0, 1.0), (-9.5, -6.0, 1.0), (-16.0, 7.0, 1.0),
                 (6.0, 25.0, 1.0))  # fmt: skip
    torch.manual_seed(0)
    view = simulate_view(make_episode(starts, obstacles, speed=1.5), (120.0, 120.0), 1)
    figure = shapes.new_figure(9.6, 6.2, "constrained")
    axes = figure.subplots()
    for vessel in range(view.vessels):
        shapes.draw_hull(axes, view, vessel, 0, 1.0)
        y, x = shapes.to_page(view.poses[0, vessel, :2])
        axes.text(y, x + 3.4, f"vessel {vessel + 1}", fontsize=9, fontweight="bold", ha="center")
    for x, y, radius in obstacles:
        shapes.draw_disc(axes, x, y, radius, facecolor="0.35", edgecolor="black", zorder=2)
    drawing.draw_perception(axes, view, 0, 0)
    for slot in range(int(view.seen[0, 0].sum())):
        x, y, _, _, radius = view.objects[0, 0, slot]
        axes.text(y, x - radius - 1.6, f"slot {slot + 1}", fontsize=9, ha="center", va="top")
    add_label(axes, "sixth in range:\nnot kept", (7.0, -16.0), (17.0, -21.0))
    add_label(axes, "out of range", (25.0, 6.0), (22.0, 12.0))
    add_label(axes, "out of range", (-10.4, -26.0), (-19.0, -27.0))
    axes.set(xlim=(-27, 29), ylim=(-31, 25), aspect="equal", xlabel="y, east (m)", ylabel="x, north (m)")
    handles, names = drawing.legend_entries(0)
    kept = [index for index, name in enumerate(names) if "seen" in name or "1" in name]
    figure.legend(
        [handles[index] for index in kept],
        [names[index] for index in kept],
        fontsize=9,
        loc="outside right center",
        frameon=False,
    )
    set_title(axes, f"vessel 1 sees {WORLD_CONFIG.sensor.range:g} m far and keeps the nearest five")
    return figure


def turn_map(course: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the turn (degrees) that COLREGs require of a vessel at each point of the other vessel's frame.

    Args:
        course: course of the own vessel relative to the other's (rad).
        x: points ahead of the other (m).
        y: points to starboard of the other (m).

    Returns:
        Turns [len(x), len(y)].
    """
    along, across = (torch.tensor(grid).flatten() for grid in np.meshgrid(x, y, indexing="ij"))
    speed, zero = 2.0, torch.zeros_like(along)
    cos, sin = math.cos(course), math.sin(course)
    self_state = torch.stack((zero, zero, zero + speed, zero, zero, zero, zero), -1)
    objects_state = torch.stack(
        (
            -cos * along - sin * across,
            sin * along - cos * across,
            zero + speed * cos,
            zero - speed * sin,
            zero + WORLD_CONFIG.sensor.r_mean_ratio * VESSEL_CONFIG.detect_radius,
        ),
        -1,
    )
    observation = Observation(
        self_state=self_state[:, None],
        objects_state=objects_state[:, None, None],
        objects_mask=torch.ones(len(along), 1, 1, dtype=torch.bool),
        batch_size=[len(along)],
    )
    applies, turn = required_turn(observation, torch.tensor([[VESSEL_CONFIG.radius]]), WORLD_CONFIG.colregs)
    degrees = torch.where(applies, turn, torch.nan).rad2deg()
    return degrees.reshape(len(x), len(y)).numpy()


def draw_turns(axes: Any, rule: int, course: float) -> tuple[Any, np.ndarray]:
    """Draw the zone of a rule with the required turns in it; return the image and the turns of turn_map."""
    turns = turn_map(course, AHEAD_POINTS, ACROSS_POINTS)
    image = axes.imshow(
        turns,
        cmap="viridis_r",
        vmin=0.0,
        vmax=120.0,
        origin="lower",
        zorder=1,
        extent=(ACROSS_POINTS[0], ACROSS_POINTS[-1], AHEAD_POINTS[0], AHEAD_POINTS[-1]),
    )
    outline = shapes.to_page(zone_outline(rule, WORLD_CONFIG.colregs))
    axes.fill(*outline.T, fill=False, edgecolor="black", linewidth=1.5, zorder=2)
    axes.set(
        xlim=(-20, 12),
        ylim=(-12, 20),
        aspect="equal",
        xlabel="to starboard of the other (m)",
        ylabel="ahead of the other (m)",
    )
    set_title(axes, f"{RULE_NAMES[rule]}, courses {math.degrees(course):.0f}° apart")
    return image, turns


def draw_zone(axes: Any, rule: int, course: float, place: tuple[float, float]) -> Any:
    """Draw a zone like draw_turns, with the other vessel, and the own one at ``place`` (m ahead, m to starboard)."""
    image, turns = draw_turns(axes, rule, course)
    size = np.array([VESSEL_CONFIG.length, VESSEL_CONFIG.width])
    own_pose = np.array([*place, course])
    for pose, colour in ((np.zeros(3), "0.6"), (own_pose, "white")):
        axes.fill(*shapes.to_page(shapes.hull_outline(pose, size)).T, facecolor=colour, edgecolor="black", zorder=5)
    turn = turns[np.abs(AHEAD_POINTS - place[0]).argmin(), np.abs(ACROSS_POINTS - place[1]).argmin()]
    required = np.array([*place, course + math.radians(float(turn))])
    for pose, style in ((own_pose, "-"), (required, (0, (3, 2)))):
        ends = shapes.body_to_world(pose, np.array([[2.6, 0.0], [7.5, 0.0]]))
        shapes.draw_arrow(axes, *shapes.to_page(ends), linestyle=style)
    return image


AHEAD_POINTS = np.linspace(-12.0, 20.0, 321)
"""Distances ahead of the other vessel (m) at which the required turn is drawn."""
ACROSS_POINTS = np.linspace(-20.0, 12.0, 321)
"""Distances to starboard of the other vessel (m) at which the required turn is drawn."""
RULE_NAMES = {CROSSING: "crossing", HEAD_ON: "head-on"}
"""Names of the rules of the sea by number."""


def draw_colregs() -> Any:
    """Return the figure of the zones of both rules in the frame of the other vessel, with the required turns."""
    from matplotlib.lines import Line2D

    figure = shapes.new_figure(11.4, 5.2, "constrained")
    left, right = figure.subplots(1, 2)
    draw_zone(left, CROSSING, math.pi / 2, (4.0, -12.5))
    image = draw_zone(right, HEAD_ON, math.pi, (13.0, 0.0))
    add_label(left, "own", (-13.5, 5.2), (-15.5, 8.5))
    add_label(left, "other", (1.1, -1.0), (6.5, -1.0))
    left.text(-16.5, -7.5, "passes astern: no turn", fontsize=9, va="center")
    add_label(right, "own", (1.1, 14.0), (7.5, 16.5))
    add_label(right, "other", (1.1, -1.5), (7.5, -3.5))
    add_label(right, "too close to the\nother for a tangent", (-1.4, 1.5), (-12.5, 1.5))
    figure.colorbar(image, ax=[left, right], extend="max", label="turn φ to starboard (degrees)")
    lines = [Line2D([], [], color="black", linestyle=style) for style in ("-", (0, (3, 2)))]
    figure.legend(
        lines,
        ["course", "course that the rule asks for"],
        fontsize=9,
        ncols=2,
        loc="outside upper center",
        frameon=False,
    )
    return figure


def reward_terms(view: EpisodeView, vessel: int) -> dict[str, np.ndarray]:
    """Return the terms of the reward of a vessel by name, [T] each, except for the term of the rules of the sea."""
    rewards, steps = WORLD_CONFIG.reward, int(view.active[:, vessel].sum())
    distance = view.distance[: steps + 1, vessel]
    arrived = view.arrived[1 : steps + 1, vessel], rewards.goal_reward
    collided = view.collided[1 : steps + 1, vessel], rewards.collision_penalty
    return {
        "progress": distance[:-1] - distance[1:],
        "time": np.full(steps, rewards.timestep_penalty),
        "end": sum(flags * value for flags, value in (arrived, collided)),
    }


def draw_reward() -> Any:
    """Return the figure of the rewards of two policies in a head-on encounter, per step and cumulative."""
    suite = make_scenario_set("rules", WORLD_CONFIG, episodes=1, seed=3)
    figure = shapes.new_figure(11.2, 5.8, "constrained")
    grid = figure.subplots(2, 2, sharex="col", sharey="row", height_ratios=(1.0, 1.0))
    for column, name in enumerate((DRAWN_POLICY, "straight")):
        contender = find_contender(name, "best", CPU)
        _, recording = run_set(contender, suite, WORLD_CONFIG, ActingOptions(), CPU, name)
        view, steps = view_episode(recording, 1), int(recording.active[:, 0, 0].sum())
        total = recording.reward[:steps, 0, 0].numpy()
        terms = reward_terms(view, 0)
        # The remaining term is that of the rules of the sea.
        terms["COLREGs"] = WORLD_CONFIG.reward.COLREGs_penalty * recording.phi[:steps, 0, 0].numpy()
        if not np.allclose(sum(terms.values()), total, atol=1e-3):
            raise ConfigError("the terms of the reward do not add up to it")
        draw_terms(grid[:, column], terms, total, view.dt)
        set_title(grid[0, column], f"{name.rpartition('/')[2]}: {view.outcome}")
    grid[0, 0].set_ylabel("reward of a step")
    grid[1, 0].set_ylabel("reward in sum")
    grid[1, 0].legend(fontsize=9, frameon=False, loc="upper left")
    return figure


TERM_STYLES = {
    "progress": (BLUE, "-", "progress to the goal (m)"),
    "time": ("black", ":", "time penalty"),
    "COLREGs": (RED, "--", "rules of the sea"),
    "end": (GREEN, "-.", "arrival or collision"),
}
"""Colour, line style and label of each term of the reward."""


def draw_terms(axes: Any, terms: dict[str, np.ndarray], total: np.ndarray, dt: float) -> None:
    """Draw the terms of the reward per step above, and their cumulative sums below.

    Args:
        axes: axes above and below.
        terms: [T] terms of the reward by name.
        total: [T] rewards.
        dt: length of a control step (s).
    """
    time = dt * np.arange(1, len(total) + 1)
    for name, (colour, style, text) in TERM_STYLES.items():
        if name != "end":
            axes[0].plot(time, terms[name], color=colour, linestyle=style, label=text)
        axes[1].plot(time, terms[name].cumsum(), color=colour, linestyle=style, label=text)
    axes[1].plot(time, total.cumsum(), color="0.4", linewidth=2.5, alpha=0.6, label="all together")
    last = terms["end"][-1]
    axes[0].text(0.98, 0.48, f"last step: {last:+g}", fontsize=9, ha="right", transform=axes[0].transAxes)
    axes[1].set_xlabel("time (s)")
    for panel in axes:
        panel.axhline(0.0, color="black", linewidth=0.6)
        panel.grid(alpha=0.3)


FIGURES = {
    "current": draw_current,
    "vessel": draw_vessel,
    "perception": draw_perception,
    "colregs": draw_colregs,
    "reward": draw_reward,
}
"""Functions that return the figures, by name."""


def main() -> int:
    """Draw the requested figures; return 2 with a message if that fails, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder, created if it is missing")
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES))
    args = parser.parse_args()
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        for name in args.only:
            figure = FIGURES[name]()
            path = args.out / f"world_{name}.png"
            drawing.save_figure(figure, path, dpi=110)
            print(path)
    except (ConfigError, OSError) as error:
        print(f"draw_world: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
