"""The graph collector against TorchRL's Collector, and captured against uncaptured."""

import random

import pytest
import torch
from tensordict.nn import TensorDictModuleBase

from marinenav_env import GROUP, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.runtime.execution import Execution
from marinenav_env.runtime.loop import WARMUP_CALLS, list_tensors
from marinenav_env.support.validation import replace_settings
from tests.marinenav_env.helpers import random_episode
from tests.train_RL_agents.fake_gpu import replayed
from tests.train_RL_agents.learning.helpers import torchrl_collector
from tests.train_RL_agents.tiny_runs import begin_in_graphs, differences, new_run, results, saved, train, trainer_of
from train_RL_agents.learning.graph_collector import GraphCollector
from train_RL_agents.torchrl_trainer import TorchRLTrainer

KINDS = [
    ("agent_type=AC-IQN", "trainer.n_steps=3"),
    ("agent_type=DQN",),
    ("agent_type=IQN", "trainer.steps_per_batch=2", "trainer.n_steps=2"),
    ("agent_type=Rainbow", "trainer.prioritized=true", "training_schedule.timesteps=0,80"),
    ("agent_type=SAC",),
]
LONG = ("total_timesteps=320", "eval_freq=320", "trainer.buffer_size=200")
"""40 vector steps of 8 environments, which overwrite the first ones."""


def trained(path, *words, uses_cuda_graphs):
    run = new_run(path, *words)
    trainer = begin_in_graphs(run) if uses_cuda_graphs else TorchRLTrainer(run, quiet=True)
    trainer.train()
    return values(saved(trainer.run))


def values(state):
    """The state with 0 for -0: which of them a masked observation holds depends on the layout."""
    if isinstance(state, dict):
        return {key: values(value) for key, value in state.items()}
    floating = isinstance(state, torch.Tensor) and state.is_floating_point()
    return state + 0.0 if floating else state


ROLLOUTS = ("agent_type=PPO", "trainer.rollout_steps=5", "agent.critic=fleet", "agent.actions=gaussian")


@pytest.mark.parametrize(
    "words",
    [
        ("agent_type=IQN", "trainer.n_steps=3", "trainer.steps_per_batch=2", "eval_freq=160"),
        pytest.param((*KINDS[0], "trainer.replay_storage=host"), marks=pytest.mark.slow),
        KINDS[3],
        ROLLOUTS,
    ],
    ids=" ".join,
)
def test_everything_is_as_with_the_collector(tmp_path, surroundings, words):
    """Replay, world, windows, weights, statistics and generators."""
    collected, placed = (
        trained(tmp_path / str(uses_cuda_graphs), *words, uses_cuda_graphs=uses_cuda_graphs)
        for uses_cuda_graphs in (False, True)
    )
    if words is ROLLOUTS:
        assert placed["learner"]["updates"] > 20
    else:
        assert int(placed["replay"]["filled"]) > 100
        assert placed["learner"]["updates"] == (placed["env_steps"] - 16) // 8
    assert differences(collected, placed) == []


def test_a_run_is_resumed_exactly(tmp_path, surroundings):
    whole, parts = (new_run(tmp_path / name, *KINDS[0]) for name in ("whole", "parts"))
    begin_in_graphs(whole).train()
    first = begin_in_graphs(parts)
    first.callbacks.append(lambda trainer: trainer.stop() if trainer.env_steps == 112 else None)
    first.train()
    assert saved(parts)["env_steps"] == 112
    begin_in_graphs(parts).train()
    assert differences(results(whole), results(parts)) == []


def after_turns(trainer, count):
    """State after some turns of the loop; sums for the log apart."""
    for _ in range(count):
        trainer.iterate()
    state = trainer.algorithm.state_dict() | trainer.collector.state_dict()
    generators = {name: each.get_state() for name, each in trainer._generators.items()}
    meter = state.pop("meter")
    return values(state | {"generators": generators}), meter


def test_updates_are_graphs_that_draw_their_batches(tmp_path, surroundings):
    """Ten turns learn; the first calls are none. All is as of updates without graphs."""
    words = ("agent_type=Rainbow", "trainer.prioritized=true", "trainer.train_freq=4", *LONG, "log_freq=1600")
    expected = after_turns(begin_in_graphs(new_run(tmp_path / "single", *words)), 12)
    with replayed() as notes:
        trainer = begin_in_graphs(new_run(tmp_path / "graphs", *words))
        found = after_turns(trainer, 12)
    assert notes.count("the update") == 17
    assert differences(found[0], expected[0]) == []
    torch.testing.assert_close(found[1], expected[1])


def turn(trainer):
    """Collect and store."""
    steps = trainer.collector.collect()
    trainer.algorithm.add_steps(steps)
    return steps


def memory(trainer):
    """Where everything is that a captured step reads and writes."""
    env, replay, collector = trainer.collector.env, trainer.algorithm.replay, trainer.collector
    windows = list_tensors(trainer.algorithm._store.state)
    single = [replay._cursor, replay.num_stored, collector.policy.exploration, *replay._rows.values(True, True)]
    states = list_tensors((env.world_state.now, env.reset_pool.states))
    return [tensor.data_ptr() for tensor in (*states, *windows, *single)]


