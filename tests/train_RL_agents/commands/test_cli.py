import subprocess
import sys
from pathlib import Path

import pytest
import torch

import train_RL_agents
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents import torchrl_trainer
from train_RL_agents.commands import COMMANDS
from train_RL_agents.commands.cli import main
from train_RL_agents.experiments.runner import Runner


class FakeTrainer:
    """Notes what it is made of; is stopped at the seeds in ``interrupts``, early or at the end."""

    created: list
    interrupts = ()
    late = False

    def __init__(self, run, quiet=False, bar=True, json_lines=False):
        self.run, self.quiet, self.bar = run, quiet, bar
        self.stopped = False
        self.created.append(self)

    def train(self):
        self.stopped = self.run.seed in self.interrupts
        self.finished = self.late or not self.stopped


@pytest.fixture
def trainers(monkeypatch, tmp_path):
    """The trainers made instead of real ones; commands run in an empty folder."""
    created = []
    fake = type("Fake", (FakeTrainer,), {"created": created})
    monkeypatch.setattr(torchrl_trainer, "TorchRLTrainer", fake)
    monkeypatch.setattr(torchrl_trainer, "resume", lambda run, **display: fake(run, **display))
    monkeypatch.chdir(tmp_path)
    return created


# Help and registry


def printed(code):
    """The lines that a program prints in a process of its own."""
    root = Path(train_RL_agents.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    return done.stdout.splitlines()


def test_train_help_lists_the_settings_of_the_chosen_agent(capsys):
    assert main(["train", "--help", "--agent", "DQN"]) == 0
    text = capsys.readouterr().out
    assert "agent.dueling=true" in text
    assert "agent.quantiles" not in text
    assert "world.sensor.range=20" in text
    assert "--resume RUN" in text


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("train trainer.batch_size 9", "did you mean trainer.batch_size=...?"),
        ("demo iqn --out film.mp4", "argument --out: must be a page that ends in .html, not film.mp4"),
        ("plot iqn --out curves.png", "must be a folder, as several files are written"),
        ("play iqn --save x", "did you mean --out?"),
        ("train --resume iqn", "load_model=iqn starts a new run from its weights"),
        ("trian", "did you mean train?"),
        ("train --lr 0.001", "did you mean trainer.learning_rate=...?"),
        ("train --trainer.gamma 0.9", "did you mean trainer.gamma=...?"),
        ("train --epochs 10", "did you mean --total-timesteps?"),
        ("train --num_envs 8", "did you mean --num-envs?"),
        ("evaluate iqn --suit x", "did you mean --suite?"),
        ("export iqn --format onxx", "did you mean onnx?"),
        ("evaluate iqn a=3", "settings are for train and bench"),
        ("evaluate iqn --suite papper", "did you mean paper?"),
        ("train -C dnq", "did you mean dqn"),
        ("train --profile 8bg", "did you mean 8gb?"),
        ("bench --steps 0", "did you mean --seconds?"),
        (r"train -C configs\dqn.json", "did you mean dqn"),
        (r"evaluate pretrained\iqn", "did you mean iqn"),
        ("play orca --out film.mp4", "must be a folder, as several files are written"),
        ("train --quick --resume runs", "--resume takes no --quick"),
    ],
)
def test_what_was_meant_is_proposed(capsys, line, proposed):
    assert proposed in refused(capsys, *line.split())


MISTYPED = (
    "trian",
    "--version",
    "train --agent PPP",
    "train agent_type=PPP",
    "train --agnet PPO",
    "train -C dnq",
    "train --resume runs/none",
    "train --jobs 0",
    "train agent.lr_typo=1",
    "train -C ppo agent.clip=2",
    "bench trainer.gama=0.9",
    "evaluate iqm",
    "evaluate iqn iqn",
    "play blind:iqm",
    "falsify iqm",
    "export iqm",
    "demo iqm",
)


def test_libraries_are_imported_where_they_are_used():
    """Help and answers to typos need no torch, and what reads a policy or a log no torchrl."""
    *lines, last = printed(
        "import sys; from train_RL_agents.commands.cli import main; help = main(['--help']);"
        f"statuses = [main(line.split()) for line in {MISTYPED!r}]; print(help, statuses, 'torch' in sys.modules);"
        "info = main(['info', 'iqn']); loaded = {'torchrl', 'scipy'} & {*sys.modules};"
        "identify = main(['identify', 'none.csv', '--out', 'boat.json']);"
        "print(info, loaded, identify, 'torchrl' in sys.modules)"
    )
    assert all(any(line.startswith(f"    {name}") for line in lines) for name in COMMANDS)
    place = lines.index(f"0 {[0 if line == '--version' else 2 for line in MISTYPED]} False")
    versions = [line.split() for line in lines[place - 3 : place]]
    assert [words[0] for words in versions] == ["marinenav", "torch", "torchrl"]
    assert versions[1][1].startswith(torch.__version__.partition("+")[0])
    assert last == "0 set() 2 False"


# Train


