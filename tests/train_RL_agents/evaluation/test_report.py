"""Evaluations of one or several policies: what is written and shown of them."""

import json

import torch

from train_RL_agents.evaluation.report import evaluate_all
from train_RL_agents.evaluation.tables import COLUMNS, COMPARED

CPU = torch.device("cpu")


def test_policies_are_compared_to_the_first_on_the_same_scenarios():
    given = {"levels": [1], "episodes": 1, "seed": 3}
    alone = evaluate_all({"straight": "straight"}, given, CPU)
    both = evaluate_all({"straight": "straight", "apf": "apf"}, given, CPU)
    first, second = both.results
    assert first.figures == alone.results[0].figures
    assert first.differences is None
    gain = second.overall["success_rate"] - first.overall["success_rate"]
    assert second.differences["overall"]["difference"] == gain
    assert [row["policy"] for row in both.rows] == ["straight", "apf"] * 2
    assert both.heading == "straight; apf, on levels, seed 3"
    # One policy has its figures at the top of the file, several a list.
    written, compared = (json.loads(json.dumps(each.content())) for each in (alone, both))
    assert written["figures"] == first.figures
    assert (written["columns"], compared["columns"]) == (COLUMNS, COMPARED)
    assert [each["name"] for each in compared["policies"]] == ["straight", "apf"]
    assert (written["setting"]["episodes"], written["setting"]["suite"]) == (1, None)


def test_a_recording_is_kept_where_it_was_asked_for():
    given = {"levels": [1], "episodes": 1, "seed": 3}
    assert evaluate_all({"straight": "straight"}, given, CPU).recording is None
    found = evaluate_all({"straight": "straight"}, given | {"record": True}, CPU).recording
    assert (found.policy, len(found.steps)) == ("straight", 1)
