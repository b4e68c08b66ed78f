"""The command ``train``: time in a traced run, the first line, and jobs."""

import json
import re
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.train_RL_agents.tiny_runs import TINY, refused
from train_RL_agents.commands.cli import main
from train_RL_agents.config.reading import load_config
from train_RL_agents.learning.collectors import StepCollector
from train_RL_agents.torchrl_trainer import TorchRLTrainer

pytestmark = pytest.mark.usefixtures("surroundings", "no_plugins")


def test_start_up_is_no_time_of_training_also_in_a_traced_run(tmp_path, monkeypatch):
    """Collector, algorithm and trainer count with the same clock."""
    trainers, train = [], TorchRLTrainer.train

    class Slow(StepCollector):
        """Takes its time to start, as one with workers does."""

        def __init__(self, config, agent, device, seed, noise, generator, clock, display):
            super().__init__(config, agent, device, seed, noise, generator, clock, display)
            self.starting = [clock]

        def collect(self):
            if self.starting:
                with self.starting.pop().phase("compile"):
                    time.sleep(0.4)
            return super().collect()

    monkeypatch.setattr("train_RL_agents.torchrl_trainer.StepCollector", Slow)
    monkeypatch.setattr(TorchRLTrainer, "train", lambda trainer: trainers.append(trainer) or train(trainer))
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(TINY | {"save_dir": str(tmp_path / "runs")}))
    assert main(["train", "-C", str(config), "--quiet"]) == 0
    (trainer,) = trainers
    clock = trainer.clock
    assert {"collect", "insert", "sample", "update", "evaluate"} <= clock.seconds.keys()
    assert clock.seconds["compile"] >= 0.4
    assert clock.training_seconds <= clock.total_seconds - 0.4


def test_the_first_lines_say_where_who_and_how_to_watch(tmp_path, command, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*command, "save_dir=runs", "total_timesteps=8", "eval_freq=8"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 80
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("DQN_20")
    line = f"{folder}: DQN on cpu, profile auto: changes no setting"
    watch = f"curves: tensorboard --logdir {folder.parent}"
    assert shown[:2] == [line, watch]
    assert re.fullmatch(r"memory: [\d.]+ MB of [\d.]+ GB free \(host\)", shown[2])
    run = folder / "seed_0"
    assert shown[-5:] == [
        f"finished: {run}",
        f"policy: {run}/checkpoints/policy_000000000008.pt",
        f"next: marinenav evaluate {run}",
        f"      marinenav play {run}",
        f"      tensorboard --logdir {folder.parent}",
    ]
    log = (run / "run.log").read_text().splitlines()
    assert log[0].endswith(line)
    assert main(["train", "--resume", str(run), "total_timesteps=16", "--no-bar"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [f"{run}: DQN on cpu, resumed", watch]


def test_a_quick_run_is_short_and_evaluated_unless_told_otherwise(monkeypatch):
    given = []
    monkeypatch.setattr(
        "train_RL_agents.experiments.seeds.new_runs",
        lambda path, words, *rest, **options: given.append(load_config(path, words)) or [],
    )
    for words in ([], ["--agent", "PPO", "--total-timesteps", "500"], ["execution.compile=true"]):
        assert main(["train", "--quick", *words]) == 0
    usual, own, compiled = given
    assert usual.total_timesteps == usual.eval_freq == 100_000
    assert (usual.execution.compile, compiled.execution.compile) == (False, True)
    assert (own.agent_type, own.total_timesteps) == ("PPO", 500)


def test_processes_of_torchrun_start_no_jobs(command, tmp_path, monkeypatch, capsys):
    ranks = SimpleNamespace(size=2, barrier=nullcontext)
    monkeypatch.setattr("train_RL_agents.run.ranks.Ranks", lambda: ranks)
    assert "--jobs=2: must be left out with torchrun" in refused(capsys, *command, "--jobs", "2")
    assert not (tmp_path / "runs").exists()


def test_levels_without_room_are_refused_before_there_is_a_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("marinenav_env.scenarios.complete.MAX_DRAWS", 1000)
    words = [f"save_dir={tmp_path}", "training_schedule.min_start_goal_dis=80,80,80,80,80,80"]
    said = refused(capsys, "train", *words)
    assert said.startswith("training_schedule: level.min_start_goal_dis=80.0: must be below 72")
    level = {"num_robots": 20, "num_cores": 0, "num_obstacles": 0, "min_start_goal_dis": 40, "num_episodes": 3}
    schedule = [f"eval_schedule.{name}={value}" for name, value in level.items()]
    said = refused(capsys, "train", f"save_dir={tmp_path}", *schedule)
    assert said.startswith("eval_schedule: level 1: num_robots=20: too many for the map")
    assert not list(tmp_path.iterdir())
