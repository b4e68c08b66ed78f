"""A profiler's trace of a training run."""

import gzip
import json

import pytest
import torch

from tests.train_RL_agents.test_cli import refused
from tests.train_RL_agents.tiny_runs import TINY, begin, new_run, saved, train, usual_signals
from train_RL_agents.cli import main
from train_RL_agents.run.tracing import TracingClock
from train_RL_agents.utils.progress import Clock

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("tiny")


def ranges(path):
    """Named ranges of a trace: how often each is there."""
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    names = [event["name"] for event in events if event.get("cat") == "user_annotation"]
    return {name: names.count(name) for name in set(names)}


def test_command_writes_a_trace_that_names_the_phases(tmp_path, capsys):
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(TINY))
    with usual_signals():
        assert main(["train", "-C", str(config), "--profile-trace", "3", "--no-bar",
                     f"save_dir={tmp_path}"]) == 0  # fmt: skip
    (path,) = tmp_path.glob("training_*/seed_0/*.pt.trace.json.gz")
    assert f"trace: {path}" in capsys.readouterr().out.splitlines()
    found = ranges(path)
    assert {name: found[name] for name in ("collect", "insert")} == {"collect": 3, "insert": 3}
    assert found["sample"] == found["update"] == 3


def test_rare_updates_prolong_the_trace(tmp_path):
    clock = TracingClock(Clock(), tmp_path, 1, CPU)
    for _ in range(10):
        with clock.phase("update"):
            pass
    for name in ("collect", "insert", "collect", "insert", "update", "collect"):
        assert clock.path is None
        with clock.phase(name):
            torch.ones(2)
    found = ranges(clock.path)
    assert {name: found[name] for name in ("collect", "insert", "update")} == {
        "collect": 2, "insert": 2, "update": 1,
    }  # fmt: skip
    clock.finish()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_trace_ends_with_the_run_and_changes_nothing_in_it(tmp_path):
    short = ("total_timesteps=112", "eval_freq=112")
    plain, traced = (new_run(tmp_path / name, *short) for name in ("plain", "traced"))
    train(plain)
    trainer = begin(traced)
    trainer.clock = TracingClock(trainer.clock, traced.path, 1000, CPU)
    with usual_signals():
        trainer.train()
    assert trainer.clock.path is None
    trainer.clock.finish()
    assert ranges(trainer.clock.path)["update"] > 0
    one, other = saved(plain)["learner"]["agent"], saved(traced)["learner"]["agent"]
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_clock_goes_on_from_the_trainers():
    clock = Clock()
    clock.load_state_dict({"seconds": {"collect": 5.0}, "total": 9.0})
    tracing = TracingClock(clock, None, 1, CPU)
    assert tracing.seconds == {"collect": 5.0}
    assert tracing.total >= 9.0


def test_a_run_that_is_too_short_says_so(tmp_path, capsys):
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(TINY | {"total_timesteps": 40, "save_dir": str(tmp_path)}))
    with usual_signals():
        assert main(["train", "-C", str(config), "--profile-trace", "--no-bar"]) == 0
    assert "no trace: the run has too few updates" in capsys.readouterr().out
    assert not list(tmp_path.glob("training_*/seed_0/*.trace.json.gz"))


@pytest.mark.parametrize("steps", ["0", "-3", "few"])
def test_wrong_length_is_refused(capsys, steps):
    assert "--profile-trace" in refused(capsys, "train", "--profile-trace", steps)
