"""One recorded episode as plain arrays, cut to what was there: what pictures and pages show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from marinenav_env.colregs import required_turn
from marinenav_env.config import ColregsConfig
from marinenav_env.state import Observation
from marinenav_env.validation import require
from train_RL_agents.evaluation.recording import Recording

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]

NO_RULE, CROSSING, HEAD_ON = 0, 1, 2
RULES = ("none", "crossing", "head-on")
"""Names of the rules of the sea, by number."""


@dataclass(frozen=True)
class EpisodeView:
    """T control steps, hence T + 1 frames, of R vessels with K object slots."""

    poses: Floats
    """[T+1, R, 3] x north, y east (m), yaw (rad)."""
    velocities: Floats
    """[T+1, R, 3] over ground: x, y (m/s), yaw rate (rad/s)."""
    thrust: Floats
    """[T+1, R, 2] left and right (N)."""
    active: Flags
    """[T+1, R] neither arrived nor collided yet."""
    arrived: Flags
    """[T+1, R] at its goal, in this frame or before."""
    collided: Flags
    """[T+1, R] ended by a collision, in this frame or before."""
    objects: Floats
    """[T+1, R, K, 5] as seen: x, y (m), velocity (m/s), radius (m); world frame, zero if empty."""
    seen: Flags
    """[T+1, R, K] the slot holds an object; none in the last frame, in which no vessel acts."""
    rule: Whole
    """[T+1, R] NO_RULE, CROSSING or HEAD_ON: what the rules of the sea ask to give way in."""
    rule_object: Whole
    """[T+1, R] the slot of the object that the rule is about; 0 without a rule."""
    turn: Floats
    """[T+1, R] how far to starboard the rule asks to turn (rad)."""
    quantiles: Floats | None
    """[T+1, R, N] quantiles of the return of the chosen action, if the policy knows them; the last
    frame repeats the one before."""
    goals: Floats
    """[R, 2] (m)."""
    goal_distance: Floats
    """[R] a goal is reached within this distance (m)."""
    hulls: Floats
    """[R, 2] length and width (m)."""
    ranges: Floats
    """[R] detection range (m)."""
    obstacles: Floats
    """[O, 3] x, y, radius (m)."""
    cores: Floats
    """[C, 4] x, y (m), circulation (m^2/s), radius (m)."""
    map_size: tuple[float, float]
    """Along x and y (m)."""
    dt: float
    """Time between two frames (s)."""
    policy: str
    """Who steered."""
    group: str
    """The group of scenarios, such as "level 1"."""
    number: int
    """Of the episode in its recording, from 1."""
    outcome: str
    """success, collision or timeout."""
    rules: ColregsConfig
    """The rules of the sea of its world."""

    @property
    def frames(self) -> int:
        """T + 1."""
        return len(self.poses)

    @property
    def vessels(self) -> int:
        """R."""
        return len(self.goals)

    @property
    def title(self) -> str:
        """Which episode this is."""
        # Scenarios of a file are of no group.
        group = f" ({self.group})" if self.group not in ("", "all") else ""
        return f"episode {self.number}{group}, {self.outcome}"

    @property
    def speed(self) -> Floats:
        """[T+1, R] over ground (m/s)."""
        return np.hypot(self.velocities[..., 0], self.velocities[..., 1])

    @property
    def distance(self) -> Floats:
        """[T+1, R] to the goal (m)."""
        return np.hypot(*np.moveaxis(self.goals - self.poses[..., :2], -1, 0))


def view_episode(recording: Recording, number: int) -> EpisodeView:
    """Take an episode out of a recording.

    Args:
        recording: of at least one episode.
        number: of the episode, from 1.

    Raises:
        ConfigError: when there is no such episode, or its values are not finite.
    """
    episodes = len(recording.steps)
    require(1 <= number <= episodes, "--episode", number, f"from 1 to {episodes}")
    fine = bool(recording.poses[:, number - 1].isfinite().all())
    require(fine, "--episode", number, "one in which all positions are finite")
    there = recording.robot_mask[number - 1]
    return EpisodeView(
        **_motion(recording, number - 1, there),
        **_perceived(recording, number - 1, there),
        **_vessels(recording, number - 1, there),
        **_surroundings(recording, number - 1),
        dt=recording.dt,
        policy=recording.policy,
        group=recording.groups[number - 1],
        number=number,
        outcome=recording.outcomes[number - 1],
    )


def _motion(recording: Recording, row: int, there: torch.Tensor) -> dict[str, Any]:
    """How the vessels that are there move and end, by the fields of EpisodeView."""
    steps = int(recording.steps[row])
    arrived, collided = (
        _from_then_on(tensor[:steps, row, there].numpy())
        for tensor in (recording.arrived, recording.collided)
    )
    return {
        "poses": recording.poses[: steps + 1, row, there].numpy(),
        "velocities": recording.velocities[: steps + 1, row, there].numpy(),
        "thrust": recording.thrust[: steps + 1, row, there].numpy(),
        "active": ~(arrived | collided),
        "arrived": arrived,
        "collided": collided,
    }


def _perceived(recording: Recording, row: int, there: torch.Tensor) -> dict[str, Any]:
    """What the vessels see and expect, and what the rules ask of them; likewise."""
    steps = int(recording.steps[row])
    own, seen, mask = (
        tensor[:steps, row, there]
        for tensor in (recording.self_state, recording.objects_state, recording.objects_mask)
    )
    observation = Observation(
        self_state=own, objects_state=seen, objects_mask=mask, batch_size=[steps]
    )
    radius = recording.vessel_radius[row, there]
    rule, rule_object, turn = find_rules(observation, radius, recording.rules)
    poses = recording.poses[:steps, row, there].numpy()
    quantiles = recording.quantiles
    return {
        "objects": _blank_end(_in_world(seen.numpy(), mask.numpy(), poses)),
        "seen": _blank_end(mask.numpy()),
        "rule": _blank_end(rule),
        "rule_object": _blank_end(rule_object),
        "turn": _blank_end(turn),
        "quantiles": (
            None if quantiles is None else _repeat_end(quantiles[:steps, row, there].numpy())
        ),
    }


def _vessels(recording: Recording, row: int, there: torch.Tensor) -> dict[str, Any]:
    """What the vessels are and where they are bound; likewise."""
    size = (recording.vessel_length[row, there], recording.vessel_width[row, there])
    return {
        "goals": recording.goals[row, there].numpy(),
        "goal_distance": recording.goal_distance[row, there].numpy(),
        "hulls": np.stack(size, -1),
        "ranges": recording.sensor_range[row, there].numpy(),
    }


def _surroundings(recording: Recording, row: int) -> dict[str, Any]:
    """The map and what is on it; likewise."""
    obstacles, cores = recording.obstacle_mask[row], recording.core_mask[row]
    north, east = recording.map_size[row].tolist()
    return {
        "obstacles": np.column_stack(
            (recording.obstacle_position[row, obstacles], recording.obstacle_radius[row, obstacles])
        ),
        "cores": np.column_stack((
            recording.core_position[row, cores], recording.core_circulation[row, cores],
            recording.core_radius[row, cores],
        )),
        "map_size": (north, east),
        "rules": recording.rules,
    }  # fmt: skip


def find_rules(
    observation: Observation, own_radius: torch.Tensor, config: ColregsConfig
) -> tuple[Whole, Whole, Floats]:
    """Which rule asks each vessel to give way, to which object, and by how much.

    Args:
        observation: batch [T], R vessels, K slots.
        own_radius: [R] (m).
        config: the zones.

    Returns:
        Rule, slot of the object, and turn (rad), each [T, R]; see EpisodeView.
    """
    # No course differs from another by more than half a turn.
    no_head_on = replace(config, head_on_heading=4.0)
    slots = observation.objects_mask.shape[-1]
    alone = [_only(observation, slot) for slot in range(slots)]
    turns = [required_turn(each, own_radius[None], config) for each in alone]
    crossings = [required_turn(each, own_radius[None], no_head_on)[0] for each in alone]
    applies = torch.stack([flag for flag, _ in turns], -1)
    first = applies.to(torch.int8).argmax(-1, keepdim=True)

    def chosen(values: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(values, -1).gather(-1, first).squeeze(-1)

    crossing = torch.where(chosen(crossings), CROSSING, HEAD_ON)
    rule = torch.where(applies.any(-1), crossing, NO_RULE)
    return rule.numpy(), first.squeeze(-1).numpy(), chosen([angle for _, angle in turns]).numpy()


def _only(observation: Observation, slot: int) -> Observation:
    """The observation as if only one slot held an object."""
    this = torch.arange(observation.objects_mask.shape[-1]) == slot
    return Observation(
        self_state=observation.self_state,
        objects_state=observation.objects_state,
        objects_mask=observation.objects_mask & this,
        batch_size=observation.batch_size,
    )


def _in_world(objects: Floats, mask: Flags, poses: Floats) -> Floats:
    """Objects [T, R, K, 5] from the body frames of vessels at poses [T, R, 3] to the world's."""
    x, y, yaw = np.moveaxis(poses[..., None, :], -1, 0)
    cos, sin = np.cos(yaw), np.sin(yaw)
    px, py, vx, vy, radius = np.moveaxis(objects, -1, 0)
    world = (
        x + cos * px - sin * py, y + sin * px + cos * py,
        cos * vx - sin * vy, sin * vx + cos * vy,
        radius,
    )  # fmt: skip
    return np.where(mask[..., None], np.stack(world, -1), np.float32(0.0))


