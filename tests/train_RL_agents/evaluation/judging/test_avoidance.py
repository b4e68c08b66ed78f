"""Which collisions were unavoidable."""

from dataclasses import replace

import pytest
import torch
from tensordict import TensorDict

from marinenav_env import GROUP, ConfigError, WorldConfig
from marinenav_env.config import VesselConfig
from marinenav_env.levels import BEHAVIOURS
from train_RL_agents.boat.manoeuvres import EscapeManoeuvres
from train_RL_agents.evaluation.comparing.scoring import PolicyRun, evaluate_built_in, score
from train_RL_agents.evaluation.judging import avoidance
from train_RL_agents.evaluation.judging.avoidance import (
    OpenLoopPolicy,
    all_manoeuvres,
    candidate_metrics,
    collision_masks,
    first_detection_step,
    first_misbehaviour_step,
    safety_metrics,
)
from train_RL_agents.evaluation.judging.policies import ActingOptions, EvaluatedPolicy, run_set
from train_RL_agents.evaluation.suites.rules_suite import moving_vessels
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet
from train_RL_agents.utils.rows import group_masks

CPU, ACTING, STRAIGHT = torch.device("cpu"), ActingOptions(), EvaluatedPolicy("straight")
WORLD = WorldConfig(max_steps=60, dt=0.25, substeps=2)
GROUPS = ("near", "far", "late")
CANDIDATE_METRICS = ("collisions", "per_candidate", "avoidable_per_candidate", "ships_with_crews")


def test_every_manoeuvre_is_there_once():
    manoeuvres = all_manoeuvres()
    first, second, steps, stops = manoeuvres
    rows = torch.cat((first, second, steps[:, None]), -1)
    assert len(rows) == len(torch.unique(rows, dim=0)) == 9 * 9 * 4 and not stops.any()
    assert len(torch.unique(manoeuvres.subset(0, 64).first_commands, dim=0)) == 9  # the first ones are of every kind


def test_commands_are_repeated_and_then_come_two_phases():
    recorded = torch.tensor([[[0.1, 0.2]] * 2, [[0.3, 0.4]] * 2])
    phases = torch.tensor([[1.0, -1.0]] * 2), torch.tensor([[0.0, 1.0]] * 2)
    manoeuvres = EscapeManoeuvres(*phases, torch.tensor([1, 2]), torch.zeros(2, dtype=torch.bool))
    policy = OpenLoopPolicy(recorded, torch.tensor([1, 2]), manoeuvres)
    given = TensorDict({GROUP: {"mask": torch.ones(2, 3, dtype=torch.bool)}}, [2])
    actions = torch.stack([policy(given).get((GROUP, "action")) for _ in range(5)])
    assert not actions[:, :, 1:].any()
    first, second, before, then = [1.0, -1.0], [0.0, 1.0], [0.1, 0.2], [0.3, 0.4]
    expected = [[before, first, second, second, second], [before, then, first, first, second]]
    torch.testing.assert_close(actions[:, :, 0].mT.transpose(1, 2).transpose(0, 1), torch.tensor(expected))


def encounters(*others):
    """Set of one vessel that goes north from the origin, and another one: x, y, heading, speed, behaviour, onset."""
    rows = len(others)
    columns = [torch.tensor(column, dtype=torch.float64) for column in zip(*(row[:4] for row in others), strict=True)]
    zero = torch.zeros(rows, dtype=torch.float64)
    x, y, heading, speed = (torch.stack((first, other), -1) for first, other in zip((zero, zero, zero, zero + 2.0),
                                                                                    columns, strict=True))  # fmt: skip
    start = torch.stack((x, y), -1)
    goal = start + 100.0 * torch.stack((heading.cos(), heading.sin()), -1)
    mask = torch.ones(rows, 2, dtype=torch.bool)
    scenarios = moving_vessels(start, goal, heading, speed, mask, VesselConfig())
    scenarios.level = torch.arange(rows)
    scenarios.scripted = mask & torch.tensor([False, True])
    code = torch.tensor([BEHAVIOURS.index(row[4]) for row in others])
    scenarios.behaviour = torch.stack((torch.zeros_like(code), code), -1)
    scenarios.onset = torch.stack((zero, torch.tensor([row[5] for row in others], dtype=torch.float64)), -1)
    return ScenarioSet("unruly", GROUPS[:rows], (Part(WORLD, scenarios),), 0)


