"""What is said about the machine."""

import torch

from train_RL_agents.speed import setting
from train_RL_agents.speed.setting import describe_machine


def test_processor_is_read_from_its_description(tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    file.write_text("model name\t: Fast One\nflags\t\t: fpu avx2 amx_bf16 avx512f\n\nmodel name: B\n")
    monkeypatch.setattr(setting, "CPU_INFO", file)
    found = describe_machine(torch.device("cpu"))
    assert found["processor"] == "Fast One"
    assert found["instructions"].startswith("avx2, avx512f, amx_bf16 (torch: ")
    monkeypatch.setattr(setting, "CPU_INFO", tmp_path / "absent")
    found = describe_machine(torch.device("cpu"))
    assert found["processor"]
    assert found["instructions"].startswith(" (torch: ")
