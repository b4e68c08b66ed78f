"""The learner: precision, generated code, optimisers and their states."""

import copy
import math

import pytest
import torch

from tests.train_RL_agents.helpers import make_batch, seeded
from tests.train_RL_agents.learners import (
    all_equal,
    learner_of,
    values_of,
)
from train_RL_agents.agents import AGENTS
from train_RL_agents.learning.learner import (
    NUM_MOMENTS,
    make_optimizer,
)

close = pytest.approx


@pytest.mark.parametrize("name", AGENTS)
def test_bfloat16_is_for_updates_only(name):
    learner, exact = learner_of(name, acting={"precision": "bf16"}), learner_of(name)
    batch = make_batch(learner.agent, 16, seeded())
    actions = [each.agent.act(batch.observation) for each in (learner, exact)]
    torch.testing.assert_close(*actions, rtol=0, atol=0)
    for each in (learner, exact):
        each.update(batch)
    assert not torch.is_autocast_enabled("cpu")
    assert not all_equal(values_of(learner.agent.networks), values_of(exact.agent.networks))
    state = learner.optimizer.state_dict()["state"].values()
    assert all(value.dtype == torch.float32 for entry in state for value in entry.values())


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
    state = learner.optimizer.state[learner._weights].values()
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


@pytest.mark.parametrize("flag", [True, False])
def test_gradients_and_the_step_are_compiled(monkeypatch, flag):
    names = []

    def compile(function, **options):
        assert options["fullgraph"]
        names.append(function.__name__)
        return function

    monkeypatch.setattr(torch, "compile", compile)
    monkeypatch.setattr("train_RL_agents.learning.learner.traceable_optimizer_step", lambda *_: None)
    learner = learner_of("DQN", acting={"compile": flag})
    batch = make_batch(learner.agent, 4, seeded())
    learner.update(batch)
    assert sorted(names) == (["_apply_gradient", "gradients"] if flag else [])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AC-IQN", "A2C"])  # Adam, and RMSprop
def test_a_compiled_learner_makes_the_same_steps(name):
    learners = [learner_of(name, acting={"compile": flag, "tau": 0.1}) for flag in (True, False)]
    for number in range(3):
        batch = make_batch(learners[0].agent, 32, seeded(number))
        for learner in learners:
            learner.set_progress(number / 3)  # the step size is no constant of the code
        fast, plain = (learner.update(batch)[0] for learner in learners)
        torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-4)
    ours, theirs = ([*values_of(each.agent), *values_of(each.ema)] for each in learners)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_compiled_learner_takes_parts_of_any_size(precision):
    name = next(iter(AGENTS))
    acting = {"precision": precision}
    learners = [learner_of(name, acting=acting | {"compile": flag}) for flag in (True, False)]
    batch = make_batch(learners[0].agent, 24, seeded())
    for parts in (24, 12, 7, 1):
        for learner in learners:
            learner.micro_batch_size = parts
        fast, plain = (learner.update(batch)[0] for learner in learners)
        tolerance = 1e-3 if precision == "fp32" else 2e-2
        torch.testing.assert_close(fast, plain, rtol=tolerance, atol=tolerance)
    torch.compiler.reset()


def test_both_kinds_of_the_optimiser_make_the_same_step():
    learner, other = learner_of(acting={"fused_optimizer": False}), learner_of()
    for seed in range(3):
        for each in (learner, other):
            each.update(make_batch(each.agent, 16, seeded(seed)))
    torch.testing.assert_close(values_of(learner.agent.networks), values_of(other.agent.networks), rtol=1e-4, atol=1e-6)


def test_a_restored_optimiser_computes_as_it_is_told_to_now():
    learner = learner_of(acting={"fused_optimizer": False})
    batch = make_batch(learner.agent, 16, seeded())
    learner.set_progress(0.5)
    learner.update(batch)
    other = learner_of()
    other.load_state_dict(learner.state_dict())
    group = other.optimizer.param_groups[0]
    assert group["fused"] and not group["foreach"]
    assert group["lr"] == other.learning_rate == learner.learning_rate
    other.update(batch)


