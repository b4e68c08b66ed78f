"""One recorded episode as NumPy arrays without empty slots, for pictures and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env.config import ColregsConfig
from marinenav_env.physics.routes import make_route
from marinenav_env.physics.shores import ABSENT_SHORE
from marinenav_env.pictures.drawing import Flags, Floats, VesselTracks
from marinenav_env.rules.colregs import required_turn
from marinenav_env.rules.encounters import NONE, EncounterState, Sight, update_encounters
from marinenav_env.runtime.layout import env_last
from marinenav_env.state import Observation
from marinenav_env.support.validation import require
from train_RL_agents.evaluation.running.recording import Recording, episode_tensors, hiding_shores, present_robots

Integers = NDArray[np.int64]

NO_RULE, CROSSING, HEAD_ON = range(3)
"""Numbers of the rules that require a vessel to give way."""
RULE_NAMES = ("none", "crossing", "head-on")


@dataclass(frozen=True)
class EpisodeView(VesselTracks):
    """A recorded episode of T steps and R vessels, with K object slots, without the padding of a recording."""

    velocities: Floats
    """[T+1, R, 3] velocity over ground: x, y (m/s), yaw rate (rad/s)."""
    arrived: Flags
    """[T+1, R] true once the vessel has reached its goal."""
    grounded: Flags | None
    """[T+1, R] true once the vessel has run aground; None in open water."""
    routes: Floats | None
    """[R, W, 2] waypoints of the vessels, with the goal last (m); None in open water."""
    waypoint: Integers | None
    """[T+1, R] number of the waypoint that the vessel steers for; None in open water and in earlier recordings."""
    objects: Floats
    """[T+1, R, K, 5] measured objects: x, y (m), velocity (m/s), radius (m); world frame, zero if empty."""
    seen: Flags
    """[T+1, R, K] true if the slot holds an object; false in the last frame, in which no vessel acts."""
    rule: Integers
    """[T+1, R] NO_RULE, CROSSING or HEAD_ON: rule of the sea that requires the vessel to give way."""
    rule_object: Integers
    """[T+1, R] slot of the object to which the rule applies; 0 without a rule."""
    turn: Floats
    """[T+1, R] turn to starboard that the rule requires (rad)."""
    phase: Integers
    """[T+1, R, R] phase of the encounter of each vessel with each other, a number of rules.encounters."""
    role: Integers
    """[T+1, R, R] role of each vessel in it, a number of rules.roles."""
    quantiles: Floats | None
    """[T+1, R, N] quantiles of the return of the chosen action; the last frame repeats the previous one. None if the
    policy does not estimate them."""
    scores: Floats | None
    """[T+1, R, A] the policy's scores of the pairs of ``commands``; the last frame repeats the previous one.
    None if the policy has none."""
    commands: Floats | None
    """[A, 2] pairs of left and right thrust change (N/s) that have scores; None if the policy has no scores."""
    rates: Floats
    """[T+1, R, 2] commanded thrust changes (N/s); zero in the last frame."""
    clearance: Floats
    """[T+1, R] distance of the disc around the hull to that of the nearest active vessel or obstacle (m); infinite
    without one, and after the vessel's end."""
    reward_terms: dict[str, Floats]
    """[T+1, R] terms of the reward of the step before the frame, by the names that reward_terms documents."""
    ranges: Floats
    """[R] detection range (m)."""
    steering: Floats | None
    """[R, 3] largest thrust (N); largest angle of the azimuth thruster or rudder (rad), 0 for two fixed thrusters; its
    position along the hull (m). None in recordings of earlier versions."""
    dt: float
    """Time between two frames (s)."""
    policy: str
    group: str
    """Name of the group of scenarios, such as "level 1"."""
    number: int
    """Number of the episode in its recording, from 1."""
    outcome: str
    """success, collision, grounding or timeout."""
    rules: ColregsConfig
    seed: int | None
    """Seed of scenarios and noise; None if unknown."""

    @property
    def title(self) -> str:
        """Return the title of the episode: its number, group, seed and outcome."""
        # Scenarios of a file have no group.
        group = f" ({self.group})" if self.group not in ("", "all") else ""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"episode {self.number}{group}{seed}, {self.outcome}"

    @property
    def closest_approach(self) -> tuple[float, int, int] | None:
        """Return the smallest clearance (m), its frame and its vessel; None if no clearance is finite."""
        frame, vessel = np.unravel_index(self.clearance.argmin(), self.clearance.shape)
        gap = float(self.clearance[frame, vessel])
        return (gap, int(frame), int(vessel)) if np.isfinite(gap) else None

    @property
    def speed(self) -> Floats:
        """Return the speed over ground [T+1, R] (m/s)."""
        return np.hypot(self.velocities[..., 0], self.velocities[..., 1])

    @property
    def distance(self) -> Floats:
        """Return the distance to the goal [T+1, R] (m)."""
        return np.hypot(*np.moveaxis(self.goals - self.poses[..., :2], -1, 0))


