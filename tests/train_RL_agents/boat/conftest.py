"""Fixtures of the tests of the runtime on board."""

import numpy as np
import pytest

from tests.train_RL_agents.boat.helpers import PATIENT, contract_of
from tests.train_RL_agents.exporting.helpers import make_policy
from train_RL_agents.boat.runtime import Pilot


@pytest.fixture(scope="module")
def make_pilot(tmp_path_factory):
    """From an agent's name to a pilot; its network always asks for full thrust."""
    folder, contracts = tmp_path_factory.mktemp("contracts"), {}

    def make(name="DQN", settings=PATIENT, network=lambda inputs: np.array([24])):
        if name not in contracts:
            contracts[name] = contract_of(make_policy(name), folder)
        return Pilot(contracts[name], network, settings)

    return make
