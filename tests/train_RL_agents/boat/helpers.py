"""Contracts, odometry and tracks on board, and scenes for the shield."""

import json

import numpy as np

from marinenav_env import WorldConfig
from marinenav_env.config import ActuatorConfig, VesselConfig
from train_RL_agents.boat.runtime import Odometry, Settings
from train_RL_agents.boat.shield import LIMIT_FACTORS, VESSEL_PARAMETERS
from train_RL_agents.exporting.export import export

PATIENT = Settings(max_seconds=60.0)
"""The time of decisions is tested elsewhere; this machine may be busy."""
OWN = Odometry(0.0, 10.0, 20.0, 0.3, 1.0, 0.1, -0.05)
ROWS = np.array([[15.0, 25.0, 0.5, 0.0, 2.0], [18.0, 20.0, 0.0, 0.0, 1.0]])
GOAL = (50.0, 20.0)
SECONDS = 0.5
VESSEL = {name: getattr(WorldConfig().vessel, name) for name in ("radius", *VESSEL_PARAMETERS)} | dict.fromkeys(
    LIMIT_FACTORS, 1.0
)
UNEVEN = VesselConfig(
    left_thrust_change=(0.0, 1000.0, -250.0),
    right_thrust_change=(200.0, -500.0, 100.0),
    actuators=ActuatorConfig(left_limit=0.5, right_limit=0.9),
)
"""Vessel with other limits and commands to port than to starboard, none of which keeps the right thrust."""


def contract_of(policy, folder):
    return json.loads(json.dumps(export(policy, folder, [])))


def random_shores(count, seed=0):
    """Entries ``shore`` [N, 2, 7] of segments that are near, and their mask [N, 2]."""
    rng = np.random.default_rng(seed)
    shore = np.zeros((count, 2, 7))
    shore[..., :4] = rng.uniform(-12.0, 12.0, (count, 2, 4))
    return shore, rng.random((count, 2)) < 0.7


def random_scenes(count, slots=3, seed=0):
    """Own states [N, 7], objects [N, K, 5], mask [N, K] and commands [N, 2] of vessels that are near to others."""
    rng = np.random.default_rng(seed)
    own = rng.uniform(
        [-40.0, -40.0, 0.0, -0.5, -0.5, -500.0, -500.0], [40.0, 40.0, 2.5, 0.5, 0.5, 1000.0, 1000.0], (count, 7)
    )
    bearing = rng.uniform(-np.pi, np.pi, (count, slots))
    place = rng.uniform(6.0, 14.0, (count, slots)) * np.array([np.cos(bearing), np.sin(bearing)])
    velocity = -0.2 * place + rng.normal(0.0, 0.3, (2, count, slots))
    radius = rng.uniform(1.0, 2.8, (count, slots))
    objects = np.stack((*place, *velocity, radius), -1)
    seen = rng.random((count, slots)) < 0.5
    return own, np.where(seen[..., None], objects, 0.0), seen, rng.uniform(-1.0, 1.0, (count, 2))
