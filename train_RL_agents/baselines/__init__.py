"""Classical controllers by name, as baselines for learned policies.

To add a baseline, add one file here and one line below.
"""

from train_RL_agents.baselines.apf import APF
from train_RL_agents.baselines.base import Baseline
from train_RL_agents.baselines.orca import ORCA
from train_RL_agents.baselines.straight import Straight

BASELINES: dict[str, type[Baseline]] = {
    "straight": Straight,
    "apf": APF,
    "orca": ORCA,
}

__all__ = ["BASELINES", "Baseline"]
