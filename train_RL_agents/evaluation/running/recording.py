"""Recordings of evaluated episodes, in one file.

The file is a compressed .npz that numpy reads without pickle. Each tensor of Recording is an array
under its own name, and ``about`` is a text with JSON: ``format``, ``version``, and the other
fields of Recording. Floating-point numbers are stored in single precision.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import torch
from torch import Tensor

from marinenav_env import GROUP, ConfigError, Episode, MarineNavEnv, WorldConfig
from marinenav_env.config import ColregsConfig
from marinenav_env.physics.dynamics import thrust_rates_of_commands, thrust_rates_of_indices
from marinenav_env.physics.shores import ABSENT_SHORE
from marinenav_env.state import Scenario, State
from marinenav_env.support.files import parse_json
from marinenav_env.support.validation import MAX_FLOAT, NonNegativeInt, PositiveFloat, check_fields, require
from train_RL_agents.evaluation.running.episode_constants import episode_constants, to_host
from train_RL_agents.evaluation.running.episodes import run_episodes
from train_RL_agents.evaluation.running.steps import Policy, StepCallback, Transition
from train_RL_agents.policy_wrapper import QUANTILES_KEY, SCORES_KEY
from train_RL_agents.utils.arrays import read_arrays
from train_RL_agents.utils.files import write_atomically
from train_RL_agents.utils.rows import Episodes

FORMAT_NAME = "marinenav recording"
FORMAT_VERSION = 4


@dataclass(frozen=True)
class Recording:
    """E episodes of up to T control steps, R robot slots, K object slots; tensors on the CPU.

    The annotation of a tensor gives its type and shape; O obstacle slots, C cores, N quantiles, A discrete actions.
    An episode ends after ``steps`` control steps: when every robot has ended, at its first
    collision, or when time is up. Later frames only fill the arrays: in them, poses, velocities and
    thrusts stay as they were at the end, and everything else is zero or false.
    """

    poses: Annotated[Tensor, float, "T+1, E, R, 3"]
    """x, y (m) in the world frame (north, east), yaw (rad) in [0, 2 pi)."""
    velocities: Annotated[Tensor, float, "T+1, E, R, 3"]
    """Over ground: x, y (m/s, world frame), yaw rate (rad/s)."""
    thrust: Annotated[Tensor, float, "T+1, E, R, 2"]
    """Left and right thrust (N)."""
    active: Annotated[Tensor, bool, "T+1, E, R"]
    """The robot acts in the next step; false for all from the end of the episode on."""
    self_state: Annotated[Tensor, float, "T, E, R, 7"]
    """Observation of a robot's own state before the step; see Observation."""
    objects_state: Annotated[Tensor, float, "T, E, R, K, 5"]
    """Observed objects before the step; see Observation."""
    objects_mask: Annotated[Tensor, bool, "T, E, R, K"]
    """The slot holds an object."""
    actions: Annotated[Tensor, float, "T, E, R, 2"]
    """Commanded rate of change of the left and right thrust (N/s), for discrete actions, too;
    zero for robots that are not active."""
    reward: Annotated[Tensor, float, "T, E, R"]
    """Reward of the step, unscaled."""
    colregs: Annotated[Tensor, bool, "T, E, R"]
    """After the step the rules of the sea require a turn."""
    phi: Annotated[Tensor, float, "T, E, R"]
    """Angle of the turn to starboard that the rules require after the step (rad), 0 if they require none."""
    collided: Annotated[Tensor, bool, "T, E, R"]
    """The robot collided in this step."""
    arrived: Annotated[Tensor, bool, "T, E, R"]
    """The robot arrived in this step."""
    steps: Annotated[Tensor, int, "E"]
    """Number of control steps of the episode."""
    robot_mask: Annotated[Tensor, bool, "E, R"]
    """The robot exists."""
    starts: Annotated[Tensor, float, "E, R, 2"]
    """Positions of the starts (m)."""
    goals: Annotated[Tensor, float, "E, R, 2"]
    """Positions of the goals (m)."""
    goal_distance: Annotated[Tensor, float, "E, R"]
    """A robot has arrived within this distance of its goal (m)."""
    vessel_length: Annotated[Tensor, float, "E, R"]
    """Length of the hull (m)."""
    vessel_width: Annotated[Tensor, float, "E, R"]
    """Width of the hull (m)."""
    vessel_radius: Annotated[Tensor, float, "E, R"]
    """Collision radius (m)."""
    detect_radius: Annotated[Tensor, float, "E, R"]
    """Radius of the disc that the sensors of others detect (m)."""
    sensor_range: Annotated[Tensor, float, "E, R"]
    """Largest distance of a disc that the sensor detects (m)."""
    obstacle_position: Annotated[Tensor, float, "E, O, 2"]
    """Centre of the obstacle (m)."""
    obstacle_radius: Annotated[Tensor, float, "E, O"]
    """Radius of the obstacle's disc (m)."""
    obstacle_mask: Annotated[Tensor, bool, "E, O"]
    """The obstacle exists."""
    core_position: Annotated[Tensor, float, "E, C, 2"]
    """Centre of the vortex core (m)."""
    core_circulation: Annotated[Tensor, float, "E, C"]
    """Circulation (m^2/s), positive for a clockwise core."""
    core_radius: Annotated[Tensor, float, "E, C"]
    """Radius of the core, within which the water rotates like a rigid body (m)."""
    core_mask: Annotated[Tensor, bool, "E, C"]
    """The core exists."""
    map_size: Annotated[Tensor, float, "E, 2"]
    """Size of the map along x and y (m)."""
    dt: float
    """Length of a control step (s)."""
    policy: str
    """Name of the policy."""
    groups: tuple[str, ...]
    """Group of scenarios of each episode, such as "level 1"."""
    quantiles: Annotated[Tensor | None, float, "T, E, R, N"] = None
    """Ascending quantiles of the return of the chosen action (scaled rewards); None for
    policies that do not estimate them."""
    scores: Annotated[Tensor | None, float, "T, E, R, A"] = None
    """Score of each pair of thrust changes: the estimated return (unscaled), or the logit of policies that learn no
    values of actions; None for policies without scores."""
    commands: Annotated[Tensor | None, float, "E, A, 2"] = None
    """Pairs of left and right thrust changes (N/s) that have scores."""
    weights: Annotated[Tensor | None, float, "E, 2"] = None
    """Weights of the published reward for a control step, and for a radian of the turn that the rules require; None for
    custom reward functions."""
    steering: Annotated[Tensor | None, float, "E, R, 3"] = None
    """Largest thrust (N); largest angle of the azimuth thruster or rudder (rad), 0 for two fixed thrusters; its
    position along the hull (m). None in recordings of earlier versions."""
    behaviour: Annotated[Tensor | None, int, "E, R"] = None
    """Index into levels.BEHAVIOURS for robots that the policy does not control, -1 for others; None if it controls
    all."""
    onset: Annotated[Tensor | None, float, "E, R"] = None
    """Time at which the behaviour begins (s); None if the policy controls all robots."""
    grounded: Annotated[Tensor | None, bool, "T, E, R"] = None
    """The robot ran aground in this step, which ``collided`` includes; None in open water."""
    shores: Annotated[Tensor | None, float, "E, S, 4"] = None
    """Begin x, y and end x, y of segments of shore (m), with land on their left; None in open water."""
    sees_through_land: Annotated[Tensor | None, bool, "E"] = None
    """Shores hide nothing (``world.sensor.sees_through_land``); None in open water and in earlier recordings."""
    routes: Annotated[Tensor | None, float, "E, R, W, 2"] = None
    """Waypoints of the robots, with the goal last (m); None in open water."""
    waypoint: Annotated[Tensor | None, int, "T+1, E, R"] = None
    """Number of the waypoint that the robot steers for; None in open water and in earlier recordings."""
    rules: ColregsConfig = field(default_factory=ColregsConfig)
    """Settings of the rules of the sea."""
    seed: int | None = None
    """Seed of the scenarios and of the measurement noise; None if unknown."""
    reward_scale: float | None = None
    """Factor by which the rewards in the quantiles are scaled; None if unknown."""

    @property
    def outcomes(self) -> list[str]:
        """Return the outcome of each episode: ``success``, ``collision``, ``grounding`` or ``timeout``."""
        collision = self.collided.any(0).any(-1)
        aground = torch.zeros_like(collision) if self.grounded is None else self.grounded.any(0).any(-1)
        controlled = self.robot_mask if self.behaviour is None else self.robot_mask & (self.behaviour < 0)
        success = (self.arrived.any(0) | ~controlled).all(-1) & ~collision
        flags = {"grounding": aground, "collision": collision, "success": success}
        ended = zip(*(flag.tolist() for flag in flags.values()), strict=True)
        return [next((name for name, flag in zip(flags, row, strict=True) if flag), "timeout") for row in ended]


