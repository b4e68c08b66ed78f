"""Updates when memory is short: batches in parts, and what is said of it."""

from types import SimpleNamespace

import pytest
import torch

from marinenav_env import ConfigError
from tests.train_RL_agents.helpers import learner_of, make_batch, seeded
from tests.train_RL_agents.learning.helpers import all_equal, assert_close_gradients, update_with_gradient, values_of
from train_RL_agents.agents import AGENTS
from train_RL_agents.learning.learner import NotEnoughMemoryError


@pytest.mark.parametrize("name", AGENTS)
def test_gradients_of_parts_add_up_to_those_of_the_batch(name):
    whole, parts = learner_of(name, max_grad_norm=1e6), learner_of(name, max_grad_norm=1e6)
    batch = make_batch(whole.agent, 24, seeded())
    if whole.agent.uses_priorities:
        batch = batch._replace(weights=torch.rand(24, generator=seeded(3)))
    parts.micro_batch_size = 7
    ((expected, priority), gradient), ((scalars, actual), added) = (
        update_with_gradient(each, batch) for each in (whole, parts)
    )
    torch.testing.assert_close(scalars, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(actual, priority, rtol=1e-4, atol=1e-5)
    assert_close_gradients(added, gradient, 1e-4)


FULL = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
    MemoryError(),
]


def short_of_memory(learner, rows, error=FULL[0]):
    """Let losses fail from so many rows on; returns the sizes that were tried."""
    gradients, tried = learner._gradients, []

    def limited(batch, *further):
        tried.append(batch.size)
        found = gradients(batch, *further)
        if tried[-1] > rows:
            raise error
        return found

    learner._gradients = limited
    return tried


@pytest.mark.parametrize(
    ("name", "error"), [("Rainbow", FULL[0]), ("PPO", FULL[0]), *(("DQN", each) for each in FULL[1:])]
)
def test_out_of_memory_halves_the_parts_and_changes_nothing_else(name, error):
    said = []
    learner, roomy = learner_of(name, batch_size=16, acting={"log": said.append}), learner_of(name)
    tried = short_of_memory(learner, 5, error)
    batches = [make_batch(learner.agent, 16, seeded(seed)) for seed in range(3)]
    for batch in batches:
        (scalars, priority), expected = learner.update(batch), roomy.update(batch)
        torch.testing.assert_close(scalars, expected[0], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(priority, expected[1], rtol=1e-3, atol=1e-4)
    assert tried == [16, 8, *[4] * 12]
    assert (learner.micro_batches, learner.updates) == (4, 3)
    assert said == [
        f"out of memory: updates go on with {size} of 16 transitions at once, and the same gradients" for size in (8, 4)
    ]
    # The same random numbers, drawn once.
    assert torch.equal(learner._generator.get_state(), roomy._generator.get_state())
    for part in ("networks", "targets"):
        actual, reference = (values_of(getattr(each.agent, part)) for each in (learner, roomy))
        torch.testing.assert_close(actual, reference, rtol=1e-3, atol=2e-4)


def test_out_of_memory_in_the_midst_of_a_batch():
    """Gradients of parts that went well are not counted twice."""
    learner, roomy = learner_of(acting={"log": lambda text: None}), learner_of()
    learner.micro_batch_size, count, gradients = 8, iter(range(99)), learner._gradients

    def second_fails(*given):
        if next(count) == 1:
            raise FULL[0]
        return gradients(*given)

    learner._gradients = second_fails
    batch = make_batch(learner.agent, 16, seeded())
    (scalars, _), (expected, _) = learner.update(batch), roomy.update(batch)
    torch.testing.assert_close(scalars, expected, rtol=1e-4, atol=1e-5)
    assert learner.micro_batch_size == 4


def test_without_room_for_one_transition_there_is_one_clear_error():
    learner = learner_of(batch_size=10, acting={"log": lambda text: None})
    learner.micro_batch_size = 40
    before, tried = values_of(learner.agent), short_of_memory(learner, 0)
    with pytest.raises(NotEnoughMemoryError, match=r"trainer\.batch_size=10: out of memory even with one"):
        learner.update(make_batch(learner.agent, 10, seeded()))
    assert tried == [10, 5, 3, 2, 1]
    assert all_equal(values_of(learner.agent), before)
    assert (learner.updates, learner.micro_batch_size) == (0, 40)
    assert issubclass(NotEnoughMemoryError, ConfigError)


@pytest.mark.parametrize(("count", "text"), [(2, "out of memory"), (1, "shapes do not fit")])
def test_other_errors_and_those_of_one_process_among_several_come_up(count, text):
    """Processes that take other parts would wait for each other."""
    ranks = SimpleNamespace(size=count, broadcast_tensors=lambda tensors: None)
    learner = learner_of(batch_size=10, acting={"ranks": ranks})
    tried = short_of_memory(learner, 5, RuntimeError(text))
    with pytest.raises(RuntimeError, match=text):
        learner.update(make_batch(learner.agent, 10, seeded()))
    assert tried == [10] and learner.micro_batch_size == 10
