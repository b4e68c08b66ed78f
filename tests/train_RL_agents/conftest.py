"""Fixtures of the tests of the trainer."""

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train_RL_agents.exporting.helpers import write_policy
from tests.train_RL_agents.tiny_runs import SMALL, TINY, new_run, results, small_pool, train, usual_signals
from train_RL_agents.config.reading import from_dict
from train_RL_agents.evaluation.comparing import figures
from train_RL_agents.experiments import benchmark_report as report
from train_RL_agents.run import run_folder
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.utils.provenance import git_revision

REVISION = git_revision()
"""Every run folder and evaluation notes it; git is asked once."""
for module in (figures, report, run_folder):
    module.git_revision = lambda: REVISION


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors are small here: more threads only wait for one another, and for other programs.

    Commands measure which cores are idle if the variable does not say.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _usual_hang_ups() -> Iterator[None]:
    """Tests may themselves run under nohup, which ignores SIGHUP."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def seeded_weights() -> Iterator[None]:
    """New networks have the same weights in every run of a test."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that was interrupted, resumed and finished; read only."""
    with small_pool():
        run = new_run(tmp_path_factory.mktemp("runs"), "agent_type=AC-IQN", "trainer.n_steps=3")
        train(run, stop_at=104)
        train(RunFolder.open(run.path))
    return run


@pytest.fixture
def surroundings() -> Iterator[None]:
    """Makes runs quick to set up, and puts threads and signals back after them."""
    with small_pool(), usual_signals():
        yield


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """What runs with given settings come to when nothing interrupts them."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}

    def of(*words: str) -> dict[str, Any]:
        if words not in found:
            with small_pool():
                run = new_run(tmp_path_factory.mktemp("whole"), *words)
                train(run)
            found[words] = results(run)
        return found[words]

    return of


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run of the smallest kind; read only."""
    with small_pool():
        run = new_run(tmp_path_factory.mktemp("trained"))
        train(run)
    return run


@pytest.fixture
def ended(trained: RunFolder, tmp_path: Path) -> RunFolder:
    """Such a run of the test's own."""
    return RunFolder.open(shutil.copytree(trained.path, tmp_path / "ended"))


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Arguments that train in a folder of their own."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY))
    return ["train", "-C", str(config), f"save_dir={tmp_path / 'runs'}", "--no-bar"]


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy file with an untrained agent and its configuration."""
    path = tmp_path_factory.mktemp("policy") / "policy.pt"
    return write_policy(path, SMALL["agent_type"], 1234, {"success_rate": 0.5}, **SMALL)


@pytest.fixture
def sweep(tmp_path: Path) -> list[RunFolder]:
    """A training folder with the runs of two seeds."""
    config = from_dict(SMALL | {"seed": [0, 1]})
    folders = [RunFolder.create(config, seed, parent=tmp_path / "sweep") for seed in (0, 1)]
    return folders