def _blank_end(array: NDArray[Any]) -> NDArray[Any]:
    """Add a last frame of zeros."""
    return np.concatenate((array, np.zeros_like(array[:1])))


def _repeat_end(array: NDArray[Any]) -> NDArray[Any]:
    """Add a last frame equal to the one before."""
    return np.concatenate((array, array[-1:]))


def _from_then_on(happened: Flags) -> Flags:
    """From what happens in steps [T, R] to what holds in frames [T+1, R]."""
    before = np.zeros_like(happened[:1])
    return np.concatenate((before, np.logical_or.accumulate(happened, 0)))


def zone_outline(rule: int, config: ColregsConfig) -> Floats:
    """Corners [N, 2] of the zone that a rule applies in (m).

    Args:
        rule: CROSSING or HEAD_ON.
        config: the zones.

    Returns:
        x ahead and y to starboard of the other vessel, along and across its course.
    """
    if rule == HEAD_ON:
        (low, high), half = config.head_on_x, config.head_on_half_width
        corners = [(low, -half), (high, -half), (high, half), (low, half)]
        return np.array(corners, np.float32)
    (aft, fore), (port, starboard) = config.crossing_x, config.crossing_y
    corners = [(aft, port), (fore, port), (fore, starboard), (aft, starboard)]
    slope, corner_y = config.crossing_corner_slope, config.crossing_corner_y

    def cut(point: tuple[float, float]) -> float:
        """How far a point lies beyond the line that the forward corner is cut along."""
        return point[1] - corner_y + slope * (point[0] - fore)

    kept: list[tuple[float, float]] = []
    for start, end in zip(corners, corners[1:] + corners[:1], strict=True):
        if cut(start) <= 0.0:
            kept.append(start)
        if (cut(start) < 0.0) != (cut(end) < 0.0) and cut(start) * cut(end) != 0.0:
            share = cut(start) / (cut(start) - cut(end))
            kept.append((start[0] + share * (end[0] - start[0]),
                         start[1] + share * (end[1] - start[1])))  # fmt: skip
    return np.array(kept, np.float32).reshape(-1, 2)


def zone_in_world(view: EpisodeView, vessel: int, frame: int) -> Floats:
    """Corners [N, 2] in the world (m) of the zone that a vessel is in; none without a rule.

    Args:
        view: the episode.
        vessel: from 0.
        frame: from 0.
    """
    rule = int(view.rule[frame, vessel])
    if rule == NO_RULE:
        return np.zeros((0, 2), np.float32)
    x, y, vx, vy, _ = view.objects[frame, vessel, view.rule_object[frame, vessel]]
    ahead = np.array([vx, vy]) / np.hypot(vx, vy)
    starboard = np.array([-ahead[1], ahead[0]])
    outline = zone_outline(rule, view.rules)
    return (np.array([x, y]) + outline[:, :1] * ahead + outline[:, 1:] * starboard).astype(
        np.float32
    )
