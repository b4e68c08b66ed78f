"""Starting runs and resuming them: what is left where one is refused."""

import json
from types import SimpleNamespace

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import TINY, new_run
from train_RL_agents.experiments.run import new_runs, run_to_the_end, sized_config
from train_RL_agents.run.checkpoint import STATE
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.sizing import profiles
from train_RL_agents.sizing.plan import plan
from train_RL_agents.torchrl_trainer import resume


@pytest.mark.parametrize("begun", [False, True])
def test_a_folder_goes_where_its_run_is_refused_but_not_once_it_has_begun(tmp_path, monkeypatch, begun):
    def refuse(*given, **options):
        raise ConfigError("no")

    monkeypatch.setattr("train_RL_agents.torchrl_trainer.TorchRLTrainer", refuse)
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps(TINY | {"save_dir": str(tmp_path)}))
    ((run, make),) = new_runs(file, [], quiet=True)
    if begun:
        (run.checkpoints / STATE).touch()
    with pytest.raises(ConfigError):
        make()
    assert run.path.exists() == begun


@pytest.mark.usefixtures("surroundings")
def test_a_run_without_generated_code_tries_for_it_when_it_is_resumed(tmp_path, monkeypatch):
    run, tried = new_run(tmp_path, "execution.compile=true", "total_timesteps=80"), []

    def make():
        tried.append(run.config.execution.compile)
        if run.config.execution.compile:
            raise RuntimeError
        return resume(run, quiet=True)

    problem = "train_RL_agents.utils.compiling.compile_problem"
    monkeypatch.setattr(problem, lambda error: "no compiler")
    assert run_to_the_end((run, make), quiet=True) == (True, False)
    assert tried == [True, False]
    assert RunFolder.open(run.path).config.execution.compile


@pytest.mark.usefixtures("surroundings")
def test_without_generated_code_there_is_no_triton_kernel_either(tmp_path, monkeypatch):
    run, tried = new_run(tmp_path, "execution.compile=true", "execution.kernel=triton"), []

    def make():
        tried.append((run.config.execution.compile, run.config.execution.kernel))
        raise RuntimeError

    monkeypatch.setattr("train_RL_agents.utils.compiling.compile_problem", lambda error: "no gcc")
    with pytest.raises(RuntimeError):
        run_to_the_end((run, make), quiet=True)
    assert tried == [(True, "triton"), (False, "compiled")]


@pytest.mark.parametrize("problem", ["the cache is damaged; delete it", ""])
def test_of_several_processes_one_without_generated_code_ends(tmp_path, monkeypatch, problem):
    run = new_run(tmp_path, "execution.compile=true")
    ranks = SimpleNamespace(size=2, rank=1, is_main=False, any=lambda flag: flag)
    monkeypatch.setattr("train_RL_agents.experiments.run.Ranks", lambda: ranks)
    for name, found in (
        ("compiler", lambda: ""),
        ("cache", lambda: ""),
        ("compile", lambda error: problem),
    ):
        monkeypatch.setattr(f"train_RL_agents.experiments.run.{name}_problem", found)

    def make():
        raise ImportError("not an ELF file")

    expected = f"^{problem}; then go on with --resume" if problem else "^not an ELF file"
    with pytest.raises(ConfigError if problem else ImportError, match=expected):
        run_to_the_end((run, make), quiet=True)


@pytest.mark.parametrize(("seeds", "counted"), [("1", 1), ("1,2", 2), ("1,2,3,4", 3)])
def test_memory_is_planned_for_as_many_runs_as_there_are(monkeypatch, seeds, counted):
    found, plans = [], []
    monkeypatch.setattr("train_RL_agents.experiments.run.check", lambda *given: found.append(given[2]))
    monkeypatch.setattr(profiles, "plan", lambda *given: plans.append(given) or plan(*given))
    sized_config(None, [f"seed={seeds}"], "none", at_once=3)
    assert found == [counted]
    assert len(plans) == 1  # reading thousands of scenarios takes seconds


@pytest.mark.parametrize(
    ("words", "at_once", "kept"),
    [([], 1, 2), (["execution.threads=1"], 1, 1), (["seed=0,1"], 2, 0)],
)
def test_a_run_keeps_the_threads_that_it_began_with(tmp_path, monkeypatch, words, at_once, kept):
    monkeypatch.setattr("train_RL_agents.utils.device.cpu_cores", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    file = tmp_path / "tiny.json"
    own = {"execution": {"device": "cpu", "compile": False}, "save_dir": str(tmp_path)}
    file.write_text(json.dumps(TINY | own))
    runs = new_runs(file, words, at_once=at_once, quiet=True)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert {RunFolder.open(run.path).config.execution.threads for run, _ in runs} == {kept}
