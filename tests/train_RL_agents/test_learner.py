"""The learner: weights, schedule, clipping, precision, parts, capture; and that agents learn."""

import copy
import io
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from marinenav_env import ConfigError
from tests.train_RL_agents.helpers import make_batch, no_host_reads, seeded
from train_RL_agents.agents import AGENTS, Batch
from train_RL_agents.captured import WARM_UPS
from train_RL_agents.config import TrainerConfig
from train_RL_agents.learner import (
    Learner,
    Meter,
    NoRoomError,
    compiled,
    cosine,
    in_bfloat16,
    joined,
    out_of_memory,
)
from train_RL_agents.networks import Inputs

close = pytest.approx


CPU = torch.device("cpu")


def agent_of(name, seed=0, num_actions=25):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AGENTS[name](AGENTS[name].config_type(), num_actions)


def learner_of(name="DQN", seed=0, num_actions=25, device=CPU, manner=None, **settings):
    """A learner; ``manner`` says how it computes, ``settings`` what."""
    agent = agent_of(name, seed, num_actions).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    manner = {"compile": False} | (manner or {})
    return Learner(agent, TrainerConfig(**settings), generator, **manner)


def values_of(module):
    return [parameter.detach().clone() for parameter in module.parameters()]


def all_equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# Copies of the weights ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGENTS)
def test_targets_follow_softly(name):
    learner = learner_of(name, tau=0.1)
    batches = [make_batch(learner.agent, 16, seeded(seed)) for seed in range(3)]
    for batch in batches:
        before = {key: values_of(each) for key, each in learner.agent.targets.items()}
        learner.update(batch)
        for key, target in learner.agent.targets.items():
            fast = values_of(learner.agent.networks[key])
            for old, new, ours in zip(before[key], fast, values_of(target), strict=True):
                torch.testing.assert_close(ours, 0.9 * old + 0.1 * new, rtol=1e-5, atol=1e-7)
        assert not all_equal(before[key], values_of(target))


def test_hard_targets_wait_for_their_time():
    learner = learner_of(tau=1.0, target_update_interval=10_000)
    before = values_of(learner.agent.targets)
    for seed in range(3):
        learner.update(make_batch(learner.agent, 16, seeded(seed)))
    assert all_equal(values_of(learner.agent.targets), before)
    learner.update_targets()
    assert all_equal(values_of(learner.agent.targets), values_of(learner.agent.networks))
    assert not all_equal(values_of(learner.agent.targets), before)


def test_averaged_weights_by_hand():
    learner = learner_of(average_decay=0.25, learning_rate=1e-2)
    expected = [value.double() for value in values_of(learner.averaged.networks)]
    for update in range(1, 8):
        learner.update(make_batch(learner.agent, 16, seeded(update)))
        # It starts as a plain average, so that the first weights are soon forgotten.
        decay = min(0.25, update / (update + 10.0))
        latest = values_of(learner.agent.networks)
        expected = [decay * slow + (1 - decay) * new
                    for slow, new in zip(expected, latest, strict=True)]  # fmt: skip
        ours = values_of(learner.averaged.networks)
        torch.testing.assert_close([v.double() for v in ours], expected, rtol=1e-4, atol=1e-6)
    assert not all_equal(ours, latest)
    assert learner.updates == 7


def test_no_averaging_is_the_latest():
    learner = learner_of(average_decay=0.0)
    for seed in range(2):
        learner.update(make_batch(learner.agent, 16, seeded(seed)))
        latest = values_of(learner.agent.networks)
        assert all_equal(values_of(learner.averaged.networks), latest)


def test_averaged_weights_are_no_part_of_the_agent():
    learner = learner_of(average_decay=0.999)
    shared = {value.data_ptr() for value in learner.agent.parameters()}
    assert not shared & {value.data_ptr() for value in learner.averaged.parameters()}
    assert not any(value.requires_grad for value in learner.averaged.parameters())
    assert all(value.requires_grad for value in learner.agent.networks.parameters())


# Steps -------------------------------------------------------------------------------------------


