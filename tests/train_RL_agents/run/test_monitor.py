"""The monitor: samples at most so often, and what fails is left out."""

import logging
import sys
from itertools import count
from types import SimpleNamespace

import pytest
import torch

from tests.train_RL_agents.tiny_runs import new_run, scalars
from train_RL_agents.run import monitor as monitoring
from train_RL_agents.run.monitor import Monitor, gpu_probes, host_probes
from train_RL_agents.run.tags import describe_tag
from train_RL_agents.torchrl_trainer import TorchRLTrainer


def test_samples_are_no_closer_than_the_interval(monkeypatch):
    times, values = iter([0.0, 1.9, 2.0, 3.9, 4.1]), iter([1.0, 3.0])
    monkeypatch.setattr(monitoring.time, "monotonic", lambda: next(times))
    monitor = Monitor({"a": lambda: next(values)}, interval=2.0)
    assert [monitor.read() for _ in range(4)] == [{}, {"a": 1.0}, {}, {"a": 3.0}]


def test_a_probe_that_fails_is_left_out_and_the_others_are_not():
    calls = []

    def fail():
        calls.append(1)
        raise RuntimeError("driver")

    monitor = Monitor({"bad": fail, "good": lambda: 1.0}, interval=0.0)
    for _ in range(3):
        assert monitor.read() == {"good": 1.0}
    assert len(calls) == 1


def test_the_host_is_known():
    values = {tag: probe() for tag, probe in host_probes().items()}
    assert values.keys() == {"system/cpu_percent", "system/memory_gb"}
    assert all(map(describe_tag, values))
    assert 0.0 <= values["system/cpu_percent"] <= 100.0
    assert 0.05 < values["system/memory_gb"] < 50.0
    assert gpu_probes(torch.device("cpu")) == {}


def test_without_the_drivers_package_one_notice_says_so(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with caplog.at_level(logging.WARNING):
        assert gpu_probes(torch.device("cuda", 0)) == {}
    (record,) = caplog.records
    assert "pip install 'marinenav[gpu]'" in record.getMessage()


def test_a_run_logs_samples_unless_that_is_switched_off(tmp_path, surroundings, monkeypatch):
    hours = count(0.0, 3600.0)  # each look at the clock is an hour after the one before
    clock = SimpleNamespace(monotonic=lambda: next(hours))
    monkeypatch.setattr(monitoring, "time", clock)
    run = new_run(tmp_path, "total_timesteps=80")
    TorchRLTrainer(run, quiet=True).train()
    logged = scalars(run)
    for tag in ("system/cpu_percent", "system/memory_gb"):
        assert [step for step, _ in logged[tag]] == [40, 80]
    off = new_run(tmp_path / "off", "monitor=false")
    assert TorchRLTrainer(off, quiet=True).monitor.read() == {}
    off.writer.close()


@pytest.mark.gpu
def test_a_gpu_is_known():
    pytest.importorskip("pynvml")
    values = {tag: probe() for tag, probe in gpu_probes(torch.device("cuda", 0)).items()}
    assert values.keys() == {"gpu/utilization", "gpu/temperature_c", "gpu/power_w"}
    assert 0.0 <= values["gpu/utilization"] <= 100.0
    assert 10.0 < values["gpu/temperature_c"] < 110.0
    assert values["gpu/power_w"] > 1.0
