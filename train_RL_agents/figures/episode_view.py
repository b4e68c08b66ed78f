"""One recorded episode as plain arrays, cut to what was there: what pictures and pages show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env.config import ColregsConfig
from marinenav_env.pictures.drawing import Flags, Floats, Voyage
from marinenav_env.rules.colregs import required_turn
from marinenav_env.state import Observation
from marinenav_env.support.validation import require
from train_RL_agents.evaluation.recording import Recording

Whole = NDArray[np.int64]

NO_RULE, CROSSING, HEAD_ON = 0, 1, 2
RULES = ("none", "crossing", "head-on")
"""Names of the rules of the sea, by number."""


@dataclass(frozen=True)
class EpisodeView(Voyage):
    """A recorded episode, with K object slots."""

    velocities: Floats
    """[T+1, R, 3] over ground: x, y (m/s), yaw rate (rad/s)."""
    arrived: Flags
    """[T+1, R] at its goal, in this frame or before."""
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
    """[T+1, R, N] quantiles of the return of the chosen action, if the policy knows them, unscaled
    unless ``scaled``; the last frame repeats the one before."""
    scores: Floats | None
    """[T+1, R, A] of the pairs of ``commands``, if the policy has any; likewise."""
    doubtful: Flags | None
    """[T+1, R, A] the policy's critics do not agree on this score; likewise."""
    commands: Floats | None
    """[A, 2] pairs of thrust changes (N/s)."""
    rates: Floats
    """[T+1, R, 2] commanded thrust changes (N/s); none in the last frame."""
    clearance: Floats
    """[T+1, R] between discs around hulls, to the nearest active vessel or obstacle (m);
    infinite without one, and after the vessel's end."""
    terms: dict[str, Floats]
    """[T+1, R] each: the reward of the step that led to the frame, by its terms."""
    ranges: Floats
    """[R] detection range (m)."""
    dt: float
    """Time between two frames (s)."""
    policy: str
    """Who controlled."""
    group: str
    """The group of scenarios, such as "level 1"."""
    number: int
    """Of the episode in its recording, from 1."""
    outcome: str
    """success, collision or timeout."""
    rules: ColregsConfig
    """The rules of the sea of its world."""
    seed: int | None
    """Of scenarios and noise, where it is known."""
    scaled: bool
    """Quantiles are of scaled rewards, by a factor that the recording does not know."""

    @property
    def title(self) -> str:
        """Which episode this is."""
        # Scenarios of a file are of no group.
        group = f" ({self.group})" if self.group not in ("", "all") else ""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"episode {self.number}{group}{seed}, {self.outcome}"

    @property
    def closest(self) -> tuple[float, int, int] | None:
        """The smallest clearance (m), its frame and a vessel that has it; None without any."""
        frame, vessel = np.unravel_index(self.clearance.argmin(), self.clearance.shape)
        gap = float(self.clearance[frame, vessel])
        return (gap, int(frame), int(vessel)) if np.isfinite(gap) else None

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
    cut = _Cut.of(recording, number)
    row, frames = cut.row, cut.steps + 1
    poses = cut.over_time(recording.poses, frames)
    arrived = _from_then_on(cut.over_time(recording.arrived))
    collided = _from_then_on(cut.over_time(recording.collided))
    active, radius = ~(arrived | collided), cut.fixed(recording.vessel_radius)
    own, objects, seen = map(cut.over_time, (recording.self_state, recording.objects_state, recording.objects_mask))
    rule, rule_object, turn = find_rules(own, objects, seen, radius, recording.rules)
    quantiles = cut.estimates(recording.quantiles, recording.reward_scale or 1.0)
    rocks = cut.discs(recording.obstacle_mask, recording.obstacle_position, recording.obstacle_radius)
    north, east = recording.map_size[row].tolist()
    return EpisodeView(
        poses=poses,
        velocities=cut.over_time(recording.velocities, frames),
        thrust=cut.over_time(recording.thrust, frames),
        active=active,
        arrived=arrived,
        collided=collided,
        objects=_blank_end(_in_world(objects, seen, poses[:-1])),
        seen=_blank_end(seen),
        rule=_blank_end(rule),
        rule_object=_blank_end(rule_object),
        turn=_blank_end(turn),
        quantiles=quantiles,
        scores=cut.estimates(recording.scores),
        doubtful=cut.and_again(recording.doubtful),
        commands=None if recording.commands is None else recording.commands[row].numpy(),
        rates=_blank_end(cut.over_time(recording.actions)),
        clearance=find_clearance(poses[..., :2], active, radius, rocks),
        terms=reward_terms(recording, row),
        goals=cut.fixed(recording.goals),
        hulls=np.stack((cut.fixed(recording.vessel_length), cut.fixed(recording.vessel_width)), -1),
        ranges=cut.fixed(recording.sensor_range),
        obstacles=rocks,
        cores=cut.discs(
            recording.core_mask, recording.core_position, recording.core_circulation, recording.core_radius
        ),
        map_size=(north, east),
        dt=recording.dt,
        policy=recording.policy,
        group=recording.groups[row],
        number=number,
        outcome=recording.outcomes[row],
        rules=recording.rules,
        seed=recording.seed,
        scaled=recording.reward_scale is None,
    )


