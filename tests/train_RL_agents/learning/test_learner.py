"""The learner: copies of the weights, schedule, clipping, parts of a batch."""

import pytest
import torch

from tests.train_RL_agents.helpers import learner_of, make_batch, seeded
from tests.train_RL_agents.learning.helpers import all_equal, update_with_gradient, values_of
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.learner import Learner

close = pytest.approx
OFF_POLICY = [name for name, agent in AGENTS.items() if agent.algorithm == "off-policy"]


@pytest.mark.parametrize("name", OFF_POLICY)
def test_targets_follow_softly(name):
    learner = learner_of(name, tau=0.1)
    batches = [make_batch(learner.agent, 16, seeded(seed)) for seed in range(3)]
    for batch in batches:
        before = {key: values_of(each) for key, each in learner.agent.targets.items()}
        learner.update(batch)
        for key, target in learner.agent.targets.items():
            fast = values_of(learner.agent.networks[key])
            for old, new, actual in zip(before[key], fast, values_of(target), strict=True):
                torch.testing.assert_close(actual, 0.9 * old + 0.1 * new, rtol=1e-5, atol=1e-7)
        assert not all_equal(before[key], values_of(target))


def test_hard_targets_wait_for_their_time():
    learner = learner_of(tau=1.0, target_update_interval=10_000)
    before = values_of(learner.agent.targets)
    for seed in range(3):
        learner.update(make_batch(learner.agent, 16, seeded(seed)))
    assert all_equal(values_of(learner.agent.targets), before)
    learner.update_targets(1.0)
    assert all_equal(values_of(learner.agent.targets), values_of(learner.agent.networks))
    assert not all_equal(values_of(learner.agent.targets), before)


def test_averaged_weights_by_hand():
    learner = learner_of(ema_decay=0.25, learning_rate=1e-2)
    expected = [value.double() for value in values_of(learner.ema.networks)]
    for update in range(1, 8):
        learner.update(make_batch(learner.agent, 16, seeded(update)))
        # It starts as a plain average, so that the first weights are soon forgotten.
        decay = min(0.25, update / (update + 10.0))
        latest = values_of(learner.agent.networks)
        expected = [decay * slow + (1 - decay) * new for slow, new in zip(expected, latest, strict=True)]
        actual = values_of(learner.ema.networks)
        torch.testing.assert_close([v.double() for v in actual], expected, rtol=1e-4, atol=1e-6)
    assert not all_equal(actual, latest)
    assert learner.updates == 7


def test_gradients_are_clipped_to_the_norm():
    batch = make_batch(learner_of().agent, 32, seeded())
    free, clipped = learner_of(max_grad_norm=1e6), learner_of(max_grad_norm=0.01)
    (results, whole), (others, limited) = (update_with_gradient(learner, batch) for learner in (free, clipped))
    reported = [scalars["grad_norm"].item() for scalars, _ in (results, others)]
    assert whole.double().norm().item() == close(reported[0], rel=1e-4)  # left alone
    assert reported[0] > 0.1
    assert reported[1] == close(reported[0])  # before clipping
    assert limited.double().norm().item() == close(0.01, rel=1e-3)
    ratios = limited / whole
    finite = ratios[ratios.isfinite()]
    torch.testing.assert_close(finite, torch.full_like(finite, 0.01 / reported[0]), rtol=1e-3, atol=0)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "moved",
    [
        lambda learner: learner.agent.double().float(),
        lambda learner: Learner(learner.agent, TrainConfig(agent_type="DQN"), seeded()),
        lambda learner: learner.agent.load_state_dict(learner.ema.state_dict(), assign=True),
    ],
    ids=["cast", "another learner", "assigned"],
)
def test_weights_that_were_moved_do_not_stop_learning_in_silence(moved):
    learner = learner_of()
    batch = make_batch(learner.agent, 16, seeded())
    learner.update(batch)
    moved(learner)
    with pytest.raises(RuntimeError, match=r"laid out again|no loss sends a gradient to critic_0"):
        learner.update(batch)
