"""Which sizes and modes of a part are measured."""

from dataclasses import replace

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.config.reading import from_dict
from train_RL_agents.speed import parts
from train_RL_agents.speed.fixture import TrainerBenchmarks
from train_RL_agents.speed.options import BenchmarkOptions
from train_RL_agents.speed.parts import measure_part

pytestmark = pytest.mark.usefixtures("tiny")


def tiny(*overrides):
    return from_dict(TINY, overrides)


def test_the_loop_says_where_its_time_goes():
    options = BenchmarkOptions(tiny(), parts=("loop",), seconds=0.001, repeats=1)
    (row,) = measure_part("loop", options, ["eager"])
    assert (row["environments"], row["batch"], row["unit"]) == (8, 8, "env-steps/s")
    notes = row["notes"]
    names = ("world", "policy", "update", "insertion", "sampling", "rest")
    assert sum(notes[f"share {name}"] for name in names) == pytest.approx(1.0)
    assert all(notes[f"share {name}"] > 0.0 for name in names)
    assert notes["updates/s"] == pytest.approx(row["median"] / 8, rel=0.01)
    within = sum(notes[f"share {name}"] for name in ("world", "policy", "update"))
    assert notes["share outside"] == pytest.approx(1.0 - within)


@pytest.mark.parametrize("agent", ["AC-IQN", "Rainbow"])
def test_other_agents_are_measured(agent):
    config = tiny(f"agent_type={agent}", f"trainer.prioritized={str(agent == 'Rainbow').lower()}")
    options = BenchmarkOptions(config, envs=(2,), batch=(4,), replay=(20,), seconds=0.001, repeats=1)
    for part in ("world", "update", "growth"):
        assert all(row["median"] > 0 for row in measure_part(part, options, ["eager"]))


def test_modes_of_one_size_take_turns_and_others_run_once(monkeypatch):
    made = []

    def record(config, mode):
        made.append((mode, config.trainer.num_envs))
        return TrainerBenchmarks(config, "eager")

    monkeypatch.setattr(parts, "TrainerBenchmarks", record)
    options = BenchmarkOptions(tiny(), envs=(2, 4), batch=(2, 4), seconds=0.001, repeats=1)
    assert len(list(measure_part("world", options, ["eager", "compiled"]))) == 4
    assert made == [("eager", 2), ("compiled", 2), ("eager", 4), ("compiled", 4)]
    rows = measure_part("sampling", options, ["eager", "compiled"])
    assert [row["mode"] for row in rows] == ["eager"] * 2
    assert [mode for mode, _ in made[4:]] == ["eager"] * 2


def test_growth_measures_the_world_itself_unless_it_is_a_part():
    options = BenchmarkOptions(tiny(), parts=("growth",), envs=(2,), replay=(20,), seconds=0.001, repeats=1)
    rows = list(measure_part("growth", options, ["eager"]))
    assert [("environments" in row, "replay" in row) for row in rows] == [(1, 0), (0, 1)]
    both = replace(options, parts=("world", "growth"))
    assert [row["replay"] for row in measure_part("growth", both, ["eager"])] == [20]


def test_sizes_that_memory_lacks_are_refused():
    options = BenchmarkOptions(tiny(), parts=("sampling",), batch=(10**9,), seconds=0.001, repeats=1)
    with pytest.raises(ConfigError, match="free on the host"):
        list(measure_part("sampling", options, ["eager"]))
