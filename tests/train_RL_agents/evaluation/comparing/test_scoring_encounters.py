"""Compliance of policies in encounters."""

import json
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from marinenav_env import GROUP, WorldConfig
from marinenav_env.scenarios.episode import episodes_from_scenarios
from train_RL_agents.commands.cli import main
from train_RL_agents.evaluation.comparing import scoring
from train_RL_agents.evaluation.comparing.scoring import PolicyRun, count_clear, score
from train_RL_agents.evaluation.judging.policies import ActingOptions, EvaluatedPolicy, run_set
from train_RL_agents.evaluation.running.episodes import run_episodes
from train_RL_agents.evaluation.suites.sets import Part
from train_RL_agents.evaluation.suites.suites import make_scenario_set

STRAIGHT = EvaluatedPolicy("straight")
CPU, ACTING = torch.device("cpu"), ActingOptions()
WORLD = WorldConfig(max_steps=80, dt=0.25, substeps=2)
BRIEF = replace(WORLD, max_steps=3)


@cache
def make_suite(name, episodes, world):
    """A suite, which nothing changes."""
    return make_scenario_set(name, world, episodes)


def some(name, episodes, groups, world=WORLD):
    """Some groups of a suite."""
    chosen = make_suite(name, episodes, world)
    parts = []
    for part in chosen.parts:
        wanted = torch.isin(part.scenarios.level, torch.tensor(groups))
        if wanted.any():
            parts.append(replace(part, scenarios=part.scenarios[wanted], situations=None))
    return replace(chosen, parts=tuple(parts))


def sets_run(monkeypatch, chosen):
    """The sets that are run to score one."""
    sets = []

    def noted(found, given, *rest, **options):
        sets.append(given)
        return run_set(found, given, *rest, **options)

    monkeypatch.setattr(scoring, "run_set", noted)
    score(chosen, PolicyRun(STRAIGHT, BRIEF, ACTING, CPU, "x"))
    return sets


def test_every_vessel_is_run_alone(monkeypatch):
    chosen = some("imazu", 1, [0, 4, 12], BRIEF)
    masks = [part.scenarios.robot_mask.clone() for part in chosen.parts]
    whole, *alone = sets_run(monkeypatch, chosen)
    assert whole is chosen and len(alone) == 4
    assert {int(each.sum()) for mask in masks for each in mask} == {2, 3, 4}
    for slot, each in enumerate(alone):
        for part, mask in zip(each.parts, masks, strict=True):
            for single, present in zip(part.scenarios.robot_mask, mask, strict=True):
                assert single.nonzero().tolist() == [[min(slot, int(present.sum()) - 1)]]
    assert all(torch.equal(part.scenarios.robot_mask, mask) for part, mask in zip(chosen.parts, masks, strict=True))
    sets = sets_run(monkeypatch, some("imazu_own", 1, [0], BRIEF))
    assert [each.parts[0].only_own for each in sets] == [True, True]  # the others are not scored


def test_who_goes_straight_keeps_no_rule_but_to_stand_on():
    chosen = some("encounters", 1, [0, 1, 2])
    scored = score(chosen, PolicyRun(STRAIGHT, WORLD, ACTING, CPU, "x"))
    table = scored.metrics
    assert list(table) == [*chosen.groups[:3], "overall"] and len(scored.recording.groups) == 3
    assert scored.episodes.collision.all()
    for group in table.values():
        assert group["rules_kept"] == group["all_kept"] == group["safety"] == 0.0
        assert group["delay"] is None  # nobody arrived
    assert table["crossing from port"]["stood_on"] == 1.0
    assert table["head-on"]["stood_on"] is None


def few_of(name, numbers, repetitions, world=WORLD):
    """Some situations that others wrote."""
    chosen = make_suite(name, repetitions, world)
    (part,) = chosen.parts
    rows = [row for row, number in enumerate(part.situations) if number in numbers]
    picked = {name: tuple(getattr(part, name)[row] for row in rows) for name in ("levels", "situations")}
    return replace(chosen, parts=(replace(part, scenarios=[part.scenarios[row] for row in rows], **picked),))


def test_situations_that_others_wrote_are_scored_by_group(monkeypatch):
    chosen = few_of("dnv", (0, 5, 20), 1)
    scored = score(chosen, PolicyRun(STRAIGHT, WORLD, ACTING, CPU, "x"))
    episodes, recording, table = scored.episodes, scored.recording, scored.metrics
    assert list(table) == ["head on", "2 others", "3 others", "overall"]
    assert episodes.level.tolist() == [0, 5, 6] and episodes.robots.tolist() == [2, 3, 4]
    assert recording.groups == ("head on", "2 others", "3 others")
    assert episodes.collision.all() and table["head on"]["rules_kept"] == 0.0
    assert scored.situations == {"without_collision": 0, "all": 3}
    chosen = few_of("dnv", (0, 5, 20), 1, BRIEF)
    whole, *alone = sets_run(monkeypatch, chosen)
    assert whole is chosen and len(alone) == 4
    for slot, one in enumerate(alone):
        for episode, single in zip(chosen.parts[0].scenarios, one.parts[0].scenarios, strict=True):
            vessel = min(slot, len(episode.start) - 1)
            assert single.start == [episode.start[vessel]] and single.thrust == [episode.thrust[vessel]]


