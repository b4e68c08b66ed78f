"""Updates as CUDA graphs: nothing freezes, nothing waits, and the results are the same."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from marinenav_env.runtime.loop import WARMUP_CALLS
from tests.train_RL_agents.helpers import agent_of, learner_of, make_batch, seeded
from tests.train_RL_agents.learning.helpers import values_of
from train_RL_agents.agents import AGENTS
from train_RL_agents.learning.meter import Meter


class _Numbers(TorchDispatchMode):
    """Lists operators with the numbers that they are given, which a graph would freeze."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        leaves = tree_leaves((args, kwargs or {}))
        numbers = [each for each in leaves if isinstance(each, int | float)]
        shapes = [each.shape for each in leaves if isinstance(each, torch.Tensor)]
        self.calls.append((str(func), numbers, shapes))
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("name", AGENTS)
def test_nothing_that_varies_would_freeze_in_a_graph(name):
    """Operators and numbers of an update are the same whatever its step size and its count."""
    learner = learner_of(name)
    learner._is_traced = True  # as on a GPU
    batch, calls = make_batch(learner.agent, 16, seeded()), []
    for update in range(4):
        learner.set_progress(update / 4)
        learner.updates = 5 * update
        with _Numbers() as numbers:
            learner.learn(batch)
        calls.append(numbers.calls)
        learner.update(batch)
    assert calls[0] == calls[1] == calls[2] == calls[3]
    assert len(calls[1]) > 50


OPTIMIZERS = {"A2C": {"optimizer": "rmsprop"}}
"""The optimiser of agents that do not have Adam by default."""


def on_gpu(batch):
    return tree_map_only(torch.Tensor, lambda each: each.to("cuda:0"), batch)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", AGENTS)
def test_captured_updates_equal_others(name, precision):
    device, said = torch.device("cuda:0"), []
    learners = [
        learner_of(
            name,
            device=device,
            ema_decay=0.5,
            acting={"capture": capture, "precision": precision, "log": said.append},
            **OPTIMIZERS.get(name, {}),
        )
        for capture in (True, False)
    ]
    batches = [on_gpu(make_batch(agent_of(name), 32, seeded(seed))) for seed in range(8)]
    for number, batch in enumerate(batches):
        results = []
        for learner in learners:
            learner.set_progress(number / 8)
            scalars, priority = learner.update(batch)
            results.append(({key: value.clone() for key, value in scalars.items()}, priority))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    assert learners[0].captures and not learners[1].captures and said == []
    for part in ("agent", "ema"):
        actual, expected = (values_of(getattr(learner, part)) for learner in learners)
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-5)
    states = [learner._generator.get_state() for learner in learners]
    assert torch.equal(*states)


@pytest.mark.gpu
@pytest.mark.parametrize("capture", [True, False])
@pytest.mark.parametrize("name", AGENTS)
def test_updates_do_not_wait_for_the_gpu(name, capture):
    learner = learner_of(name, device=torch.device("cuda:0"), acting={"capture": capture}, **OPTIMIZERS.get(name, {}))
    batch, meter = on_gpu(make_batch(agent_of(name), 32, seeded())), Meter()
    for _ in range(WARMUP_CALLS + 1):
        learner.update(batch)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for number in range(3):
            learner.set_progress(number / 3)
            meter.add(learner.update(batch)[0])
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_captured_updates_are_restored_and_go_on_identically():
    device = torch.device("cuda:0")
    learner, other = learner_of(device=device), learner_of(device=device, seed=1)
    batch = on_gpu(make_batch(agent_of("DQN"), 16, seeded()))
    for each in (learner, other):
        for _ in range(WARMUP_CALLS + 2):
            each.update(batch)
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    other._generator.set_state(learner._generator.get_state())
    for _ in range(WARMUP_CALLS + 3):
        for each in (learner, other):
            each.update(batch)
    actual, expected = values_of(other.agent.networks), values_of(learner.agent.networks)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)
