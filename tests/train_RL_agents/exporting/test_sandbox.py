"""Exported files that harm the process that runs them."""

import io
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch

from marinenav_env import ConfigError
from tests.train_RL_agents.exporting.test_allowlist import changed, made
from tests.train_RL_agents.exporting.test_export import make_policy
from train_RL_agents.exporting.export import DeployedAgent
from train_RL_agents.exporting.sandbox import SandboxedNetwork
from train_RL_agents.exporting.torchscript import file_name, trace_to_bytes

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux")


@pytest.fixture(scope="module")
def network():
    return DeployedAgent(make_policy("DQN").agent)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return made(tmp_path_factory.mktemp("good"), "torchscript")


def with_lines(file, folder, *lines):
    """A copy with further lines at the end of every function, of which ``y`` is used."""
    text = "\n    ".join([*lines, "print(y)"])

    def change(name, content):
        return content.replace(b"    return", f"    {text}\n    return".encode())

    return changed(file, folder, change)


def test_it_computes_the_same(file, network):
    call = SandboxedNetwork(file, 3)
    for count in (1, 600):
        inputs = network.inputs(count, seed=count)
        torch.testing.assert_close(call(*inputs), network.outputs(*inputs))


@pytest.mark.slow
def test_a_program_computes_the_same(network, tmp_path):
    call = SandboxedNetwork(made(tmp_path, "torch"), 3)
    inputs = network.inputs(300)
    torch.testing.assert_close(call(*inputs), network.outputs(*inputs))


def test_modules_in_the_present_folder_are_not_imported(file, tmp_path, monkeypatch):
    (tmp_path / "psutil.py").write_text("from pathlib import Path; Path('victim').touch()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    SandboxedNetwork(file, 3)
    assert not (tmp_path / "victim").exists()


@linux
def test_a_crash_is_a_sentence(file, tmp_path):
    deep = "y = " + "(" * 20_000 + "1" + ")" * 20_000
    with pytest.raises(ConfigError, match=r"cannot be run, as it ended the process .*SIGSEGV"):
        SandboxedNetwork(with_lines(file, tmp_path, deep), 3)


@linux
def test_memory_is_limited(file, network, tmp_path):
    call = SandboxedNetwork(with_lines(file, tmp_path, "y = torch.sum(torch.ones([400000000], dtype=7))"), 3)
    with pytest.raises(ConfigError, match=r"cannot be run .*memory"):
        call(*network.inputs(1))


@linux
@pytest.mark.slow
def test_processor_time_is_limited(file, network, tmp_path):
    lines = ["y = torch.rand([3000, 3000])", *(["y = torch.mm(y, y)"] * 1000), "y = torch.sum(y)"]
    call = SandboxedNetwork(with_lines(file, tmp_path, *lines), 3)
    with pytest.raises(ConfigError, match="takes too long"):
        call(*network.inputs(1))


class Constant(torch.nn.Module):
    """Whatever the inputs, the same output."""

    def forward(self, *inputs):
        return torch.ones(1, 25, dtype=torch.float64)


@pytest.mark.slow
def test_outputs_of_other_sizes_are_refused(network, tmp_path):
    path = tmp_path / file_name("DQN")
    path.write_bytes(trace_to_bytes(Constant(), network.inputs(1), 3))
    call = SandboxedNetwork(path, 3)
    assert call(*network.inputs(1))[0].sum() == 25.0
    with pytest.raises(ConfigError, match="outputs of other sizes"):
        call(*network.inputs(2))


@pytest.mark.slow
def test_an_answer_is_not_taken_for_another(file, network, monkeypatch):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    call = SandboxedNetwork(file, 3)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(torch, "load", interrupted)
        call(*network.inputs(1))
    with pytest.raises(ConfigError, match=r"cannot be run, as it ended"):
        call(*network.inputs(1, seed=2))


@pytest.mark.slow
def test_threads_get_the_answers_to_their_own_questions(file, network):
    call, inputs = SandboxedNetwork(file, 3), [network.inputs(300, seed=each) for each in range(16)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda own: call(*own), inputs))
    for own, outputs in zip(inputs, found, strict=True):
        torch.testing.assert_close(outputs, network.outputs(*own))


@pytest.mark.slow
def test_answers_that_are_no_tensors_are_a_sentence(file, network, monkeypatch):
    call = SandboxedNetwork(file, 3)
    load = torch.load
    monkeypatch.setattr(torch, "load", lambda *given, **options: load(io.BytesIO(b"none")))
    with pytest.raises(ConfigError, match="cannot be run"):
        call(*network.inputs(1))


def test_the_process_ends_with_its_last_use(file):
    before = set(psutil.Process().children())
    call = SandboxedNetwork(file, 3)
    (process,) = set(psutil.Process().children()) - before
    del call
    assert not process.is_running()
