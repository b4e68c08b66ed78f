"""The monitor: averages, an end in every case, and no cost to the loop."""

import logging
import sys
import threading
import time

import pytest
import torch

from tests.train_RL_agents.tiny_runs import at, new_run, scalars
from train_RL_agents.run.monitor import Monitor, gpu_probes, host_probes
from train_RL_agents.torchrl_trainer import TorchRLTrainer


def monitors():
    return [each for each in threading.enumerate() if each.name == "monitor"]


def wait_until(condition):
    until = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_averages_since_the_last_reading():
    values = iter([1.0, 3.0, 10.0])
    monitor = Monitor({"a": lambda: next(values)})
    assert monitor.read() == {}
    monitor._sample()
    monitor._sample()
    assert monitor.read() == {"a": 2.0}
    monitor._sample()
    assert monitor.read() == {"a": 10.0}
    assert monitor.read() == {}


def test_a_probe_that_fails_is_left_out_and_the_others_are_not():
    calls = []

    def fail():
        calls.append(1)
        raise RuntimeError("driver")

    monitor = Monitor({"bad": fail, "good": lambda: 1.0})
    for _ in range(3):
        monitor._sample()
    assert monitor.read() == {"good": 1.0}
    assert len(calls) == 1


def test_the_thread_samples_and_ends():
    before, asked = len(monitors()), []
    monitor = Monitor({"a": lambda: float(len(asked.append(1) or asked))}, interval=0.001)
    for _ in range(2):
        monitor.start()
        assert len(monitors()) == before + 1
        assert all(each.daemon for each in monitors())
        count = len(asked)
        wait_until(lambda count=count: len(asked) > count + 2)
        monitor.stop()
        assert len(monitors()) == before
    monitor.stop()
    assert monitor.read()["a"] > 1.0


def test_the_host_is_known():
    values = {tag: probe() for tag, probe in host_probes().items()}
    assert values.keys() == {"system/cpu_percent", "system/memory_gb"}
    assert 0.0 <= values["system/cpu_percent"] <= 100.0
    assert 0.05 < values["system/memory_gb"] < 50.0
    assert gpu_probes(torch.device("cpu")) == {}


def test_without_the_drivers_package_one_notice_says_so(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with caplog.at_level(logging.WARNING):
        assert gpu_probes(torch.device("cuda", 0)) == {}
    (record,) = caplog.records
    assert "pip install 'marinenav[gpu]'" in record.getMessage()


def test_a_run_logs_the_averages_and_ends_the_thread(tmp_path, tiny):
    run = new_run(tmp_path)
    trainer = TorchRLTrainer(run, quiet=True)
    trainer.monitor._interval = 0.001
    trainer.train()
    assert not monitors()
    logged = scalars(run)
    for tag in ("system/cpu_percent", "system/memory_gb"):
        assert logged[tag], tag
        assert {step for step, _ in logged[tag]} <= {40, 80, 120, 160}


def test_an_error_ends_the_thread(tmp_path, tiny):
    trainer = TorchRLTrainer(new_run(tmp_path), quiet=True)

    def fail():
        assert len(monitors()) == 1
        raise RuntimeError("stop here")

    at(trainer, 40, fail)
    with pytest.raises(RuntimeError, match="stop here"):
        trainer.train()
    assert not monitors()


def test_it_can_be_switched_off(tmp_path, tiny):
    run = new_run(tmp_path, "monitor=false")
    trainer = TorchRLTrainer(run, quiet=True)
    trainer.monitor._interval = 0.001
    trainer.train()
    assert not any(tag.startswith("system/") for tag in scalars(run))


def test_the_loop_only_reads_averages(tmp_path, tiny, monkeypatch):
    """Probes are asked by the monitor's thread alone, and the loop calls nothing but ``read``."""
    trainer = TorchRLTrainer(new_run(tmp_path), quiet=True)
    threads, reads, read = set(), [], trainer.monitor.read
    trainer.monitor._probes = {"a": lambda: threads.add(threading.current_thread().name) or 1.0}
    trainer.monitor._interval = 0.001
    monkeypatch.setattr(trainer.monitor, "read", lambda: reads.append(trainer.env_steps) or read())
    trainer.train()
    assert threads == {"monitor"}
    assert reads == [40, 80, 120, 160]  # once per log entry


@pytest.mark.gpu
def test_a_gpu_is_known():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    pytest.importorskip("pynvml")
    values = {tag: probe() for tag, probe in gpu_probes(torch.device("cuda", 0)).items()}
    assert values.keys() == {"gpu/utilization", "gpu/temperature_c", "gpu/power_w"}
    assert 0.0 <= values["gpu/utilization"] <= 100.0
    assert 10.0 < values["gpu/temperature_c"] < 110.0
    assert values["gpu/power_w"] > 1.0
