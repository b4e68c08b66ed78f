"""Classical controllers by name, as baselines for learned policies.

To add a baseline, add one file here and one line below.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from marinenav_env.support.lazy import LazyRegistry

if TYPE_CHECKING:
    from train_RL_agents.evaluation.running.classical import Baseline

BASELINES: Mapping[str, type["Baseline"]] = LazyRegistry(
    __package__, {"straight": "straight:Straight", "apf": "apf:APF", "orca": "orca:ORCA"}
)
