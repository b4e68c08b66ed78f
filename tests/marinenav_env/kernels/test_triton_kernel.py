"""The world's kernel, compiled for a GPU that is not there; what it computes: test_triton_world."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from marinenav_env import Curriculum, MarineNavEnv
from marinenav_env.config import MODERATE_WEATHER, RewardConfig, WorldConfig
from marinenav_env.levels import Level

BY_ROLE = RewardConfig(give_way_penalty=-1.0)
TRAFFIC = Curriculum((Level(4, 0, 0, encounter=True, traffic=0.5, weather=1.0),), pool_size=64, refresh_size=64)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"continuous": False},
        {"config": WorldConfig(reward=BY_ROLE)},
        {"config": WorldConfig(weather=MODERATE_WEATHER)},
        {"config": WorldConfig(reward=BY_ROLE), "scenarios": TRAFFIC},
    ],
    ids=["published", "discrete", "by role", "weather", "all of it"],
)
def test_registers_hold_everything(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from marinenav_env.kernels import triton_operator, triton_world
    from tools.count_kernels import ptx_resources, simulate_h200

    kernel, binaries = triton_operator.step_kernel, []

    class Compiler:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
            def compile_only(*args: Any, **kwargs: Any) -> None:
                done = kernel.warmup(*args, grid=grid, **kwargs)
                binaries.append(done.asm["ptx"])

            return compile_only

    monkeypatch.setattr(triton_operator, "step_kernel", Compiler())
    env = MarineNavEnv(num_envs=64, seed=0, **settings)
    monkeypatch.setattr(triton_world.triton.knobs.runtime, "interpret", True)
    world = triton_world.TritonWorld(env.config, env.world.quantiles, env.continuous)
    idle = torch.zeros_like(env.state.thrust)
    action = idle if env.continuous else idle[..., 0].to(torch.int64)
    monkeypatch.setattr(triton_world.triton.knobs.runtime, "interpret", False)
    now, parameters = env.world_state
    with simulate_h200():
        world.advance(now, parameters, action, env.next_noise_source())
        world.advance(
            now, parameters, action, env.next_noise_source(), env.reset_pool.states, None, env.reset_pool.next_index()
        )
    assert len(binaries) == 2
    for used in map(ptx_resources, binaries):
        assert 32 < used["REG"] <= 112, used
        assert used["SPILL"] == 0, used
