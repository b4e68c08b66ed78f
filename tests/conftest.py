"""The marker ``fast``: tests that start no process, compile nothing and train nothing.

All have it but those that are ``slow``, ``gpu`` or ``heavy``, those in HEAVY, and those that ask for a run of the
session. A test that has it and does one of these things fails and says so.
"""

import atexit
import gc
import platform
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.own_parts import allow_only

ROOT = Path(__file__).parent
HEAVY = (
    "marinenav_env/interfaces/test_gymnasium_*.py",
    "marinenav_env/interfaces/test_interface_examples.py",
    "marinenav_env/interfaces/test_scripted.py",
    "marinenav_env/rules/test_episode_statistics.py",
    "marinenav_env/runtime/test_compiling.py",
    "marinenav_env/scenarios/test_complete.py",
    "marinenav_env/scenarios/test_reset.py",
    "marinenav_env/scenarios/test_scenario.py",
    "marinenav_env/stepping/test_tracing.py",
    "marinenav_env/test_env.py",
    "marinenav_env/test_env_captured.py",
    "marinenav_env/test_env_resets.py",
    "marinenav_env/test_env_saving.py",
    "marinenav_env/test_env_workers.py",
    "marinenav_env/test_specs.py",
    "tools/test_compare_speed.py",
    "tools/test_setup.py",
    "train_RL_agents/agents/test_toys.py",
    "train_RL_agents/commands",
    "train_RL_agents/environments/test_external.py",
    "train_RL_agents/environments/test_libraries.py",
    "train_RL_agents/environments/test_scoring.py",
    "train_RL_agents/environments/test_worlds.py",
    "train_RL_agents/evaluation/running/test_classical.py",
    "train_RL_agents/evaluation/running/test_episodes.py",
    "train_RL_agents/evaluation/running/test_recording.py",
    "train_RL_agents/evaluation/running/test_episode_batches.py",
    "train_RL_agents/evaluation/comparing/test_scoring*.py",
    "train_RL_agents/experiments/test_benchmark*.py",
    "train_RL_agents/experiments/test_memory_plan.py",
    "train_RL_agents/experiments/test_run*.py",
    "train_RL_agents/experiments/test_seeds.py",
    "train_RL_agents/experiments/test_study.py",
    "train_RL_agents/exporting",
    "train_RL_agents/figures/test_demo.py",
    "train_RL_agents/figures/test_drawing.py",
    "train_RL_agents/figures/test_replay_page.py",
    "train_RL_agents/learning/test_algorithm.py",
    "train_RL_agents/learning/test_collectors.py",
    "train_RL_agents/learning/test_gradients.py",
    "train_RL_agents/learning/test_graph_collector.py",
    "train_RL_agents/learning/test_imitation.py",
    "train_RL_agents/learning/test_learner_capture.py",
    "train_RL_agents/learning/test_learner_precision.py",
    "train_RL_agents/learning/test_off_policy.py",
    "train_RL_agents/learning/test_on_policy.py",
    "train_RL_agents/learning/test_transitions.py",
    "train_RL_agents/learning/test_watchdog.py",
    "train_RL_agents/learning/test_workers.py",
    "train_RL_agents/run",
    "train_RL_agents/test___main__.py",
    "train_RL_agents/test_api.py",
    "train_RL_agents/test_campaign.py",
    "train_RL_agents/test_learning.py",
    "train_RL_agents/test_one_device.py",
    "train_RL_agents/test_platforms.py",
    "train_RL_agents/test_readers.py",
    "train_RL_agents/test_torchrl_trainer*.py",
    "train_RL_agents/test_user_parts.py",
    "train_RL_agents/utils/test_compiling.py",
    "train_RL_agents/utils/test_provenance.py",
)
"""Patterns of modules and folders of tests that start processes, compile, train, or take long."""
HEAVY_PATHS = {path for pattern in HEAVY for path in ROOT.glob(pattern)}
RUNS = {"finished", "trained", "uninterrupted"}
"""Fixtures that train."""
freeze = gc.freeze
"""What pytest_collection replaces."""


platform.platform()  # starts `uname -p` the first time, which no fast test is then caught at


def is_heavy(path: Path) -> bool:
    """Tell whether a module or folder is in HEAVY."""
    return not HEAVY_PATHS.isdisjoint((path, *path.parents))


def is_fast(item: pytest.Item) -> bool:
    """Tell whether a test is to have the marker."""
    return not (
        is_heavy(item.path)
        or RUNS.intersection(getattr(item, "fixturenames", ()))
        or any(item.get_closest_marker(name) for name in ("slow", "gpu", "heavy"))
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not even import the heavy modules when the fast tests are asked for."""
    return True if config.option.markexpr == "fast" and is_heavy(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import what stays until the end without garbage collection, and leave it out of later ones."""
    gc.disable()
    collected = yield
    gc.freeze()
    atexit.register(gc.unfreeze)  # else libraries would tell of what is left at the end
    gc.freeze = gc.unfreeze = lambda: None  # the trainer would undo it
    gc.enable()
    return collected


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Leave what stays of a module out of later collections, too; runs make some by themselves."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        freeze()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests before ``-m`` picks some of them."""
    import torch  # not in the process that only tells others which tests to run

    for item in items:
        if is_fast(item):
            item.add_marker("fast")
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def refused(what: str) -> Any:
    """Return a function that fails the test that calls it."""

    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        pytest.fail(
            f"a fast test must not {what}: stand in for it, mark the test heavy, or name its"
            " module in HEAVY of tests/conftest.py"
        )

    return refuse


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Hold fast tests and their fixtures to what the marker says."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("fast"):
            patch.setattr(subprocess.Popen, "__init__", refused("start a process"))
            patch.setattr(BaseProcess, "start", refused("start a process"))
            patch.setattr("torch.compile", refused("compile"))
            if "train_RL_agents.torchrl_trainer" in sys.modules:
                trainer = sys.modules["train_RL_agents.torchrl_trainer"].TorchRLTrainer
                patch.setattr(trainer, "train", refused("train"))
        return (yield)


@pytest.fixture
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the parts that other test modules allow for the whole process, which printed commands would name."""
    allow_only(monkeypatch)


@pytest.fixture
def reads_cost_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host reads are avoided, as on a GPU."""
    monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
