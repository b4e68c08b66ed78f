"""The examples of docs/extend.md for the world work as they stand."""

import sys
from pathlib import Path

import pytest
import torch

from marinenav_env import Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import RewardConfig, SensorConfig
from marinenav_env.env import GROUP
from tests.extend_page import write_package
from tests.own_parts import allow_only

PARTS = ("my_parts.rewards:early", "my_parts.current:Current", "my_parts.ring:Ring")


@pytest.fixture(autouse=True)
def _my_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package ``my_parts``, with parts that the user named on the command line."""
    write_package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("my_parts")]:
        monkeypatch.delitem(sys.modules, name)
    allow_only(monkeypatch, *PARTS)


def test_all_of_them_in_one_world() -> None:
    reward, entry, sampler = PARTS
    config = WorldConfig(max_steps=60, reward=RewardConfig(function=reward), sensor=SensorConfig(entries=(entry,)))
    levels = (Level(2), Level(4))
    scenarios = Curriculum(levels, sampler=sampler, pool_size=8, refresh_size=4)
    env = MarineNavEnv(config, 3, scenarios=scenarios, seed=0)
    rollout = env.rollout(10)
    group, following = rollout[GROUP], rollout["next", GROUP]
    assert group["observation", "current"].shape == (3, 10, 4, 2)
    progress = following["reward"] + 0.1
    assert torch.isfinite(progress).all() and progress.any()
