"""Collection in place against TorchRL's Collector, and captured against uncaptured."""

import pytest
import torch

from tests.train_RL_agents.helpers import no_host_reads
from tests.train_RL_agents.tiny_runs import differences, new_run, results, saved, train
from train_RL_agents.collecting.graphs import InPlaceCollector
from train_RL_agents.torchrl_trainer import TorchRLTrainer
from train_RL_agents.utils.captured import WARM_UPS

KINDS = [("agent_type=AC-IQN", "trainer.n_steps=3"), ("agent_type=DQN",),
         ("agent_type=IQN", "trainer.steps_per_batch=2", "trainer.n_steps=2"),
         ("agent_type=Rainbow", "trainer.prioritized=true"),
         ("agent_type=SAC", "training_schedule.timesteps=0,80")]  # fmt: skip
LONG = ("total_timesteps=1600", "eval_freq=1600", "trainer.buffer_size=1000")
"""200 vector steps of 8 environments."""


def trained(path, *words, in_place):
    trainer = TorchRLTrainer(new_run(path, *words), quiet=True)
    trainer.experience.in_place = in_place
    trainer.train()
    return values(saved(trainer.run))


def values(state):
    """The state with 0 for -0: which of them a masked observation holds depends on the layout."""
    if isinstance(state, dict):
        return {key: values(value) for key, value in state.items()}
    floating = isinstance(state, torch.Tensor) and state.is_floating_point()
    return state + 0.0 if floating else state


@pytest.mark.parametrize("words", [(*KINDS[0], *LONG), *KINDS[1:]], ids=" ".join)
def test_everything_is_as_with_the_collector(tmp_path, tiny, words):
    """Replay, world, windows, weights and generators."""
    collected, placed = (trained(tmp_path / str(in_place), *words, in_place=in_place)
                         for in_place in (False, True))  # fmt: skip
    assert int(placed["replay"]["filled"]) > 100
    assert placed["learner"]["updates"] == (placed["env_steps"] - 16) // 8
    assert differences(collected, placed) == []


def test_a_run_collected_in_place_is_resumed_exactly(tmp_path, tiny):
    words = KINDS[0]
    whole = new_run(tmp_path / "whole", *words)
    trainer = TorchRLTrainer(whole, quiet=True)
    trainer.experience.in_place = True
    trainer.train()
    parts = new_run(tmp_path / "parts", *words)
    first = TorchRLTrainer(parts, quiet=True)
    first.experience.in_place = True
    update = first.learner.update

    def stopping(batch):
        first.stopped = first.env_steps == 104
        return update(batch)

    first.learner.update = stopping
    first.train()
    assert saved(parts)["env_steps"] == 104
    again = TorchRLTrainer(parts, quiet=True)
    again.experience.in_place = True
    again.train()
    assert differences(results(whole), results(parts)) == []


def test_replay_on_the_host_gets_the_same_rows(tmp_path, tiny):
    words = (*KINDS[0], "trainer.replay_storage=host")
    collected, placed = (trained(tmp_path / str(in_place), *words, in_place=in_place)
                         for in_place in (False, True))  # fmt: skip
    assert differences(collected, placed) == []


def pointers(tree):
    return [leaf.data_ptr() for leaf in tree.values(True, True)]


def collector_of(trainer, generators=None):
    return InPlaceCollector(
        trainer.env, trainer.policy, trainer.experience.streams, trainer.replay, generators
    )


def memory(collector):
    """Where everything is that a captured step reads and writes."""
    env, replay = collector.env, collector.replay
    trees = [env._now.scenario, env._now.state, env._now.observation, env._starts.starts.scenario,
             env._starts.starts.state, env._starts.starts.observation, collector._carrier,
             collector.streams._open, replay._storage._storage]  # fmt: skip
    single = [replay.writer.cursor, replay.writer.filled, collector.policy.exploration]
    return [pointer for tree in trees for pointer in pointers(tree)] + [
        tensor.data_ptr() for tensor in single
    ]


def test_all_state_stays_where_it_is(tmp_path, tiny):
    words = ("trainer.n_steps=3", "training_schedule.timesteps=0,80")
    trainer = TorchRLTrainer(new_run(tmp_path, *words), quiet=True)
    collector = collector_of(trainer)
    collector.step()
    before = memory(collector)
    for number in range(30):  # past refreshes of the pool, and the change of level
        trainer.policy.set_exploration(1.0 / (number + 1), 0.5)
        collector.step()
    assert memory(collector) == before
    assert trainer.env.env_steps == 31 * 8


def test_the_parts_that_are_captured_read_nothing_on_the_host(tmp_path, tiny, monkeypatch):
    # As on a GPU: there, which environments are done and which rows are stored is not asked.
    monkeypatch.setattr("marinenav_env.host_reads.CHEAP_TO_ASK", frozenset())
    collector = collector_of(TorchRLTrainer(new_run(tmp_path, *KINDS[0]), quiet=True))
    collector.step()
    with no_host_reads():
        for _ in range(3):
            collector._step_and_store()
            collector._start_anew()


def test_without_capture_a_gpu_has_the_collector(tmp_path, tiny):
    trainer = TorchRLTrainer(new_run(tmp_path), quiet=True)
    assert trainer.config.capture
    assert not trainer.experience.in_place  # the CPU has it anyway


# On a GPU ---------------------------------------------------------------------------------------


@pytest.fixture
def cuda():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return torch.device("cuda", 0)


def on_gpu(path, *words):
    return TorchRLTrainer(new_run(path, "device=cuda:0", *words), quiet=True)


@pytest.mark.gpu
@pytest.mark.parametrize("words", [*KINDS, (*KINDS[0], "compile=true")], ids=" ".join)
def test_captured_is_uncaptured(tmp_path, tiny, cuda, words):
    states = []
    for captured in (False, True):
        trainer = on_gpu(tmp_path / str(captured), *words)
        generators = [trainer._generators["policy"], trainer.env.generator]
        collector = collector_of(trainer, generators if captured else None)
        for number in range(60):
            trainer.policy.set_exploration(1.0 / (number + 1), 0.5)
            collector.step()
        if captured:
            assert collector._step.captures and collector._start.captures
        state = trainer.replay.state_dict() | {"world": trainer.env.state_dict()}
        states.append(on_host(state))
    assert differences(*states) == []


def on_host(state):
    if isinstance(state, dict):
        return {key: on_host(value) for key, value in state.items()}
    return state.cpu() if isinstance(state, torch.Tensor) else state


@pytest.mark.gpu
def test_a_captured_step_waits_for_nothing(tmp_path, tiny, cuda):
    trainer = on_gpu(tmp_path, *KINDS[0])
    collector = collector_of(trainer, [trainer._generators["policy"], trainer.env.generator])
    for _ in range(WARM_UPS + 2):
        collector.step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        collector._step()
        collector._start()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_a_run_on_a_gpu_collects_in_place(tmp_path, tiny, cuda):
    run = new_run(tmp_path, "device=cuda:0", *KINDS[0])
    assert train(run).experience.in_place
    assert int(saved(run)["replay"]["filled"]) == 150