def test_step_size_falls_along_a_cosine():
    learner = learner_of(learning_rate=1e-3, learning_rate_final=1e-4)

    def rate(progress):
        learner.set_progress(progress)
        return learner.optimizer.param_groups[0]["lr"]

    assert rate(0.0) == close(1e-3)
    assert rate(0.25) == close(1e-4 + 9e-4 * (1 + math.sqrt(0.5)) / 2)
    assert rate(0.5) == close(5.5e-4)
    assert rate(1.0) == close(1e-4)
    assert rate(1.7) == close(1e-4)  # a resumed run may be past its end
    falling = [cosine(i / 20, 1.0, 0.0) for i in range(21)]
    assert falling == sorted(falling, reverse=True)


def test_step_size_is_that_of_the_next_update():
    """Adam's first step is about its step size, whatever the gradient."""
    for progress, size in ((0.0, 1e-2), (1.0, 1e-4)):
        learner = learner_of(learning_rate=1e-2, learning_rate_final=1e-4)
        learner.set_progress(progress)
        before = values_of(learner.agent.networks)
        learner.update(make_batch(learner.agent, 16, seeded()))
        after = values_of(learner.agent.networks)
        moves = [(b - a).abs().max() for a, b in zip(before, after, strict=True)]
        assert max(moves).item() == close(size, rel=1e-2)


def gradient_norm(learner):
    squares = [p.grad.double().square().sum() for p in learner.agent.networks.parameters()]
    return torch.stack(squares).sum().sqrt().item()


