"""Saving and restoring the environment."""

import io
from dataclasses import replace

import pytest
import torch
from tensordict import TensorDict

from marinenav_env import ConfigError, MarineNavEnv, WorldConfig
from marinenav_env.config import VesselConfig
from tests.marinenav_env.env_helpers import ACTION, SHORT, actions_of, advance, equal, make, play, same
from tests.marinenav_env.helpers import simple_episode


@pytest.mark.parametrize(
    "kind", ["schedule", "sea", "episodes", "scenarios", pytest.param("unruly", marks=pytest.mark.slow)]
)
def test_a_restored_run_goes_on_bit_for_bit(kind):
    env = make(kind, seed=1)
    actions = actions_of(env, 15)
    _, td = advance(env, env.reset(), actions[:5])
    snapshot, here = env.state_dict(), td.clone()
    buffer = io.BytesIO()
    torch.save(snapshot, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    expected, last = advance(env, td, actions[5:])
    assert sum(row["next", "done"].any() for row in expected) >= 2

    play(used := make(kind, seed=3), 2)
    for other, state in ((env, snapshot), (used, loaded)):
        held = last.clone()
        other.load_state_dict(state)
        assert equal(last, held)  # what was handed out earlier stays as it was
        again = other.reset()
        assert equal(again, here.exclude(ACTION))
        assert other.env_steps == 20
        rows, _ = advance(other, again, actions[5:])
        assert same(rows, expected)


def test_a_state_from_before_the_first_reset_goes_on_with_it():
    """A world draws its first episodes at once, and others at its first full reset."""
    env, other = make(seed=1), make(seed=2)
    actions, state = actions_of(env, 12), env.state_dict()
    expected = advance(env, env.reset(), actions)[0]
    other.load_state_dict(state)
    assert same(advance(other, other.reset(), actions)[0], expected)
    env.load_state_dict(state)
    assert same(advance(env, env.reset(), actions)[0], expected)


def test_only_the_first_full_reset_after_loading_goes_on():
    env = make(config=replace(SHORT, max_steps=100))
    advance(env, env.reset(), actions_of(env, 5))
    state = env.state_dict()
    env.load_state_dict(state)
    env.reset()
    assert env.state.steps.tolist() == [5] * 4
    env.reset()
    assert env.state.steps.tolist() == [0] * 4
    env.load_state_dict(state)
    td = TensorDict({"_reset": torch.tensor([[True], [False], [False], [False]])}, [4])
    env.reset(td)
    assert env.state.steps.tolist() == [0, 5, 5, 5]
    env.load_state_dict(state)
    td = env.rand_step(env.fake_tensordict())
    assert env.state.steps.tolist() == [6] * 4
    env.reset()
    assert env.state.steps.tolist() == [0] * 4


@pytest.mark.parametrize(
    ("saved", "into"),
    [
        (("mixture", 4), ("mixture", 5)),
        (("mixture", 1), ("mixture", 4)),  # would broadcast
        (("mixture", 4), ("scenarios", 4)),
        (("episodes", 4), ("mixture", 4)),
        (("scenarios", 4), ("episodes", 4)),
    ],
)
def test_a_state_that_does_not_fit_is_refused(saved, into):
    state = make(*saved).state_dict()
    with pytest.raises(ConfigError, match=r"^the saved world does not fit this one: "):
        make(*into).load_state_dict(state)


def test_scenarios_of_a_saved_world_keep_their_parameters():
    """Also those that begin later, in a world that was made for others of the same sizes."""
    one = simple_episode([(5.0, 5.0, 0.0)], [(50.0, 50.0)])
    light, heavy = (
        [replace(one, world=WorldConfig(vessel=VesselConfig(m=mass + number))) for number in range(3)]
        for mass in (300.0, 500.0)
    )
    worlds = env, other = [MarineNavEnv(SHORT, 2, scenarios=given, seed=0) for given in (light, heavy)]
    other.load_state_dict(env.state_dict())
    rows, expected = ([each.reset().clone(), *play(each, 9)] for each in worlds)
    assert same(rows, expected) and equal(*(each.constants.to_tensordict() for each in worlds))


@pytest.mark.parametrize(("part", "kind"), [("generator", "mixture"), ("generator", "episodes"), ("cursor", "mixture")])
def test_a_state_that_does_not_fit_changes_nothing(part, kind):
    env, untouched = worlds = make(kind, seed=1), make(kind, seed=1)
    for each in worlds:
        play(each, 2)
    state = make(kind, seed=2).state_dict()
    if part == "cursor":
        state["reset_pool"]["cursor"] = -1
    else:
        del state[part]
    with pytest.raises(ConfigError):
        env.load_state_dict(state)
    assert env.env_steps == untouched.env_steps
    assert equal(env.world_state.now.to_tensordict(), untouched.world_state.now.to_tensordict())
    assert same(*(play(each, 4) for each in worlds))
