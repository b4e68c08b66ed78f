"""One run: what is left where it is refused, and where there is no generated code."""

import json
from types import SimpleNamespace

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import TINY, new_run
from train_RL_agents import torchrl_trainer
from train_RL_agents.experiments import run as module
from train_RL_agents.experiments.run import Run, run_to_the_end
from train_RL_agents.experiments.seeds import new_runs
from train_RL_agents.run.checkpoint import STATE_FILE
from train_RL_agents.run.run_folder import RunFolder


@pytest.mark.parametrize("begun", [False, True])
def test_a_folder_goes_where_its_run_is_refused_but_not_once_it_has_begun(tmp_path, monkeypatch, begun):
    def refuse(*given, **options):
        raise ConfigError("no")

    monkeypatch.setattr(torchrl_trainer, "TorchRLTrainer", refuse)
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps(TINY | {"save_dir": str(tmp_path)}))
    (run,) = new_runs(file, [], quiet=True)
    if begun:
        (run.folder.checkpoints / STATE_FILE).touch()
    with pytest.raises(ConfigError):
        run_to_the_end(run)
    assert run.folder.path.exists() == begun


@pytest.fixture
def attempts(monkeypatch):
    """Whether each attempt compiles; one that does fails."""
    tried, resume = [], torchrl_trainer.resume

    def begin(folder, **options):
        execution = folder.config.execution
        tried.append(execution.compile)
        if execution.compile:
            raise RuntimeError
        return resume(folder, **options)

    monkeypatch.setattr(torchrl_trainer, "resume", begin)
    monkeypatch.setattr("train_RL_agents.utils.compiling.compile_problem", lambda error: "no compiler")
    return tried


@pytest.mark.usefixtures("surroundings")
def test_a_run_without_generated_code_tries_for_it_when_it_is_resumed(tmp_path, attempts):
    folder = new_run(tmp_path, "execution.compile=true", "execution.threads=0", "total_timesteps=80")
    assert run_to_the_end(Run("a", folder, {"quiet": True})) == (True, False)
    assert attempts == [True, False]
    assert RunFolder.open(folder.path).config.execution.compile


@pytest.mark.parametrize("problem", ["the cache is damaged; delete it", ""])
def test_of_several_processes_one_without_generated_code_ends(tmp_path, monkeypatch, problem):
    folder = new_run(tmp_path, "execution.compile=true")
    ranks = SimpleNamespace(size=2, rank=1, is_main=False, any_rank=lambda flag: flag)
    monkeypatch.setattr(module, "Ranks", lambda: ranks)
    for name, result in (("compiler", lambda: ""), ("cache", lambda: ""), ("compile", lambda error: problem)):
        monkeypatch.setattr(module, f"{name}_problem", result)

    def fail(*arguments, **options):
        raise ImportError("not an ELF file")

    monkeypatch.setattr(torchrl_trainer, "resume", fail)
    expected = f"^{problem}; then go on with --resume" if problem else "^not an ELF file"
    with pytest.raises(ConfigError if problem else ImportError, match=expected):
        run_to_the_end(Run("a", folder, {"quiet": True}))
