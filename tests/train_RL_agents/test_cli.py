import csv
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import train_RL_agents
from marinenav_env import write_scenarios
from marinenav_env.scenario_file import episodes_of
from train_RL_agents import torchrl_trainer
from train_RL_agents.cli import main
from train_RL_agents.commands import COMMANDS
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.evaluation.episodes import draw_scenarios
from train_RL_agents.evaluation.recording import load
from train_RL_agents.evaluation.tables import COLUMNS, COMPARED, CONDUCT
from train_RL_agents.run.checkpoint import STATE, save_policy
from train_RL_agents.run.run_folder import RunFolder

SMALL = {"agent_type": "DQN", "agent.critics": 1, "device": "cpu",
         "world.max_steps": 3, "eval_schedule.num_episodes": [2] * 6}  # fmt: skip


class FakeTrainer:
    """Notes what it is made of; stops on request at the seeds in ``interrupts``."""

    made: list
    interrupts = ()

    def __init__(self, run, quiet=False, bar=True, json_lines=False):
        self.run, self.quiet, self.bar = run, quiet, bar
        self.stopped = False
        self.made.append(self)

    def train(self):
        self.stopped = self.run.seed in self.interrupts


@pytest.fixture
def trainers(monkeypatch, tmp_path):
    """The trainers made instead of real ones; commands run in an empty folder."""
    made = []
    fake = type("Fake", (FakeTrainer,), {"made": made})
    monkeypatch.setattr(torchrl_trainer, "TorchRLTrainer", fake)
    monkeypatch.setattr(torchrl_trainer, "resume", lambda run, **display: fake(run, **display))
    monkeypatch.chdir(tmp_path)
    return made


def refused(capsys, *argv):
    """The sentence that a command line is refused with."""
    assert main(argv) == 2
    output = capsys.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("marinenav: error: ")
    return lines[0].removeprefix("marinenav: error: ")


# Help and registry


def test_help_names_every_command_without_importing_torch():
    code = ("import sys; from train_RL_agents.cli import main; status = main(['--help']);"
            "print('torch' in sys.modules, status)")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          cwd=Path(train_RL_agents.__file__).parents[1], check=True)  # fmt: skip
    assert done.stdout.splitlines()[-1] == "False 0"
    assert all(f"    {name}" in done.stdout for name in COMMANDS)


def test_package_exports_are_lazy_but_there():
    for name in train_RL_agents.__all__:
        assert getattr(train_RL_agents, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        train_RL_agents.nonsense  # noqa: B018


def test_train_help_lists_the_settings_of_the_chosen_agent(capsys):
    assert main(["train", "--help", "--agent", "DQN"]) == 0
    text = capsys.readouterr().out
    assert "agent.dueling=true" in text
    assert "agent.quantiles" not in text
    assert "world.sensor.range=20" in text
    assert "--resume RUN" in text


@pytest.mark.parametrize(
    "line",
    ["", "fly", "train --nope", "train 512", "info --seed 3", "evaluate",
     "evaluate --checkpoint x a=3", "evaluate --checkpoint x --episodes many"],
)  # fmt: skip
def test_wrong_arguments(capsys, line):
    command = next((word for word in line.split() if word in COMMANDS), "")
    assert f"see {' '.join(['marinenav', command]).strip()} --help" in refused(
        capsys, *line.split()
    )


# Train


def test_train_runs_every_seed_in_one_folder(trainers):
    assert main(["train", "--agent", "DQN", "--seed", "3", "4", "trainer.tau=0.5", "--num-envs",
                 "8", "--total-timesteps", "100", "--no-compile", "-D", "cpu", "--no-bar",
                 "trainer.gamma=0.9"]) == 0  # fmt: skip
    assert [made.run.seed for made in trainers] == [3, 4]
    first, second = (made.run for made in trainers)
    assert first.path.parent == second.path.parent
    config = first.config
    assert (config.agent_type, config.device, config.compile) == ("DQN", "cpu", False)
    assert (config.trainer.num_envs, config.total_timesteps) == (8, 100)
    assert (config.trainer.tau, config.trainer.gamma) == (0.5, 0.9)
    assert (trainers[0].quiet, trainers[0].bar) == (False, False)
    assert "marinenav train --agent DQN" in (first.path / "command.txt").read_text()


def test_train_reads_a_file_and_overrides_it(trainers, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"seed": 5, "trainer": {"tau": 0.5, "batch_size": 64}}))
    assert main(["train", "-C", str(path), "--quiet", "trainer.tau=0.25"]) == 0
    settings = trainers[0].run.config.trainer
    assert (trainers[0].run.seed, settings.tau, settings.batch_size) == (5, 0.25, 64)
    assert trainers[0].quiet


