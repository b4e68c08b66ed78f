"""Tracks of vessels that are drawn by hand."""

import math
from types import SimpleNamespace

import torch

from marinenav_env.config import ColregsConfig

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
