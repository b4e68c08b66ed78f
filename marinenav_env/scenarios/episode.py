"""Episodes: scenario and world of one episode in plain numbers, and their conversion from and to tensors."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from marinenav_env.config import (
    HULL_TERMS,
    MAX_WAYPOINTS,
    ActuatorConfig,
    ScenarioConfig,
    SensorConfig,
    VesselConfig,
    WeatherConfig,
    WorldConfig,
    shore_room,
)
from marinenav_env.levels import BEHAVIOURS
from marinenav_env.physics.routes import make_route
from marinenav_env.physics.shores import ABSENT_SHORE, shore_clearance
from marinenav_env.scenarios.map_bank import find_route
from marinenav_env.scenarios.parameters import COMMAND_FIELDS, REWARD_WEIGHT_FIELDS, build_parameters
from marinenav_env.state import Parameters, Scenario
from marinenav_env.support.validation import ConfigError, require

_AFTER_TRACK = 1e7
"""Time between points that continue a track beyond its last leg (s), far more than a track may last."""
# Settings of a world that episodes in files do not have; of the reward settings, they have only WEIGHTS.
_SCAN_FIELDS = ("scan_beams", "scan_angle", "scan_range", "scan_std")
_WATERS_FIELDS = ("sees_through_land", "shore_segments", "shore_margin", "waypoint_radius")
_OTHER_FIELDS = ("name", "actuators", "duties", "objects_id", "entries", "scale", "speed_scale")
_FIELDS_NOT_IN_FILES = {*_SCAN_FIELDS, *_WATERS_FIELDS, *_OTHER_FIELDS}


def _field_by_key(config_type: type, **other: str) -> dict[str, str]:
    """Return a config's fields in files, by their keys there; ``other`` has the keys of fields whose key differs."""
    names = [item.name for item in fields(config_type) if item.name not in _FIELDS_NOT_IN_FILES]
    return {other.get(name, name): name for name in names}


VESSEL_FIELDS = _field_by_key(VesselConfig, radius="r", detect_radius="detect_r", goal_distance="goal_dis")
HULL_FIELDS = {name: VESSEL_FIELDS.pop(name) for name in HULL_TERMS}
ACTUATOR_FIELDS = _field_by_key(ActuatorConfig)
SENSOR_FIELDS = _field_by_key(SensorConfig, max_objects="max_obj_num")
REWARD_FIELDS = {name: name for name in REWARD_WEIGHT_FIELDS}
MAP_FIELDS = _field_by_key(ScenarioConfig, core_radius="r")
MOTION_FIELDS = ("start", "goal", "heading", "velocity", "thruster_angle", "thrust")


