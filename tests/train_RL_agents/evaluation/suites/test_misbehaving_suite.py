"""Encounters with vessels that misbehave."""

import torch

from marinenav_env import WorldConfig
from marinenav_env.levels import BEHAVIOURS
from marinenav_env.vessels import scaled_world
from train_RL_agents.evaluation.suites.misbehaving_suite import (
    BEHAVIOUR_GROUPS,
    GROUP_NAMES,
    MAX_STEPS,
    POLICY_GROUPS,
    misbehaving_scenarios,
)
from train_RL_agents.evaluation.suites.suites import make_scenario_set

WORLD = WorldConfig()


def test_every_group_has_the_same_encounters():
    chosen = make_scenario_set("unruly", WORLD, 14)
    assert chosen.groups == GROUP_NAMES and len(chosen) == 14 * len(chosen.groups)
    starts, sizes = {}, {}
    for part in chosen.parts:
        for row, group in enumerate(part.scenarios.level.tolist()):
            mask = part.scenarios.robot_mask[row]
            starts.setdefault(group, []).append(part.scenarios.start[row][mask])
            sizes.setdefault(group, []).append(int(mask.sum()))
    assert set(starts) == set(range(len(chosen.groups)))
    for group, own in starts.items():
        assert all(torch.equal(one, other) for one, other in zip(own, starts[0], strict=True))
        assert sorted(sizes[group]) == [2] * 10 + [3] * 2 + [4] * 2


def test_what_the_others_do():
    codes = [{BEHAVIOURS.index(name) for name in names} for names in BEHAVIOUR_GROUPS.values()]
    leads = []
    for drawn in misbehaving_scenarios(WORLD, 14, 0):
        scenarios, mask = drawn.scenarios, drawn.scenarios.robot_mask
        assert drawn.world.max_steps == MAX_STEPS
        if drawn.other_policy:
            assert drawn.other_policy in POLICY_GROUPS.values() and scenarios.scripted is None
            continue
        assert torch.equal(scenarios.scripted, mask & (torch.arange(mask.shape[1]) > 0))
        for group, expected in enumerate(codes):
            rows = scenarios.level == group
            assert set(scenarios.behaviour[rows][scenarios.scripted[rows]].tolist()) == expected
        # Own and others reach the point where they would meet at one time.
        time = (scenarios.start - 62.0).norm(dim=-1) / scenarios.velocity[..., :2].norm(dim=-1)
        begins_later = scenarios.scripted & ~torch.isin(scenarios.behaviour, torch.tensor([0, 7]))
        leads += (time - scenarios.onset)[begins_later].tolist()
        assert not scenarios.onset[~begins_later].any()
    assert 2.0 <= min(leads) < 3.0 and 7.0 < max(leads) <= 8.0


def test_encounters_of_boats_are_those_of_published_vessels_to_scale():
    boat = scaled_world("otter")
    length, pace = boat.scenario.scale, boat.scenario.speed_scale
    assert (length, pace) != (1.0, 1.0)
    for usual, drawn in zip(misbehaving_scenarios(WORLD, 14, 0), misbehaving_scenarios(boat, 14, 0), strict=True):
        ours, theirs = usual.scenarios, drawn.scenarios
        torch.testing.assert_close(theirs.start, length * ours.start)
        torch.testing.assert_close(theirs.velocity, pace * ours.velocity)
        if ours.onset is not None:
            torch.testing.assert_close(theirs.onset, length / pace * ours.onset)


def test_few_episodes_have_few_parts():
    (first, *others) = make_scenario_set("unruly", WORLD, 1).parts
    assert len(others) == len(POLICY_GROUPS) and first.scenarios.robot_mask.shape[1] == 2
    assert [part.only_own for part in (first, *others)] == [False] + [True] * len(POLICY_GROUPS)
    assert [part.others for part in others] == [*POLICY_GROUPS.values()]
