"""The learner: precision, generated code, optimisers and their states."""

from functools import partial

import pytest
import torch

from tests.train_RL_agents.helpers import learner_of, make_batch, seeded
from tests.train_RL_agents.learning.helpers import all_equal, values_of
from train_RL_agents.learning.learner import MOMENTS, step_optimizer


@pytest.mark.parametrize("name", ["AC-IQN", "A2C"])  # Adam, and RMSprop
def test_an_update_that_overflows_in_float16_is_undone(name):
    learner = learner_of(name, acting={"precision": "fp16", "tau": 0.1})
    exact = learner_of(name, acting={"tau": 0.1})
    batch, start = make_batch(learner.agent, 64, seeded()), values_of(learner.agent)

    learner._scale.factor.fill_(3e38)
    averages = values_of(learner.ema)
    scalars, _ = learner.update(batch)
    assert all_equal(values_of(learner.agent), start)
    assert all_equal(values_of(learner.ema), averages)
    state = learner.optimizer_state.values()
    assert len(state) > 1 and not any(each.any() for each in state)
    assert scalars["grad_norm"] == 0.0
    assert learner._scale.factor == 2.0**24  # no factor is larger
    learner._scale.factor.fill_(256.0)  # the first updates of a run find such a factor
    for each in (learner, exact):
        each._generator.manual_seed(0)
        norm = each.update(batch)[0]["grad_norm"]
        assert norm > 0.0
    assert all(each.any() for each in state)
    steps = [
        torch.cat([(new - old).flatten() for new, old in zip(values_of(each.agent), start, strict=True)])
        for each in (learner, exact)
    ]
    assert torch.nn.functional.cosine_similarity(*steps, dim=0) > 0.5
    other = learner_of(name, acting={"precision": "fp16"})
    other._scale.factor.fill_(1.0)
    other.load_state_dict(learner.state_dict())
    assert other._scale.factor == 256.0


@pytest.mark.parametrize(("name", "precision"), [("AC-IQN", "fp32"), ("A2C", "fp16")])
def test_gradients_are_applied_in_one_graph_as_by_the_optimiser(name, precision):
    """Adam, and RMSprop with scaled losses."""
    acting = {"precision": precision, "tau": 0.1}
    learner, other = (learner_of(name, acting=acting) for _ in range(2))
    learner._is_compiled = learner._is_traced = True
    learner._apply = torch.compile(learner._apply, backend="eager", fullgraph=True)
    for seed in range(3):
        for each in (learner, other):
            each.set_progress(seed / 3)
            each.update(make_batch(each.agent, 16, seeded(seed)))
    torch.compiler.reset()
    for actual, plain in ((learner.agent, other.agent), (learner.ema, other.ema)):
        torch.testing.assert_close(values_of(actual), values_of(plain), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(learner.optimizer_state, other.optimizer_state)
    assert learner.optimizer_state["step"] >= 1  # the first updates may overflow


@pytest.mark.parametrize(
    ("name", "fused", "reference"),
    [
        ("adam", True, partial(torch.optim.Adam, fused=True)),
        ("adam", False, partial(torch.optim.Adam, foreach=True)),
        ("rmsprop", True, partial(torch.optim.RMSprop, alpha=0.99, eps=1e-5, foreach=True)),
    ],
)
def test_steps_are_those_of_torchs_optimisers(name, fused, reference):
    """With their default constants, but for those of RMSprop, which are A2C's (Mnih et al. 2016)."""
    weights, expected = torch.ones(7), torch.nn.Parameter(torch.ones(7))
    state = {key: torch.zeros(7) for key in MOMENTS[name]} | {"step": torch.zeros(())}
    optimizer = reference([expected], lr=0.25)
    for seed in range(4):
        expected.grad = torch.randn(7, generator=seeded(seed))
        step_optimizer(name, weights, expected.grad.clone(), state, 0.25, fused, False)
        optimizer.step()
        assert torch.equal(weights, expected)
    assert state.keys() == optimizer.state[expected].keys()
    assert all(torch.equal(state[key], value) for key, value in optimizer.state[expected].items())
