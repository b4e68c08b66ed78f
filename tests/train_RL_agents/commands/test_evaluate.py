"""marinenav evaluate."""

import csv
import json
from pathlib import Path

import pytest

import train_RL_agents
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main
from train_RL_agents.evaluation.comparing.tables import METRIC_COLUMNS


def evaluated(capsys, path, policy, *argv):
    """What an evaluation prints, in one line, and what it writes."""
    command = ["evaluate", str(policy), "-D", "cpu", "--json", str(path), *argv]
    assert main(command) == 0
    return " ".join(capsys.readouterr().out.split()), json.loads(path.read_text())


def test_evaluate_prints_a_table_with_its_meaning_and_writes_all(capsys, tmp_path, policy):
    text, written = evaluated(capsys, tmp_path / "out.json", policy)
    shown = [column for column in METRIC_COLUMNS if "grounding" not in column.name]
    titles, meanings = ([getattr(column, name) for column in shown] for name in ("title", "meaning"))
    for word in ("DQN after 1,234 env-steps", "level 6", "overall", *titles, *meanings):
        assert word in text
    setting, metrics = written["setting"], written["figures"]
    assert setting["checkpoint"] == str(policy)
    expected = {"num_robots": 4, "num_cores": 0, "num_obstacles": 0, "min_start_goal_dis": 35.0}
    assert setting["levels"]["level 2"].items() >= (expected | {"episodes": 2}).items()
    assert (setting["seed"], setting["episodes"], setting["risk"]) == (0, 12, None)
    assert "torch" in setting["versions"]
    assert metrics["overall"]["episodes"] == 12
    # Nobody arrives in three steps.
    assert metrics["overall"]["success_rate"] == 0.0
    assert metrics["overall"]["avg_time"] is None


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


def test_files_are_written_also_if_nobody_reads_the_table(monkeypatch, tmp_path, policy):
    def gone(*_):
        raise BrokenPipeError

    monkeypatch.setattr("train_RL_agents.evaluation.comparing.tables.Evaluation.show", gone)
    names = {each: str(tmp_path / f"out.{each}") for each in ("json", "csv", "markdown", "record")}
    words = [word for each, name in names.items() for word in (f"--{each}", name)]
    main(["evaluate", str(policy), "-D", "cpu", "--levels", "1", "--episodes", "1", *words])
    assert all(Path(name).stat().st_size for name in names.values())


@pytest.mark.parametrize(
    ("name", "option", "key", "value"),
    [("iqn", ["--risk", "0.25"], "risk", "0.25"), ("ppo", ["--stochastic"], "stochastic", "True")],
)
def test_what_is_written_names_another_way_to_act(capsys, tmp_path, name, option, key, value):
    written = {each: tmp_path / each for each in ("csv", "markdown")}
    words = [word for each, path in written.items() for word in (f"--{each}", str(path))]
    short = ["--levels", "1", "--episodes", "1"]
    text, usual = evaluated(capsys, tmp_path / "a.json", name, *short, *words)
    texts = [text, *(path.read_text() for path in written.values())]
    assert not any(f", {key}" in each for each in texts)
    text, content = evaluated(capsys, tmp_path / "b.json", name, *short, *option, *words)
    assert str(content["setting"][key]) == value != str(usual["setting"][key])
    assert f", {key}" in text
    assert f", {key}" in written["markdown"].read_text()
    assert next(csv.DictReader(written["csv"].read_text().splitlines()))[key] == value
    assert content["figures"]["overall"] != usual["figures"]["overall"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dqn --risk=0.5", "--risk=0.5: must be left out: dqn takes no risk level"),
        ("ac_iqn --stochastic", "--stochastic=True: must be left out: ac_iqn acts the same"),
        ("straight --stochastic", "--stochastic=True: must be left out: straight acts the same"),
        ("{} --which nope", "--which='nope': must be left out, as "),
        ("{} --stochastic --risk 1", "argument --risk: not allowed with argument --stochastic"),
        ("{} --suite candidate", "argument --suite: invalid choice: 'candidate' (choose from"),
        ("{} --episodes 0", "argument --episodes: must be from 1 to 100,000, not 0"),
        ("{} --risk 0", "--risk=0.0: must be above 0 and at most 1"),
        ("{} --fresh --seed 1", "argument --seed: not allowed with argument --fresh"),
        ("{} --scenarios x --levels 1", "argument --levels: not allowed with argument --scenarios"),
        ("{} --scenarios absent.json", "absent.json: cannot be read as a scenario file"),
        ("{} -D tpu", "device='tpu': must be auto or one of those here"),
        ("nobody", "nobody: neither a checkpoint nor a baseline (straight, apf, orca"),
        ("apf --suite paper --scenarios f", "argument --scenarios/--scenario: not allowed with argument --suite"),
        ("apf orca --record x.npz", "argument --record: takes one policy"),
        ("apf apf", "a POLICY is given twice"),
        ("--json x.json", "a POLICY is needed: a run folder, a policy file or a baseline"),
        ("setup.cfg", "setup.cfg: damaged, or not a checkpoint of this program"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(capsys, monkeypatch, policy, line, expected):
    monkeypatch.chdir(Path(train_RL_agents.__file__).parents[1])
    assert refused(capsys, "evaluate", *line.format(policy).split()).startswith(expected)


def test_an_interrupted_evaluation_says_so(capsys, monkeypatch, policy):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("train_RL_agents.evaluation.running.episodes.run_episodes", interrupt)
    assert main(["evaluate", str(policy)]) == 130
    assert capsys.readouterr().err == "marinenav: interrupted\n"


@pytest.mark.parametrize("option", ["--json", "--csv", "--markdown", "--record"])
def test_an_evaluation_does_not_write_over_what_it_reads(capsys, tmp_path, policy, option):
    copy, link = tmp_path / "policy.pt", tmp_path / "link.pt"
    copy.write_bytes(policy.read_bytes())
    link.symlink_to(copy)
    for out in (copy, link):
        said = refused(capsys, "evaluate", str(copy), option, str(out))
        assert said == f"output={str(out)!r}: must be another file than those that are read"
    assert copy.read_bytes() == policy.read_bytes()