@pytest.mark.parametrize(("name", "precision"), [("AC-IQN", "fp32"), ("A2C", "fp16")])
def test_gradients_are_applied_in_one_graph_as_by_the_optimiser(name, precision):
    """Adam, and RMSprop with scaled losses."""
    acting = {"precision": precision, "tau": 0.1}
    learner, other = (learner_of(name, acting=acting) for _ in range(2))
    group = learner.optimizer.param_groups[0]
    learner._is_compiled, group["lr"] = True, torch.tensor(group["lr"])  # as on a GPU
    learner._apply = torch.compile(learner._apply, backend="eager", fullgraph=True)
    for seed in range(3):
        for each in (learner, other):
            each.set_progress(seed / 3)
            each.update(make_batch(each.agent, 16, seeded(seed)))
    torch.compiler.reset()
    for ours, plain in ((learner.agent, other.agent), (learner.ema, other.ema)):
        torch.testing.assert_close(values_of(ours), values_of(plain), rtol=1e-5, atol=1e-6)
    state = learner.optimizer.state[learner._weights]
    torch.testing.assert_close(state, other.optimizer.state[other._weights])
    assert state["step"] >= 1  # the first updates may overflow


def test_constants_of_the_optimisers():
    """RMSprop's are those of A2C (Mnih et al. 2016)."""
    weights = torch.nn.Parameter(torch.ones(2))
    (group,) = make_optimizer("rmsprop", weights, 0.25, True).param_groups
    expected = {"lr": 0.25, "alpha": 0.99, "eps": 1e-5, "momentum": 0, "foreach": True}
    assert {name: group[name] for name in expected} == expected
    for fused in (True, False):
        (group,) = make_optimizer("adam", weights, 0.25, fused).param_groups
        expected = {
            "lr": 0.25,
            "fused": fused or None,
            "foreach": None if fused else True,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
        }
        assert {name: group[name] for name in expected} == expected
        assert not group["capturable"] and not group["weight_decay"]


@pytest.mark.parametrize(("name", "optimizer"), [("DQN", "adam"), ("A2C", "rmsprop")])
def test_what_an_optimiser_keeps_is_counted(name, optimizer):
    learner = learner_of(name, optimizer=optimizer)
    learner.update(make_batch(learner.agent, 16, seeded()))
    kept = learner.optimizer.state[learner._weights]
    size = learner._weights.shape
    assert sum(each.shape == size for each in kept.values()) == NUM_MOMENTS[optimizer]


def test_updates_by_a_function_around_a_step_are_counted():
    learner, drawn = learner_of(), []
    batch = make_batch(learner.agent, 16, seeded())

    def draw():
        drawn.append(1)
        return learner.learn(batch)

    update = learner.make_update(draw, seeded())
    learner.update(batch)
    assert not drawn
    scalars, _ = update()
    assert drawn and "grad_norm" in scalars and learner.updates == 2


def test_a_state_of_before_the_first_update_forgets_the_moments():
    fresh, used = learner_of(), learner_of()
    batch, state = make_batch(fresh.agent, 16, seeded()), copy.deepcopy(fresh.state_dict())
    used.update(batch)
    used.load_state_dict(state)
    for each in (fresh, used):
        each._generator.manual_seed(0)
        each.update(batch)
    assert used.updates == 1 and all_equal(values_of(used.agent), values_of(fresh.agent))


def test_a_scale_of_losses_is_no_trouble_where_there_is_none():
    learner, other = learner_of(), learner_of(seed=1)
    other.load_state_dict(learner.state_dict() | {"scale": {}})
    assert all_equal(values_of(other.agent), values_of(learner.agent))


@pytest.mark.parametrize("change", [{"updates": -1}, {"updates": 1.5}, {"micro_batch": 0}, {"micro_batch": 2.5}])
def test_counters_that_cannot_be_are_refused(change):
    learner = learner_of()
    with pytest.raises(ValueError, match="counters of updates that are none"):
        learner.load_state_dict(learner.state_dict() | change)
    state = copy.deepcopy(learner.state_dict())
    state["optimizer"]["param_groups"][0]["lr"] = math.inf
    with pytest.raises(ValueError, match="counters of updates that are none"):
        learner.load_state_dict(state)


def test_squared_weights_are_those_learned_and_averaged():
    learner = learner_of(ema_decay=0.9)
    learner.update(make_batch(learner.agent, 16, seeded()))
    both = (*learner.agent.networks.parameters(), *learner.ema.networks.parameters())
    expected = sum(each.detach().square().sum() for each in both)
    torch.testing.assert_close(learner.squared_weights(), expected)


def test_the_step_size_is_scaled_and_may_be_a_tensor():
    """A CUDA graph reads it from a tensor."""
    learner = learner_of(learning_rate=1e-3, learning_rate_final=1e-3)
    learner.learning_rate_factor, rate = 0.5, torch.tensor(1.0)
    learner.set_progress(0.3)
    assert learner.learning_rate == learner.optimizer.param_groups[0]["lr"] == close(5e-4)
    learner.optimizer.param_groups[0]["lr"] = rate
    learner.set_progress(0.6)
    assert learner.optimizer.param_groups[0]["lr"] is rate and rate.item() == close(5e-4)