NEAR = (9.0, 0.0, torch.pi, 3.0, "keep", 0.0)
FAR = (40.0, 0.0, torch.pi, 2.0, "keep", 0.0)


@pytest.mark.heavy
def test_a_collision_is_unavoidable_if_no_manoeuvre_avoids_it():
    chosen = encounters(NEAR, FAR)
    _, recording = run_set(STRAIGHT, chosen, WORLD, ACTING, CPU, "x")
    found = collision_masks(chosen, recording, WORLD, ACTING, CPU)
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        "collision": [True, True],
        "unavoidable": [True, False],
        "unavoidable_at_sight": [True, False],
    }
    # Commands that cannot be repeated are refused.
    faster = replace(recording, actions=recording.actions + 1500.0)
    with pytest.raises(ConfigError, match=r"max_thrust_rate=[\d.]+: must be at most 1 where"):
        collision_masks(chosen, faster, WORLD, ACTING, CPU)


@pytest.mark.heavy
def test_misbehaviour_may_come_too_late_to_be_avoided():
    """A vessel that overtakes at 8 m on the starboard side, and turns to port; it is in sight from the start."""
    chosen = encounters((2.0, 8.0, 0.0, 2.6, "turn_wrong", 1.0))
    _, recording = run_set(STRAIGHT, chosen, WORLD, ACTING, CPU, "x")
    assert first_detection_step(recording).tolist() == [0] and first_misbehaviour_step(recording).tolist() == [3]
    found = collision_masks(chosen, recording, WORLD, ACTING, CPU)
    assert found["unavoidable_at_sight"] <= found["unavoidable"] <= found["collision"]


def test_behaviours_are_visible_after_their_onset():
    chosen = encounters(NEAR, FAR, (*FAR[:4], "stop", 7.0))
    _, recording = run_set(STRAIGHT, chosen, WORLD, ACTING, CPU, "x")
    sight = first_detection_step(recording).tolist()
    assert sight[0] == 0 and sight[1] > 4
    assert first_misbehaviour_step(recording).tolist() == [*sight[:2], max(sight[2], 15)]
    # The onset comes after the collision.
    hit = replace(recording, onset=recording.onset + 100.0)
    assert first_misbehaviour_step(hit).tolist() == sight
    assert first_misbehaviour_step(replace(recording, behaviour=None, onset=None)).tolist() == sight


@pytest.mark.heavy
def test_the_others_do_the_same_while_manoeuvres_are_tried(monkeypatch):
    """Also where another policy steers them."""
    chosen_set = encounters(NEAR)
    scenarios = chosen_set.parts[0].scenarios.clone()
    scenarios.scripted = scenarios.behaviour = scenarios.onset = None
    chosen = replace(chosen_set, parts=(Part(WORLD, scenarios, True, others="straight"),))
    tried = []
    run = avoidance.evaluation.run_episodes

    def noted(policy, given, *rest, **options):
        tried.append(len(given))
        return run(policy, given, *rest, **options)

    _, recording = run_set(STRAIGHT, chosen, WORLD, ACTING, CPU, "x")
    monkeypatch.setattr(avoidance.evaluation, "run_episodes", noted)
    found = collision_masks(chosen, recording, WORLD, ACTING, CPU)
    assert found["unavoidable"].tolist() == [True] and tried == 2 * [8, 16, 32, 64, 128, 76]


