"""What tests of the runtime on board share."""

import json

import numpy as np

from train_RL_agents.boat.runtime import Odometry, Settings
from train_RL_agents.exporting.export import export

PATIENT = Settings(max_seconds=60.0)
"""The time of decisions is tested elsewhere; this machine may be busy."""
OWN = Odometry(0.0, 10.0, 20.0, 0.3, 1.0, 0.1, -0.05)
ROWS = np.array([[15.0, 25.0, 0.5, 0.0, 2.0], [18.0, 20.0, 0.0, 0.0, 1.0]])
GOAL = (50.0, 20.0)


def contract_of(policy, folder):
    return json.loads(json.dumps(export(policy, folder, [])))
