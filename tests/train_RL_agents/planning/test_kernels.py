"""The choice of the kernel of a new run's world, with rates that are given and with real ones."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from marinenav_env.config import SensorConfig
from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.config.reading import from_dict
from train_RL_agents.planning import kernels
from train_RL_agents.planning.kernels import choose_kernel

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
SAID = "measuring whether world.kernel=compiled or triton is faster here; once for this world"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A GPU with a cache of its own, in which rates are kept."""
    pytest.importorskip("triton")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    return tmp_path / "cache" / "marinenav"


@pytest.fixture
def measure(monkeypatch, cache):
    """Sets the rates, and gives the kernels that were measured."""
    found, measured = {}, []

    def rate(kernel, config, device):
        measured.append(kernel)
        return found[kernel]

    def set_rates(**rates):
        found.update(rates)
        return measured

    monkeypatch.setattr(kernels, "_rate", rate)
    return set_rates


@pytest.fixture
def config():
    return from_dict(TINY | {"compile": True})


def silent(line):
    """Print nothing."""


@pytest.mark.parametrize(
    ("rates", "expected", "reasons"),
    [
        ({"compiled": 2e6, "triton": 3.1e6}, "triton",
         "compiled 2 M env-steps/s, triton 3.1 M env-steps/s"),
        ({"compiled": 4e6, "triton": 3e6}, "compiled",
         "compiled 4 M env-steps/s, triton 3 M env-steps/s"),
        ({"compiled": 1e6, "triton": 1.04e6}, "compiled",
         "compiled 1 M env-steps/s, triton 1.04 M env-steps/s"),
        ({"compiled": 1e6, "triton": "failed (status -11)"}, "compiled",
         "compiled 1 M env-steps/s, triton failed (status -11)"),
        ({"compiled": "took more than 300 s", "triton": 1e6}, "compiled",
         "compiled took more than 300 s, triton 1 M env-steps/s"),
    ],
    ids=["triton is faster", "compiled is faster", "no difference", "triton fails", "no rate"],
)  # fmt: skip
def test_triton_is_taken_where_it_is_faster(measure, cache, config, rates, expected, reasons):
    measured, lines = measure(**rates), []
    for _ in range(2):  # the second time they are known
        kernel, line = choose_kernel(config, GPU, lines.append)
        (file,) = cache.iterdir()
        assert kernel == expected
        assert line == f"world.kernel={expected}: {reasons} (world alone; {file})"
        assert measured == ["compiled", "triton"]
    assert lines == [SAID]


OTHERS = {
    "world": lambda config: replace(config, world=replace(config.world, substeps=5)),
    "environments": lambda config: replace(config, trainer=replace(config.trainer, num_envs=16)),
    "penalties by role": lambda config: replace(
        config, trainer=replace(config.trainer, give_way_penalty=-1.0)
    ),
    "robots": lambda config: replace(
        config, training_schedule=replace(config.training_schedule, num_robots=(2, 4))
    ),
    "actions": lambda config: from_dict(TINY | {"compile": True, "agent_type": "AC-IQN"}),
}


@pytest.mark.parametrize("changed", OTHERS)
def test_another_world_is_measured_again(measure, config, changed):
    measured = measure(compiled=1e6, triton=2e6)
    for number, each in enumerate((config, OTHERS[changed](config), config), start=1):
        choose_kernel(each, GPU, silent)
        assert len(measured) == 2 * min(number, 2)


def test_another_gpu_and_other_scenarios_are_measured_again(measure, config, tmp_path, monkeypatch):
    measured, file = measure(compiled=1e6, triton=2e6), tmp_path / "scenarios.json"
    file.write_text("a")
    config = replace(
        config, training_schedule=replace(config.training_schedule, scenarios=str(file))
    )
    choose_kernel(config, GPU, silent)
    file.write_text("b")
    choose_kernel(config, GPU, silent)
    assert len(measured) == 4
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "another GPU")
    choose_kernel(config, GPU, silent)
    assert len(measured) == 6


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"compiled": 1.0}', '{"compiled": 1.0, "triton": null}']
)
def test_a_file_that_was_damaged_is_measured_again(measure, cache, config, content):
    measured = measure(compiled=1e6, triton=2e6)
    choose_kernel(config, GPU, silent)
    (file,) = cache.iterdir()
    file.write_text(content)
    assert choose_kernel(config, GPU, silent)[0] == "triton"
    assert len(measured) == 4
    assert json.loads(file.read_text()) == {"compiled": 1e6, "triton": 2e6}


def test_rates_that_cannot_be_kept_are_used(measure, cache, config):
    measure(compiled=1e6, triton=2e6)
    cache.parent.write_text("no folder")
    assert choose_kernel(config, GPU, silent)[0] == "triton"


def test_where_there_is_no_choice_nothing_is_measured(measure, config, monkeypatch):
    measured = measure(compiled=1e6, triton=2e6)
    worlds = [{"kernel": "triton"}, {"sensor": SensorConfig(scan_beams=8)}]
    others = [replace(config, world=replace(config.world, **world)) for world in worlds]
    others += [replace(config, **{name: False}) for name in ("compile", "capture")]
    others += [replace(config, trainer=replace(config.trainer, collector="processes"))]
    for each, device in [(config, CPU), *((each, GPU) for each in others)]:
        assert choose_kernel(each, device, pytest.fail) == (each.world.kernel, "")
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    assert choose_kernel(config, GPU, pytest.fail) == ("auto", "")
    assert measured == []


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        (None, "failed (.*rates.json"),
        ("{", "failed (.*rates.json"),
        ('{"rows": []}', "failed (list index out of range)"),
        ('{"rows": [{"median": null}]}', "failed (float"),
        ('{"rows": [{"median": 0}]}', "failed (a rate of 0.0)"),
        ('{"rows": [{"median": 1e999}]}', "failed ("),
    ],
)
def test_odd_results_are_failures(config, monkeypatch, rates, reason):
    def run(command, **options):
        if rates is not None:
            Path(command[command.index("--json") + 1]).write_text(rates)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    begin, _, rest = reason.partition(".*")
    found = kernels._rate("triton", config, GPU)
    assert found.startswith(begin) and rest in found


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (lambda: SimpleNamespace(returncode=1, stdout="a\n", stderr="b\nlast\n"), "failed (last)"),
        (lambda: SimpleNamespace(returncode=-11, stdout="", stderr=""), "failed (status -11)"),
    ],
)
def test_processes_that_fail(config, monkeypatch, run, reason):
    monkeypatch.setattr(subprocess, "run", lambda command, **options: run())
    assert kernels._rate("triton", config, GPU) == reason


def test_a_process_that_takes_too_long(config, monkeypatch):
    monkeypatch.setattr(kernels, "_LONGEST", 0.01)
    assert kernels._rate("compiled", config, CPU) == "took more than 0 s"


@pytest.mark.slow
def test_rates_are_those_of_the_benchmark(config):
    """On a CPU one of them fails."""
    assert kernels._rate("compiled", config, CPU) > 10.0
    assert "must be compiled where there is no GPU" in kernels._rate("triton", config, CPU)
