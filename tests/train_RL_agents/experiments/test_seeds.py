"""Runs of the seeds of one configuration: memory, and what resumed runs keep."""

import json

import pytest
import torch

from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.experiments import profiles
from train_RL_agents.experiments import seeds as module
from train_RL_agents.experiments.memory_plan import plan_memory
from train_RL_agents.experiments.run import run_to_the_end
from train_RL_agents.experiments.seeds import new_runs, sized_config
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import resume


@pytest.mark.parametrize(("seeds", "counted"), [("1", 1), ("1,2", 2), ("1,2,3,4", 3)])
def test_memory_is_planned_for_as_many_runs_as_there_are(monkeypatch, seeds, counted):
    found, plans = [], []
    monkeypatch.setattr(module, "check_memory_plan", lambda *given: found.append(given[2]))
    monkeypatch.setattr(profiles, "plan_memory", lambda *given: plans.append(given) or plan_memory(*given))
    sized_config(None, [f"seed={seeds}"], "none", at_once=3)
    assert found == [counted]
    assert len(plans) == 1  # reading thousands of scenarios takes seconds


def test_memory_is_planned_for_all_processes_of_a_host(monkeypatch):
    ranks, found = Ranks(), []
    ranks.local_size = 4
    monkeypatch.setattr(module, "Ranks", lambda: ranks)
    monkeypatch.setattr(module, "check_memory_plan", lambda *given: found.append(given[2]))
    sized_config(None, ["seed=1,2"], "none", at_once=3)
    assert found == [8]


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize(("words", "threads"), [([], 2), (["execution.threads=1"], 1)])
def test_a_run_keeps_the_threads_that_it_began_with(tmp_path, monkeypatch, words, threads):
    monkeypatch.setattr("train_RL_agents.utils.threads.cpu_cores", lambda: [*range(4)])
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    file = tmp_path / "tiny.json"
    own = {"execution": {"device": "cpu", "compile": False}, "save_dir": str(tmp_path), "total_timesteps": 8}
    file.write_text(json.dumps(TINY | own))
    (run,) = new_runs(file, words, quiet=True)
    run_to_the_end(run)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    resume(RunFolder.open(run.folder.path), total_timesteps=16, quiet=True).train()
    assert torch.get_num_threads() == threads
