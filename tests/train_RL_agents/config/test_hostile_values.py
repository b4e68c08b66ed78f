"""Values that look like options of a command line, at every place that settings come from."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train_RL_agents.tiny_runs import TINY, new_run
from train_RL_agents.cli import main
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.run.checkpoint import save_policy

CONTENT = "what was there before"
FLAG = "--tyro-write-completion"
KEYS = (
    "seed",
    "trainer.batch_size",
    "trainer.tau",
    "execution.compile",
    "agent.features",
    "world.vessel.m",
    "world.scenario.v_range",
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that nothing may write to."""
    path = tmp_path / "victim"
    path.write_text(CONTENT)
    return path


def hostile(victim: Path) -> list[Any]:
    """Values that a command-line parser would obey."""
    return [[FLAG, "bash", str(victim)], [f"{FLAG}=bash", str(victim)], FLAG, "--help", ["-h"]]


def poisoned(key: str, value: Any) -> str:
    """A complete configuration with one such value."""
    return json.dumps(TINY | {key: value})


def refused(capsys: pytest.CaptureFixture[str], victim: Path, *argv: str) -> None:
    """Run a command, which must do nothing but say in a sentence what is wrong."""
    before = set(victim.parent.rglob("*"))
    status = main(argv)
    output = capsys.readouterr()
    assert (status, output.out) == (2, "")
    assert output.err.startswith("marinenav: error: ")
    assert len(output.err.splitlines()) == 1
    assert len(output.err) < 400
    assert victim.read_text() == CONTENT
    assert set(victim.parent.rglob("*")) == before


@pytest.mark.parametrize("key", KEYS)
def test_in_a_configuration_file(capsys, tmp_path, victim, key):
    path = tmp_path / "config.json"
    for value in hostile(victim):
        path.write_text(json.dumps({key: value}))
        refused(capsys, victim, "train", "-C", str(path), "--quiet")


@pytest.mark.parametrize("key", KEYS)
def test_on_the_command_line(capsys, tmp_path, victim, key):
    for value in hostile(victim):
        plain = ",".join(value) if isinstance(value, list) else value
        for text in (json.dumps(value), plain):
            refused(capsys, victim, "train", "--quiet", f"{key}={text}")


@pytest.mark.parametrize("key", KEYS)
def test_in_a_run_folder(capsys, tmp_path, victim, key):
    run = new_run(tmp_path)
    for value in hostile(victim):
        (run.path / "trial_config.json").write_text(poisoned(key, value))
        refused(capsys, victim, "train", "--resume", str(run.path), "--quiet")
        refused(capsys, victim, "info", str(run.path))


@pytest.mark.parametrize("key", KEYS)
def test_in_a_policy_file(capsys, tmp_path, victim, key):
    config, path = from_dict(TINY), tmp_path / "policy.pt"
    agent = make_agent(config, config.world.vessel.num_actions, torch.device("cpu"))
    save_policy(path, agent, config, 0, {})
    content = torch.load(path)
    for value in hostile(victim):
        torch.save(content | {"config": poisoned(key, value)}, path)
        refused(capsys, victim, "info", str(path))
    torch.save(content | {"config": [FLAG, "bash", str(victim)]}, path)
    refused(capsys, victim, "info", str(path))


@pytest.mark.parametrize("key", KEYS)
def test_in_a_search_space(capsys, tmp_path, victim, key):
    pytest.importorskip("optuna", reason="needs the extra tune")
    config, space = tmp_path / "config.json", tmp_path / "space.json"
    config.write_text(json.dumps(TINY))
    for value in hostile(victim):
        space.write_text(json.dumps({key: [value]}))
        refused(
            capsys,
            victim,
            "tune",
            "--space",
            str(space),
            "--study",
            str(tmp_path / "study"),
            "-C",
            str(config),
            "--quiet",
        )


def test_where_text_is_wanted_it_is_text(victim):
    for value in hostile(victim):
        with suppress(ValueError):
            assert from_dict({"save_dir": value}).save_dir == value
    assert from_dict({}, [f"save_dir={FLAG}"]).save_dir == FLAG
    assert victim.read_text() == CONTENT
