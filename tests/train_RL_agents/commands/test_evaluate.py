"""marinenav evaluate."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

import train_RL_agents
from marinenav_env import write_scenarios
from marinenav_env.scenarios.episode import episodes_from_scenarios
from tests.train_RL_agents.command_line import SMALL, refused
from train_RL_agents.cli import main
from train_RL_agents.config.reading import from_dict
from train_RL_agents.evaluation.comparing.tables import COLUMN_MEANINGS, COMPARISON_COLUMN_MEANINGS
from train_RL_agents.evaluation.running.episodes import draw_scenarios
from train_RL_agents.evaluation.running.recording import load


def evaluated(capsys, path, policy, *argv):
    """What an evaluation prints, and what it writes."""
    command = ["evaluate", "--checkpoint", str(policy), "-D", "cpu", "--json", str(path), *argv]
    assert main(command) == 0
    return capsys.readouterr().out, json.loads(path.read_text())


def test_evaluate_prints_a_table_with_its_meaning_and_writes_all(capsys, tmp_path, policy):
    text, written = evaluated(capsys, tmp_path / "out.json", policy)
    for word in ("DQN after 1,234 env-steps", "level 6", "overall", *COLUMN_MEANINGS, *COLUMN_MEANINGS.values()):
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


def test_evaluate_on_fresh_scenarios_notes_the_seed(capsys, tmp_path, policy):
    _, first = evaluated(capsys, tmp_path / "a.json", policy, "--fresh", "--levels", "1", "2")
    seed = str(first["setting"]["seed"])
    _, again = evaluated(capsys, tmp_path / "b.json", policy, "--seed", seed, "--levels", "1", "2")
    assert first == again


def test_evaluate_a_scenario_file(capsys, tmp_path, policy):
    config = from_dict(SMALL)
    drawn = draw_scenarios(config.world, config.eval_schedule.levels[:2], [1, 2], 5)
    path = tmp_path / "scenarios.json"
    write_scenarios(path, episodes_from_scenarios(drawn, config.world, 5))
    _, written = evaluated(capsys, tmp_path / "out.json", policy, "--scenarios", str(path))
    assert list(written["figures"]) == ["overall"]
    assert written["figures"]["overall"]["episodes"] == 3
    assert written["setting"]["scenarios"] == str(path)


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
    ("names", "option", "expected"),
    [
        (["dqn"], "--risk=0.5", "--risk=0.5: must be left out: dqn takes no risk level"),
        (["ac_iqn"], "--stochastic", "--stochastic=True: must be left out: ac_iqn acts the same"),
        (["orca", "apf"], "--which=best", "--which='best': must be left out: a baseline has no check"),
        (["straight"], "--stochastic", "--stochastic=True: must be left out: straight acts the same"),
    ],
)
def test_an_option_that_changes_nothing_is_refused(capsys, tmp_path, names, option, expected):
    path = tmp_path / "out.json"
    assert refused(capsys, "evaluate", *names, option, "--json", str(path)).startswith(expected)
    assert not path.exists()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--levels", "7"], "--levels=7: must be from 1 to 6"),
        (["--seed", "-1"], "--seed=-1: must be from 0 to "),
        (["--seed", str(10**20)], f"--seed={10**20}: must be from 0 to "),
        (["--which", "nope"], "--which='nope': must be left out, as "),
        (["--stochastic", "--risk", "1"], "argument --risk: not allowed with argument --stochastic"),
        (["--episodes", "0"], "argument --episodes: must be from 1 to 100,000, not 0"),
        (["--risk", "0"], "argument --risk: must be adaptive, or above 0 and at most 1"),
        (["--fresh", "--seed", "1"], "argument --seed: not allowed with argument --fresh"),
        (["--scenarios", "x", "--levels", "1"], "argument --levels: not allowed with argument --scenarios"),
        (["--scenarios", "absent.json"], "absent.json: cannot be read as a scenario file"),
        (["-D", "tpu"], "device='tpu': must be auto or one of those here"),
    ],
)
def test_wrong_evaluations(capsys, policy, argv, expected):
    assert refused(capsys, "evaluate", "--checkpoint", str(policy), *argv).startswith(expected)


def test_an_interrupted_evaluation_says_so(capsys, monkeypatch, policy):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("train_RL_agents.evaluation.running.episodes.run_episodes", interrupt)
    assert main(["evaluate", "--checkpoint", str(policy)]) == 130
    assert capsys.readouterr().err == "marinenav: interrupted\n"


# Several policies, suites and files


def written(capsys, *argv):
    """What an evaluation prints."""
    assert main(["evaluate", "-D", "cpu", *map(str, argv)]) == 0
    return capsys.readouterr().out


def test_a_policy_is_compared_to_baselines_on_the_same_scenarios(capsys, tmp_path, policy):
    files = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "markdown")}
    options = [word for kind, path in files.items() for word in (f"--{kind}", path)]
    text = written(capsys, policy, "straight", "apf", "--levels", "1", "2", *options)
    for word in (
        "straight",
        "apf",
        "level 2",
        "overall",
        *COMPARISON_COLUMN_MEANINGS,
        *COMPARISON_COLUMN_MEANINGS.values(),
    ):
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
    assert len(lines) == 4 + 9 + 2
    assert lines[-1].startswith(f"tied with {policy}: straight")
    # Alone it has the same metrics.
    _, alone = evaluated(capsys, tmp_path / "alone.json", policy, "--levels", "1", "2")
    assert alone["figures"] == first["figures"]


def test_a_suite_is_reported_by_group(capsys, tmp_path, policy):
    path = tmp_path / "out.json"
    written(capsys, policy, "--suite", "noise", "--episodes", "1", "--json", path)
    content = json.loads(path.read_text())
    assert list(content["figures"]) == ["noise x 0", "noise x 1", "noise x 2", "noise x 4", "overall"]
    assert content["figures"]["noise x 4"]["episodes"] == 6
    assert content["setting"]["suite"] == "noise"


def test_rules_are_scored(capsys, tmp_path, policy):
    path = tmp_path / "out.json"
    text = written(
        capsys, policy, "straight", "--suite", "rules", "--episodes", "2", "--json", path, "--csv", tmp_path / "out.csv"
    )
    assert "Rules of the sea" in text
    assert "all kept" in text
    content = json.loads(path.read_text())
    conduct = content["policies"][1]["conduct"]
    assert list(conduct) == ["head-on", "crossing from starboard", "crossing from port", "overtaking", "overall"]
    assert {"all_kept", "rules_kept_low", "fleeting", "hours_per_broken_duty"} <= set(conduct["head-on"])
    assert "all_kept" in (tmp_path / "out.csv").read_text().splitlines()[0]


def test_episodes_are_recorded(capsys, tmp_path):
    config = from_dict(SMALL)
    drawn = draw_scenarios(config.world, config.eval_schedule.levels[:2], [1, 1], 5)
    scenarios, path = tmp_path / "scenarios.json", tmp_path / "episodes.npz"
    vessels = [replace(each, goal=each.start) for each in episodes_from_scenarios(drawn, config.world, 5)]
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
        ("nobody", "nobody: neither a checkpoint nor a baseline (straight, apf, orca"),
        ("apf --suite x", "--suite='x': must be one of paper, fresh, long, currents"),
        ("apf --suite paper --episodes 3", "--episodes=3: must be left out"),
        ("apf --suite paper --scenarios f", "argument --scenarios/--scenario: not allowed with argument --suite"),
        ("apf orca --record x.npz", "argument --record: takes one policy"),
        ("apf --policy apf", "a POLICY is given twice"),
        ("--json x.json", "a POLICY is needed: a run folder, a policy file or a baseline"),
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
