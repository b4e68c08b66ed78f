"""Specifications of the environment's keys."""

import pytest
import torch
from torchrl.envs.utils import check_env_specs

from marinenav_env import GROUP, MarineNavEnv
from tests.marinenav_env.env_helpers import ACTION, KINDS, MIXTURE, REWARD, SHORT, episodes, make


@pytest.mark.parametrize(
    ("kind", "continuous", "dtype"),
    [
        *((kind, True, torch.float32) for kind in KINDS),
        ("mixture", False, torch.float32),
        ("episodes", False, torch.float64),
    ],
)
def test_specs(continuous, kind, dtype):
    env = make(kind, continuous=continuous, dtype=dtype)
    check_env_specs(env)
    td = env.rollout(9, break_when_any_done=False)
    (envs, robots), slots = (4, 3), 3
    if kind == "episodes":
        slots = max(episode.world.sensor.slots for episode in episodes())
        assert slots > 3
    assert td.batch_size == (envs, 9)
    group = td[GROUP]
    shapes = {
        "action": (2,) if continuous else (),
        "mask": (),
        ("observation", "self_state"): (7,),
        ("observation", "objects_state"): (slots, 5),
        ("observation", "objects_mask"): (slots,),
    }
    for key, shape in shapes.items():
        assert group[key].shape == (envs, 9, robots, *shape), key
    assert group["observation", "self_state"].dtype == dtype
    assert group["action"].dtype == (dtype if continuous else torch.int64)
    after = td["next"]
    assert after[REWARD].shape == (envs, 9, robots, 1) and after[REWARD].dtype == dtype
    for name in ("done", "terminated", "truncated"):
        assert after[name].shape == (envs, 9, 1) and after[name].dtype == torch.bool
        assert after[GROUP, name].shape == (envs, 9, robots, 1)


def test_flat_observations_are_the_entries_in_order():
    check_env_specs(MarineNavEnv(SHORT, 4, scenarios=MIXTURE, flat=True, seed=0))
    flat, plain = (MarineNavEnv(SHORT, 4, scenarios=MIXTURE, flat=each, seed=0) for each in (True, False))
    vector, entries = (env.reset()[GROUP, "observation"] for env in (flat, plain))
    parts = [entries[name].flatten(2).float() for name in plain.entries]
    assert torch.equal(vector, torch.cat(parts, -1))
    assert flat.observation_spec[GROUP, "observation"].shape == vector.shape == (4, 3, 25)


@pytest.mark.parametrize("continuous", [True, False])
def test_actions_are_within_limits(continuous):
    spec = make("sea", continuous=continuous).action_spec[ACTION]
    if continuous:
        assert spec.shape == (4, 3, 2)
        assert spec.low.unique().tolist() == [-1.0] and spec.high.unique().tolist() == [1.0]
    else:
        assert spec.shape == (4, 3) and spec.n == 25


@pytest.mark.parametrize(("kind", "limits"), [("mixture", (-500.0, 1000.0)), ("sea", (-750.0, 1500.0))])
def test_limits_of_thrusts_hold_for_vessels_that_vary(kind, limits):
    assert make(kind).entries["self_state"].limits[-2:] == (limits, limits)