def present_robots(active: Tensor) -> Tensor:
    """Return which robots are present in each frame, like Recording.active: those that acted in the step before it."""
    # The last position of a robot counts, too, although the robot is not active there any more.
    return torch.cat((active[:1], active[:-1]))


def hiding_shores(recording: Recording) -> Tensor | None:
    """Return the segments of shore [E, S, 4] (m) that hide what is behind them; None in open water."""
    shores, sees = recording.shores, recording.sees_through_land
    return shores if shores is None or sees is None else torch.where(sees[:, None, None], ABSENT_SHORE, shores)


@dataclass(frozen=True)
class _Header:
    """Fields of Recording that are no tensors, as a file states them."""

    dt: PositiveFloat
    policy: str
    groups: tuple[str, ...]
    rules: dict[str, Any]
    seed: NonNegativeInt | None
    reward_scale: PositiveFloat | None

    def __post_init__(self) -> None:
        check_fields(self)


_JSON_FIELDS = tuple(item.name for item in fields(_Header))
_TENSORS: dict[str, tuple[type, list[str]]] = {
    name: (hint.__metadata__[0], hint.__metadata__[1].split(", "))
    for name, hint in get_type_hints(Recording, include_extras=True).items()
    if name not in _JSON_FIELDS
}
TENSORS = tuple(_TENSORS)
"""Names of the tensors, which are those of the arrays in the file."""
_HELD_TENSORS = ("poses", "velocities", "thrust", "waypoint")
_VALUES_WITHOUT_BEHAVIOUR = {"behaviour": -1, "onset": 0.0}
"""Values of tensors for episodes without behaviours where other episodes of the same recording have some."""
_PADDING = {"shores": ABSENT_SHORE}
"""Values that pad tensors to the largest size, where these are not 0."""


