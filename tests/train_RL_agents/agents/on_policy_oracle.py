"""TorchRL's modules around the networks of our on-policy agents, for its losses as oracles."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Independent, Normal, TransformedDistribution
from torchrl.modules import IndependentNormal, ProbabilisticActor

from tests.train_RL_agents.helpers import SPEC, make_rollout, seeded
from tests.train_RL_agents.networks.test_actors import Atan

ACTIONS = ("categorical", "gaussian", "clipped_gaussian")
NAMES = list(SPEC.entries)


class Policy(nn.Module):
    """Logits, or mean and standard deviation, of observations given one by one."""

    def __init__(self, agent):
        super().__init__()
        self.network, self.continuous = agent.networks["policy"], agent.continuous

    def forward(self, *entries):
        outputs, _ = self.network.policy(dict(zip(NAMES, entries, strict=True)))
        if not self.continuous:
            return outputs
        mean, log_std = outputs.chunk(2, -1)
        return mean, log_std.exp()


class Value(nn.Module):
    """Values [B, 1] of observations given one by one."""

    def __init__(self, agent):
        super().__init__()
        self.network = agent.networks["policy"]

    def forward(self, *entries):
        return self.network(dict(zip(NAMES, entries, strict=True)))[1][:, None]


class Squashed(TransformedDistribution):
    """Independent squashed normal numbers."""

    def __init__(self, loc, scale):
        super().__init__(Independent(Normal(loc, scale), 1), [Atan()])

    @property
    def deterministic_sample(self):
        return 0.0 * self.base_dist.mean

    def log_prob(self, value):
        # Actions come as the numbers before squashing, which cannot be lost by rounding.
        slope = Atan().log_abs_det_jacobian(value, None).sum(-1)
        return self.base_dist.log_prob(value) - slope


def oracle_networks(agent):
    """TorchRL's actor and critic, on the very parameters of an agent."""
    outputs = ["loc", "scale"] if agent.continuous else ["logits"]
    kind = {
        "categorical": torch.distributions.Categorical,
        "gaussian": Squashed,
        "clipped_gaussian": IndependentNormal,
    }[agent.config.actions]
    actor = ProbabilisticActor(
        TensorDictModule(Policy(agent), in_keys=NAMES, out_keys=outputs),
        in_keys=outputs,
        distribution_class=kind,
        return_log_prob=True,
    )
    critic = TensorDictModule(Value(agent), in_keys=NAMES, out_keys=["state_value"])
    return actor, critic


def oracle_data(agent, batch):
    """A batch as TorchRL's losses take it."""
    action = batch.extras["sample"] if agent.continuous else batch.action
    return TensorDict(
        {
            **batch.observation,
            "action": action,
            "action_log_prob": batch.extras["log_prob"],
            "sample_log_prob": batch.extras["log_prob"],
            "advantage": batch.advantage[:, None],
            "target": batch.target[:, None],
            "state_value": batch.extras["value"][:, None],
        },
        [batch.size],
    )


def assert_gradients_equal(agent, ours, expected):
    """Losses of an agent with the entropy weight 0.02, and their gradients, are those of TorchRL."""
    torch.testing.assert_close(-ours["policy_gain"], expected["loss_objective"])
    torch.testing.assert_close(ours["loss_value"], expected["loss_critic"])
    policy, ours_policy = expected["loss_objective"], -ours["policy_gain"]
    if agent.config.actions != "gaussian":  # theirs draws samples of its own for the entropy of squashed ones
        torch.testing.assert_close(-0.02 * ours["entropy"], expected["loss_entropy"])
        policy, ours_policy = policy + expected["loss_entropy"], ours["loss_policy"]
    parameters = list(agent.networks.parameters())
    for one, other in ((ours_policy, policy), (ours["loss_value"], expected["loss_critic"])):
        got, wanted = (
            torch.autograd.grad(each, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
            for each in (one, other)
        )
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-6)
        assert any(each.any() for each in got)


class Script(nn.Module):
    """The same outputs and value everywhere."""

    def __init__(self, outputs, value):
        super().__init__()
        self.outputs = nn.Parameter(torch.tensor(outputs))
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, observation):
        shape = observation["self_state"].shape[:-1]
        return self.policy(observation)[0], self.value.expand(shape), None

    def policy(self, observation):
        return self.outputs.expand(*observation["self_state"].shape[:-1], -1), None


def scripted(agent, outputs, value, count=3):
    """An agent that always gives the same, and a batch of it."""
    agent.networks["policy"] = Script(outputs, value)
    batch = make_rollout(agent, count, generator=seeded())
    return agent, batch