@dataclass(frozen=True, eq=False)
class Episode:
    """Scenario and world of one episode in plain numbers, with everything that a scenario file stores."""

    start: list[list[float]]
    """For each robot, x and y of the start (m)."""
    goal: list[list[float]]
    """For each robot, x and y of the goal (m)."""
    heading: list[float]
    """For each robot, the initial yaw (rad)."""
    velocity: list[list[float]]
    """For each robot, the initial velocity relative to the water (m/s, m/s, rad/s; world frame)."""
    thruster_angle: list[list[float]]
    """For each robot, the initial angles of the left and right thruster (rad)."""
    thrust: list[list[float]]
    """For each robot, the initial thrust of the left and right thruster (N)."""
    obstacles: list[list[float]] = field(default_factory=list)
    """For each obstacle, x, y and radius (m)."""
    cores: list[list[float]] = field(default_factory=list)
    """For each vortex core, x, y (m) and circulation (m^2/s), positive for clockwise."""
    world: WorldConfig = field(default_factory=WorldConfig)
    """Configuration of the world; scenario files store its vessels, sensors, reward, map and time step."""
    seed: int = 0
    """Seed that the scenario was drawn from, stored for information only."""
    behaviour: list[str] = field(default_factory=list)
    """For each robot, what it does instead of obeying actions, such as "stop" (levels.BEHAVIOURS), or "" if actions
    control it; an empty list if actions control all."""
    onset: list[float] = field(default_factory=list)
    """For each robot, the time at which its behaviour begins (s); empty without behaviours."""
    shores: list[list[float]] = field(default_factory=list)
    """For each segment of shore, begin x, y and end x, y (m), with land on its left as on a chart."""
    route: list[list[list[float]]] = field(default_factory=list)
    """For each robot, x and y of the waypoints before its goal (m); an empty list: straight in open water, computed
    in waters with shores."""
    track: list[list[list[float]]] = field(default_factory=list)
    """For each robot, time (s), x and y (m) of the points of its track, two or more with the behaviour ``track``, else
    none; an empty list if no robot has that behaviour."""
    states_penalty: bool = field(default=True, compare=False)
    """True if the file states the collision penalty; otherwise training uses a different default."""

    def __eq__(self, other: object) -> bool:
        """Return whether episodes are equal; one number for all robots equals a list of that number, as in files."""
        if not isinstance(other, Episode):
            return NotImplemented
        names = [item.name for item in fields(self) if item.compare and item.name != "world"]
        same = all(getattr(self, name) == getattr(other, name) for name in names)
        return same and self._world_values() == other._world_values()

    def _world_values(self) -> dict[str, Any]:
        """Return the settings of the world, as lists of one value per robot wherever robots may differ."""
        world, count = self.world, len(self.start)
        parts = (
            (world.vessel, {*VESSEL_FIELDS.values(), *HULL_FIELDS}),
            (world.vessel.actuators, {*ACTUATOR_FIELDS}),
            (world.sensor, {*SENSOR_FIELDS.values()}),
        )
        vessel, actuators, sensor = (
            vars(config) | per_robot_lists(config, {name: name for name in names - set(COMMAND_FIELDS)}, count)
            for config, names in parts
        )
        return vars(world) | {"vessel": vessel | {"actuators": actuators}, "sensor": sensor}


def per_robot_lists(config: Any, names: dict[str, str], count: int) -> dict[str, list[Any]]:
    """Return config fields as lists of one value for each of ``count`` robots; ``names`` has the fields by the keys."""
    values = {name: getattr(config, field_name) for name, field_name in names.items()}
    return {
        name: list(value[:count]) if isinstance(value, tuple) else [value] * count for name, value in values.items()
    }


def map_per_robot(world: WorldConfig, change: Callable[[tuple[float, ...]], tuple[float, ...]]) -> WorldConfig:
    """Return a world with the function ``change`` applied to every tuple that has one value per robot."""

    def changes(config: Any) -> dict[str, Any]:
        return {
            name: change(value)
            for name, value in vars(config).items()
            if isinstance(value, tuple) and name not in (*COMMAND_FIELDS, "entries")
        }

    vessel, actuators = changes(world.vessel), changes(world.vessel.actuators)
    if actuators:
        vessel["actuators"] = replace(world.vessel.actuators, **actuators)
    sensor = replace(world.sensor, **changes(world.sensor))
    return replace(world, vessel=replace(world.vessel, **vessel), sensor=sensor)


def episodes_from_scenarios(scenarios: Scenario, config: WorldConfig, seed: int = 0) -> list[Episode]:
    """Convert scenarios, batch [P], that were drawn for a world from a seed to episodes that can be written."""
    return [_episode_from_scenario(scenario, config, seed) for scenario in scenarios.cpu()]