def test_an_interrupted_sweep_stops(trainers, monkeypatch):
    monkeypatch.setattr(FakeTrainer, "interrupts", (0,))
    assert main(["train", "--seed", "0", "1"]) == 130
    assert len(trainers) == 1


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--num-envs", "few"], "trainer.num_envs='few': must be a whole number"),
        (["--agent", "X"], "agent_type='X': must be one of AC-IQN, "),
        (["-D", "cuda:99"], "device='cuda:99': must be auto or one of those here: cpu"),
        (["trainer.batchsize=5"], "trainer.batchsize='5': there is no such setting; the closest:"),
        (["-C", "absent.json"], "config='absent.json': must be a JSON file or one of a2c, ac_iqn"),
        (["--resume", "absent"], "run='absent': must be a run folder"),
    ],
)
def test_wrong_settings_start_nothing(trainers, capsys, tmp_path, argv, expected):
    assert refused(capsys, "train", *argv).startswith(expected)
    assert not trainers
    assert not list(tmp_path.iterdir())


@pytest.fixture
def sweep(tmp_path):
    """A training folder with the runs of two seeds."""
    config = from_dict(SMALL | {"seed": [0, 1]})
    folders = [RunFolder.create(config, seed, parent=tmp_path / "sweep") for seed in (0, 1)]
    return folders


def test_resume_goes_on_with_one_run_or_all(trainers, sweep):
    assert main(["train", "--resume", str(sweep[1].path), "--total-timesteps", "9e6"]) == 0
    assert [made.run.seed for made in trainers] == [1]
    assert trainers[0].run.config.total_timesteps == 9_000_000
    assert main(["train", "--resume", str(sweep[0].path.parent)]) == 0
    assert [made.run.seed for made in trainers[1:]] == [0, 1]


def test_resume_refuses_what_would_make_it_another_run(trainers, sweep, capsys):
    path = str(sweep[0].path)
    assert refused(capsys, "train", "--resume", path, "trainer.tau=0.5").startswith(
        "trainer.tau='0.5': must be left as it is"
    )
    assert "--config" in refused(capsys, "train", "--resume", path, "-C", "x.json")
    assert not trainers


# Evaluate


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """A policy file with an untrained agent and its configuration."""
    config = from_dict(SMALL)
    torch.manual_seed(0)
    agent = make_agent(config, config.world.vessel.num_actions, torch.device("cpu"))
    path = tmp_path_factory.mktemp("policy") / "policy.pt"
    save_policy(path, agent, config, 1234, {"success_rate": 0.5})
    return path


def evaluated(capsys, path, policy, *argv):
    """What an evaluation prints, and what it writes."""
    command = ["evaluate", "--checkpoint", str(policy), "-D", "cpu", "--json", str(path), *argv]
    assert main(command) == 0
    return capsys.readouterr().out, json.loads(path.read_text())


def test_evaluate_prints_a_table_with_its_meaning_and_writes_all(capsys, tmp_path, policy):
    text, written = evaluated(capsys, tmp_path / "out.json", policy)
    for word in ("DQN after 1,234 env-steps", "level 6", "overall", *COLUMNS, *COLUMNS.values()):
        assert word in text
    setting, figures = written["setting"], written["figures"]
    assert setting["checkpoint"] == str(policy)
    expected = {"num_robots": 4, "num_cores": 0, "num_obstacles": 0, "min_start_goal_dis": 35.0}
    assert setting["levels"]["level 2"].items() >= (expected | {"episodes": 2}).items()
    assert (setting["seed"], setting["episodes"], setting["risk"]) == (0, 12, None)
    assert "torch" in setting["versions"]
    assert figures["overall"]["episodes"] == 12
    # Nobody arrives in three steps.
    assert figures["overall"]["success_rate"] == 0.0
    assert figures["overall"]["avg_time"] is None


