"""The parts of a trainer as benchmarks, and their rates on a clock of their own."""

import pytest
import torch

from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.config.reading import from_dict
from train_RL_agents.experiments import benchmarks as parts
from train_RL_agents.experiments.benchmarks import (
    Benchmark,
    TrainerBenchmarks,
    benchmark_config,
    fill_with_random_rows,
    measure_size,
)

pytestmark = pytest.mark.usefixtures("surroundings")
EAGER = "execution.compile=false"


class Clock:
    """A clock, and a step of half a second, the first one of which takes a minute more."""

    now, first = 0.0, True

    def perf_counter(self):
        return self.now

    def step(self):
        self.now += 0.5 + 60.0 * self.first
        self.first = False


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(parts, "time", clock)
    return clock


def test_compilation_is_kept_apart_and_runs_last_long_enough(clock):
    row = Benchmark({"batch": 8}, "env-steps/s", 8, torch.device("cpu"), clock.step).measure(2.0, 3)
    assert row["compile_seconds"] == pytest.approx(60.0)
    assert [row[name] for name in ("median", "lowest", "highest")] == pytest.approx([16.0] * 3)
    assert row["ms_per_step"] == pytest.approx(500.0)
    assert (row["unit"], row["batch"], len(row["runs"])) == ("env-steps/s", 8, 3)
    # Twice 3 steps, 3 and 6 steps before and in each of the runs.
    assert clock.now == pytest.approx(60.0 + 0.5 * (6 + 4 * 9))


def test_shares_are_of_the_median_run(clock):
    paces, phases = iter([1.0] * 9 + [1.0] * 3 + [4.0] * 3 + [2.0] * 3), {"update": 0.0}

    def step():
        pace = next(paces)
        clock.now += pace
        phases["update"] += pace / (2.0 + pace)

    row = Benchmark({}, "updates/s", 8, torch.device("cpu"), step, phases).measure(3.0, 3)
    assert row["runs"] == [8.0, 2.0, 4.0] and row["shares"] == pytest.approx({"update": 0.25, "rest": 0.75})


def test_the_loop_says_where_its_time_goes():
    row = measure_size("loop", from_dict(TINY, [EAGER]), {}, 0.001, 1)
    assert (row["part"], row["environments"], row["batch"], row["unit"]) == ("loop", 8, 8, "env-steps/s")
    shares = row["shares"]
    assert sum(shares.values()) == pytest.approx(1.0) and min(shares.values()) >= 0.0
    assert {"collect", "update", "insert", "sample", "rest"} <= set(shares)


@pytest.mark.parametrize("agent", ["AC-IQN", "Rainbow"])
def test_other_agents_are_measured(agent):
    prioritized = f"trainer.prioritized={str(agent == 'Rainbow').lower()}"
    config = from_dict(TINY, [f"agent_type={agent}", prioritized, "trainer.batch_size=4", EAGER])
    assert all(measure_size(part, config, {}, 0.001, 1)["median"] > 0 for part in ("world", "replay", "update"))


def test_the_world_and_the_loop_by_graphs():
    """As captured on a GPU: the same steps, and one collector for all measurements."""
    found = TrainerBenchmarks(benchmark_config(from_dict(TINY, [EAGER])))
    collector, replay = found.collector, found.algorithm.replay
    collector.uses_cuda_graphs = True
    assert found.world().run(3) > 0.0
    assert collector.env.env_steps == 3 * 8
    assert int(replay.num_stored) == 0
    loop = found.loop()
    loop.run(loop.min_steps)
    assert found.trainer.env_steps == loop.min_steps * 8
    assert int(replay.num_stored) > 0
    found.close()


def test_fill_leaves_no_slot_empty(monkeypatch):
    monkeypatch.setattr(parts, "FILL_CHUNK_SIZE", 30)
    built = TrainerBenchmarks(benchmark_config(from_dict(TINY, ["trainer.buffer_size=70", EAGER])))
    replay = built.algorithm.replay
    fill_with_random_rows(replay, built.algorithm.example_transition, 25, 70)
    built.close()
    drawn = replay.sample()
    assert int(replay.num_stored) == 70
    assert 0 <= int(drawn["action"].min()) <= int(drawn["action"].max()) < 25
    assert drawn["observation", "objects_mask"].dtype == torch.bool


def test_sizes_that_memory_lacks_are_refused():
    with pytest.raises(ConfigError, match="free on the host"):
        measure_size("replay", from_dict(TINY), {"batch_size": 10**9}, 0.001, 1)