def _episode_from_scenario(scenario: Scenario, config: WorldConfig, seed: int) -> Episode:
    """Convert one scenario, batch [], to an episode."""
    robot, core = scenario.robot_mask, scenario.core_circulation != 0.0
    kept = robot.nonzero().squeeze(-1).tolist()
    circles = torch.cat((scenario.obstacle_position, scenario.obstacle_radius[:, None]), -1)
    vortices = torch.cat((scenario.core_position, scenario.core_circulation[:, None]), -1)
    behaviour, onset = _behaviours_and_onsets(scenario)
    paths: dict[str, Any] = _paths_of_scenario(scenario, robot)
    if scenario.map_size is not None:
        width, height = scenario.map_size.tolist()
        config = replace(config, scenario=replace(config.scenario, width=width, height=height))
    return Episode(
        **paths,
        **{name: scenario.get(name)[robot].tolist() for name in MOTION_FIELDS},
        obstacles=circles[scenario.obstacle_mask].tolist(),
        cores=vortices[core].tolist(),
        world=map_per_robot(config, lambda value: tuple(value[index] for index in kept)),
        seed=seed,
        behaviour=behaviour,
        onset=onset,
    )


def _behaviours_and_onsets(scenario: Scenario) -> tuple[list[str], list[float]]:
    """Return the behaviours of one scenario's robots by name ("": none), and their onsets (s); empty without any."""
    robot, scripted = scenario.robot_mask, scenario.scripted
    if scripted is None or not scripted[robot].any():
        return [], []
    code = torch.zeros_like(robot, dtype=torch.int64) if scenario.behaviour is None else scenario.behaviour
    onset = torch.zeros_like(scenario.heading) if scenario.onset is None else scenario.onset
    pairs = zip(code[robot].tolist(), scripted[robot].tolist(), strict=True)
    return [BEHAVIOURS[index] if flag else "" for index, flag in pairs], onset[robot].tolist()


def _paths_of_scenario(scenario: Scenario, robot: Tensor) -> dict[str, list[Any]]:
    """Return shores, routes and tracks of one scenario as Episode has them, for the robots of a mask [R]."""
    paths: dict[str, list[Any]] = {}
    if scenario.shores is not None:
        paths["shores"] = scenario.shores[scenario.shores[:, 0] != ABSENT_SHORE].tolist()
    if scenario.route is not None:
        pairs = zip(scenario.route[robot].tolist(), scenario.goal[robot].tolist(), strict=True)
        paths["route"] = [[row[:2] for row in route if row[:2] != goal] for route, goal in pairs]
    if scenario.track is not None:
        limited = [points[points[:, 0].abs() < _AFTER_TRACK] for points in scenario.track[robot]]
        named = zip(limited, _behaviours_and_onsets(scenario)[0], strict=True)
        paths["track"] = [points.tolist() if name == "track" else [] for points, name in named]
    return paths


def single_vessel_episode(episode: Episode, slot: int) -> Episode:
    """Return an episode with only the vessel of one slot (its index), which actions control."""
    alone: dict[str, Any] = {name: [getattr(episode, name)[slot]] for name in MOTION_FIELDS}
    alone |= {"route": episode.route[slot : slot + 1], "track": []}
    world = map_per_robot(episode.world, lambda values: (values[slot],))
    return replace(episode, **alone, behaviour=[], onset=[], world=world)


def config_for_batch(config: WorldConfig, episodes: Sequence[Episode]) -> WorldConfig:
    """Return ``config`` with the time step and the number of object slots that a batch of episodes requires."""
    worlds = [episode.world for episode in episodes]
    steps = {(world.dt, world.substeps) for world in worlds}
    require(len(steps) == 1, "dt, N", sorted(steps), "the same in all episodes of a batch")
    dt, substeps = steps.pop()
    slots = max(config.sensor.slots, *(world.sensor.slots for world in worlds))
    sensor = replace(config.sensor, max_objects=slots)
    stated = any(points for episode in episodes for points in episode.route)  # routes need room for shores
    most = max(config.scenario.shore_segments, stated, *(len(episode.shores) for episode in episodes))
    scenario = replace(config.scenario, shore_segments=shore_room(most))
    return replace(config, dt=dt, substeps=substeps, sensor=sensor, scenario=scenario)


