"""New episodes in some environments of a batch."""

import pytest

from marinenav_env.stepping import world
from tests.marinenav_env.env_helpers import ACTION, KINDS, actions_of, equal, make


@pytest.mark.parametrize(("kind", "free"), [*((kind, True) for kind in KINDS), ("sea", False)])
def test_a_step_and_new_episodes_are_the_same_as_one_function(kind, free, monkeypatch):
    """What is compiled on a CPU and on a GPU, against what is not."""
    apart = make(kind, seed=1)
    if not free:
        monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
    as_they_are = lambda function, *_, **__: function  # noqa: E731
    monkeypatch.setattr(world, "compile_function", as_they_are)
    together = make(kind, seed=1, compile_step=True)
    td, expected = together.reset(), apart.reset()
    started = 0
    for action in actions_of(apart, 9):
        before = together.world_state.now.clone()
        given = together.world_state.now
        row, td = together.step_and_maybe_reset(td.set(ACTION, action))
        assert equal(given.to_tensordict(), before.to_tensordict())
        row_expected, expected = apart.step_and_maybe_reset(expected.set(ACTION, action))
        assert equal(row, row_expected) and equal(td, expected)
        for actual, reference in zip(together.world_state, apart.world_state, strict=True):
            assert equal(actual.to_tensordict(), reference.to_tensordict())
        started += int(row["next", "done"].sum())
    assert started >= 4