def test_train_runs_every_seed_in_one_folder(trainers):
    line = (
        "train --agent DQN --seed 3 4 trainer.tau=0.5 --num-envs 8 --total-timesteps 100 --no-compile -D cpu --no-bar "
        "trainer.gamma=0.9 --json-lines"
    )
    assert main(line.split()) == 0
    assert [trainer.run.seed for trainer in trainers] == [3, 4]
    first, second = (trainer.run for trainer in trainers)
    assert first.path.parent == second.path.parent
    config = first.config
    execution = config.execution
    assert (config.agent_type, execution.device, execution.compile) == ("DQN", "cpu", False)
    assert (config.trainer.num_envs, config.total_timesteps) == (8, 100)
    assert (config.trainer.tau, config.trainer.gamma) == (0.5, 0.9)
    assert (trainers[0].quiet, trainers[0].bar) == (False, False)
    assert "marinenav train --agent DQN" in (first.path / "command.txt").read_text()


@pytest.mark.parametrize(
    ("seeds", "interrupted", "late", "status", "created"),
    [
        (["0"], 0, True, 0, 1),  # in its last iteration it is complete
        (["0", "1", "--json-lines"], 0, False, 130, 1),
        (["0", "1", "--json-lines"], 0, True, 130, 1),
        (["0", "1", "--json-lines"], 1, True, 0, 2),
    ],
)
def test_seeds_of_one_process_stop_together(trainers, monkeypatch, seeds, interrupted, late, status, created):
    """A run may be complete, but the next one does not begin."""
    monkeypatch.setattr(FakeTrainer, "interrupts", (interrupted,))
    monkeypatch.setattr(FakeTrainer, "late", late)
    assert main(["train", "--seed", *seeds]) == status
    assert len(trainers) == created


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--num-envs", "few"], "trainer.num_envs='few': must be a whole number"),
        (["--agent", "X"], "agent_type='X': must be one of AC-IQN, "),
        (["-D", "cuda:99"], "execution.device='cuda:99': must be auto or one of those here: cpu"),
        (["trainer.batchsize=5"], "trainer.batchsize='5': there is no such setting; the closest:"),
        (["-C", "absent.json"], "config='absent.json': must be a JSON file or one of a2c, a2c_defensive, a2c_sea"),
        (["--resume", "absent"], "run='absent': must be a run folder"),
    ],
)
def test_wrong_settings_start_nothing(trainers, capsys, tmp_path, argv, expected):
    assert refused(capsys, "train", *argv).startswith(expected)
    assert not trainers
    assert not list(tmp_path.iterdir())


def test_resume_goes_on_with_one_run_or_all(trainers, sweep, monkeypatch):
    assert main(["train", "--resume", str(sweep[1].path), "--total-timesteps", "9e6"]) == 0
    assert [trainer.run.seed for trainer in trainers] == [1]
    assert trainers[0].run.config.total_timesteps == 9_000_000
    given = []
    monkeypatch.setattr(Runner, "run", lambda runner: given.extend(runner.runs))
    assert main(["train", "--resume", str(sweep[0].path.parent), "--total-timesteps", "9e6"]) == 0
    assert [(run.name, run.overrides) for run in given] == [
        (f"seed_{seed}", ["total_timesteps=9e6"]) for seed in (0, 1)
    ]
    assert len(trainers) == 1


@pytest.mark.parametrize(
    "command", [("evaluate",), ("play",), ("info",), ("export",), ("train", "--resume")], ids=lambda command: command[0]
)
def test_a_policy_that_is_not_finite_is_refused(capsys, tmp_path, policy, command):
    content, path = torch.load(policy), tmp_path / "broken.pt"
    name, weights = next(iter(content["weights"].items()))
    weights.view(-1)[0] = torch.nan
    torch.save(content, path)
    words = [*command, str(path), *(["--out", str(tmp_path)] if command[0] == "export" else [])]
    if command[0] == "train":
        words = ["train", f"load_model={path}", f"save_dir={tmp_path / 'runs'}", "execution.device=cpu", "--quiet"]
    assert refused(capsys, *words) == f"{path}: {name}='nan or inf': must be finite"
    assert not list(tmp_path.glob("runs/*"))


# Threads


@pytest.mark.parametrize(
    ("line", "threads"),
    [
        ("evaluate straight", 3),
        ("evaluate straight --threads 2", 2),
        ("play straight", 1),
        ("evaluate straight --threads 0", 3),
        ("play straight --threads 2", 2),
    ],
)
def test_a_command_takes_idle_cores_or_the_threads_it_is_given(line, threads, tmp_path, monkeypatch):
    monkeypatch.setattr("train_RL_agents.utils.threads.cpu_cores", lambda: [*range(4)])
    monkeypatch.setattr("train_RL_agents.utils.threads.num_idle_cores", lambda: 3)
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.chdir(tmp_path)
    name, *rest = line.split()
    found = []
    monkeypatch.setattr(COMMANDS[name], "run", lambda given: found.append(torch.get_num_threads()) or 0)
    assert main([name, *rest]) == 0
    assert found == [threads]
