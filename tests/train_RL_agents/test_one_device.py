"""On a GPU nothing leaves it between a step of the world and the update that learns from it.

The GPU is faked, so this holds on any machine; what only a real one can show is marked ``gpu``.
"""

from contextlib import nullcontext
from functools import partial

import pytest
import torch

from marinenav_env import Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.runtime.loop import WARMUP_CALLS
from tests.train_RL_agents.fake_gpu import GPU, Loop, fake_gpu, only
from tests.train_RL_agents.tiny_runs import small_pool
from train_RL_agents.agents import AGENTS
from train_RL_agents.policy_wrapper import compiled_explore

RARELY = 1000
"""Vector steps between refreshes of the reset pool, which the host takes part in."""

pytestmark = pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
CAPTURED, PLAIN = "execution.capture=true", "execution.capture=false"
VARIANTS = [
    *((name, CAPTURED) for name in AGENTS),
    ("DQN", PLAIN),
    ("PPO", PLAIN),
    ("DQN", "trainer.train_freq=4", "trainer.steps_per_batch=2", CAPTURED),
    ("AC-IQN", "trainer.precision=bf16", CAPTURED),
    ("Rainbow", "trainer.prioritized=true", "trainer.n_steps=3", CAPTURED),
    ("SAC", "trainer.exploration=uniform", "trainer.steps_per_batch=2", PLAIN),
    ("IQN", "agent.random_fractions=true", PLAIN),
    ("PPO", "agent.critic=fleet", CAPTURED),
    ("PPO", "agent.actions=gaussian", "agent.target_kl=0.01", PLAIN),
    ("A2C", "agent.actions=clipped_gaussian", "trainer.optimizer=rmsprop", CAPTURED),
    ("DQN", CAPTURED, "world.sensor.scan_beams=4", "world.sensor.duties=true"),
    ("DQN", PLAIN, 'training_schedule.levels={"like": "crossing"},{"num_robots": 2, "min_start_goal_dis": 10}'),
    ("DQN", CAPTURED, "world.scenario.draws=20"),
    ("DQN", PLAIN, "world.scenario.draws=20"),
    ("DQN", CAPTURED, "training_schedule.timesteps=0,9"),
]


@pytest.mark.parametrize(
    "words",
    [("PPO", "trainer.epochs=1", CAPTURED), *(pytest.param(words, marks=pytest.mark.slow) for words in VARIANTS)],
    ids=" ".join,
)
def test_nothing_leaves_the_device(words):
    """Also when scenarios are refreshed."""
    with small_pool(3, 16), fake_gpu() as mode:
        loop = Loop(mode, *words)
        assert loop.collector.uses_cuda_graphs == (CAPTURED in words)
        drawn = []
        sample = loop.collector.env.reset_pool._sampler.sample
        loop.collector.env.reset_pool._sampler.sample = lambda *given: (drawn.append(given), sample(*given))[1]
        loop.collect(drawn.clear)
        assert len(drawn) >= 1
        loop.learn()


def test_a_captured_step_of_the_environment_stays_on_the_device():
    with fake_gpu() as mode:
        pool = Curriculum((Level(2, 0, 1, 20.0),), pool_size=8, refresh_size=8)
        config = WorldConfig(substeps=1)
        env = MarineNavEnv(config, 3, scenarios=pool, device=GPU, capture_step=True, seed=0)
        td = env.reset()
        action = torch.zeros(3, env.num_robots, 2, device=GPU)
        for number in range(WARMUP_CALLS + 3):
            with only(mode) if number else nullcontext():
                _, td = env.step_and_maybe_reset(td.set(("robots", "action"), action))
        assert env.captures_step


STEP = {"explore", "advance"}
COMPILED = {
    ("SAC", CAPTURED): {*STEP, "_step", "copy_all", "_store_transitions"},
    ("SAC", PLAIN): {*STEP, "_store_transitions"},
    ("PPO", PLAIN): STEP,
}
"""While collecting; within another function that is compiled it is no function of its own."""


@pytest.mark.parametrize(
    ("name", "capture"), [pytest.param(*key, marks=[pytest.mark.slow] * (PLAIN in key)) for key in COMPILED]
)
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
    with small_pool(RARELY, 16), fake_gpu() as mode:
        loop = Loop(mode, name, "execution.compile=true", capture)
        loop.collect()
        assert set(compiled) == COMPILED[name, capture]
        assert compiled.count("explore") == compiled.count("advance")
        loop.learn()
    compiled_explore.cache_clear()
    assert set(compiled) == COMPILED[name, capture] | {"gradients", "_apply_gradient"}
    # The first pass through a phase that compiles is told of, and does not count as training.
    assert loop.compiled == (["insert", "update"] if name == "SAC" else ["update"])


def test_products_are_in_half_precision_where_asked_for():
    with fake_gpu():
        ones = torch.ones(2, 2, device=GPU)
        for half in (torch.bfloat16, torch.float16):
            with torch.autocast("cuda", half):
                assert (ones @ ones).dtype == half


def test_what_leaves_it_is_noticed(monkeypatch):
    act, planted = AGENTS["DQN"].act, []

    def acting(self, observation, risk=None):
        for what in planted:
            what(observation["self_state"])
        return act(self, observation, risk)

    monkeypatch.setattr(AGENTS["DQN"], "act", acting)
    with small_pool(RARELY, 16), fake_gpu() as mode:
        loop = Loop(mode, "DQN")
        loop.collect()
        for what, says in (
            (lambda given: given.sum().item(), "_local_scalar_dense"),
            (lambda given: given[given > 0], "index|nonzero"),
            (lambda given: given + torch.ones(7), "same device|different devices|on the CPU"),
            (lambda given: torch.ones(7).to(given.device), "on the CPU"),
        ):
            planted.clear()
            with pytest.raises((RuntimeError, AssertionError), match=says):
                loop.collect(partial(planted.append, what), begins=0)
