"""Which actions the environment refuses, and when."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from marinenav_env import ConfigError, MarineNavEnv, WorldConfig
from marinenav_env.config import MODERATE_WEATHER, ActuatorConfig, VesselConfig
from marinenav_env.scenarios.reset import controlled_robots
from tests.marinenav_env.env_helpers import ACTION, SHORT, equal, make

STEPS: dict[str, Callable[[MarineNavEnv, Any], Any]] = {
    "step": lambda env, td: env.step(td),
    "step_and_maybe_reset": lambda env, td: env.step_and_maybe_reset(td),
    "rollout": lambda env, td: env.rollout(1, lambda tensordict: tensordict.update(td.select(ACTION, strict=False))),
}
SHAPE = (4, 3)
NUMBER, WHOLE = r"must be finite$", r"must be an index from 0 to 24$"


def commands(*values: float) -> Tensor:
    """Continuous actions; the first robot's may be given."""
    action = torch.zeros(*SHAPE, 2)
    action[2, 0, : len(values)] = torch.tensor(values)
    return action


def indices(value: float, dtype: torch.dtype = torch.int64) -> Tensor:
    action = torch.zeros(*SHAPE, dtype=dtype)
    action[2, 0] = value
    return action


REFUSED = {
    "nan": (commands(math.nan), r"^action\[2, 0\]=\[nan, 0\.0\]: " + NUMBER),
    "infinite": (commands(0.0, -math.inf), r"^action\[2, 0\]=\[0\.0, -inf\]: " + NUMBER),
    "one thruster": (torch.zeros(*SHAPE, 1), r"^action\.shape=\[4, 3, 1\]: must be \[4, 3, 2\]$"),
    "indices": (indices(1), r"^action\.shape=\[4, 3\]: must be \[4, 3, 2\]$"),
    "flags": (commands().bool(), r"^action\.dtype=torch\.bool: must be a floating-point type$"),
    "too large": (indices(25), r"^action\[2, 0\]=25: " + WHOLE),
    "negative": (indices(-1), r"^action\[2, 0\]=-1: " + WHOLE),
    "a fraction": (indices(12.7, torch.float32), r"^action\.dtype=torch\.float32: must be an integer type$"),
    "commands": (commands(), r"^action\.shape=\[4, 3, 2\]: must be \[4, 3\]$"),
    "flags as indices": (indices(1).bool(), r"^action\.dtype=torch\.bool: must be an integer "),
    "nothing": (None, r"^action=.*: must be a tensor under \(robots, action\)$"),
}
DISCRETE = ("too large", "negative", "a fraction", "commands", "flags as indices")


@pytest.mark.parametrize(
    ("what", "step"), [*((what, "step") for what in REFUSED), ("nan", "step_and_maybe_reset"), ("nan", "rollout")]
)
def test_an_action_that_is_none_is_refused_and_nothing_is_lost(what: str, step: str) -> None:
    action, message = REFUSED[what]
    env, other = (make(continuous=what not in DISCRETE, seed=1) for _ in range(2))
    td, expected = env.reset(), other.reset()
    given = td.clone() if action is None else td.clone().set(ACTION, action)
    with pytest.raises(ConfigError, match=message):
        STEPS[step](env, given)
    if step != "rollout":  # which begins with a reset
        fine = env.action_spec.zero()
        rows = [each.step(td.update(fine)) for each, td in ((env, td), (other, expected))]
        assert equal(*rows)


@pytest.mark.parametrize("step", ["step", "step_and_maybe_reset"])
def test_actions_beyond_the_limits_are_clipped(step: str) -> None:
    rows = []
    for value in (1.0, 3.0e38):
        env = make(seed=1)
        td = env.reset().set(ACTION, torch.full((*SHAPE, 2), value))
        STEPS[step](env, td)
        rows.append(env.state.thrust.clone())
    assert torch.equal(*rows)


LATE = replace(SHORT, weather=replace(MODERATE_WEATHER, delay=1))
LAGGING = replace(SHORT, vessel=VesselConfig(actuators=ActuatorConfig(lag=1.0)))