class Recorder:
    """Callback that records every step; nothing is read from the device before ``finish``."""

    def __init__(self) -> None:
        self._collected: dict[str, list[Tensor]] = defaultdict(list)
        self._env: MarineNavEnv | None = None

    def __call__(self, transition: Transition, env: MarineNavEnv) -> None:
        """Record a control step; see StepCallback."""
        active = transition.before.now.state.active[..., None]
        observation = transition.acted.get((GROUP, "observation"))
        tensors = _frame_tensors(transition.after.now.state)
        tensors |= {name: observation.get(name) for name in ("self_state", "objects_state", "objects_mask")}
        outcome = transition.outcome
        tensors |= {name: getattr(outcome, name) for name in ("reward", "colregs", "phi", "collided", "arrived")}
        if outcome.grounded is not None:
            tensors["grounded"] = outcome.grounded
        to_rates = thrust_rates_of_commands if env.continuous else thrust_rates_of_indices
        vessel = transition.before.parameters.vessel
        tensors["actions"] = to_rates(transition.acted.get((GROUP, "action")), vessel) * active
        for key in (QUANTILES_KEY, SCORES_KEY):
            if key in transition.acted.keys(True):
                tensors[key[-1]] = transition.acted.get(key) * active
        self._env = env
        for name, tensor in tensors.items():  # rows of episodes that are not in the batch are zero
            whole = tensor.new_zeros((env.num_envs, *tensor.shape[1:]))
            whole[transition.rows] = tensor
            self._collected[name].append(whole)

    def finish(self, policy: str, groups: Sequence[str], map_size: Tensor, seed: int | None = None) -> Recording:
        """Return the recording, with every episode cut at its end, given the size [E, 2] (m) of each episode's map."""
        if self._env is None:
            raise ConfigError("recording: there is no step to record")
        env = self._env
        stacked: dict[str, Any] = {}
        for name, tensors in self._collected.items():
            stacked[name] = to_host(torch.stack(tensors))
        for name, start in _frame_tensors(env.state).items():
            stacked[name] = torch.cat((to_host(start)[None], stacked[name]))
        constants = episode_constants(env, "scores" in stacked)
        steps = _episode_steps(stacked, constants.get("behaviour"))
        last = int(steps.max())
        time = torch.arange(last + 1)[:, None]
        for name, tensor in stacked.items():
            if name in _HELD_TENSORS:
                stacked[name] = tensor[torch.minimum(time, steps), torch.arange(len(steps))]
            else:
                cut = tensor[: last + (name == "active")]
                kept = time[: len(cut)] < steps
                stacked[name] = cut * kept.view(*kept.shape, *[1] * (cut.ndim - 2))
        return Recording(
            **(stacked | constants),
            steps=steps,
            map_size=to_host(map_size),
            dt=env.config.control_step,
            policy=policy,
            groups=tuple(groups),
            rules=env.config.colregs,
            seed=seed,
        )


