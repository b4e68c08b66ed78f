"""The examples of docs/extend.md for the world work as they stand."""

import re
import sys
from pathlib import Path

import pytest
import torch

from marinenav_env import Curriculum, Level, MarineNavEnv, WorldConfig, plugins
from marinenav_env.config import RewardConfig, SensorConfig
from marinenav_env.env import GROUP

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
PARTS = ("reward", "Current", "Ring")


@pytest.fixture(autouse=True)
def _my_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module ``my_parts`` with the examples, that the user named on the command line."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    chosen = [text for text in blocks if any(re.search(rf"(def|class) {p}\b", text) for p in PARTS)]
    assert len(chosen) == len(PARTS)
    (tmp_path / "my_parts.py").write_text("\n".join(chosen))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_parts", raising=False)
    monkeypatch.setattr(plugins, "_allowed", {f"my_parts:{name}" for name in PARTS})


def test_all_of_them_in_one_world() -> None:
    config = WorldConfig(
        max_steps=60,
        reward=RewardConfig(function="my_parts:reward"),
        sensor=SensorConfig(entries=("my_parts:Current",)),
    )
    levels = (Level(2), Level(4))
    scenarios = Curriculum(levels, sampler="my_parts:Ring", pool_size=8, refresh_size=4)
    env = MarineNavEnv(config, 3, scenarios=scenarios)
    rollout = env.rollout(10)
    group, following = rollout[GROUP], rollout["next", GROUP]
    assert group["observation", "current"].shape == (3, 10, 4, 2)
    progress = following["reward"] + 0.1
    assert torch.isfinite(progress).all() and progress.any()