def view_episode(recording: Recording, number: int) -> EpisodeView:
    """Return one episode of a recording, by its number from 1, as NumPy arrays of its vessels."""
    episodes, row = len(recording.steps), number - 1
    require(1 <= number <= episodes, "--episode", number, f"from 1 to {episodes}")
    tensors = episode_tensors(recording, row)
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    poses, radius, seen = arrays["poses"], arrays["vessel_radius"], arrays["objects_mask"]
    arrived, collided = _has_happened(arrays["arrived"]), _has_happened(arrays["collided"])
    active, objects = ~(arrived | collided), arrays["objects_state"]
    rule, rule_object, turn = find_rules(arrays["self_state"], objects, seen, radius, recording.rules)
    phase, role = follow_encounters(recording, row)
    rocks = np.column_stack((arrays["obstacle_position"], arrays["obstacle_radius"]))
    shores = arrays.get("shores", np.zeros((0, 4), np.float32))
    north, east = arrays["map_size"].tolist()
    optional: Any = {name: arrays.get(name) for name in ("commands", "steering", "routes", "waypoint")}
    return EpisodeView(
        **{name: arrays[name] for name in ("poses", "velocities", "thrust", "goals")},
        **optional,
        active=active,
        arrived=arrived,
        collided=collided,
        objects=_append_zeros(_to_world(objects, seen, poses[:-1])),
        seen=_append_zeros(seen),
        rule=_append_zeros(rule),
        rule_object=_append_zeros(rule_object),
        turn=_append_zeros(turn),
        phase=phase,
        role=role,
        quantiles=_estimates(arrays.get("quantiles"), recording.reward_scale),
        scores=_estimates(arrays.get("scores")),
        rates=_append_zeros(arrays["actions"]),
        clearance=compute_clearance(poses[..., :2], active, radius, rocks),
        reward_terms=reward_terms(tensors),
        hulls=np.stack((arrays["vessel_length"], arrays["vessel_width"]), -1),
        ranges=arrays["sensor_range"],
        obstacles=rocks,
        cores=np.column_stack([arrays[f"core_{name}"] for name in ("position", "circulation", "radius")]),
        grounded=_has_happened(arrays["grounded"]) if "grounded" in arrays else None,
        shores=shores[shores[:, 0] < ABSENT_SHORE],
        map_size=(north, east),
        dt=recording.dt,
        policy=recording.policy,
        group=recording.groups[row],
        number=number,
        outcome=recording.outcomes[row],
        rules=recording.rules,
        seed=recording.seed,
    )


def _estimates(values: NDArray[Any] | None, scale: float | None = 1.0) -> Floats | None:
    """Return estimates [T, R, ...] of a policy in all frames, divided by a scale; None without values or a scale."""
    return None if values is None or scale is None else (np.append(values, values[-1:], 0) / scale).astype(np.float32)