def _frame_tensors(state: State) -> dict[str, Tensor]:
    """Return what of a state a recording has in each frame, by the names in Recording."""
    tensors = {"poses": state.pose, "velocities": state.velocity_ground, "thrust": state.thrust, "active": state.active}
    return tensors if state.waypoint is None else tensors | {"waypoint": state.waypoint}


def _episode_steps(stacked: Mapping[str, Tensor], behaviour: Tensor | None = None) -> Tensor:
    """Return the number of control steps [E] until every controlled robot has ended, or up to the first collision."""
    active = stacked["active"][1:]
    active = active if behaviour is None else active & (behaviour < 0)
    over = stacked["collided"].any(-1) | ~active.any(-1)
    first = over.to(torch.int8).argmax(0) + 1
    return torch.where(over.any(0), first, over.shape[0])


def record(
    policy: Policy,
    scenarios: Scenario | Sequence[Episode],
    world: WorldConfig,
    *,
    name: str,
    groups: Sequence[str],
    seed: int = 0,
    on_step: StepCallback | None = None,
    **options: Any,
) -> tuple[Episodes, Recording]:
    """Evaluate a policy on N scenarios of a world, and return the episodes and the recording.

    The episodes are the same as without recording. Quantiles and scores that the policy writes are recorded, too.
    ``name`` is that of the policy, and ``groups`` are those of the episodes; further arguments are those of
    ``run_episodes``.
    """
    recorder = Recorder()

    def record_step(transition: Transition, env: MarineNavEnv) -> None:
        recorder(transition, env)
        if on_step is not None:
            on_step(transition, env)

    episodes = run_episodes(policy, scenarios, world, seed=seed, on_step=record_step, **options)
    if isinstance(scenarios, Scenario):
        maps = [world.scenario] * len(scenarios)
    else:
        maps = [episode.world.scenario for episode in scenarios]
    sizes = torch.tensor([[area.width, area.height] for area in maps])
    if isinstance(scenarios, Scenario) and scenarios.map_size is not None:
        sizes = scenarios.map_size
    return episodes, recorder.finish(name, groups, sizes, seed)


def concatenate(recordings: Sequence[Recording]) -> Recording:
    """Concatenate recordings of one policy along the axis of episodes; other axes are padded to the largest size.

    All have the same length of a control step, the same sizes of observations, and the same rules of the sea.
    """
    first, last = recordings[0], max(int(recording.steps.max()) for recording in recordings)
    joined: dict[str, Any] = {}
    for name in TENSORS:
        tensors = [getattr(recording, name) for recording in recordings]
        if name in _VALUES_WITHOUT_BEHAVIOUR and any(tensor is not None for tensor in tensors):
            tensors = [
                torch.full(recording.robot_mask.shape, _VALUES_WITHOUT_BEHAVIOUR[name]) if tensor is None else tensor
                for recording, tensor in zip(recordings, tensors, strict=True)
            ]
        if any(tensor is None for tensor in tensors):
            continue
        if name in _HELD_TENSORS:
            time = torch.arange(last + 1)
            tensors = [tensor[time.clamp_max(tensor.shape[0] - 1)] for tensor in tensors]
        joined[name] = _concatenate_padded(tensors, _TENSORS[name][1].index("E"), _PADDING.get(name, 0.0))
    groups = tuple(group for recording in recordings for group in recording.groups)
    texts = {name: getattr(first, name) for name in _JSON_FIELDS} | {"groups": groups}
    return Recording(**joined, **texts)