class _Cut(NamedTuple):
    """Selects one episode from the tensors of a recording."""

    row: int
    steps: int
    there: Tensor
    """[R] bool: its vessels."""

    @classmethod
    def of(cls, recording: Recording, number: int) -> _Cut:
        """That of an episode; see view_episode."""
        episodes = len(recording.steps)
        require(1 <= number <= episodes, "--episode", number, f"from 1 to {episodes}")
        row = number - 1
        fine = bool(recording.poses[:, row].isfinite().all())
        require(fine, "--episode", number, "one in which all positions are finite")
        return cls(row, int(recording.steps[row]), recording.robot_mask[row])

    def over_time(self, tensor: Tensor, frames: int | None = None) -> NDArray[Any]:
        """Of its vessels, in its steps or in so many frames."""
        return tensor[: self.steps if frames is None else frames, self.row, self.there].numpy()

    def fixed(self, tensor: Tensor) -> NDArray[Any]:
        """Of its vessels."""
        return tensor[self.row, self.there].numpy()

    def discs(self, mask: Tensor, *tensors: Tensor) -> Floats:
        """Columns of tensors, of the discs that there are."""
        return np.column_stack([each[self.row, mask[self.row]] for each in tensors])

    def and_again(self, tensor: Tensor | None) -> NDArray[Any] | None:
        """Cut out its steps and vessels, if known; the last frame repeats the one before."""
        if tensor is None:
            return None
        found = self.over_time(tensor)
        return np.append(found, found[-1:], 0)

    def estimates(self, tensor: Tensor | None, scale: float = 1.0) -> Floats | None:
        """What a policy estimates, unscaled; see ``and_again``."""
        found = self.and_again(tensor)
        return None if found is None else (found / scale).astype(np.float32)


def find_clearance(places: Floats, active: Flags, radius: Floats, obstacles: Floats) -> Floats:
    """Distance of each vessel to the nearest disc, [T+1, R]; see EpisodeView.

    Args:
        places: [T+1, R, 2] (m).
        active: [T+1, R].
        radius: [R] of vessels (m).
        obstacles: [O, 3] x, y, radius (m).
    """
    # A vessel that ends in a frame is still there in it.
    there = np.concatenate((active[:1], active[:-1]))
    between = np.linalg.norm(places[:, :, None] - places[:, None], axis=-1)
    apart = between - radius[:, None] - radius
    pairs = there[:, :, None] & there[:, None] & ~np.eye(len(radius), dtype=bool)
    apart = np.where(pairs, apart, np.inf)
    rocks = np.linalg.norm(places[:, :, None] - obstacles[:, :2], axis=-1)
    rocks = np.where(there[..., None], rocks - radius[:, None] - obstacles[:, 2], np.inf)
    return np.asarray(np.concatenate((apart, rocks), -1).min(-1, initial=np.inf), np.float32)


