"""A profiler's trace of a training run."""

import gzip
import json
from types import SimpleNamespace

import pytest
import torch
from torch.profiler import record_function

from tests.train_RL_agents.test_cli import refused
from tests.train_RL_agents.tiny_runs import TINY, begin, differences, new_run, results, train, usual_signals
from train_RL_agents.cli import main
from train_RL_agents.run.tracing import Trace
from train_RL_agents.utils.progress import PhaseTimer

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
        assert main(["train", "-C", str(config), "--profile-trace", "3", "--no-bar", f"save_dir={tmp_path}"]) == 0
    (path,) = tmp_path.glob("*/seed_0/*.pt.trace.json.gz")
    assert f"trace: {path}" in capsys.readouterr().out.splitlines()
    found = ranges(path)
    assert {name: found[name] for name in ("collect", "insert")} == {"collect": 3, "insert": 3}
    assert found["sample"] == found["update"] == 3


class Turns:
    """What a trace sees of a trainer: its clock, and how many updates it has made."""

    def __init__(self):
        self.clock, self.updates = PhaseTimer(), 0
        self.algorithm = SimpleNamespace(learner=self)

    def turn(self, trace, updates=1):
        for name in ("collect", "insert", *["update"] * updates):
            with self.clock.phase(name):
                torch.ones(2)
        self.updates += updates
        trace(self)


def test_rare_updates_prolong_the_trace(tmp_path):
    trainer, trace = Turns(), Trace(tmp_path, 1, CPU)
    for _ in range(11):
        trainer.turn(trace)
    for updates in (0, 0, 1):
        assert trace.path is None
        assert trainer.clock.phase_context is record_function
        trainer.turn(trace, updates)
    assert trainer.clock.phase_context is not record_function
    found = ranges(trace.path)
    assert {name: found[name] for name in ("collect", "insert", "update")} == {"collect": 3, "insert": 3, "update": 1}
    trainer.turn(trace)
    trace.finish()
    assert list(tmp_path.iterdir()) == [trace.path]


def test_a_trace_ends_with_the_run_and_changes_nothing_in_it(tmp_path):
    short = ("total_timesteps=112", "eval_freq=112")
    plain, traced = (new_run(tmp_path / name, *short) for name in ("plain", "traced"))
    train(plain)
    trainer = begin(traced)
    trace = Trace(traced.path, 1000, CPU)
    trainer.callbacks.append(trace)
    with usual_signals():
        trainer.train()
    assert trace.path is None
    trace.finish()
    assert ranges(trace.path)["update"] > 0
    assert differences(results(plain), results(traced)) == []


def test_a_run_that_is_too_short_says_so(tmp_path, capsys):
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(TINY | {"total_timesteps": 40, "save_dir": str(tmp_path)}))
    with usual_signals():
        assert main(["train", "-C", str(config), "--profile-trace", "--no-bar"]) == 0
    assert "no trace: the run has too few updates" in capsys.readouterr().out
    assert not list(tmp_path.glob("*/seed_0/*.trace.json.gz"))


@pytest.mark.parametrize("steps", ["0", "-3", "few"])
def test_wrong_length_is_refused(capsys, steps):
    assert "--profile-trace" in refused(capsys, "train", "--profile-trace", steps)