def test_a_level_alone_has_the_same_scenarios(capsys, tmp_path, policy):
    _, whole = evaluated(capsys, tmp_path / "a.json", policy, "--episodes", "3")
    _, again = evaluated(capsys, tmp_path / "b.json", policy, "--episodes", "3")
    _, part = evaluated(capsys, tmp_path / "c.json", policy, "--episodes", "3", "--levels", "6")
    assert whole == again
    assert list(part["figures"]) == ["level 6", "overall"]
    assert part["figures"]["overall"]["episodes"] == 3
    expected = whole["figures"]["level 6"]["avg_return"]
    # The measurement noise differs: it is drawn for the whole batch.
    assert part["figures"]["level 6"]["avg_return"] == pytest.approx(expected, abs=0.5)


def test_evaluate_on_fresh_scenarios_notes_the_seed(capsys, tmp_path, policy):
    _, first = evaluated(capsys, tmp_path / "a.json", policy, "--fresh", "--levels", "1", "2")
    seed = str(first["setting"]["seed"])
    _, again = evaluated(capsys, tmp_path / "b.json", policy, "--seed", seed, "--levels", "1", "2")
    assert first == again


def test_a_single_policy_has_no_other(capsys, policy):
    said = refused(capsys, "evaluate", "--checkpoint", str(policy), "--which", "nope")
    assert said.startswith("--which='nope': must be left out, as ")


@pytest.mark.parametrize("seed", ["-1", str(10**20)])
def test_evaluate_refuses_seeds_that_no_generator_takes(capsys, policy, seed):
    said = refused(capsys, "evaluate", "--checkpoint", str(policy), "--seed", seed)
    assert said.startswith(f"--seed={seed}: must be from 0 to ")


@pytest.mark.parametrize("command", [
    ("evaluate", "--checkpoint"), ("play", "--checkpoint"), ("info",), ("export",),
    ("train", "--resume"),
], ids=lambda command: command[0])  # fmt: skip
@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
def test_a_policy_that_is_not_finite_is_refused(capsys, tmp_path, policy, command, value):
    content, path = torch.load(policy), tmp_path / "broken.pt"
    name, weights = next(iter(content["weights"].items()))
    weights.view(-1)[0] = value
    torch.save(content, path)
    words = [*command, str(path), *(["--out", str(tmp_path)] if command[0] == "export" else [])]
    if command[0] == "train":
        words = ["train", f"load_model={path}", f"save_dir={tmp_path / 'runs'}", "device=cpu",
                 "--quiet"]  # fmt: skip
    assert refused(capsys, *words) == f"{path}: {name}='nan or inf': must be finite"
    assert not list(tmp_path.glob("runs/*"))


def test_evaluate_a_scenario_file(capsys, tmp_path, policy):
    config = from_dict(SMALL)
    drawn = draw_scenarios(config.world, config.eval_schedule.levels()[:2], [1, 2], 5)
    path = tmp_path / "scenarios.json"
    write_scenarios(path, episodes_of(drawn, config.world, 5))
    _, written = evaluated(capsys, tmp_path / "out.json", policy, "--scenarios", str(path))
    assert list(written["figures"]) == ["overall"]
    assert written["figures"]["overall"]["episodes"] == 3
    assert written["setting"]["scenarios"] == str(path)


def test_evaluate_with_risk(capsys, tmp_path, policy):
    _, written = evaluated(capsys, tmp_path / "out.json", policy, "--risk", "0.5", "--levels", "1")
    assert written["setting"]["risk"] == 0.5


def test_evaluate_stochastic_policies(capsys, tmp_path, policy):
    """A policy that is not random while training stays the same."""
    _, usual = evaluated(capsys, tmp_path / "a.json", policy, "--levels", "1")
    _, written = evaluated(capsys, tmp_path / "b.json", policy, "--levels", "1", "--stochastic")
    assert (usual["setting"]["stochastic"], written["setting"]["stochastic"]) == (False, True)
    assert written["figures"] == usual["figures"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--levels", "7"], "--levels=7: must be from 1 to 6"),
        (
            ["--stochastic", "--risk", "1"],
            "argument --risk: not allowed with argument --stochastic",
        ),
        (["--episodes", "0"], "argument --episodes: must be from 1 to 100,000, not 0"),
        (["--risk", "0"], "argument --risk: must be adaptive, or above 0 and at most 1"),
        (["--fresh", "--seed", "1"], "argument --seed: not allowed with argument --fresh"),
        (
            ["--scenarios", "x", "--levels", "1"],
            "argument --levels: not allowed with argument --scenarios",
        ),
        (["--scenarios", "absent.json"], "absent.json: cannot be read as a scenario file"),
        (["-D", "tpu"], "device='tpu': must be auto or one of those here"),
    ],
)
def test_wrong_evaluations(capsys, policy, argv, expected):
    assert refused(capsys, "evaluate", "--checkpoint", str(policy), *argv).startswith(expected)