def compute_clearance(places: Floats, active: Flags, radius: Floats, obstacles: Floats) -> Floats:
    """Return the clearance of each vessel to the nearest active vessel or obstacle, [T+1, R] (m); infinite without one.

    Places are [T+1, R, 2] (m), active vessels [T+1, R], radii of vessels [R] (m), obstacles [O, 3] x, y, radius (m).
    """
    # A vessel that ends in a frame is still present in that frame.
    present = np.concatenate((active[:1], active[:-1]))
    distances = np.linalg.norm(places[:, :, None] - places[:, None], axis=-1)
    gaps = distances - radius[:, None] - radius
    pairs = present[:, :, None] & present[:, None] & ~np.eye(len(radius), dtype=bool)
    gaps = np.where(pairs, gaps, np.inf)
    obstacle_gaps = np.linalg.norm(places[:, :, None] - obstacles[:, :2], axis=-1)
    obstacle_gaps = np.where(present[..., None], obstacle_gaps - radius[:, None] - obstacles[:, 2], np.inf)
    return np.asarray(np.concatenate((gaps, obstacle_gaps), -1).min(-1, initial=np.inf), np.float32)


def reward_terms(episode: Mapping[str, Tensor]) -> dict[str, Floats]:
    """Return the terms of the reward of an episode, given its tensors, by name, each [T+1, R] for the step before.

    They are ``progress``, and with the weights of the published reward ``rules``, ``time`` and ``end`` (arrival and
    collision), else ``other``.
    """
    places = episode["poses"][..., :2]
    distance = (episode["goals"] - places).norm(dim=-1)
    if "routes" in episode and "waypoint" in episode:
        route = make_route(episode["starts"], episode["routes"])
        numbers = episode["waypoint"].T[..., None].expand(-1, -1, route.shape[-1])
        waypoints = route.gather(1, numbers).transpose(0, 1)
        distance = (waypoints[..., :2] - places).norm(dim=-1) + waypoints[..., 2]
    active = episode["active"][:-1]
    if "behaviour" in episode:
        active = active & (episode["behaviour"] < 0)  # others have no reward
    terms = {"progress": (distance[:-1] - distance[1:]) * active}
    if "weights" in episode:
        step, turn = episode["weights"]
        terms["rules"] = turn * episode["phi"] * active
        terms["time"] = step * active
    remainder = episode["reward"] - torch.stack(list(terms.values())).sum(0)
    # The remainder is arrival and collision, apart from rounding errors of positions in single precision.
    name = "end" if "weights" in episode else "other"
    terms[name] = torch.where(remainder.abs() > 1e-3, remainder, 0.0)
    return {name: np.pad(term.numpy(), ((1, 0), (0, 0))) for name, term in terms.items()}


def find_rules(
    self_state: Floats, objects: Floats, seen: Flags, radius: Floats, config: ColregsConfig
) -> tuple[Integers, Integers, Floats]:
    """Find the rule that requires each vessel to give way, the slot of the object, and the turn to starboard (rad).

    The arguments are ``self_state`` [T, R, 7], ``objects`` [T, R, K, 5] in body frames, their mask [T, R, K] and the
    radii [R] (m) of the vessels; the results are [T, R].
    """
    steps, _, slots = seen.shape
    single_mask = np.eye(slots, dtype=bool)[:, None, None] & seen
    # A batch [K T] in which only one slot holds an object.
    single = Observation(
        self_state=torch.from_numpy(np.tile(self_state, (slots, 1, 1))),
        objects_state=torch.from_numpy(np.tile(objects, (slots, 1, 1, 1))),
        objects_mask=torch.from_numpy(single_mask.reshape(-1, *seen.shape[1:])),
        batch_size=[slots * steps],
    )
    # With this setting no rule is head-on, because courses differ by at most half a turn.
    no_head_on = replace(config, head_on_heading=4.0)
    radii = torch.from_numpy(radius)[None]
    applies, turn = required_turn(single, radii, config)
    crossing, _ = required_turn(single, radii, no_head_on)
    by_slot = [tensor.view(slots, steps, -1).numpy() for tensor in (applies, turn, crossing)]
    first = by_slot[0].argmax(0, keepdims=True)
    is_required, angle, crosses = (np.take_along_axis(tensor, first, 0)[0] for tensor in by_slot)
    rule = np.where(is_required, np.where(crosses, CROSSING, HEAD_ON), NO_RULE)
    return rule, first[0], angle


