"""On a GPU nothing leaves it between a step of the world and the update that learns from it.

The GPU is faked, so this holds on any machine; what only a real one can show is marked ``gpu``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from tests.train_RL_agents.fake_gpu import GPU, fake_gpu, only
from tests.train_RL_agents.tiny_runs import TINY, small_pool
from train_RL_agents.agents import AGENTS
from train_RL_agents.collecting.collectors import Experience
from train_RL_agents.collecting.graphs import InPlaceCollector
from train_RL_agents.config.reading import from_dict
from train_RL_agents.learning.learner import Learner
from train_RL_agents.memory.transitions import batch_of
from train_RL_agents.policy_wrapper import generated
from train_RL_agents.utils.progress import Clock, Display


class Loop:
    """The loop of training on a GPU that is faked."""

    def __init__(self, mode: Any, name: str, *words: str) -> None:
        self.mode, config = mode, from_dict(TINY | {"agent_type": name}, words)
        generators = {each: torch.Generator(GPU) for each in ("policy", "learner", "replay")}
        with GPU:
            self.agent = AGENTS[name](config.agent, config.world.vessel.num_actions)
        self.clock, display = Clock(), Display(1, quiet=True, bar=False)
        self.experience = Experience(config, self.agent, GPU, 0, generators, self.clock, display)
        # The one-kernel optimiser is not known to the fake.
        self.learner = Learner(
            self.agent, config.trainer, generators["learner"], config.compile,
            fused_optimizer=False, capture=False,
        )  # fmt: skip
        for parameter in self.agent.networks.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.learner._forget_gradients = lambda: None
        self.experience.policy.set_exploration(0.5, config.trainer.exploration_spread)
        self.experience.replay.set_beta(0.5)

    def collect(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        batches = self.experience.collected()
        self.experience.insert(next(batches))  # sets up the collector
        meanwhile()
        with only(self.mode):
            self.experience.insert(next(batches))

    def collect_in_place(self) -> None:
        experience = self.experience
        collector = InPlaceCollector(
            experience.env, experience.policy, experience.streams, experience.replay
        )
        collector.step()
        with only(self.mode):
            collector.step()

    def learn(self) -> None:
        with only(self.mode):
            drawn = self.experience.replay.sample()
            scalars, priority = self.learner.update(batch_of(drawn))
            self.experience.replay.update_priority(drawn, priority)
            self.learner.update_targets()
        assert {each.device for each in scalars.values()} == {GPU}


pytestmark = pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
KINDS = [
    *((name,) for name in AGENTS),
    ("Rainbow", "trainer.prioritized=true", "trainer.n_steps=3"),
    ("SAC", "trainer.exploration=uniform", "trainer.steps_per_batch=2"),
    ("IQN", "agent.random_fractions=true"),
]


@pytest.mark.parametrize("words", KINDS, ids=" ".join)
def test_nothing_leaves_the_device(words):
    with small_pool(), fake_gpu() as mode:
        loop = Loop(mode, *words)
        loop.collect()
        loop.collect_in_place()
        loop.learn()


@pytest.mark.parametrize(
    ("capture", "phases"), [("capture=true", {"collect", "update"}),
                            ("capture=false", {"collect", "insert", "update"})]
)  # fmt: skip
def test_on_a_gpu_everything_is_compiled_that_gains_by_it(monkeypatch, capture, phases):
    compiled = []

    def compile(function, **options):
        assert options["fullgraph"]

        def noted(*args):
            compiled.append(getattr(function, "func", function).__name__)
            return function(*args)

        return noted

    monkeypatch.setattr(torch, "compile", compile)
    generated.cache_clear()
    with small_pool(), fake_gpu() as mode:
        loop = Loop(mode, "SAC", "compile=true", capture)
        (loop.collect_in_place if loop.experience.in_place else loop.collect)()
        loop.learn()
    generated.cache_clear()
    assert set(compiled) == {"behave", "advance", "restart", "advance_windows", "losses"}
    assert compiled.count("behave") == compiled.count("advance") == 2
    for name in ("collect", "insert", "sample", "update", "save"):
        with loop.clock.phase(name):
            pass
    assert set(loop.clock.seconds) == {"compile", "insert", "sample", "save"} - phases


def test_what_leaves_it_is_noticed(monkeypatch):
    act, planted = AGENTS["DQN"].act, []

    def acting(self, inputs, risk=None):
        for what in planted:
            what(inputs.self_state)
        return act(self, inputs, risk)

    monkeypatch.setattr(AGENTS["DQN"], "act", acting)
    with small_pool(), fake_gpu() as mode:
        loop = Loop(mode, "DQN")
        loop.collect()
        for what, says in (
            (lambda given: given.sum().item(), "_local_scalar_dense"),
            (lambda given: bool((given > 0).all()), "_local_scalar_dense"),
            (lambda given: given[given > 0], "index|nonzero"),
            (lambda given: given + torch.ones(7), "same device|different devices|on the CPU"),
            (lambda given: torch.ones(7).to(given.device), "on the CPU"),
            (lambda given: given.cpu(), "on the CPU"),
        ):
            planted.clear()
            with pytest.raises((RuntimeError, AssertionError), match=says):
                loop.collect(partial(planted.append, what))
