"""The operator that calls the world's kernel, in Triton's interpreter, in a process of its own."""

import json
from typing import Any

import pytest
import torch

from marinenav_env import MarineNavEnv
from tests.marinenav_env.env_helpers import SEA, SHORT, TRAFFIC
from tests.marinenav_env.triton_interpreter import interpreted

MODULE = "tests.marinenav_env.kernels.test_triton_operator"


def calls() -> list[Any]:
    """Arguments of the operator for a step, and for one with new episodes."""
    from marinenav_env.kernels import triton_world

    made, operator = [], triton_world.world_step

    def noted(*arguments: Any) -> Any:
        made.append(arguments)
        return operator(*arguments)

    triton_world.world_step = noted  # type: ignore[assignment]
    for curriculum in (TRAFFIC, SEA):
        env = MarineNavEnv(SHORT, 3, scenarios=curriculum, seed=0, kernel="triton")
        action = torch.zeros(3, env.num_robots, 2)
        env.world.step(env.world_state, action, env.next_noise_source())
        env.make_step(env.world_state, action)
    return made


def checked() -> list[dict[str, str]]:
    """What torch says of the operator: its schema, and the results that it has while tracing."""
    from marinenav_env.kernels.triton_operator import world_step

    utils = ("test_schema", "test_faketensor")
    return [torch.library.opcheck(world_step, given, test_utils=utils) for given in calls()]


@pytest.mark.slow
def test_it_is_an_operator_as_torch_expects() -> None:
    """It changes no argument; while it is traced, results have the sizes, layouts and types."""
    expected = {"test_schema": "SUCCESS", "test_faketensor": "SUCCESS"}
    assert interpreted(MODULE) == 4 * [expected]


if __name__ == "__main__":
    print(json.dumps(checked()))