def test_gradients_are_clipped_to_the_norm():
    batch = make_batch(learner_of().agent, 32, seeded())
    free, clipped = learner_of(max_grad_norm=1e6), learner_of(max_grad_norm=0.01)
    reported = [learner.update(batch)[0]["grad_norm"].item() for learner in (free, clipped)]
    assert gradient_norm(free) == close(reported[0], rel=1e-4)  # left alone
    assert reported[0] > 0.1
    assert reported[1] == close(reported[0])  # before clipping
    assert gradient_norm(clipped) == close(0.01, rel=1e-3)
    ratios = [
        a.grad / b.grad
        for a, b in zip(clipped.agent.networks.parameters(), free.agent.networks.parameters(),
                        strict=True)
    ]  # fmt: skip
    finite = torch.cat([ratio[ratio.isfinite()] for ratio in ratios])
    torch.testing.assert_close(
        finite, torch.full_like(finite, 0.01 / reported[0]), rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("name", AGENTS)
def test_update_moves_the_networks_and_reports_scalars(name):
    learner = learner_of(name)
    batch = make_batch(learner.agent, 16, seeded())
    before = {key: values_of(each) for key, each in learner.agent.networks.items()}
    with no_host_reads():
        scalars, priority = learner.update(batch)
    for key, network in learner.agent.networks.items():
        assert not all_equal(before[key], values_of(network)), key
    assert {"value", "target", "grad_norm"} < scalars.keys()
    for key, value in scalars.items():
        assert value.shape == () and torch.isfinite(value) and not value.requires_grad, key
    if learner.agent.gives_priorities:
        assert priority.shape == (16,) and not priority.requires_grad
    else:
        assert priority is None


def test_every_loss_is_minimised():
    """The step follows the sum of what starts with ``loss``, and nothing else."""
    learner = learner_of("SAC", max_grad_norm=1e6)
    batch, agent = make_batch(learner.agent, 16, seeded()), copy.deepcopy(learner.agent)
    losses = agent.losses(batch, agent.draw(16, seeded(0)))  # what the learner draws, too
    parts = [value for key, value in losses.items() if key.startswith("loss")]
    assert len(parts) == 3
    sum(parts).backward()
    learner.update(batch)
    for (key, ours), theirs in zip(
        learner.agent.networks.named_parameters(), agent.networks.parameters(), strict=True
    ):
        torch.testing.assert_close(ours.grad, theirs.grad, msg=key)


@pytest.mark.parametrize("name", AGENTS)
def test_a_restored_learner_goes_on_identically(name):
    learner = learner_of(name, average_decay=0.5)
    batches = [make_batch(learner.agent, 16, seeded(seed)) for seed in range(6)]
    for batch in batches[:3]:
        learner.update(batch)
    stream = io.BytesIO()
    torch.save(learner.state_dict(), stream)
    stream.seek(0)
    other = learner_of(name, seed=1, average_decay=0.5)
    other.load_state_dict(torch.load(stream, weights_only=True))
    other._generator.set_state(learner._generator.get_state())  # the trainer's to save
    assert other.updates == 3
    for batch in batches[3:]:
        expected, got = learner.update(batch)[0], other.update(batch)[0]
        assert all(torch.equal(got[key], value) for key, value in expected.items())
    for part in ("networks", "targets"):
        assert all_equal(
            values_of(getattr(other.agent, part)), values_of(getattr(learner.agent, part))
        )
    assert all_equal(values_of(other.averaged.networks), values_of(learner.averaged.networks))


# Precision ---------------------------------------------------------------------------------------


def gradients_of(losses, agent, batch, random):
    """Losses of a batch, and the gradients of all networks in one row."""
    agent.zero_grad()
    found = losses(batch, random)
    sum(value for key, value in found.items() if key.startswith("loss")).backward()
    gradients = [parameter.grad.flatten() for parameter in agent.networks.parameters()]
    return {key: value.detach() for key, value in found.items()}, torch.cat(gradients)


def assert_close_gradients(ours, theirs, share):
    """Gradients differ by at most a share of their length."""
    assert (ours - theirs).norm() < share * theirs.norm()


@pytest.mark.parametrize("name", AGENTS)
def test_bfloat16_is_close_and_reduces_in_float32(name):
    """Losses to 0.5%; gradients to 10%, as factors have 8 bits and errors are random."""
    agent = agent_of(name)
    batch, random = make_batch(agent, 256, seeded()), agent.draw(256, seeded(1))
    exact, gradients = gradients_of(agent.losses, agent, batch, random)
    rounded, ours = gradients_of(in_bfloat16(agent.losses, CPU), agent, batch, random)
    assert any(not torch.equal(rounded[key], value) for key, value in exact.items())
    for key, value in exact.items():
        assert rounded[key].dtype == torch.float32, key
        torch.testing.assert_close(rounded[key], value, rtol=5e-3, atol=5e-3, msg=key)
    assert_close_gradients(ours, gradients, 0.1)
    assert all(weight.dtype == torch.float32 for weight in agent.parameters())


@pytest.mark.parametrize("name", AGENTS)
def test_bfloat16_is_for_updates_only(name):
    learner, exact = learner_of(name, manner={"precision": "bf16"}), learner_of(name)
    batch = make_batch(learner.agent, 16, seeded())
    actions = [each.agent.act(batch.observation) for each in (learner, exact)]
    torch.testing.assert_close(*actions, rtol=0, atol=0)
    for each in (learner, exact):
        each.update(batch)
    assert not torch.is_autocast_enabled("cpu")
    assert not all_equal(values_of(learner.agent.networks), values_of(exact.agent.networks))
    state = learner.optimizer.state_dict()["state"].values()
    assert all(value.dtype == torch.float32 for entry in state for value in entry.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_compiled_bfloat16_agrees_with_the_eager_one(name):
    agent = agent_of(name)
    losses = in_bfloat16(agent.losses, CPU)
    batch, random = make_batch(agent, 64, seeded()), agent.draw(64, seeded(1))
    values, gradients = gradients_of(losses, agent, batch, random)
    torch.compiler.reset()
    ours, fast = gradients_of(compiled(losses), agent, batch, random)
    torch.compiler.reset()
    torch.testing.assert_close(ours, values, rtol=5e-3, atol=5e-3)
    assert_close_gradients(fast, gradients, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_compiled_learner_takes_parts_of_any_size(precision):
    name = next(iter(AGENTS))
    manner = {"precision": precision}
    learners = [learner_of(name, manner=manner | {"compile": flag}) for flag in (True, False)]
    batch = make_batch(learners[0].agent, 24, seeded())
    for parts in (24, 12, 7, 1):
        for learner in learners:
            learner.micro_batch = parts
        fast, plain = (learner.update(batch)[0] for learner in learners)
        tolerance = 1e-3 if precision == "fp32" else 2e-2
        torch.testing.assert_close(fast, plain, rtol=tolerance, atol=tolerance)
    torch.compiler.reset()


@pytest.mark.parametrize("fused", [True, False])
def test_both_kinds_of_the_optimiser_make_the_same_step(fused):
    learner, other = learner_of(manner={"fused_optimizer": fused}), learner_of()
    for seed in range(3):
        for each in (learner, other):
            each.update(make_batch(each.agent, 16, seeded(seed)))
    torch.testing.assert_close(
        values_of(learner.agent.networks), values_of(other.agent.networks), rtol=1e-4, atol=1e-6
    )


def test_a_restored_optimiser_computes_as_it_is_told_to_now():
    learner = learner_of(manner={"fused_optimizer": False})
    batch = make_batch(learner.agent, 16, seeded())
    learner.set_progress(0.5)
    learner.update(batch)
    other = learner_of()
    other.load_state_dict(learner.state_dict())
    group = other.optimizer.param_groups[0]
    assert group["fused"] and not group["foreach"]
    assert group["lr"] == other.learning_rate == learner.learning_rate
    other.update(batch)


# Parts of a batch --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [7, 1])
@pytest.mark.parametrize("name", AGENTS)
def test_gradients_of_parts_add_up_to_those_of_the_batch(name, size):
    whole, parts = learner_of(name, max_grad_norm=1e6), learner_of(name, max_grad_norm=1e6)
    batch = make_batch(whole.agent, 24, seeded())
    if whole.agent.gives_priorities:
        batch = batch._replace(weights=torch.rand(24, generator=seeded(3)))
    parts.micro_batch = size
    (expected, priority), (scalars, ours) = whole.update(batch), parts.update(batch)
    torch.testing.assert_close(scalars, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours, priority, rtol=1e-4, atol=1e-5)
    for (key, one), (_, other) in zip(
        parts.agent.networks.named_parameters(), whole.agent.networks.named_parameters(),
        strict=True,
    ):  # fmt: skip
        assert_close_gradients(one.grad, other.grad, 1e-4), key


def test_joined_by_hand():
    parts = [{"loss": torch.tensor(1.0), "priority": torch.tensor([1.0, 2.0, 3.0])},
             {"loss": torch.tensor(5.0), "priority": torch.tensor([4.0])}]  # fmt: skip
    whole = joined(parts, [3, 1])
    assert whole["loss"].item() == 2.0
    assert whole["priority"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_learner_counts_its_parts():
    learner = learner_of(batch_size=10)
    assert (learner.micro_batch, learner.micro_batches) == (10, 1)
    learner.micro_batch = 4
    assert learner.micro_batches == 3


# Out of memory -----------------------------------------------------------------------------------

FULL = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
    MemoryError(),
]


def short_of_memory(learner, rows, error=FULL[0]):
    """Let losses fail from so many rows on; returns the sizes that were tried."""
    losses, tried = learner._losses, []

    def limited(batch, random):
        tried.append(batch.reward.shape[0])
        found = losses(batch, random)
        if tried[-1] > rows:
            raise error
        return found

    learner._losses = limited
    return tried


@pytest.mark.parametrize(
    ("name", "error"),
    [*((name, FULL[0]) for name in AGENTS), *(("DQN", each) for each in FULL[1:])],
)
def test_out_of_memory_halves_the_parts_and_changes_nothing_else(name, error):
    said = []
    learner, roomy = learner_of(name, batch_size=16, manner={"say": said.append}), learner_of(name)
    tried = short_of_memory(learner, 5, error)
    batches = [make_batch(learner.agent, 16, seeded(seed)) for seed in range(3)]
    for batch in batches:
        (scalars, priority), expected = learner.update(batch), roomy.update(batch)
        torch.testing.assert_close(scalars, expected[0], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(priority, expected[1], rtol=1e-3, atol=1e-4)
    assert tried == [16, 8, *[4] * 12]
    assert (learner.micro_batches, learner.updates) == (4, 3)
    assert said == [
        f"out of memory: updates go on with {size} of 16 transitions at once, and the same "
        "gradients" for size in (8, 4)
    ]  # fmt: skip
    # The same random numbers, drawn once.
    assert torch.equal(learner._generator.get_state(), roomy._generator.get_state())
    for part in ("networks", "targets"):
        ours, theirs = (values_of(getattr(each.agent, part)) for each in (learner, roomy))
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=2e-4)


def test_out_of_memory_in_the_midst_of_a_batch():
    """Gradients of parts that went well are not counted twice."""
    learner, roomy = learner_of(manner={"say": lambda text: None}), learner_of()
    learner.micro_batch, count, losses = 8, iter(range(99)), learner._losses

    def second_fails(batch, random):
        if next(count) == 1:
            raise FULL[0]
        return losses(batch, random)

    learner._losses = second_fails
    batch = make_batch(learner.agent, 16, seeded())
    (scalars, _), (expected, _) = learner.update(batch), roomy.update(batch)
    torch.testing.assert_close(scalars, expected, rtol=1e-4, atol=1e-5)
    assert learner.micro_batch == 4


def test_without_room_for_one_transition_there_is_one_clear_error():
    learner = learner_of(batch_size=16, manner={"say": lambda text: None})
    before, tried = values_of(learner.agent), short_of_memory(learner, 0)
    with pytest.raises(NoRoomError, match=r"trainer\.batch_size=16: out of memory even with one"):
        learner.update(make_batch(learner.agent, 16, seeded()))
    assert tried == [16, 8, 4, 2, 1]
    assert all_equal(values_of(learner.agent), before)
    assert (learner.updates, learner.micro_batch) == (0, 16)
    assert issubclass(NoRoomError, ConfigError)


def test_other_errors_are_not_taken_for_it():
    learner = learner_of()
    tried = short_of_memory(learner, 0, RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        learner.update(make_batch(learner.agent, 16, seeded()))
    assert tried == [16]
    assert all(out_of_memory(error) for error in FULL)


def test_parts_are_restored_and_old_states_have_none():
    learner, other = learner_of(batch_size=16), learner_of(batch_size=16)
    learner.micro_batch = 4
    state = learner.state_dict()
    other.load_state_dict(state)
    assert other.micro_batch == 4
    other = learner_of(batch_size=16)
    other.load_state_dict({key: value for key, value in state.items() if key != "micro_batch"})
    assert other.micro_batch == 16


# Capture -----------------------------------------------------------------------------------------


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
    rate = torch.tensor(1e-3)  # as on a GPU
    learner.optimizer = torch.optim.Adam([learner._weights], lr=rate, fused=True)
    batch, calls = make_batch(learner.agent, 16, seeded()), []
    for update in range(4):
        learner.set_progress(update / 4)
        learner.updates = 5 * update
        with _Numbers() as numbers:
            learner._update(batch)
        calls.append(numbers.calls)
        learner.update(batch)
    assert calls[1] == calls[2] == calls[3]  # the first makes the optimiser's state
    assert len(calls[1]) > 50


def on_gpu(batch):
    return tree_map_only(torch.Tensor, lambda each: each.to("cuda:0"), batch)


gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@gpu
@needs_gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", AGENTS)
def test_captured_updates_equal_others(name, precision):
    device, said = torch.device("cuda:0"), []
    learners = [
        learner_of(name, device=device, average_decay=0.5,
                   manner={"capture": capture, "precision": precision, "say": said.append})
        for capture in (True, False)
    ]  # fmt: skip
    batches = [on_gpu(make_batch(agent_of(name), 32, seeded(seed))) for seed in range(8)]
    for number, batch in enumerate(batches):
        results = []
        for learner in learners:
            learner.set_progress(number / 8)
            scalars, priority = learner.update(batch)
            results.append(({key: value.clone() for key, value in scalars.items()}, priority))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    assert learners[0].captures and not learners[1].captures and said == []
    for part in ("agent", "averaged"):
        ours, theirs = (values_of(getattr(learner, part)) for learner in learners)
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
    states = [learner._generator.get_state() for learner in learners]
    assert torch.equal(*states)


@gpu
@needs_gpu
def test_the_step_size_does_not_freeze():
    batch = on_gpu(make_batch(agent_of("DQN"), 16, seeded()))
    learner = learner_of(device=torch.device("cuda:0"), learning_rate=1e-2, learning_rate_final=0)
    for _ in range(WARM_UPS + 2):
        learner.update(batch)
    before = values_of(learner.agent.networks)
    learner.set_progress(1.0)
    learner.update(batch)
    assert all_equal(values_of(learner.agent.networks), before)
    learner.set_progress(0.0)
    learner.update(batch)
    assert not all_equal(values_of(learner.agent.networks), before)


@gpu
@needs_gpu
@pytest.mark.parametrize("capture", [True, False])
@pytest.mark.parametrize("name", AGENTS)
def test_updates_do_not_wait_for_the_gpu(name, capture):
    learner = learner_of(name, device=torch.device("cuda:0"), manner={"capture": capture})
    batch, meter = on_gpu(make_batch(agent_of(name), 32, seeded())), Meter()
    for _ in range(WARM_UPS + 1):
        learner.update(batch)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for number in range(3):
            learner.set_progress(number / 3)
            meter.add(learner.update(batch)[0])
    finally:
        torch.cuda.set_sync_debug_mode("default")


@gpu
@needs_gpu
def test_captured_updates_are_restored_and_go_on_identically():
    device = torch.device("cuda:0")
    learner, other = learner_of(device=device), learner_of(device=device, seed=1)
    batch = on_gpu(make_batch(agent_of("DQN"), 16, seeded()))
    for each in (learner, other):
        for _ in range(WARM_UPS + 2):
            each.update(batch)
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    other._generator.set_state(learner._generator.get_state())
    for _ in range(WARM_UPS + 3):
        for each in (learner, other):
            each.update(batch)
    ours, theirs = values_of(other.agent.networks), values_of(learner.agent.networks)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


# The meter ---------------------------------------------------------------------------------------


def scalars_of(**values):
    return {name: torch.tensor(value) for name, value in values.items()}


def test_meter_gives_means_since_the_last_reading():
    meter = Meter()
    assert meter.read() == {}
    with no_host_reads():
        for loss, value in ((1.0, 10.0), (2.0, -10.0), (6.0, 3.0)):
            meter.add(scalars_of(loss=loss, value=value))
    assert meter.read() == close({"loss": 3.0, "value": 1.0})
    assert meter.read() == {}
    meter.add(scalars_of(loss=7.0))
    assert meter.read() == close({"loss": 7.0})


def test_meter_does_not_change_what_it_is_given():
    meter, first = Meter(), scalars_of(loss=1.0)
    meter.add(first)
    meter.add(scalars_of(loss=2.0))
    assert first["loss"].item() == 1.0


def test_meter_is_not_changed_by_values_that_are_overwritten():
    meter, value = Meter(), torch.tensor(0.0)
    for number in (1.0, 2.0, 6.0):
        meter.add({"loss": value.fill_(number)})
    assert meter.read() == {"loss": 3.0}


def test_meter_resumes():
    meter, other = Meter(), Meter()
    meter.add(scalars_of(loss=1.0))
    other.add(scalars_of(loss=100.0))
    other.load_state_dict(meter.state_dict())
    for each in (meter, other):
        each.add(scalars_of(loss=4.0))
        assert each.read() == close({"loss": 2.5})


# Learning ----------------------------------------------------------------------------------------


def where(position):
    """An observation that tells only a position [B, 2] within (-1, 1)."""
    own = torch.zeros(len(position), 7)
    own[:, :2] = 20.0 * position
    empty = torch.zeros(len(position), 5, 5)
    return Inputs(own, empty, torch.zeros(len(position), 5, dtype=torch.bool))


def uniform(*shape, generator):
    return 2.0 * torch.rand(*shape, generator=generator) - 1.0


ROUNDED = ("AC-IQN", "DQN")
"""One continuous and one discrete agent: their tests run in bfloat16, too."""


def in_both_precisions(names, *marks):
    rounded = [pytest.param(name, "bf16", marks=marks) for name in names if name in ROUNDED]
    return [(name, "fp32") for name in names] + rounded


@pytest.mark.parametrize(("name", "precision"), in_both_precisions(AGENTS, pytest.mark.slow))
def test_learns_a_contextual_bandit(name, precision):
    """One step, and the best action depends on the observation.

    Continuous: the closer to 0.6 times the position, the better; always acting alike leaves a
    squared error of 0.12. Discrete: one of 5 actions out of 25 is right, by the position; always
    acting alike is right in a fifth of cases.
    """
    settings = {"learning_rate": 1e-3, "learning_rate_final": 1e-3}
    manner = {"precision": precision}
    learner = learner_of(name, average_decay=0.9, tau=0.05, manner=manner, **settings)
    generator, agent = seeded(1), learner.agent

    def best(position):
        if agent.continuous:
            return 0.6 * position
        return 6 * ((position[:, 0] + 1.0) * 2.5).long().clamp(0, 4)

    def score():
        position = uniform(1000, 2, generator=seeded(2))
        with torch.no_grad():
            action = learner.averaged.act(where(position))
        if agent.continuous:
            return -(action - best(position)).square().mean().item()
        return (action == best(position)).float().mean().item()

    bound, updates = -0.02 if agent.continuous else 0.6, 0
    assert score() < bound
    while updates < 500 and (updates % 25 or score() < bound):
        updates += 1
        position = uniform(64, 2, generator=generator)
        target = best(position)
        if agent.continuous:
            action = uniform(64, 2, generator=generator)
            reward = -(action - target).square().sum(-1)
        else:
            other = torch.randint(25, (64,), generator=generator)
            action = torch.where(torch.rand(64, generator=generator) < 0.5, target, other)
            reward = (action == target).float()
        observation = where(position)
        learner.update(Batch(observation, action, reward, torch.zeros(64), observation))
    assert score() >= bound


GOES_ON = 0.5
"""Discount in the worlds below."""


def predicted(agent, state, action):
    """The value that an agent reports of an action in a state."""
    position = torch.full((64, 2), float(state))
    batch = Batch(where(position), action, torch.zeros(64), torch.zeros(64), where(position))
    values = [agent.losses(batch, agent.draw(64, seeded(s)))["value"].detach() for s in range(4)]
    return torch.stack(values).mean().item()


DISCRETE = [name for name in AGENTS if not AGENTS[name].continuous]


@pytest.mark.parametrize(("name", "precision"), in_both_precisions(DISCRETE))
def test_values_of_a_chain_of_two_states(name, precision):
    """Staying in the rich state with action 0 gives 0.5 each time, all else nothing.

    Action 0 leads from the poor state to the rich one; the other actions lead to or keep in the
    poor one. So the rich state is worth 0.5 / (1 - 0.5) = 1 and the poor one half of that.
    """
    rich, poor = 0.5, -0.5
    settings = {"learning_rate": 2e-3, "learning_rate_final": 1e-4}
    manner = {"precision": precision}
    learner = learner_of(name, num_actions=3, tau=0.1, manner=manner, **settings)
    generator, count = seeded(1), 250
    for update in range(count):
        learner.set_progress(update / count)
        in_rich = torch.rand(32, generator=generator) < 0.5
        action = torch.randint(3, (32,), generator=generator)
        state = torch.where(in_rich, rich, poor)
        following = torch.where(action == 0, rich, poor)
        reward = 0.5 * (in_rich & (action == 0))
        learner.update(
            Batch(
                where(state[:, None].expand(32, 2)),
                action,
                reward,
                torch.full((32,), GOES_ON),
                where(following[:, None].expand(32, 2)),
            )
        )
    agent = learner.agent
    for state, action, value in (
        (rich, 0, 1.0),
        (rich, 1, 0.25),
        (poor, 0, 0.5),
        (poor, 2, 0.25),
    ):
        got = predicted(agent, state, torch.full((64,), action))
        assert got == close(value, abs=0.1), (state, action)
    assert agent.act(where(torch.tensor([[rich] * 2, [poor] * 2]))).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "precision"), in_both_precisions([n for n in AGENTS if n not in DISCRETE])
)
def test_value_of_an_endless_reward(name, precision):
    """0.5 each time for ever is worth 1; a time that ends is worth its last reward."""
    going, ending = 0.5, -0.5
    settings = {"learning_rate": 2e-3, "learning_rate_final": 1e-4}
    learner = learner_of(name, tau=0.1, manner={"precision": precision}, **settings)
    generator, count = seeded(1), 150
    for update in range(count):
        learner.set_progress(update / count)
        goes_on = torch.rand(32, generator=generator) < 0.5
        state = torch.where(goes_on, going, ending)
        observation = where(state[:, None].expand(32, 2))
        action = uniform(32, 2, generator=generator)
        reward, discount = torch.full((32,), 0.5), GOES_ON * goes_on
        learner.update(Batch(observation, action, reward, discount, observation))
    action = uniform(64, 2, generator=generator)
    # A bonus for entropy may add 0.02 x log(4) / (1 - 0.5) = 0.06.
    assert predicted(learner.agent, going, action) == close(1.0, abs=0.15)
    assert predicted(learner.agent, ending, action) == close(0.5, abs=0.1)
