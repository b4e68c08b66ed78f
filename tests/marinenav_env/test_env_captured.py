"""Captured steps of the environment: with a stand-in for a graph, and with CUDA graphs."""

import pytest
import torch
from tensordict import TensorDict

from marinenav_env.runtime.loop import WARMUP_CALLS, Loop
from tests.marinenav_env.env_helpers import ACTION, KINDS, actions_of, make, same
from tests.marinenav_env.runtime.test_loop import Tape

NUM_STEPS = 42


@pytest.fixture
def tapes(monkeypatch):
    """Environments record their steps as they would capture them on a GPU; gives the recorders."""
    init, tapes = Loop.__init__, list[Tape]()

    def recorded(self, *args, capture, **options):
        if capture:
            tapes.append(Tape())
        init(self, *args, **options, recorder=tapes[-1] if capture else None)

    monkeypatch.setattr(Loop, "__init__", recorded)
    return tapes


def recording(kind, seed, **options):
    """An environment whose steps are captured, if ``tapes`` are there."""
    return make(kind, seed=seed, capture_step=True, **options)


def steps(env, td, actions):
    """Steps as they were returned, with the present outcome, and what comes next."""
    rows = []
    for action in actions:
        row, following = env.step_and_maybe_reset(td.set(ACTION, action))
        rows += [row, TensorDict(outcome=env.outcome.clone())]
        td = following.copy()
        rows.append(following)
    return rows, td


def everything(env):
    """What a rollout may contain: all kinds of steps and resets, and a state that is restored."""
    actions = actions_of(env, NUM_STEPS)
    rows, td = steps(env, env.reset(), actions[:9])
    saved = env.state_dict()
    more, td = steps(env, td, actions[9:17])
    rows += more
    env.load_state_dict(saved)  # in the midst of episodes
    more, td = steps(env, env.reset(), actions[17:23])
    rows += more
    row = env.step(td.set(ACTION, actions[23]))
    td = env.maybe_reset(env.step_mdp(row))
    more, td = steps(env, td, actions[24:30])
    rows += [row, *more]
    some = torch.tensor([[True], [False], [True], [False]], device=env.device)
    td = env.reset(TensorDict({"_reset": some}, [4], device=env.device))
    more, td = steps(env, td, actions[30:38])
    rows += [*more, *steps(env, env.reset(), actions[38:])[0]]
    return [*rows, TensorDict(env.state_dict())]


@pytest.mark.parametrize(
    ("kind", "options"), [("sea", {}), ("scenarios", {}), ("mixture", {"continuous": False, "flat": True})], ids=str
)
def test_a_captured_step_is_a_step(tapes, kind, options):
    """All of them, and none is overwritten by a later one."""
    env = recording(kind, 1, **options)
    found, expected = everything(env), everything(make(kind, seed=1, **options))
    assert sum(row["next", "done"].any() for row in expected if "next" in row) >= 6
    assert same(found, expected)
    assert [tape.recorded for tape in tapes] == [1]
    assert tapes[0].replays == NUM_STEPS - 1 - WARMUP_CALLS
    env.set_seed(1)
    assert same(steps(env, env.reset(), actions_of(env, NUM_STEPS)[:9])[0], expected[: 3 * 9])
    assert [tape.recorded for tape in tapes] == [1, 1]


def test_a_policy_that_learns_leaves_the_state_without_gradients(tapes):
    env = recording("mixture", 1)
    td = env.reset()
    for action in actions_of(env, WARMUP_CALLS + 2):
        _, td = env.step_and_maybe_reset(td.set(ACTION, action.requires_grad_()))
    assert not env.state.pose.requires_grad


@pytest.mark.gpu
@pytest.mark.parametrize(("kind", "compile"), [*((kind, False) for kind in KINDS), ("sea", True)], ids=str)
def test_captured_is_uncaptured(kind, compile):
    options = {"seed": 1, "device": "cuda", "compile_step": compile}
    env = make(kind, capture_step=True, **options)
    assert same(everything(env), everything(make(kind, **options)))
    td = env.reset().set(ACTION, actions_of(env, 1)[0])
    torch.cuda.set_sync_debug_mode("error")
    try:
        env.step_and_maybe_reset(td)
    finally:
        torch.cuda.set_sync_debug_mode("default")
