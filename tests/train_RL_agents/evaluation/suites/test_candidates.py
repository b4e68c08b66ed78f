"""Candidates for a collision."""

from collections import Counter

import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from marinenav_env.vessels import scaled_world
from train_RL_agents.evaluation.suites.candidates import GROUPS, draw_candidates
from train_RL_agents.evaluation.suites.suites import make_scenario_set

WORLD = WorldConfig(dt=0.25, substeps=2)


def closest_approach(scenarios):
    """The smallest distance [N, V] to the own vessel if all keep course and speed."""
    relative = scenarios.start[:, 1:] - scenarios.start[:, :1]
    closing = scenarios.velocity[:, 1:, :2] - scenarios.velocity[:, :1, :2]
    time = -(relative * closing).sum(-1, keepdim=True) / (closing**2).sum(-1, keepdim=True)
    distance = (relative + time * closing).norm(dim=-1)
    return torch.where(scenarios.robot_mask[:, 1:], distance, torch.inf)


def require_hits(drawn, world):
    """The own vessel, which steers along its course, touches another one."""
    for each in drawn:
        # Vessels touch in one control step, in which they move on by some centimetres at the hull.
        assert (closest_approach(each.scenarios).amin(-1) < 2.0 * world.vessel.radius + 0.05).all()
        assert each.scenarios.scripted[:, 1:].all() and not each.scenarios.scripted[:, 0].any()


@pytest.mark.heavy
def test_each_group_has_as_many_and_in_each_the_own_vessel_would_be_hit(monkeypatch):
    few = (GROUPS[0], "2 others", "3 others")
    monkeypatch.setattr("train_RL_agents.evaluation.suites.candidates.GROUPS", few)
    monkeypatch.setattr("train_RL_agents.evaluation.suites.candidates.MAX_BATCH", 2)
    drawn = [*draw_candidates(WORLD, 3, seed=1, in_weather=False)]
    require_hits(drawn, WORLD)
    count = Counter(few[level] for each in drawn for level in each.scenarios.level.tolist())
    assert count == dict.fromkeys(few, 3)
    assert max(len(each.scenarios) for each in drawn) == 2
    for each in drawn:
        assert int(each.scenarios.robot_mask[0].sum()) - 1 == (1, 2, 3)[int(each.scenarios.level[0])]


def test_they_are_drawn_for_other_boats_too():
    boat = scaled_world("otter")
    require_hits([next(draw_candidates(boat, 6, seed=1, in_weather=False))], boat)


def test_they_follow_from_the_seed():
    first, again, other = (
        next(draw_candidates(WORLD, 3, seed, in_weather=False)).scenarios.start for seed in (1, 1, 2)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.heavy
def test_weather_differs_from_batch_to_batch(monkeypatch):
    monkeypatch.setattr("train_RL_agents.evaluation.suites.candidates.MAX_BATCH", 2)
    for module in ("candidates", "suites"):
        monkeypatch.setattr(f"train_RL_agents.evaluation.suites.{module}.GROUPS", ("head-on",))
    chosen = make_scenario_set("candidates_weather", WORLD, 6)
    weather = [part.world.weather for part in chosen.parts]
    assert len(chosen) == 6 and all(each.delay == 1 and each.missed == 0.1 for each in weather)
    assert len({each.wind_direction for each in weather}) == len(weather) >= 3


def test_batches_without_a_hit_are_resampled_some_times(monkeypatch):
    hits = iter([0, 0, 1, *[0] * 10])

    def found(scenarios, world, seed):
        return torch.full((len(scenarios),), bool(next(hits)))

    monkeypatch.setattr("train_RL_agents.evaluation.suites.candidates.is_hit", found)
    drawn = draw_candidates(WORLD, 4, 0, in_weather=True)
    assert len(next(drawn).scenarios) == 4
    with pytest.raises(ConfigError, match="'crossing from starboard': must be encounters in which the own"):
        next(drawn)
