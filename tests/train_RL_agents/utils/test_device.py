import warnings
from contextlib import nullcontext

import pytest
import torch

from marinenav_env import ConfigError
from tests.refusals import refusal
from train_RL_agents.utils.device import (
    available_devices,
    random_stream,
    resolve_device,
    resolve_precision,
    set_up_process,
)


def pretend(monkeypatch, *, cuda=0):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)


def test_streams_are_those_of_saved_runs_and_differ():
    first = [random_stream(3, number, torch.device("cpu")) for number in (1, 2, 1)]
    assert first[0].initial_seed() == 3 * 1_000_003 + 1
    one, other, same = (torch.rand(8, generator=each) for each in first)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_devices_are_those_that_are_there(monkeypatch):
    pretend(monkeypatch)
    assert (available_devices(), resolve_device("auto")) == (["cpu"], torch.device("cpu"))
    pretend(monkeypatch, cuda=2)
    assert available_devices() == ["cpu", "cuda:0", "cuda:1"]
    assert resolve_device("auto") == resolve_device("cuda") == torch.device("cuda", 0)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)


def test_precision_is_set_on_gpus_only(monkeypatch):
    set_to = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", set_to.append)
    set_up_process(torch.device("cpu"), precision="bf16", tf32=True)
    assert set_to == []
    gpu, bf16 = torch.device("cuda", 0), {"knows": True}
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16["knows"])
    set_up_process(gpu, precision="bf16", tf32=True)
    bf16["knows"] = False
    set_up_process(gpu, precision="fp32", tf32=False)
    assert set_to == ["high", "highest"]
    with warnings.catch_warnings(record=True) as shown:
        warnings.warn("TensorFloat32 tensor cores for float32 matrix multiplication available", stacklevel=1)
    assert shown == []  # advice that the setting answers
    refused = r"trainer\.precision='bf16': must be auto, fp32 or fp16 on cuda:0"
    with pytest.raises(ConfigError, match=refused):
        set_up_process(gpu, precision="bf16", tf32=False)
    assert resolve_precision(gpu, "auto") == "fp16"
    assert resolve_precision(torch.device("cpu"), "auto") == "fp32"
    bf16["knows"] = True
    assert resolve_precision(gpu, "auto") == "bf16"
    assert resolve_precision(gpu, "fp32") == "fp32"


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps", "gpu", "", "cpu:1"])
def test_what_is_not_there_is_refused_with_what_is(monkeypatch, name):
    pretend(monkeypatch)
    assert refusal(resolve_device, name) == f"device={name!r}: must be auto or one of those here: cpu"
