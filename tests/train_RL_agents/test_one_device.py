"""On a GPU nothing leaves it between a step of the world and the update that learns from it.

The GPU is faked, so this holds on any machine; what only a real one can show is marked ``gpu``.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch

from tests.train_RL_agents.fake_gpu import GPU, fake_gpu, only
from tests.train_RL_agents.tiny_runs import small_pool, tiny_settings
from train_RL_agents.agents import AGENTS
from train_RL_agents.collecting.collectors import StepCollector
from train_RL_agents.config.reading import from_dict
from train_RL_agents.learning import ALGORITHMS, Setup
from train_RL_agents.policy_wrapper import compiled_explore
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.utils import captured
from train_RL_agents.utils.progress import Clock, Display

RARELY = 1000
"""Vector steps between refreshes of the reset pool, which the host takes part in."""


class NoGraphs:
    """A recorder whose replays are calls."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def beside(self) -> Any:
        return nullcontext()

    def record(self, call: Callable[[], Any], generators: Any) -> tuple[Callable[[], None], Any]:
        return call, call()


@pytest.fixture(autouse=True)
def _no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake has neither streams nor graphs."""
    monkeypatch.setattr(captured, "CudaRecorder", NoGraphs)


class Loop:
    """The loop of training on a GPU that is faked."""

    def __init__(self, mode: Any, name: str, *words: str) -> None:
        # The one-kernel optimiser is not known to the fake.
        config = from_dict(tiny_settings(name), ["fused_optimizer=false", *words])
        generators = {each: torch.Generator(GPU) for each in ("policy", "learner", "replay")}
        self.mode, display = mode, Display(1, quiet=True, bar=False)
        self.told: list[str] = []
        clock = Clock(lambda phase, seconds: self.told.append(phase))
        with GPU:
            agent = AGENTS[name](config.agent, config.world.vessel.num_actions)
        self.collector = StepCollector(config, agent, GPU, 0, generators["policy"], clock, display)
        self.algorithm = ALGORITHMS[type(config.trainer)](
            Setup(config, agent, self.collector.env.fake_tensordict(), generators, Ranks(),
                  clock, display.say, self.collector.in_place)
        )  # fmt: skip
        for parameter in agent.networks.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.algorithm.learner._forget_gradients = lambda: None
        self.algorithm.set_progress(0.5, self.collector.policy)

    def collect(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """A turn without updates, after one that sets up."""
        for _ in range(2):
            self.algorithm.observe(self.collector.collect())
        meanwhile()
        with only(self.mode):
            self.algorithm.observe(self.collector.collect())

    def learn(self) -> None:
        """Updates; the first one makes the optimiser's state."""
        for env_steps in (24, 32):
            self.algorithm.observe(self.collector.collect())
            with only(self.mode):
                self.algorithm.update(env_steps)
        if self.algorithm.learner.agent.targets:
            with only(self.mode):
                self.algorithm.learner.update_targets(0.5)
        assert self.algorithm.learner.updates >= 2
        with only(self.mode):
            means = self.algorithm.meter._sums.values()
            scalars = [*means, *self.algorithm.device_scalars().values()]
        assert {each.device for each in scalars} == {GPU}


pytestmark = pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
CAPTURED, PLAIN = "capture=true", "capture=false"
KINDS = [
    *((name, CAPTURED) for name in AGENTS),
    ("DQN", PLAIN),
    ("PPO", PLAIN),
    ("Rainbow", "trainer.prioritized=true", "trainer.n_steps=3", CAPTURED),
    ("SAC", "trainer.exploration=uniform", "trainer.steps_per_batch=2", PLAIN),
    ("IQN", "agent.random_fractions=true", PLAIN),
    ("PPO", "agent.critic=fleet", "agent.normalize_observations=true",
     "trainer.scale_returns=true", CAPTURED),
    ("PPO", "agent.actions=gaussian", "agent.target_kl=0.01", "agent.value_clip=0.2", PLAIN),
    ("A2C", "agent.actions=clipped_gaussian", "agent.state_dependent_std=true",
     "trainer.optimizer=rmsprop", CAPTURED),
]  # fmt: skip


@pytest.mark.parametrize("words", KINDS, ids=" ".join)
def test_nothing_leaves_the_device(words):
    with small_pool(RARELY), fake_gpu() as mode:
        loop = Loop(mode, *words)
        assert loop.collector.in_place == (CAPTURED in words)
        loop.collect()
        loop.learn()


@pytest.mark.parametrize(
    "words",
    [(CAPTURED,), (PLAIN,), (CAPTURED, "world.sensor.scan_beams=4"),
     (PLAIN, "training_schedule.encounter=true,false"),
     (CAPTURED, "training_schedule.timesteps=0,9")],
    ids=" ".join,
)  # fmt: skip
def test_a_refresh_of_scenarios_stays_on_the_device(words):
    with small_pool(1), fake_gpu() as mode:
        loop = Loop(mode, "DQN", *words)
        drawn = []
        sample = loop.collector.env.reset_pool._sampler.sample
        loop.collector.env.reset_pool._sampler.sample = lambda *given: (
            drawn.append(given), sample(*given)
        )[1]  # fmt: skip
        loop.collect(drawn.clear)
        assert len(drawn) >= 1


COMPILED = {
    "SAC": {"explore", "advance", "advance_windows", "loss"},
    "PPO": {"explore", "advance", "loss"},
}


@pytest.mark.parametrize(("name", "capture"), [("SAC", CAPTURED), ("SAC", PLAIN), ("PPO", PLAIN)])
def test_on_a_gpu_everything_is_compiled_that_gains_by_it(monkeypatch, name, capture):
    compiled = []

    def compile(function, **options):
        assert options["fullgraph"]

        def noted(*args):
            compiled.append(getattr(function, "func", function).__name__)
            return function(*args)

        return noted

    monkeypatch.setattr(torch, "compile", compile)
    compiled_explore.cache_clear()
    with small_pool(RARELY), fake_gpu() as mode:
        loop = Loop(mode, name, "compile=true", capture)
        loop.collect()
        # What is compiled is collecting, and for off-policy agents the rows of replay.
        assert set(compiled) - {"restart"} == COMPILED[name] - {"loss"}
        assert compiled.count("explore") == compiled.count("advance")
        loop.learn()
    compiled_explore.cache_clear()
    assert set(compiled) - {"restart"} == COMPILED[name]
    assert "restart" in compiled
    # The first pass through a phase that compiles is told of, and does not count as training.
    assert loop.told == (["insert", "update"] if name == "SAC" else ["update"])


def test_what_leaves_it_is_noticed(monkeypatch):
    act, planted = AGENTS["DQN"].act, []

    def acting(self, observation, risk=None):
        for what in planted:
            what(observation["self_state"])
        return act(self, observation, risk)

    monkeypatch.setattr(AGENTS["DQN"], "act", acting)
    with small_pool(RARELY), fake_gpu() as mode:
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