def episode_tensors(recording: Recording, row: int) -> dict[str, Tensor]:
    """Return the tensors of one episode by name, without the axis E, empty slots and frames after its end."""
    steps = int(recording.steps[row])
    kept: dict[str, Any] = {"T": slice(steps), "T+1": slice(steps + 1), "E": row}
    kept |= {"R": recording.robot_mask[row], "O": recording.obstacle_mask[row], "C": recording.core_mask[row]}
    found = {name: getattr(recording, name) for name in TENSORS}
    return {
        name: tensor[tuple(kept.get(dimension, slice(None)) for dimension in _TENSORS[name][1])]
        for name, tensor in found.items()
        if tensor is not None
    }


def _concatenate_padded(tensors: Sequence[Tensor], axis: int, padding: float) -> Tensor:
    """Concatenate tensors along an axis, with other axes padded to the largest size."""
    largest = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    padded = []
    for tensor in tensors:
        shape = [*largest[:axis], tensor.shape[axis], *largest[axis + 1 :]]
        blank = tensor.new_full(shape, padding)
        blank[tuple(slice(size) for size in tensor.shape)] = tensor
        padded.append(blank)
    return torch.cat(padded, axis)


def save(recording: Recording, path: Path) -> None:
    """Write a recording to a file."""
    header = {"format": FORMAT_NAME, "version": FORMAT_VERSION}
    header |= {name: getattr(recording, name) for name in _JSON_FIELDS}
    header["rules"] = asdict(recording.rules)
    tensors = {name: getattr(recording, name) for name in TENSORS}
    arrays = {name: tensor.numpy() for name, tensor in tensors.items() if tensor is not None}
    content = io.BytesIO()
    np.savez_compressed(content, about=np.array(json.dumps(header)), **arrays)
    write_atomically(path, content.getvalue())


def load(path: str | Path) -> Recording:
    """Read a recording from a file."""
    arrays = read_arrays(Path(path), "a recording of evaluate --record")
    arrays.pop("doubtful", None)  # which earlier recordings have
    refusal = f"{path}: damaged, or not a recording of this program"
    try:
        header = parse_json(str(arrays.pop("about")), f"{path}: about", "JSON")
        kind = header.get("format")
        require(kind == FORMAT_NAME, str(path), kind, f"a {FORMAT_NAME}")
        version = header["version"]
        allowed = f"{FORMAT_VERSION}; record it again, by the same version of marinenav"
        require(version == FORMAT_VERSION, f"{path}: version", version, allowed)
        tensors: Any = {name: torch.from_numpy(array) for name, array in arrays.items()}
        texts: Any = vars(_Header(**{name: header[name] for name in _JSON_FIELDS}))
        recording = Recording(**tensors, **texts | {"rules": ColregsConfig(**texts["rules"])})
        mismatch = _describe_error(recording)
    except ConfigError as error:
        raise error if str(error).startswith(str(path)) else ConfigError(refusal) from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(refusal) from error
    if mismatch:
        raise ConfigError(f"{refusal} ({mismatch})")
    return recording


def _describe_error(recording: Recording) -> str:
    """Return a description of the first error in the tensors of a recording; empty if there is none."""
    sizes: dict[str, int] = {}
    kinds = {bool: "b", int: "i", float: "f"}
    for name, (kind, dimensions) in _TENSORS.items():
        tensor = getattr(recording, name)
        if tensor is None:
            continue
        if tensor.numpy().dtype.kind != kinds[kind] or tensor.ndim != len(dimensions):
            return f"{name} is of another type or shape"
        for letter, size in zip(dimensions, tensor.shape, strict=True):
            letter, size = ("T", size - 1) if letter == "T+1" else (letter, size)
            if size != (int(letter) if letter.isdecimal() else sizes.setdefault(letter, size)):
                return f"{name} is of another shape"
        if kind is float and not (tensor.abs() <= MAX_FLOAT).all():
            return f"{name} is out of range"
    longest = sizes["T"]
    if sizes["E"] < 1 or not ((recording.steps >= 1) & (recording.steps <= longest)).all():
        return "steps are out of range"
    return "" if len(recording.groups) == sizes["E"] else "groups are not those of the episodes"
