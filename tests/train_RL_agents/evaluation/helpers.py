"""Tracks of vessels that are drawn by hand, small evaluations in suites, and scenarios in which everything happens."""

import math
from dataclasses import replace
from types import SimpleNamespace

import torch

from marinenav_env import GROUP, WorldConfig
from marinenav_env.config import ColregsConfig
from tests.marinenav_env.helpers import simple_episode
from train_RL_agents.evaluation.comparing.tables import COMPLIANCE_COLUMNS, Evaluation, Result
from train_RL_agents.evaluation.judging.failures import Failure
from train_RL_agents.evaluation.suites.frozen import FROZEN_SEED
from train_RL_agents.utils.rows import Episodes

WORLD = WorldConfig(max_steps=40, dt=0.25, substeps=2)
STEPS, RANGE, RADIUS = 40, 20.0, 2.8
RULES = ColregsConfig()


def track(start, course, speed, changes=()):
    """Frames (x, y, heading, v_x, v_y) of a vessel; changes: by step, turn (degrees) and speed."""
    (x, y), course, changes, frames = start, math.radians(course), dict(changes), []
    for number in range(STEPS + 1):
        turn, speed = changes.get(number, (0.0, speed))
        course += math.radians(turn)
        vx, vy = speed * math.cos(course), speed * math.sin(course)
        frames.append([x, y, course % (2.0 * math.pi), vx, vy])
        x, y = x + 0.5 * vx, y + 0.5 * vy
    return frames


def tracks(*vessels, rules=RULES, radius=RADIUS):
    """Recording of one encounter of vessels [R][T+1][5]."""
    table = torch.tensor(vessels, dtype=torch.float64).transpose(0, 1)[:, None]
    shape = table.shape[1:3]
    velocity = torch.cat((table[..., 3:], torch.zeros_like(table[..., :1])), -1)
    return SimpleNamespace(
        poses=table[..., :3],
        velocities=velocity,
        active=torch.ones(table.shape[:3], dtype=torch.bool),
        dt=0.5,
        vessel_radius=torch.full(shape, radius),
        shores=None,
        sees_through_land=None,
        detect_radius=torch.full(shape, RADIUS),
        sensor_range=torch.full(shape, RANGE),
        rules=rules,
    )


NORTH = ((0.0, 0.0), 0.0, 2.0)
FROM_STARBOARD = track((20.0, 20.0), -90.0, 2.0)
ENCOUNTER_METRICS = tuple(column.name for column in COMPLIANCE_COLUMNS[:12])
RULE_RATE = {"hours_per_broken_duty": 0.125, "hours_per_broken_duty_low": 0.1, "hours_per_broken_duty_high": 0.25}
BY_ROLE = dict.fromkeys(ENCOUNTER_METRICS, 0.75) | {"rules_kept_low": 0.5, "rules_kept_high": 0.9} | RULE_RATE


def episodes(outcome, groups=1):
    """Episodes of two vessels, of which one arrives in failures, in groups in turn."""
    count = len(outcome)
    success = torch.tensor([each == "s" for each in outcome])
    return Episodes(
        level=torch.arange(count) % groups,
        success=success,
        collision=torch.tensor([each == "c" for each in outcome]),
        robots=torch.full((count,), 2),
        robots_arrived=torch.where(success, 2, 1),
        **{name: torch.full((count,), 20.25, dtype=torch.float64) for name in ("time", "energy", "returns")},
    )


def evaluation(suite, outcome, groups=("all",), names=("mine",), **other):
    about = {"checkpoint": None, "agent_type": "DQN", "env_steps": None}
    metrics = episodes(outcome, len(groups)).metrics(groups)
    results = [Result(name, about, metrics, astern=0.25, **other) for name in names]
    setting = {"suite": suite, "scenarios": None, "seed": FROZEN_SEED, "episodes": len(outcome)}
    return Evaluation(results, setting, scenario_hash="0123456789abcdef" * 2)


def two_suites(name="mine"):
    """Evaluations in a suite without compliance, and in one of two problems with a failure."""
    track = torch.stack((torch.arange(21.0), torch.zeros(21)), -1)
    failure = Failure("case 2", 1, True, (track, track + 5.0))
    by_role = {"overall": BY_ROLE, "case 1": BY_ROLE, "case 2": BY_ROLE}
    clear = {"without_collision": 1, "all": 2}
    cases = evaluation("imazu", "sc" * 10, ("case 1", "case 2"), (name,), compliance=by_role, situations=clear)
    cases = replace(cases, results=[replace(cases.results[0], failures=(failure,))])
    return [evaluation("currents", "s" * 15 + "ct" * 2 + "c", names=(name,)), cases]


# A set of scenarios in which everything happens --------------------------------------------------


def episode(starts, goals, headings, obstacles=()):
    poses = [(*map(float, start), heading) for start, heading in zip(starts, headings, strict=True)]
    return simple_episode(poses, [map(float, goal) for goal in goals], obstacles)


def to_the_goal(step):
    """Steers for the goal by the own state alone: 400 N on average, more on the outer side."""
    own = step[GROUP, "observation", "self_state"]
    bearing = torch.atan2(own[..., 1], own[..., 0])
    turn = (1.5 * bearing - 0.5 * own[..., 4]).clamp(-0.3, 0.3)
    wanted = torch.stack((400.0 + 1000.0 * turn, 400.0 - 1000.0 * turn), -1)
    action = ((wanted - own[..., 5:7]) / 500.0).clamp(-1.0, 1.0)
    return step.set((GROUP, "action"), action)


EPISODES = [
    # Both arrive, one much earlier.
    episode([(5, 5), (5, 25)], [(15, 5), (30, 25)], [0.0, 0.0]),
    # Head-on: the first two collide; the third arrives long after that.
    episode([(5, 5), (25, 5), (5, 40)], [(30, 5), (0, 5), (30, 40)], [0.0, math.pi, 0.0]),
    # The first arrives before the second hits an obstacle; the third would arrive after that.
    episode([(5, 5), (5, 25), (5, 45)], [(10, 5), (40, 25), (30, 45)], [0.0, 0.0, 0.0], [(22, 25, 1.0)]),
    # One arrives, the other has no time to.
    episode([(5, 5), (5, 25)], [(12, 5), (90, 25)], [0.0, 0.0]),
    # A single robot, at its goal soon after a turn.
    episode([(5, 5)], [(20, 5)], [0.6]),
    # A single robot that needs all the time there is.
    episode([(5, 5)], [(95, 5)], [0.0]),
    # Rules of the sea: two meet at an angle without touching.
    episode([(5, 5), (25, -24)], [(32, 5), (25, 8)], [0.0, math.pi / 2]),
]