def reward_terms(recording: Recording, row: int) -> dict[str, Floats]:
    """The reward of an episode by its terms, [T+1, R] each; see EpisodeView.

    Without the weights of the published reward everything but the progress is one term.
    """
    steps, there = int(recording.steps[row]), recording.robot_mask[row]
    poses, goals = recording.poses[: steps + 1, row, there, :2], recording.goals[row, there]
    distance = (goals - poses).norm(dim=-1)
    acts = recording.active[:steps, row, there]
    terms = {"progress": (distance[:-1] - distance[1:]) * acts}
    if recording.weights is not None:
        step, turn = recording.weights[row]
        terms["rules"] = turn * recording.phi[:steps, row, there]
        terms["time"] = step * acts
    rest = recording.reward[:steps, row, there] - torch.stack(list(terms.values())).sum(0)
    # What is left: arrival and collision, but for what positions in single precision leave.
    name = "end" if recording.weights is not None else "other"
    terms[name] = torch.where(rest.abs() > 1e-3, rest, 0.0)
    return {name: np.pad(term.numpy(), ((1, 0), (0, 0))) for name, term in terms.items()}


def find_rules(
    own: Floats, objects: Floats, seen: Flags, radius: Floats, config: ColregsConfig
) -> tuple[Whole, Whole, Floats]:
    """Which rule asks each vessel to give way, to which object, and by how much.

    Args:
        own: [T, R, 7] what vessels know of themselves; see Observation.
        objects: [T, R, K, 5] what they see.
        seen: [T, R, K] which slots hold an object.
        radius: [R] their radii (m).
        config: the zones.

    Returns:
        Rule, slot of the object, and turn (rad), each [T, R]; see EpisodeView.
    """
    steps, _, slots = seen.shape
    only = np.eye(slots, dtype=bool)[:, None, None] & seen
    # As if each slot held the only object: a batch [K T].
    alone = Observation(
        self_state=torch.from_numpy(np.tile(own, (slots, 1, 1))),
        objects_state=torch.from_numpy(np.tile(objects, (slots, 1, 1, 1))),
        objects_mask=torch.from_numpy(only.reshape(-1, *seen.shape[1:])),
        batch_size=[slots * steps],
    )
    # No course differs from another by more than half a turn.
    no_head_on = replace(config, head_on_heading=4.0)
    radii = torch.from_numpy(radius)[None]
    applies, turn = required_turn(alone, radii, config)
    crossing, _ = required_turn(alone, radii, no_head_on)
    by_slot = [each.view(slots, steps, -1).numpy() for each in (applies, turn, crossing)]
    first = by_slot[0].argmax(0, keepdims=True)
    asked, angle, crosses = (np.take_along_axis(each, first, 0)[0] for each in by_slot)
    rule = np.where(asked, np.where(crosses, CROSSING, HEAD_ON), NO_RULE)
    return rule, first[0], angle


def _in_world(objects: Floats, mask: Flags, poses: Floats) -> Floats:
    """Objects [T, R, K, 5] from the body frames of vessels at poses [T, R, 3] to the world's."""
    x, y, yaw = np.moveaxis(poses[..., None, :], -1, 0)
    cos, sin = np.cos(yaw), np.sin(yaw)
    px, py, vx, vy, radius = np.moveaxis(objects, -1, 0)
    world = (
        x + cos * px - sin * py,
        y + sin * px + cos * py,
        cos * vx - sin * vy,
        sin * vx + cos * vy,
        radius,
    )
    return np.where(mask[..., None], np.stack(world, -1), np.float32(0.0))


def _blank_end(array: NDArray[Any]) -> NDArray[Any]:
    """Add a last frame of zeros."""
    return np.concatenate((array, np.zeros_like(array[:1])))


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
        return np.array([(low, -half), (high, -half), (high, half), (low, half)], np.float32)
    (aft, fore), (port, starboard) = config.crossing_x, config.crossing_y
    corners = np.array([(aft, port), (fore, port), (fore, starboard), (aft, starboard)])
    slope, corner_y = config.crossing_corner_slope, config.crossing_corner_y

    def beyond(point: NDArray[Any]) -> float:
        """How far a point lies beyond the line that the forward corner is cut along."""
        return float(point[1] - corner_y + slope * (point[0] - fore))

    kept = []
    for start, end in zip(corners, np.roll(corners, -1, 0), strict=True):
        first, last = beyond(start), beyond(end)
        if first <= 0.0:
            kept.append(start)
        if first * last < 0.0:
            kept.append(start + first / (first - last) * (end - start))
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
    corners = np.array([x, y]) + outline[:, :1] * ahead + outline[:, 1:] * starboard
    return corners.astype(np.float32)