def test_situations_without_a_collision_are_counted():
    chosen = few_of("dnv", (0, 5, 20), 2)
    drawn = some("encounters_own", 2, [0, 2])  # every one is a situation of its own
    for some_set, collided, clear, total in (
        (chosen, [0, 0, 0, 0, 0, 0], 3, 3),
        (chosen, [0, 0, 1, 1, 0, 0], 2, 3),
        (chosen, [1, 0, 1, 1, 0, 0], 1, 3),
        (make_scenario_set("imazu", WORLD, 2), [0] * 44, 22, 22),
        (drawn, [1, 0, 0, 0], 3, 4),
    ):
        episodes = SimpleNamespace(collision=torch.tensor(collided).bool())
        assert count_clear(some_set, episodes) == {"without_collision": clear, "all": total}


def test_others_keep_course_and_speed_where_only_the_own_vessel_is_steered():
    chosen, apf = some("imazu_own", 1, [1, 3]), EvaluatedPolicy("apf")
    _, recording = run_set(apf, chosen, WORLD, ACTING, CPU, "x")
    under_way = recording.active[:-1, :, 1]
    assert not recording.actions[:, :, 1].any()
    turned = recording.poses[1:, :, 1, 2] - recording.poses[:-1, :, 1, 2]
    assert turned[under_way].abs().max() < 1e-4
    speed = recording.velocities[1:, :, 1, :2].norm(dim=-1)
    assert (speed[under_way] - 2.0).abs().max() < 1e-3
    assert recording.actions[:, :, 0].any()
    table = score(chosen, PolicyRun(apf, WORLD, ACTING, CPU, "x")).metrics
    assert table["case 4"]["stood_on"] is not None and table["case 2"]["stood_on"] is None


@pytest.mark.parametrize("name", ["imazu_own", "encounters_own"])
def test_others_that_nobody_steers_hit_nobody_but_the_own_vessel(name):
    chosen, episodes, hit = make_scenario_set(name, WORLD, 2), [], []
    for part in chosen.parts:
        radius = torch.tensor(part.world.vessel.radius)
        assert (radius[0] + radius[1:] - 2.0 * WORLD.vessel.radius).abs().max() < 1e-6
        away = part.scenarios.clone()
        for points in (away.start, away.goal):
            points[:, 0] -= 500.0  # the own vessel is not in their way
        episodes += episodes_from_scenarios(away, part.world)
    together = replace(chosen, parts=(Part(WORLD, episodes, True),))
    run_set(
        STRAIGHT,
        together,
        WORLD,
        ACTING,
        CPU,
        on_step=lambda transition, env: hit.append(transition.outcome.collided.any()),
    )
    assert len(hit) > 70 and not any(hit)


def test_the_command_prints_compliance_with_intervals(tmp_path, capsys, monkeypatch):
    path, few = tmp_path / "compliance.json", some("encounters_own", 1, [0, 2])
    monkeypatch.setattr("train_RL_agents.evaluation.comparing.selection.make_scenario_set", lambda *given: few)
    command = ["evaluate", "straight", "--suite", "encounters_own", "--episodes", "1"]
    assert main([*command, "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "rules kept: vessels with a duty that kept all of theirs" in printed
    assert "straight: situations without a collision: 0 of 2; fewest in head-on: 0 of 1 episodes without one" in printed
    content = json.loads(path.read_text())
    assert content["situations"] == {"without_collision": 0, "all": 2}
    assert set(content["conduct"]) == {*content["figures"]}
    row = content["conduct"]["head-on"]
    assert row["rules_kept"] == 0.0 and row["rules_kept_high"] > 0.5 and row["delay"] is None
    assert set(content["conduct_columns"]) <= set(row)


@pytest.mark.parametrize("name", ["dnv_own", "imazu_ntnu_own"])
def test_who_keeps_course_and_speed_is_hit_in_every_situation_that_others_wrote(name):
    (part,) = make_scenario_set(name, WORLD, 1).parts

    def hold(step):
        return step.set((GROUP, "action"), torch.zeros(*step.get((GROUP, "observation", "self_state")).shape[:2], 2))

    episodes = run_episodes(hold, part.scenarios, WORLD, continuous=True, device=CPU, seed=0)
    assert episodes.collision.all()
