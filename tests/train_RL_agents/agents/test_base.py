"""What every agent inherits: batches in parts, targets, and the rule of the best action."""

import pytest
import torch
from torch import nn

from marinenav_env import WorldConfig
from marinenav_env.config import VesselConfig
from tests.train_RL_agents.helpers import make_batch, seeded
from train_RL_agents.agents.base import Agent, AgentConfig
from train_RL_agents.config.building import make_observation_spec


class Least(Agent):
    """An agent that has only what it must have."""

    config_type, continuous = AgentConfig, False

    def build(self):
        self.networks["first"] = nn.Linear(2, self.num_actions)
        self.networks["second"] = nn.Linear(2, 1)
        self.make_targets("first")

    def outputs(self, observation, risk=None):
        scores = self.networks["first"](observation["goal"])
        return {"scores": scores if risk is None else scores * risk[:, None]}

    def loss(self, batch, noise):
        return {}


class Scored(Least):
    """One with scores, too."""

    def scores(self, outputs):
        return outputs["scores"]


def test_a_part_of_a_batch_is_a_view_of_all_its_tensors():
    batch = make_batch(Least(AgentConfig()), 6, generator=seeded())
    part = batch.part(slice(2, 5))
    assert (batch.size, part.size) == (6, 3)
    for name in ("action", "reward", "discount"):
        assert torch.equal(getattr(part, name), getattr(batch, name)[2:5])
    for name in ("observation", "next_observation"):
        whole = getattr(batch, name)
        assert getattr(part, name).keys() == whole.keys()
        for key, value in getattr(part, name).items():
            assert torch.equal(value, whole[key][2:5])
            assert value.untyped_storage().data_ptr() == whole[key].untyped_storage().data_ptr()
    assert batch._replace(weights=None).part(slice(1)).weights is None
    weighted = batch._replace(weights=torch.arange(6.0))
    assert weighted.part(slice(2, 5)).weights.tolist() == [2.0, 3.0, 4.0]


def test_targets_are_copies_that_do_not_learn():
    agent = Least(AgentConfig(), num_actions=3)
    assert list(agent.networks) == ["first", "second"] and list(agent.targets) == ["first"]
    ours, theirs = agent.networks["first"], agent.targets["first"]
    assert torch.equal(ours.weight, theirs.weight)
    assert ours.weight.requires_grad and not any(each.requires_grad for each in theirs.parameters())
    with torch.no_grad():
        ours.weight.add_(1.0)
    assert not torch.isclose(ours.weight, theirs.weight).any()


def test_the_best_action_has_the_highest_score():
    agent = Scored(AgentConfig(), num_actions=4)
    given = {"goal": torch.randn(50, 2, generator=seeded())}
    scores = agent.networks["first"](given["goal"]).tolist()
    expected = [row.index(max(row)) for row in scores]
    action, extras = agent.explore(given, None)
    assert agent.act(given).tolist() == action.tolist() == expected and extras == {}
    fleets = {"goal": given["goal"].view(10, 5, 2)}
    assert agent.act(fleets).flatten().tolist() == expected
    worst = [row.index(min(row)) for row in scores]
    assert agent.act(given, torch.full((50,), -1.0)).tolist() == worst


def test_an_agent_without_scores_must_select():
    agent = Least(AgentConfig())
    assert agent.scores({}) is None
    with pytest.raises(NotImplementedError, match="Least has neither scores nor select"):
        agent.act({"goal": torch.zeros(1, 2)})


class Noisy(Least):
    """One whose action is the noise that it is given."""

    def explore(self, observation, noise):
        return noise, {}


def test_a_teacher_is_imitated_without_noise():
    given = {"goal": torch.randn(3, 5, generator=seeded())}
    assert Noisy(AgentConfig()).imitating_action(given).tolist() == [[0.0, 0.0]] * 3


def test_it_observes_what_is_published_unless_told_otherwise():
    assert Least(AgentConfig()).spec == make_observation_spec(WorldConfig())
    assert Least(AgentConfig()).num_actions == WorldConfig().vessel.num_actions
    own = make_observation_spec(WorldConfig(vessel=VesselConfig(radius=1.0)))
    agent = Least(AgentConfig(), 7, own)
    assert agent.spec is own and agent.spec != make_observation_spec(WorldConfig())
    assert agent.networks["first"].out_features == 7