@pytest.mark.parametrize("steps", [1, 3])
def test_all_state_stays_where_it_is(tmp_path, surroundings, steps):
    words = (
        "trainer.n_steps=3",
        "training_schedule.timesteps=0,80",
        "trainer.buffer_size=300",
        f"trainer.steps_per_batch={steps}",
    )
    with replayed():
        trainer = begin_in_graphs(new_run(tmp_path, *words))
        turn(trainer)
        before = memory(trainer)
        for number in range(12):  # past refreshes of the pool, and the change of level
            trainer.collector.policy.set_exploration(1.0 / (number + 1), 0.5)
            turn(trainer)
        assert memory(trainer) == before
    assert trainer.collector.env.env_steps == 13 * 8 * steps


class Uniform(TensorDictModuleBase):
    """Uniform actions, and an output of its own."""

    in_keys = [(GROUP, "mask")]  # noqa: RUF012 (as tensordict has it)
    out_keys = [(GROUP, "action"), (GROUP, "extra")]  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, step):
        shape = (*step[GROUP, "mask"].shape, 2)
        action = 2.0 * torch.rand(shape, generator=self.generator) - 1.0
        step.set((GROUP, "extra"), action.sum(-1))
        return step.set((GROUP, "action"), action)


def fixed_world(**settings):
    """A world of given episodes, every one with parameters of its own."""
    rng = random.Random(0)
    episodes = [random_episode(rng, *sizes, size=50.0) for sizes in [(3, 2, 1), (1, 0, 0), (2, 1, 2)]]
    return MarineNavEnv(WorldConfig(max_steps=4), scenarios=episodes, **settings)


@pytest.mark.parametrize(("steps", "interval"), [(1, 3), (3, 4), (3, None)], ids=str)
def test_batches_are_those_of_the_collector(steps, interval):
    """Every key of every step, and the state that is saved, also when it is saved in between."""

    def make():
        if interval is None:
            return fixed_world(num_envs=4, seed=1)
        curriculum = Curriculum((Level(3, 0, 2, 20.0), Level(2)), timesteps=(0, 100), pool_size=8,
                                refresh_size=4, refresh_interval=interval)  # fmt: skip
        return MarineNavEnv(WorldConfig(max_steps=7), 4, scenarios=curriculum, seed=1)

    env, other, policy = make(), make(), Uniform()
    with replayed() as notes:
        collector = GraphCollector(env, policy, [policy.generator], Execution(compile=False), steps=steps)
    reference = torchrl_collector(other, Uniform(), 4 * steps)
    for number in range(12):
        batch, expected = collector.collect(), next(reference)
        assert batch.batch_size == expected.batch_size == (4, steps)
        found, wanted = (set(each.keys(True, True)) for each in (batch, expected))
        assert wanted - found <= {"collector"} and found <= wanted
        for key in found:
            assert torch.equal(batch[key], expected[key]), (number, key)
        if number in (4, 5, 8):
            assert differences(values(env.state_dict()), values(other.state_dict())) == []
    assert env.env_steps == other.env_steps == 12 * 4 * steps
    assert notes.count("a step of the world") == 12 * steps - WARMUP_CALLS


@pytest.mark.slow
def test_generated_code_makes_the_same_steps_and_rows(tmp_path, surroundings, reads_cost_time, monkeypatch):
    # TensorDict does this for other devices than GPUs only, and it cannot be traced when nested.
    monkeypatch.setattr("tensordict.base._RecordDeviceTransfer.mark", lambda recorder: None)
    states = []
    for compile in ("false", "true"):
        trainer = begin_in_graphs(new_run(tmp_path / compile, *KINDS[0], f"execution.compile={compile}"))
        for _ in range(12):
            turn(trainer)
        states.append(trainer.algorithm.replay.state_dict() | trainer.collector.state_dict())
    assert int(states[0]["filled"]) > 100
    torch.testing.assert_close(*states, rtol=1e-4, atol=1e-4)


# On a GPU ---------------------------------------------------------------------------------------


def on_gpu(path, *words):
    return trainer_of(path, "execution.device=cuda:0", *words)


@pytest.mark.gpu
@pytest.mark.parametrize("words", [*KINDS, (*KINDS[0], "execution.compile=true")], ids=" ".join)
def test_captured_is_uncaptured(tmp_path, surroundings, words):
    states = []
    for captured in (False, True):
        trainer = on_gpu(tmp_path / str(captured), *words)
        if not captured:
            trainer.collector._config = replace_settings(trainer.config, {"execution.capture": False})
            trainer.algorithm._store.captures = False
        for number in range(60):
            trainer.collector.policy.set_exploration(1.0 / (number + 1), 0.5)
            turn(trainer)
        assert trainer.algorithm._store.captures == captured
        state = {"replay": trainer.algorithm.replay.state_dict()} | trainer.collector.state_dict()
        states.append(on_host(state))
    assert differences(*states) == []


def on_host(state):
    if isinstance(state, dict):
        return {key: on_host(value) for key, value in state.items()}
    return state.cpu() if isinstance(state, torch.Tensor) else state


@pytest.mark.gpu
def test_a_captured_step_waits_for_nothing(tmp_path, surroundings):
    trainer = on_gpu(tmp_path, *KINDS[0])
    for _ in range(WARMUP_CALLS + 3):
        turn(trainer)
    torch.cuda.set_sync_debug_mode("error")
    try:
        turn(trainer)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_a_run_on_a_gpu_collects_by_graphs(tmp_path, surroundings):
    run = new_run(tmp_path, "execution.device=cuda:0", *KINDS[0])
    assert train(run).collector.uses_cuda_graphs
    assert int(saved(run)["replay"]["filled"]) == 150
