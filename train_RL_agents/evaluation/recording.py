"""Recordings: everything that happened in evaluated episodes, in one file.

The file is a compressed .npz that numpy reads without pickle. Each tensor of Recording is an array
under its own name, and ``about`` is a text with JSON: ``format``, ``version``, ``policy``, ``dt``,
``groups`` and ``rules``. Floating-point numbers are stored in single precision.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marinenav_env import GROUP, ConfigError, Episode, MarineNavEnv, WorldConfig
from marinenav_env.config import ColregsConfig
from marinenav_env.dynamics import continuous_rates, discrete_rates
from marinenav_env.state import Scenario, State
from marinenav_env.validation import require
from train_RL_agents.evaluation.episodes import Episodes, Moment, Policy, evaluate
from train_RL_agents.policy_wrapper import QUANTILES
from train_RL_agents.utils.files import write_atomically

FORMAT, VERSION = "marinenav recording", 1


@dataclass(frozen=True)
class Recording:
    """E episodes of up to T control steps, R robot slots, K object slots; tensors on the CPU.

    An episode ends after ``steps`` control steps: when every robot has ended, at its first
    collision, or when time is up. What is later is there for the shape only: poses, velocities and
    thrusts stay what they were at the end, everything else is zero or false.
    """

    poses: Tensor
    """[T+1, E, R, 3] x, y (m) in the world frame (north, east), yaw (rad) in [0, 2 pi)."""
    velocities: Tensor
    """[T+1, E, R, 3] over ground: x, y (m/s, world frame), yaw rate (rad/s)."""
    thrust: Tensor
    """[T+1, E, R, 2] left and right (N)."""
    active: Tensor
    """[T+1, E, R] bool: active, so that it acts in the next step; false for all from the
    end of the episode on."""
    self_state: Tensor
    """[T, E, R, 7] what a robot knew of itself before the step; see Observation."""
    objects_state: Tensor
    """[T, E, R, K, 5] what it saw before the step; see Observation."""
    objects_mask: Tensor
    """[T, E, R, K] bool: the slot holds an object."""
    actions: Tensor
    """[T, E, R, 2] commanded change of the left and right thrust (N/s), also of discrete actions;
    zero for robots that are not active."""
    reward: Tensor
    """[T, E, R]."""
    colregs: Tensor
    """[T, E, R] bool: after the step the rules of the sea ask for a turn."""
    phi: Tensor
    """[T, E, R] angle of that turn (rad, to starboard), 0 if there is none."""
    collided: Tensor
    """[T, E, R] bool: collided in this step."""
    arrived: Tensor
    """[T, E, R] bool: arrived in this step."""
    steps: Tensor
    """[E] int64: control steps of the episode."""
    robot_mask: Tensor
    """[E, R] bool: the robot exists."""
    starts: Tensor
    """[E, R, 2] (m)."""
    goals: Tensor
    """[E, R, 2] (m)."""
    goal_distance: Tensor
    """[E, R] a robot has arrived within this distance of its goal (m)."""
    vessel_length: Tensor
    """[E, R] (m)."""
    vessel_width: Tensor
    """[E, R] (m)."""
    vessel_radius: Tensor
    """[E, R] collision radius (m)."""
    sensor_range: Tensor
    """[E, R] (m)."""
    obstacle_position: Tensor
    """[E, O, 2] centre (m)."""
    obstacle_radius: Tensor
    """[E, O] (m)."""
    obstacle_mask: Tensor
    """[E, O] bool: the obstacle exists."""
    core_position: Tensor
    """[E, C, 2] centre (m)."""
    core_circulation: Tensor
    """[E, C] (m^2/s), positive for a clockwise core."""
    core_radius: Tensor
    """[E, C] (m)."""
    core_mask: Tensor
    """[E, C] bool: the core exists."""
    map_size: Tensor
    """[E, 2] along x and y (m)."""
    dt: float
    """Length of a control step (s)."""
    policy: str
    """Who steered."""
    groups: tuple[str, ...]
    """Per episode, the group of scenarios that it belongs to, such as "level 1"."""
    quantiles: Tensor | None = None
    """[T, E, R, N] ascending quantiles of the return of the chosen action (scaled rewards), where
    the policy knows them."""
    rules: ColregsConfig = field(default_factory=ColregsConfig)
    """The rules of the sea of the world; the published ones in files that do not say."""

    @property
    def outcomes(self) -> list[str]:
        """Per episode: success, collision or timeout."""
        collision = self.collided.any(0).any(-1)
        success = (self.arrived.any(0) | ~self.robot_mask).all(-1) & ~collision
        pairs = zip(collision.tolist(), success.tolist(), strict=True)
        return ["collision" if hit else "success" if good else "timeout" for hit, good in pairs]


_TEXTS = ("dt", "policy", "groups", "rules")
TENSORS = tuple(item.name for item in fields(Recording) if item.name not in _TEXTS)
"""Names of the tensors, which are those of the arrays in the file."""
_HELD = ("poses", "velocities", "thrust")
_OVER_TIME = (
    *_HELD, "active", "self_state", "objects_state", "objects_mask", "actions", "reward", "colregs",
    "phi", "collided", "arrived", "quantiles",
)  # fmt: skip


class Recorder:
    """Collects what happens, step by step; nothing is read from the device before ``finish``.

    Args:
        rows: indices of the episodes to record, on their device; None for all.
    """

    def __init__(self, rows: Tensor | None = None) -> None:
        self._rows = rows
        self._collected: dict[str, list[Tensor]] = defaultdict(list)
        self._env: MarineNavEnv | None = None

    def __call__(self, moment: Moment, env: MarineNavEnv) -> None:
        """Add a control step; see Watch."""
        active = moment.before.now.state.active[..., None]
        observation = moment.acted.get((GROUP, "observation"))
        tensors = _frame(moment.after.now.state)
        tensors |= {name: observation.get(name)
                    for name in ("self_state", "objects_state", "objects_mask")}  # fmt: skip
        tensors |= {name: getattr(moment.outcome, name)
                    for name in ("reward", "colregs", "phi", "collided", "arrived")}  # fmt: skip
        to_rates = continuous_rates if env.continuous else discrete_rates
        vessel = moment.before.parameters.vessel
        tensors["actions"] = to_rates(moment.acted.get((GROUP, "action")), vessel) * active
        if QUANTILES in moment.acted.keys(True):
            tensors["quantiles"] = moment.acted.get(QUANTILES) * active
        first, self._env = self._env is None, env
        if first:
            self._add(moment.rows, _frame(env.state))
        self._add(moment.rows, tensors)

    def _add(self, rows: Tensor, tensors: Mapping[str, Tensor]) -> None:
        """Add tensors of the episodes of the batch; those of others are zero."""
        assert self._env is not None
        for name, tensor in tensors.items():
            whole = tensor.new_zeros((self._env.num_envs, *tensor.shape[1:]))
            whole[rows] = tensor
            self._collected[name].append(whole if self._rows is None else whole[self._rows])

    def finish(self, policy: str, groups: Sequence[str], map_size: Tensor) -> Recording:
        """Make the recording, with every episode cut at its end.

        Args:
            policy: who steered.
            groups: of each of the E episodes recorded.
            map_size: [E, 2] of these (m).
        """
        if self._env is None:
            raise ConfigError("recording: there is no step to record")
        env, stacked = self._env, {}
        for name, tensors in self._collected.items():
            stacked[name] = _on_host(torch.stack(tensors))
        steps = _episode_steps(stacked)
        last = int(steps.max())
        time = torch.arange(last + 1)[:, None]
        for name, tensor in stacked.items():
            if name in _HELD:
                stacked[name] = tensor[torch.minimum(time, steps), torch.arange(len(steps))]
            else:
                cut = tensor[: last + (name == "active")]
                kept = time[: len(cut)] < steps
                stacked[name] = cut * kept.view(*kept.shape, *[1] * (cut.ndim - 2))
        return Recording(
            **stacked,
            **_things(env, self._rows),
            steps=steps,
            map_size=_on_host(map_size),
            dt=env.config.dt * env.config.substeps,
            policy=policy,
            groups=tuple(groups),
            rules=env.config.colregs,
        )


def _frame(state: State) -> dict[str, Tensor]:
    return {
        "poses": state.pose,
        "velocities": state.velocity_ground,
        "thrust": state.thrust,
        "active": state.active,
    }


def _on_host(tensor: Tensor) -> Tensor:
    """The tensor on the CPU, in single precision if it holds real numbers."""
    tensor = tensor.cpu()
    return tensor.float() if tensor.is_floating_point() else tensor


def _episode_steps(stacked: Mapping[str, Tensor]) -> Tensor:
    """Control steps [E] until every robot has ended, or up to the first collision."""
    over = stacked["collided"].any(-1) | ~stacked["active"][1:].any(-1)
    first = over.to(torch.int8).argmax(0) + 1
    return torch.where(over.any(0), first, over.shape[0])


def _things(env: MarineNavEnv, rows: Tensor | None) -> dict[str, Tensor]:
    """What stays the same over an episode, of all environments or of some rows."""
    scenario, vessel = env.scenario, env.constants.vessel
    robots, cores = scenario.robot_mask, scenario.core_circulation
    things = {
        "robot_mask": robots,
        "starts": scenario.start,
        "goals": scenario.goal,
        "goal_distance": vessel.goal_distance.expand(robots.shape),
        "vessel_length": vessel.length.expand(robots.shape),
        "vessel_width": vessel.width.expand(robots.shape),
        "vessel_radius": vessel.radius.expand(robots.shape),
        "sensor_range": env.constants.sensor.range.expand(robots.shape),
        "obstacle_position": scenario.obstacle_position,
        "obstacle_radius": scenario.obstacle_radius,
        "obstacle_mask": scenario.obstacle_mask,
        "core_position": scenario.core_position,
        "core_circulation": cores,
        "core_radius": env.constants.rules.core_radius[:, None].expand(cores.shape),
        "core_mask": cores != 0.0,
    }
    return {
        name: _on_host(tensor if rows is None else tensor[rows]) for name, tensor in things.items()
    }


def record(
    policy: Policy,
    scenarios: Scenario | Sequence[Episode],
    world: WorldConfig,
    *,
    name: str,
    groups: Sequence[str],
    continuous: bool,
    device: torch.device,
    seed: int = 0,
    drop_ended: bool = True,
) -> tuple[Episodes, Recording]:
    """Evaluate, and record on the way.

    Args:
        policy: see evaluate, as for everything below; quantiles that it leaves are recorded too.
        scenarios: N of them.
        world: the world.
        name: of the policy.
        groups: of each episode.
        continuous: whether the policy's actions are continuous.
        device: where to run.
        seed: of the measurement noise.
        drop_ended: whether the batch may shrink.

    Returns:
        The same figures as without recording, and the recording.
    """
    recorder = Recorder()
    episodes = evaluate(policy, scenarios, world, continuous=continuous, device=device, seed=seed,
                        drop_ended=drop_ended, watch=recorder)  # fmt: skip
    if isinstance(scenarios, Scenario):
        maps = [world.scenario] * len(scenarios)
    else:
        maps = [episode.world.scenario for episode in scenarios]
    sizes = torch.tensor([[each.width, each.height] for each in maps])
    return episodes, recorder.finish(name, groups, sizes)


def concatenate(recordings: Sequence[Recording]) -> Recording:
    """Join recordings of one policy along their episodes, padded to the largest.

    Args:
        recordings: at least one, with the same length of a step and of observations, and the same
            rules of the sea.
    """
    first, last = recordings[0], max(int(each.steps.max()) for each in recordings)
    joined: dict[str, Any] = {}
    for name in TENSORS:
        tensors = [getattr(each, name) for each in recordings]
        if tensors[0] is None:
            continue
        if name in _HELD:
            time = torch.arange(last + 1)
            tensors = [tensor[time.clamp_max(tensor.shape[0] - 1)] for tensor in tensors]
        joined[name] = _join(tensors, 1 if name in _OVER_TIME else 0)
    groups = tuple(group for each in recordings for group in each.groups)
    return Recording(**joined, dt=first.dt, policy=first.policy, groups=groups,
                     rules=first.rules)  # fmt: skip


def _join(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenate along an axis, other axes padded with zeros to the largest."""
    largest = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    padded = []
    for tensor in tensors:
        shape = [*largest[:axis], tensor.shape[axis], *largest[axis + 1 :]]
        blank = tensor.new_zeros(shape)
        blank[tuple(slice(size) for size in tensor.shape)] = tensor
        padded.append(blank)
    return torch.cat(padded, axis)