def test_metrics_count_unavoidable_collisions_apart():
    flags = {"collision": [1, 1, 1, 0, 0], "unavoidable": [1, 1, 0, 0, 0], "unavoidable_at_sight": [1, 0, 0, 0, 0]}
    found = {name: torch.tensor(values, dtype=torch.bool) for name, values in flags.items()}
    metrics = {name: safety_metrics(found, mask) for name, mask in group_masks(("a", "a", "b", "b", "b")).items()}
    assert metrics["overall"]["no_collision"] == 0.4 and metrics["overall"]["avoided"] == pytest.approx(2 / 3)
    assert metrics["overall"]["unavoidable"] == 0.4 and metrics["overall"]["unavoidable_at_sight"] == 0.2
    assert metrics["b"]["no_collision"] == metrics["b"]["avoided"] == pytest.approx(2 / 3)
    assert metrics["a"]["no_collision"] == 0.0 and metrics["a"]["avoided"] is None
    assert metrics["a"]["avoided_low"] is None
    for row in metrics.values():
        assert row.keys() >= {"no_collision", "avoided", "unavoidable", "unavoidable_at_sight"}


def test_collisions_per_candidate_have_exact_intervals():
    collided, lost = (torch.arange(1000) < count for count in (2, 1))
    row = candidate_metrics(collided, lost, torch.ones(1000, dtype=torch.bool), "head-on")
    assert row["collisions"] == 2 and row["per_candidate"] == 0.002 and row["avoidable_per_candidate"] == 0.001
    # Garwood's intervals of 2 and of 1 event.
    assert row["per_candidate_low"] == pytest.approx(0.2422e-3, rel=1e-3)
    assert row["per_candidate_high"] == pytest.approx(7.2247e-3, rel=1e-4)
    assert row["avoidable_per_candidate_high"] == pytest.approx(5.5716e-3, rel=1e-4)
    assert row["ships_with_crews"] == 4.9e-5 and row.keys() >= {*CANDIDATE_METRICS}
    assert candidate_metrics(collided, lost, ~collided, "2 others")["ships_with_crews"] is None


@pytest.mark.heavy
def test_a_vessel_that_only_steers_for_its_goal_is_hit(monkeypatch):
    for module in ("candidates", "suites"):
        monkeypatch.setattr(f"train_RL_agents.evaluation.suites.{module}.GROUPS", ("head-on",))
    evaluation = evaluate_built_in({"straight": STRAIGHT}, {"suite": "candidates", "episodes": 12}, CPU)
    (straight,) = evaluation.results
    assert tuple(column.name for column in straight.compliance_columns) == CANDIDATE_METRICS
    # The baseline is faster than the vessel of the check, so that it may pass.
    assert straight.compliance["head-on"]["collisions"] >= 10
    assert straight.compliance["overall"]["collisions"] == round(12 * straight.overall["collision_rate"])
    assert straight.compliance["overall"]["avoidable_per_candidate"] > 0.8  # some manoeuvre would have avoided them
    assert "ships with crews" in evaluation.markdown()


@pytest.mark.heavy
def test_only_the_own_vessel_counts():
    """The other one never arrives, and the episode ends when the own one does."""
    scenarios = encounters((0.0, 80.0, 0.0, 2.0, "stop", 0.0))
    part = replace(scenarios.parts[0], world=replace(WORLD, max_steps=150))
    chosen = replace(scenarios, parts=(part,), scoring="misbehaviour")
    scored = score(chosen, PolicyRun(STRAIGHT, WORLD, ACTING, CPU, "x"))
    episodes, recording = scored.episodes, scored.recording
    assert episodes.success.tolist() == [True] and episodes.robots.tolist() == [1]
    assert episodes.robots_arrived.tolist() == [1] and scored.metrics["overall"]["no_collision"] == 1.0
    assert recording.outcomes == ["success"] and recording.steps.item() == round(episodes.time.item() / 0.5)
    assert recording.behaviour.tolist() == [[-1, BEHAVIOURS.index("stop")]]
