"""marinenav doctor: what it finds, and what it advises."""

import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from tests.train_RL_agents.tiny_runs import ROOT
from train_RL_agents.commands.cli import main
from train_RL_agents.commands.doctor import run_checks


def advised(path):
    """What is to be done, by name."""
    return {each.name: each.advice for each in run_checks(path) if each.advice}


def room(monkeypatch, free):
    """So many bytes are free, of memory and on the disk."""
    found = SimpleNamespace(available=free, free=free)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: found)
    monkeypatch.setattr("shutil.disk_usage", lambda path: found)


def test_a_machine_that_is_fine(tmp_path, capsys, monkeypatch):
    room(monkeypatch, 3e9)
    assert main(["doctor", str(tmp_path / "runs")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok   ") for line in lines)
    names = ", ".join(line[5:].partition(":")[0] for line in lines)
    packages = "torch, tensordict, torchrl, numpy, gymnasium, tensorboard"
    assert names == f"{packages}, C++ compiler, GPU, memory, disk, runs, code cache"
    assert not (tmp_path / "runs").exists()


def test_what_is_wrong_comes_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file"))
    room(monkeypatch, 1e9)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert main(["doctor", str(tmp_path / "file" / "runs")]) == 1
    found = advised(tmp_path / "file" / "runs")
    assert set(found) == {"gymnasium", "C++ compiler", "memory", "disk", "runs", "code cache"}
    assert found["gymnasium"].endswith("bash tools/setup.sh installs what fits together")
    assert "apt install g++" in found["C++ compiler"]
    assert "TORCHINDUCTOR_CACHE_DIR" in found["code cache"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_gpu_runs_a_kernel(tmp_path, monkeypatch, fails):
    import torch

    def ones(count, device):
        if fails:
            raise RuntimeError("no kernel image\nis available")
        return torch.zeros(count)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "X1")
    monkeypatch.setattr(torch, "ones", ones)
    monkeypatch.setattr("train_RL_agents.utils.toolchain.compiler_problem", lambda: "")
    (found,) = (each for each in run_checks(tmp_path) if each.name == "GPU")
    assert found.advice
    assert found.state == ("no kernel image" if fails else "X1, runs kernels")


@pytest.mark.slow
def test_it_runs_where_packages_cannot_be_imported():
    code = "import sys; sys.modules['torchrl'] = None; from train_RL_agents.commands import cli; sys.exit(cli.main())"
    done = subprocess.run([sys.executable, "-c", code, "doctor"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "FIX  torchrl: " in done.stdout