def follow_encounters(recording: Recording, row: int) -> tuple[Integers, Integers]:
    """Return the phase and the role of each vessel towards each other in every frame of an episode, [T+1, R, R]."""
    shores, found = hiding_shores(recording), episode_tensors(recording, row)
    radius, detected, reach = (found[name][None] for name in ("vessel_radius", "detect_radius", "sensor_range"))
    sight = Sight(radius, detected, reach, None if shores is None else shores[row][None])
    poses, velocities, there = found["poses"], found["velocities"], present_robots(found["active"])
    robots = there.shape[-1]
    known, states = poses.new_zeros(1, robots, robots, len(EncounterState._fields)), []
    for motion in zip(poses[:, None], velocities[:, None], there[:, None], strict=True):
        known = update_encounters(known, *motion, sight, recording.rules, recording.dt)
        states.append(EncounterState(*env_last(known)))
    phase, role = (torch.stack([getattr(state, name)[..., 0] for state in states]) for name in ("phase", "role"))
    return phase.long().numpy(), torch.where(phase == NONE, 0.0, role).long().numpy()


def _to_world(objects: Floats, mask: Flags, poses: Floats) -> Floats:
    """Return objects [T, R, K, 5], transformed from the body frames at poses [T, R, 3] to the world frame."""
    x, y, yaw = np.moveaxis(poses[..., None, :], -1, 0)
    cos, sin = np.cos(yaw), np.sin(yaw)
    px, py, vx, vy, radius = np.moveaxis(objects, -1, 0)
    world = (x + cos * px - sin * py, y + sin * px + cos * py, cos * vx - sin * vy, sin * vx + cos * vy, radius)
    return np.where(mask[..., None], np.stack(world, -1), np.float32(0.0))


def _append_zeros(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array with a last frame of zeros."""
    return np.concatenate((array, np.zeros_like(array[:1])))


def _has_happened(events: Flags) -> Flags:
    """Return flags [T+1, R] of frames that are true once an event, given by steps [T, R], has happened."""
    first = np.zeros_like(events[:1])
    return np.concatenate((first, np.logical_or.accumulate(events, 0)))


def zone_outline(rule: int, config: ColregsConfig) -> Floats:
    """Return the corners [N, 2] (m) of a rule's zone: x along the course of the other vessel, y to its starboard."""
    if rule == HEAD_ON:
        (low, high), half = config.head_on_x, config.head_on_half_width
        return np.array([(low, -half), (high, -half), (high, half), (low, half)], np.float32)
    (aft, fore), (port, starboard) = config.crossing_x, config.crossing_y
    corners = np.array([(aft, port), (fore, port), (fore, starboard), (aft, starboard)])
    slope, corner_y = config.crossing_corner_slope, config.crossing_corner_y

    def signed_distance(point: NDArray[Any]) -> float:
        """Return how far to starboard of the line that cuts off the forward corner a point lies (m along y)."""
        return float(point[1] - corner_y + slope * (point[0] - fore))

    kept = []
    for start, end in zip(corners, np.roll(corners, -1, 0), strict=True):
        first, last = signed_distance(start), signed_distance(end)
        if first <= 0.0:
            kept.append(start)
        if first * last < 0.0:
            kept.append(start + first / (first - last) * (end - start))
    return np.array(kept, np.float32).reshape(-1, 2)


def zone_in_world(view: EpisodeView, vessel: int, frame: int) -> Floats:
    """Return the corners [N, 2] in the world (m) of the zone that a vessel is in; N is 0 without a rule."""
    rule = int(view.rule[frame, vessel])
    if rule == NO_RULE:
        return np.zeros((0, 2), np.float32)
    x, y, vx, vy, _ = view.objects[frame, vessel, view.rule_object[frame, vessel]]
    ahead = np.array([vx, vy]) / np.hypot(vx, vy)
    starboard = np.array([-ahead[1], ahead[0]])
    outline = zone_outline(rule, view.rules)
    corners = np.array([x, y]) + outline[:, :1] * ahead + outline[:, 1:] * starboard
    return corners.astype(np.float32)