def save(recording: Recording, path: Path) -> None:
    """Write a recording.

    Raises:
        ConfigError: when it cannot be written.
    """
    about = {"format": FORMAT, "version": VERSION}
    about |= {name: getattr(recording, name) for name in _TEXTS}
    about["rules"] = asdict(recording.rules)
    tensors = {name: getattr(recording, name) for name in TENSORS}
    arrays = {name: tensor.numpy() for name, tensor in tensors.items() if tensor is not None}
    content = io.BytesIO()
    np.savez_compressed(content, about=np.array(json.dumps(about)), **arrays)
    write_atomically(path, content.getvalue())


def load(path: Path) -> Recording:
    """Read a recording.

    Raises:
        ConfigError: when there is none, or it is damaged, of another format or of a later version.
    """
    refusal = f"{path}: damaged, or not a recording of this program"
    try:
        # Opened here: np.load leaves a file that it cannot read open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        about = json.loads(str(arrays.pop("about")))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such recording") from error
    except Exception as error:  # damaged bytes can lead anywhere
        raise ConfigError(refusal) from error
    found = about.get("format") if isinstance(about, dict) else None
    require(found == FORMAT, str(path), found, f"a {FORMAT}")
    version = about["version"]
    require(version <= VERSION, f"{path}: version", version, f"at most {VERSION}; update marinenav")
    try:
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return Recording(**tensors, dt=about["dt"], policy=about["policy"],
                         groups=tuple(about["groups"]),
                         rules=_rules_of(about.get("rules", {})))  # fmt: skip
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise ConfigError(refusal) from error


def _rules_of(values: dict[str, Any]) -> ColregsConfig:
    """The rules of the sea from JSON, which has lists for pairs; those left out are published."""
    paired = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return ColregsConfig(**(values | paired))


__all__ = ["Recorder", "Recording", "concatenate", "load", "record", "save"]