def test_an_interrupted_evaluation_says_so(capsys, monkeypatch, policy):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("train_RL_agents.evaluation.episodes.evaluate", interrupt)
    assert main(["evaluate", "--checkpoint", str(policy)]) == 130
    assert capsys.readouterr().err == "marinenav: interrupted\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("delay", [0.05, 0.3, 0.6, 1.0, 1.5])
def test_a_signal_during_the_imports_ends_with_a_sentence(tmp_path, number, delay):
    code = (
        "import os, signal, sys, threading\n"
        "from train_RL_agents.__main__ import main\n"
        f"signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"timer = threading.Timer({delay}, os.kill, (os.getpid(), {number:d}))\n"
        "timer.daemon = True\n"
        "timer.start()\n"
        "sys.exit(main())\n"
    )
    words = ["train", f"save_dir={tmp_path}", "--no-bar", "-D", "cpu", "compile=false"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True,
                          cwd=Path(train_RL_agents.__file__).parents[1])  # fmt: skip
    lines = done.stderr.splitlines()
    if "stopped and saved" in done.stdout:  # it had begun already
        return
    assert len(lines) == 1
    early = f"marinenav: stopped by {signal.Signals(number).name}; nothing had begun"
    assert (done.returncode, lines[0]) in (
        (128 + number, early), (130, "marinenav: interrupted")
    )  # fmt: skip


def test_packages_that_do_not_fit_are_told_in_a_sentence(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "marinenav_env", None)
    said = refused(capsys, "info")
    assert said.startswith("packages are missing or do not fit together (")
    assert said.endswith("marinenav doctor says more")


# Several policies, suites and files


def written(capsys, *argv):
    """What an evaluation prints."""
    assert main(["evaluate", "-D", "cpu", *map(str, argv)]) == 0
    return capsys.readouterr().out


def test_a_policy_is_compared_to_baselines_on_the_same_scenarios(capsys, tmp_path, policy):
    files = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "markdown")}
    options = [word for kind, path in files.items() for word in (f"--{kind}", path)]
    text = written(capsys, policy, "straight", "apf", "--levels", "1", "2", *options)
    for word in ("straight", "apf", "level 2", "overall", *COMPARED, *COMPARED.values()):
        assert word in text
    content = json.loads(files["json"].read_text())
    assert [each["name"] for each in content["policies"]] == [str(policy), "straight", "apf"]
    first, second, third = content["policies"]
    assert first["differences"] is None
    assert second["differences"]["overall"]["difference"] == 0.0
    assert first["about"]["agent_type"] == "DQN"
    assert third["figures"]["level 1"]["episodes"] == 2
    assert (content["setting"]["episodes"], content["setting"]["suite"]) == (4, None)
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert [row["group"] for row in rows[:4]] == ["level 1"] * 3 + ["level 2"]
    assert [row["policy"] for row in rows[:3]] == [str(policy), "straight", "apf"]
    assert len(rows) == 9
    assert rows[1]["difference_low"] == "0.0"
    assert rows[0]["avg_time"] == ""
    lines = files["markdown"].read_text().splitlines()
    assert lines[2].startswith("|  | policy | episodes | success |")
    assert len(lines) == 4 + 9
    # Alone it has the same figures.
    _, alone = evaluated(capsys, tmp_path / "alone.json", policy, "--levels", "1", "2")
    assert alone["figures"] == first["figures"]


def test_a_suite_is_reported_by_group(capsys, tmp_path, policy):
    path = tmp_path / "out.json"
    written(capsys, policy, "--suite", "noise", "--episodes", "1", "--json", path)
    content = json.loads(path.read_text())
    assert list(content["figures"]) == ["noise x 0", "noise x 1", "noise x 2", "noise x 4",
                                        "overall"]  # fmt: skip
    assert content["figures"]["noise x 4"]["episodes"] == 6
    assert content["setting"]["suite"] == "noise"


