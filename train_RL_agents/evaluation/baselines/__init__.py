"""Classical controllers by name, as baselines for learned policies.

To add a baseline, add one file here and one line below.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from marinenav_env.support.lazy import LazyRegistry, lazy_exports

if TYPE_CHECKING:
    from train_RL_agents.evaluation.baselines.base import Baseline

BASELINES: Mapping[str, type["Baseline"]] = LazyRegistry(
    __name__, {"straight": "straight:Straight", "apf": "apf:APF", "orca": "orca:ORCA"}
)

__all__ = ["BASELINES", "Baseline"]

__getattr__ = lazy_exports(__name__, {"Baseline": "base"})