@pytest.mark.parametrize(("continuous", "config"), [(True, SHORT), (False, SHORT), (True, LATE), (True, LAGGING)])
def test_actions_of_robots_that_do_not_act_may_be_anything(continuous: bool, config: WorldConfig) -> None:
    """They leave nothing in the state, which is refused when it is loaded unless it is finite."""
    env = make(seed=1, continuous=continuous, config=config)
    td = env.reset()
    acting = controlled_robots(env.world_state.now)
    assert not acting.all()
    action = env.action_spec.zero()[ACTION]
    wrong = math.nan if continuous else -7
    action = torch.where(acting[..., None] if continuous else acting, action, wrong)
    env.step(td.set(ACTION, action.to(torch.float32 if continuous else torch.int64)))
    assert env.state.pose.isfinite().all()
    env.load_state_dict(env.state_dict())


def test_scripted_vessels_need_no_action() -> None:
    env = make("sea", num_envs=32, seed=1)
    td = env.reset()
    scripted = env.scenario.scripted
    assert scripted is not None and scripted.any()
    action = torch.zeros(32, env.num_robots, 2).masked_fill(scripted[..., None], math.nan)
    env.step(td.set(ACTION, action))


def stepped(env: MarineNavEnv, first: Tensor, count: int = 1) -> None:
    """Make steps, the first with given actions, the others with zeros."""
    td = env.reset()
    for number in range(count):
        _, td = env.step_and_maybe_reset(td.set(ACTION, first if number == 0 else torch.zeros_like(first)))


READERS: dict[str, Callable[[MarineNavEnv], Any]] = {
    "reset": lambda env: env.reset(),
    "close": lambda env: env.close(),
    "set_seed": lambda env: env.set_seed(1),
    "state_dict": lambda env: env.state_dict(),
}


@pytest.mark.usefixtures("reads_cost_time")
@pytest.mark.parametrize(("reader", "continuous"), [*((reader, True) for reader in READERS), ("reset", False)])
def test_where_reading_costs_time_whatever_ends_a_loop_tells_it(reader: str, continuous: bool) -> None:
    env = make(seed=1, continuous=continuous)
    wrong = commands(math.nan) if continuous else indices(25)
    stepped(env, wrong)
    message = r"^an action since the last check: must be " + ("finite$" if continuous else "an index from 0 to 24$")
    with pytest.raises(ConfigError, match=message):
        READERS[reader](env)
    assert env.is_closed or reader != "close"
    stepped(env, torch.zeros_like(wrong))
    READERS[reader](env)


@pytest.mark.usefixtures("reads_cost_time")
@pytest.mark.parametrize("reset", ["step_and_maybe_reset", "maybe_reset", "reset"])
def test_where_reading_costs_time_a_loop_without_an_end_is_told_now_and_then(
    reset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marinenav_env.stepping.actions.STEPS_BETWEEN_READS", 5)
    env, done = make(seed=1), torch.tensor([[True], [False], [False], [False]])
    stepped(env, commands(math.nan), count=4)
    ends: dict[str, Callable[[Any], Any]] = {
        "step_and_maybe_reset": env.step_and_maybe_reset,
        "maybe_reset": env.maybe_reset,
        "reset": lambda td: env.reset(TensorDict({"_reset": done}, [4])),
    }
    td = env.to_tensordict(env.world_state).set(ACTION, commands(0.0))
    ends[reset](td.clone())
    if reset != "step_and_maybe_reset":
        env.step(td.clone())
    with pytest.raises(ConfigError, match=r"^an action since the last check: must be finite$"):
        ends[reset](td.clone())
    ends[reset](td.clone())


def test_checks_of_values_can_be_left_out() -> None:
    env = make(seed=1, check_actions=False)
    env.step(env.reset().set(ACTION, commands(math.nan)))
    env.check_actions()
    with pytest.raises(ConfigError, match=r"^action\.shape"):
        env.step(env.reset().set(ACTION, torch.zeros(*SHAPE)))
