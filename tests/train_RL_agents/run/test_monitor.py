"""Utilisation of the machine in the log of a run."""

import sys

import pytest
import torch

from tests.train_RL_agents.tiny_runs import new_run, scalars
from train_RL_agents.run.monitor import read_utilisation
from train_RL_agents.run.tags import describe_tag
from train_RL_agents.torchrl_trainer import TorchRLTrainer


def test_the_host_is_known_also_without_the_drivers_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for device in ("cpu", "cuda:0"):
        values = read_utilisation(torch.device(device))
        assert values.keys() == {"system/cpu_percent", "system/memory_gb"}
        assert all(map(describe_tag, values))
        assert 0.0 <= values["system/cpu_percent"] <= 100.0
        assert 0.05 < values["system/memory_gb"] < 50.0


def test_a_run_logs_it_unless_that_is_switched_off(tmp_path, surroundings):
    for name, words in (("on", ()), ("off", ("monitor=false",))):
        run = new_run(tmp_path / name, "total_timesteps=80", *words)
        TorchRLTrainer(run, quiet=True).train()
        logged = scalars(run)
        for tag in ("system/cpu_percent", "system/memory_gb"):
            assert [step for step, _ in logged.get(tag, ())] == ([40, 80] if name == "on" else [])


@pytest.mark.gpu
def test_a_gpu_is_known():
    pytest.importorskip("pynvml")
    values = read_utilisation(torch.device("cuda", 0))
    assert 0.0 <= values["gpu/utilization"] <= 100.0
    assert 10.0 < values["gpu/temperature_c"] < 110.0
    assert values["gpu/power_w"] > 1.0
