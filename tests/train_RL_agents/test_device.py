import pytest
import torch

from marinenav_env import ConfigError
from train_RL_agents.device import available_devices, resolve_device


def pretend(monkeypatch, *, cuda=0, mps=False):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


def test_without_a_gpu(monkeypatch):
    pretend(monkeypatch)
    assert available_devices() == ["cpu"]
    assert resolve_device("auto") == resolve_device("cpu") == torch.device("cpu")


def test_with_gpus(monkeypatch):
    pretend(monkeypatch, cuda=2)
    assert available_devices() == ["cpu", "cuda:0", "cuda:1"]
    assert resolve_device("auto") == resolve_device("cuda") == torch.device("cuda", 0)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)


def test_mps_is_never_chosen_by_itself(monkeypatch):
    pretend(monkeypatch, mps=True)
    assert resolve_device("auto") == torch.device("cpu")
    assert resolve_device("mps") == torch.device("mps", 0)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps", "gpu", "", "cpu:1"])
def test_what_is_not_there_is_refused_with_what_is(monkeypatch, name):
    pretend(monkeypatch)
    with pytest.raises(ConfigError) as caught:
        resolve_device(name)
    assert str(caught.value) == f"device={name!r}: must be auto or one of those here: cpu"