def with_weather(episodes: Sequence[Episode], weather: WeatherConfig) -> Sequence[Episode]:
    """Return episodes with the given weather where they have the default one, as all episodes of files have."""
    calm = WeatherConfig()
    if weather == calm:
        return episodes

    @cache
    def exposed(world: WorldConfig) -> WorldConfig:
        return replace(world, weather=weather) if world.weather == calm else world

    return [replace(episode, world=exposed(episode.world)) for episode in episodes]


def overridden_settings(episodes: Iterable[Episode], config: WorldConfig) -> list[str]:
    """Return the names of settings of a world, not at their default, that episodes override with their own."""
    sections = {"vessel": VESSEL_FIELDS | HULL_FIELDS, "vessel.actuators": ACTUATOR_FIELDS}
    sections |= {"sensor": SENSOR_FIELDS, "reward": REWARD_FIELDS}
    names = [f"{section}.{name}" for section, fields_ in sections.items() for name in fields_.values()]
    worlds, defaults = {episode.world for episode in episodes}, WorldConfig()

    def differs(value: Any, other: Any) -> bool:
        if isinstance(other, tuple) and not isinstance(value, tuple):
            return set(other) != {value}
        has_fewer = isinstance(other, tuple) and len(other) < len(value)
        return bool((value[: len(other)] if has_fewer else value) != other)

    getters = {name: attrgetter(name) for name in ("dt", "substeps", *names)}
    changed = {name: read for name, read in getters.items() if read(config) != read(defaults)}
    return [name for name, read in changed.items() if any(differs(read(config), read(world)) for world in worlds)]


def stack_episodes(
    episodes: Sequence[Episode], device: torch.device, dtype: torch.dtype, area: ScenarioConfig | None = None
) -> tuple[Scenario, Parameters, Tensor]:
    """Convert N episodes to padded scenarios and parameters, batch [N], and von Mises quantiles [rows, points].

    ``area`` has the room for segments of shore, 0 by default, and the margin of computed routes.
    """
    area = area or ScenarioConfig()
    shore_segments, margin = area.shore_segments, area.shore_margin

    def padded(name: str, *width: int, fill: float = 0.0) -> Tensor:
        rows = [torch.tensor(getattr(episode, name), dtype=dtype).reshape(-1, *width) for episode in episodes]
        return pad_sequence(rows, batch_first=True, padding_value=fill).to(device)

    def exists(name: str) -> Tensor:
        rows = [torch.ones(len(getattr(episode, name)), dtype=torch.bool) for episode in episodes]
        return pad_sequence(rows, batch_first=True).to(device)

    circles, vortices, robot_mask = padded("obstacles", 3), padded("cores", 3), exists("start")
    robots, shores, sides = robot_mask.shape[1], None, None
    if shore_segments:
        known = padded("shores", 4, fill=ABSENT_SHORE)
        shores = torch.nn.functional.pad(known, (0, 0, 0, shore_segments - known.shape[1]), value=ABSENT_SHORE)
        areas = [episode.world.scenario for episode in episodes]
        sides = torch.tensor([[area.width, area.height] for area in areas], dtype=dtype, device=device)
    scripted, behaviour, onset = _stack_behaviours(episodes, robots, device, dtype)
    scenario = Scenario(
        goal=padded("goal", 2),
        start=padded("start", 2),
        heading=padded("heading"),
        velocity=padded("velocity", 3),
        thrust=padded("thrust", 2),
        thruster_angle=padded("thruster_angle", 2),
        robot_mask=robot_mask,
        obstacle_position=circles[..., :2],
        obstacle_radius=circles[..., 2],
        obstacle_mask=exists("obstacles"),
        core_position=vortices[..., :2],
        core_circulation=vortices[..., 2],
        level=torch.zeros(len(episodes), dtype=torch.int64, device=device),
        scripted=scripted,
        behaviour=behaviour,
        onset=onset,
        shores=shores,
        route=None,
        map_size=sides,
        track=_stack_tracks(episodes, robots, dtype, device),
        batch_size=[len(episodes)],
    )
    parameters, quantiles = build_parameters(padded_worlds(episodes, robots), robots, device, dtype)
    require_water(scenario, parameters)
    if shore_segments:  # once the ends are known to be in the water
        waypoints = [torch.tensor(_waypoints(episode, margin), dtype=dtype) for episode in episodes]
        scenario.route = make_route(scenario.start, pad_sequence(waypoints, batch_first=True).to(device))
    return scenario, parameters, quantiles


