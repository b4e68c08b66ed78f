"""The choice of the kernel of a new run's world, with rates that are given and with real ones."""

import json
from dataclasses import replace

import pytest
import torch

from marinenav_env.config import SensorConfig
from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.config.reading import from_dict, to_dict
from train_RL_agents.planning import kernels
from train_RL_agents.planning.kernels import choose_kernel

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
SAID = "measuring whether world.kernel=compiled or triton is faster here; once for this world"


@pytest.fixture
def measure(monkeypatch, tmp_path):
    """A GPU with a cache of its own; sets the rates, and gives the kernels that were measured."""
    found = {}

    def rate(kernel, config, device, folder):
        assert json.loads((folder / "config.json").read_text()) == to_dict(config)
        measured.append(kernel)
        return found[kernel]

    def set_rates(**rates):
        found.update(rates)
        return measured

    measured = []
    pytest.importorskip("triton")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(kernels, "_rate", rate)
    return set_rates


@pytest.fixture
def config():
    return from_dict(TINY | {"compile": True})


@pytest.mark.parametrize(
    ("rates", "expected", "reasons"),
    [
        ({"compiled": 2e6, "triton": 3.1e6}, "triton",
         "compiled 2 M env-steps/s, triton 3.1 M env-steps/s"),
        ({"compiled": 4e6, "triton": 3e6}, "compiled",
         "compiled 4 M env-steps/s, triton 3 M env-steps/s"),
        ({"compiled": 1e6, "triton": "failed (status -11)"}, "compiled",
         "compiled 1 M env-steps/s, triton failed (status -11)"),
        ({"compiled": "failed (no)", "triton": "failed (no)"}, "compiled",
         "compiled failed (no), triton failed (no)"),
    ],
    ids=["triton is faster", "compiled is faster", "triton fails", "both fail"],
)  # fmt: skip
def test_the_faster_one_is_taken(measure, config, rates, expected, reasons):
    measured, lines = measure(**rates), []
    for turn in range(2):
        chosen, line = choose_kernel(config, GPU, lines.append)
        assert chosen == replace(config, world=replace(config.world, kernel=expected))
        assert line == f"world.kernel={expected}: {reasons} (world alone)"
        # What failed is tried again by the next run.
        known = turn and all(isinstance(rate, float) for rate in rates.values())
        assert len(measured) == (2 if known or not turn else 4)
    assert lines == [SAID] * (len(measured) // 2)


def test_another_world_is_measured_again(measure, config):
    measured = measure(compiled=1e6, triton=2e6)
    other = replace(config, world=replace(config.world, substeps=5))
    for number, each in enumerate((config, other, config), start=1):
        choose_kernel(each, GPU, lambda line: None)
        assert len(measured) == 2 * min(number, 2)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"compiled": 1.0}', '{"compiled": 1, "triton": "x"}']
)
def test_a_file_that_was_damaged_is_measured_again(measure, config, tmp_path, content):
    measured = measure(compiled=1e6, triton=2e6)
    choose_kernel(config, GPU, lambda line: None)
    (file,) = (tmp_path / "cache" / "marinenav").iterdir()
    file.write_text(content)
    assert choose_kernel(config, GPU, lambda line: None)[0].world.kernel == "triton"
    assert len(measured) == 4
    assert json.loads(file.read_text()) == {"compiled": 1e6, "triton": 2e6}


def test_where_there_is_no_choice_nothing_is_measured(measure, config):
    measured = measure(compiled=1e6, triton=2e6)
    fixed, beams = (
        replace(config, world=replace(config.world, **world))
        for world in ({"kernel": "compiled"}, {"sensor": SensorConfig(scan_beams=8)})
    )
    others = [replace(config, **{name: False}) for name in ("compile", "capture")]
    for each, device in [(config, CPU), *((each, GPU) for each in (fixed, beams, *others))]:
        assert choose_kernel(each, device, pytest.fail) == (each, "")
    assert measured == []


@pytest.mark.slow
def test_rates_are_those_of_the_benchmark(config, tmp_path):
    """On a CPU one of them fails."""
    (tmp_path / "config.json").write_text(json.dumps(to_dict(config)))
    assert kernels._rate("compiled", config, CPU, tmp_path) > 10.0
    message = kernels._rate("triton", config, CPU, tmp_path)
    assert "must be compiled where there is no GPU" in message