def test_rules_are_scored(capsys, tmp_path, policy):
    path = tmp_path / "out.json"
    text = written(capsys, policy, "straight", "--suite", "rules", "--episodes", "2",
                   "--json", path, "--csv", tmp_path / "out.csv")  # fmt: skip
    assert "Rules of the sea" in text
    assert "compliance" in text
    content = json.loads(path.read_text())
    conduct = content["policies"][1]["conduct"]
    assert list(conduct) == ["head-on", "crossing from starboard", "crossing from port",
                             "overtaking"]  # fmt: skip
    assert set(conduct["head-on"]) == set(CONDUCT)
    assert "compliance" in (tmp_path / "out.csv").read_text().splitlines()[0]


def test_episodes_are_recorded(capsys, tmp_path):
    config = from_dict(SMALL)
    drawn = draw_scenarios(config.world, config.eval_schedule.levels()[:2], [1, 1], 5)
    scenarios, path = tmp_path / "scenarios.json", tmp_path / "episodes.npz"
    vessels = [replace(each, goal=each.start) for each in episodes_of(drawn, config.world, 5)]
    write_scenarios(scenarios, vessels)
    written(capsys, "--policy", "straight", "--scenarios", scenarios, "--record", path)
    recording = load(path)
    assert recording.policy == "straight"
    assert recording.groups == ("all", "all")
    # They start where they are to go.
    assert recording.outcomes == ["success", "success"]
    assert recording.steps.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--policy x", "x: neither a checkpoint nor a baseline (straight, apf, orca, mppi"),
        ("nobody", "nobody: neither a checkpoint nor a baseline (straight, apf, orca, mppi"),
        ("apf --suite x", "--suite='x': must be one of paper, fresh, currents"),
        ("apf --suite paper --episodes 3", "--episodes=3: must be left out"),
        ("apf --suite paper --levels 1", "argument --levels: not allowed with argument --suite"),
        (
            "apf --suite paper --scenarios f",
            "argument --scenarios/--scenario: not allowed with argument --suite",
        ),
        ("apf orca --record x.npz", "argument --record: takes one policy"),
        ("apf --policy apf", "a POLICY is given twice"),
        ("--json x.json", "a POLICY is needed: a run folder, a policy file or a baseline"),
        ("--checkpoint absent", "absent: neither a checkpoint nor a baseline"),
        ("setup.cfg", "setup.cfg: damaged, or not a checkpoint of this program"),
    ],
)
def test_wrong_policies_and_suites(capsys, monkeypatch, line, expected):
    monkeypatch.chdir(Path(train_RL_agents.__file__).parents[1])
    assert refused(capsys, "evaluate", *line.split()).startswith(expected)


@pytest.mark.parametrize("option", ["--json", "--csv", "--markdown", "--record"])
def test_an_evaluation_does_not_write_over_what_it_reads(capsys, tmp_path, policy, option):
    copy, link = tmp_path / "policy.pt", tmp_path / "link.pt"
    copy.write_bytes(policy.read_bytes())
    link.symlink_to(copy)
    for out in (copy, link):
        said = refused(capsys, "evaluate", str(copy), option, str(out))
        assert said == f"output={str(out)!r}: must be another file than those that are read"
    assert copy.read_bytes() == policy.read_bytes()


# Info


def test_info_about_the_machine(capsys):
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    for word in ("python: ", "torch: ", "torchrl: ", "tensordict: ", "device: cpu", "threads: ",
                 "agent: AC-IQN"):  # fmt: skip
        assert word in text


def test_info_about_a_policy(capsys, policy):
    assert main(["info", str(policy)]) == 0
    text = capsys.readouterr().out
    assert "policy after 1,234 env-steps" in text
    assert "agent_type=DQN" in text
    assert "agent.critics=1" in text
    assert "trainer." not in text
    assert "success_rate 0.500" in text


def test_info_about_runs(capsys, sweep):
    run = sweep[1]
    metrics = {"success_rate": 0.25, "avg_time": None, "avg_return": 1.0}
    run.add_policy("policy_000000000100.pt", 100, metrics)
    (run.checkpoints / STATE).touch()
    assert main(["info", str(run.path.parent)]) == 0
    text = capsys.readouterr().out
    total = f"{run.config.total_timesteps:,}"
    assert f"seed 0, evaluated up to 0 of {total} env-steps, no training state yet" in text
    assert f"seed 1, evaluated up to 100 of {total} env-steps, can be resumed" in text
    assert "policy_000000000100.pt: success_rate 0.250, avg_return 1.000 (latest, best)" in text


def test_info_about_nothing(capsys, tmp_path):
    assert "must be a policy file or a run folder" in refused(capsys, "info", str(tmp_path))
