"""Evaluations of one or several policies: what is written and shown of them."""

import json

import pytest
import torch

from marinenav_env import WorldConfig
from tests.train_RL_agents.evaluation.helpers import ENCOUNTER_METRICS
from tests.train_RL_agents.exporting.helpers import make_policy
from train_RL_agents.config.schema import EvalSchedule
from train_RL_agents.evaluation.comparing import scoring
from train_RL_agents.evaluation.comparing.scoring import evaluate_built_in
from train_RL_agents.evaluation.comparing.tables import DIFFERENCE_COLUMN, Evaluation, Result, metric_columns
from train_RL_agents.evaluation.judging.policies import ActingOptions, EvaluatedPolicy
from train_RL_agents.evaluation.suites.rules_suite import ENCOUNTERS

STRAIGHT = EvaluatedPolicy("straight")
CPU = torch.device("cpu")


def test_policies_are_compared_to_the_first_on_the_same_scenarios():
    given = {"levels": [1], "episodes": 1, "seed": 3}
    alone = evaluate_built_in({"straight": STRAIGHT}, given, CPU)
    both = evaluate_built_in({"straight": STRAIGHT, "apf": EvaluatedPolicy("apf")}, given, CPU)
    first, second = both.results
    assert first.metrics == alone.results[0].metrics
    assert first.differences is None
    gain = second.overall["success_rate"] - first.overall["success_rate"]
    assert second.differences["overall"]["difference"] == gain
    assert [row["policy"] for row in both.rows] == ["straight", "apf"] * 2
    assert both.heading == "straight; apf, on levels, seed 3"
    # One policy has its metrics at the top of the file, several a list.
    written, compared = (json.loads(json.dumps(each.content())) for each in (alone, both))
    assert written["figures"] == first.metrics
    meanings = {column.title: column.meaning for column in metric_columns([first])}
    assert written["columns"] == meanings
    assert compared["columns"] == meanings | {DIFFERENCE_COLUMN.title: DIFFERENCE_COLUMN.meaning}
    assert [each["name"] for each in compared["policies"]] == ["straight", "apf"]
    assert (written["setting"]["episodes"], written["setting"]["suite"]) == (1, None)
    assert (alone.setting["agent_type"], alone.setting["checkpoint"]) == ("straight", None)
    assert alone.setting.keys() - both.setting.keys() == {"agent_type", "checkpoint", "env_steps"}


def test_a_recording_is_kept_where_it_was_asked_for():
    given = {"levels": [1], "episodes": 1, "seed": 3}
    assert evaluate_built_in({"straight": STRAIGHT}, given, CPU).recording is None
    found = evaluate_built_in({"straight": STRAIGHT}, given | {"record": True}, CPU).recording
    assert (found.policy, len(found.steps)) == ("straight", 1)


@pytest.fixture
def short(monkeypatch):
    """Episodes of two seconds."""
    world = WorldConfig(max_steps=4)
    monkeypatch.setattr(scoring, "default_schedule_and_world", lambda found: (EvalSchedule(), world))


@pytest.mark.parametrize(
    ("suite", "scenarios", "where"), [(None, None, "levels"), ("rules", None, "rules"), (None, "x.json", "x.json")]
)
def test_the_heading_says_who_is_evaluated_and_where(suite, scenarios, where):
    about = {"checkpoint": "there", "agent_type": "DQN", "env_steps": 1200}
    setting = {"suite": suite, "scenarios": scenarios, "seed": 3}
    found = Evaluation([Result("a", about, {})], setting)
    assert found.heading == f"DQN after 1,200 env-steps, there, on {where}, seed 3"


@pytest.mark.usefixtures("short")
def test_encounters_of_two_are_scored_like_all_others():
    found = evaluate_built_in({"straight": STRAIGHT}, {"suite": "rules", "episodes": 2}, CPU)
    compliance = found.results[0].compliance
    assert list(compliance) == [*ENCOUNTERS, "overall"] and found.recording is None
    assert found.content()["conduct"] == compliance
    meanings = found.content()["conduct_columns"]
    assert [name for name in meanings if "hours" not in name] == [*ENCOUNTER_METRICS]
    assert meanings["hours_per_broken_give_way"] == "the same of the role give-way"


@pytest.mark.usefixtures("short")
def test_judges_are_compared_on_the_same_tracks(capsys):
    options = {"suite": "rules", "episodes": 2, "judge": ("default", "moos")}
    found = evaluate_built_in({"straight": STRAIGHT}, options, CPU)
    judges, overall = found.results[0].judges, found.results[0].compliance["overall"]
    assert (judges.rows[0]["broken"], judges.rows[0]["fleeting"]) == (overall["broken_duties"], overall["fleeting"])
    found.show()
    assert "Judges of the rules of the sea" in capsys.readouterr().out
    assert found.content()["judges"]["rows"] == judges.rows


@pytest.mark.usefixtures("short")
def test_random_numbers_of_a_policy_are_not_those_of_the_noise(monkeypatch):
    given, run = [], scoring.run_set
    monkeypatch.setattr(scoring, "run_set", lambda *args: given.append(args[3]) or run(*args))
    options = {"levels": [1], "episodes": 1, "seed": 3}
    sampling, quantiles = (EvaluatedPolicy.from_loaded(make_policy(name)) for name in ("PPO", "IQN"))
    found = evaluate_built_in({"a": sampling}, options | {"stochastic": True}, CPU)
    evaluate_built_in({"b": quantiles}, options | {"risk": 0.5}, CPU)
    assert given == [ActingOptions(stochastic=True, seed=4), ActingOptions(risk=0.5, seed=4)]
    assert "conduct" not in found.content()


@pytest.mark.parametrize(("suite", "steps"), [(None, 60), ("rules", 4)])
def test_progress_counts_the_episodes_of_every_policy(suite, steps, monkeypatch):
    reported, world = [], WorldConfig(max_steps=steps)
    monkeypatch.setattr(scoring, "default_schedule_and_world", lambda _: (EvalSchedule(), world))
    given = {"episodes": 2} | ({"suite": suite} if suite else {})
    evaluation = evaluate_built_in({"a": STRAIGHT, "b": STRAIGHT}, given, CPU, lambda *given: reported.append(given))
    episodes = evaluation.setting["episodes"]
    assert dict.fromkeys(name for name, _, _ in reported) == {"a": None, "b": None}
    assert {total for _, _, total in reported} == {episodes}
    assert 0 < max(ended for _, ended, _ in reported) <= episodes
