"""The world's kernel, compiled for a GPU that is not there; what it computes: test_triton_world."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from marinenav_env import Curriculum, MarineNavEnv
from marinenav_env.config import MODERATE, Level, RewardConfig, WorldConfig

BY_ROLE = RewardConfig(give_way_penalty=-1.0)
TRAFFIC = Curriculum((Level(4, 0, 0, encounter=True, traffic=0.5, weather=1.0),), pool_size=64,
                     refresh_size=64)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"continuous": False},
        {"config": WorldConfig(reward=BY_ROLE)},
        {"config": WorldConfig(weather=MODERATE)},
        {"config": WorldConfig(reward=BY_ROLE), "scenarios": TRAFFIC},
    ],
    ids=["published", "discrete", "by role", "weather", "all of it"],
)
def test_registers_hold_everything(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    from marinenav_env import triton_world
    from tools.count_kernels import h200, resources

    kernel, binaries = triton_world.kernel, []

    class Compiler:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
            def compile_only(*args: Any, **kwargs: Any) -> None:
                done = kernel.warmup(*args, grid=grid, **kwargs)
                binaries.append(done.asm["ptx"])

            return compile_only

    monkeypatch.setattr(triton_world, "kernel", Compiler())
    env = MarineNavEnv(num_envs=64, **settings)
    monkeypatch.setattr(triton_world.triton.knobs.runtime, "interpret", True)
    advance = triton_world.triton_advance(env.config, env.world.quantiles, env.continuous)
    idle = torch.zeros_like(env.state.thrust)
    action = idle if env.continuous else idle[..., 0].to(torch.int64)
    monkeypatch.setattr(triton_world.triton.knobs.runtime, "interpret", False)
    with h200():
        advance(env.state, env.scenario, env.constants, action, env.next_source())
    used = resources(binaries[0])
    assert 32 < used["REG"] <= 112, used
    assert used["SPILL"] == 0, used