def require_water(scenario: Scenario, parameters: Parameters) -> None:
    """Raise ConfigError if a vessel that actions control starts on land or touches it, or has its goal on land."""
    if scenario.shores is None:
        return
    steered = scenario.robot_mask if scenario.scripted is None else scenario.robot_mask & ~scenario.scripted
    ends = (("starts", scenario.start, parameters.vessel.radius), ("has its goal", scenario.goal, 0.0))
    for what, places, room in ends:
        aground = steered & (shore_clearance(places, scenario.shores) <= room)
        for row, robot in aground.nonzero().tolist():  # host: at the start
            place = [round(value, 2) for value in places[row, robot].tolist()]
            raise ConfigError(f"episode {row + 1}: robot {robot + 1} {what} at {place}, on land or too close to it")


def _stack_behaviours(
    episodes: Sequence[Episode], robots: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return masks of scripted robots, indices in BEHAVIOURS and onsets (s), [N, robots]; all None without any."""
    if not any(episode.behaviour for episode in episodes):
        return None, None, None
    code = torch.full((len(episodes), robots), -1)  # -1 for robots that actions control
    onset = torch.zeros(len(episodes), robots, dtype=dtype)
    for row, episode in enumerate(episodes):
        count = len(episode.behaviour)
        code[row, :count] = torch.tensor([BEHAVIOURS.index(name) if name else -1 for name in episode.behaviour])
        onset[row, :count] = torch.tensor(episode.onset or 0.0, dtype=dtype)
    return (code >= 0).to(device), code.clamp_min(0).to(device), onset.to(device)


def _waypoints(episode: Episode, margin: float) -> list[list[list[float]]]:
    """Return MAX_WAYPOINTS waypoints for each robot (m), of which the last ones are the goal.

    Ways that are not stated are computed over water; beside stated ones, only where a straight way is too near to land.
    """
    shores, count, ways = tuple(map(tuple, episode.shores)), len(episode.goal), []
    stated, names = episode.route or [[]] * count, episode.behaviour or [""] * count
    for points, name, start, goal in zip(stated, names, episode.start, episode.goal, strict=True):
        if shores and not (points or name) and (any(stated) or not episode.route):
            points = find_route(shores, (*start,), (*goal,), margin, any(stated))
        ways.append([*points, *[goal] * (MAX_WAYPOINTS - len(points))])
    return ways


def _stack_tracks(episodes: Sequence[Episode], robots: int, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Return the tracks of robots, [N, robots, T, 3] (s, m, m), that go on after their last leg; None without any."""
    most = max((len(points) for episode in episodes for points in episode.track), default=0)
    if not most:
        return None
    tracks = torch.zeros(len(episodes), robots, most, 3, dtype=dtype)
    for row, episode in enumerate(episodes):
        for robot, points in enumerate(episode.track):
            if not points:
                continue
            stated = torch.tensor(points, dtype=dtype)
            before, last = stated[-2:]
            beyond = torch.arange(1, most - len(points) + 1, dtype=dtype)[:, None] * _AFTER_TRACK
            tracks[row, robot] = torch.cat((stated, last + beyond * (last - before) / (last[0] - before[0])))
    return tracks.to(device)


def padded_worlds(episodes: Sequence[Episode], robots: int) -> list[WorldConfig]:
    """Return the worlds of episodes, with per-robot values for ``robots`` slots: the last one is repeated as needed."""

    @cache
    def filled(world: WorldConfig) -> WorldConfig:
        return map_per_robot(world, lambda value: value + value[-1:] * (robots - len(value)))

    return [filled(episode.world) for episode in episodes]
