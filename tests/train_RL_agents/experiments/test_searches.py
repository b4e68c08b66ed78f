"""Searches, with outcomes that are functions of the encounters."""

import torch

from marinenav_env.levels import DRAWN_BEHAVIOURS
from tests.train_RL_agents.experiments.helpers import drawn, encounter
from train_RL_agents.evaluation.suites.encounter_suites import COURSES_BY_KIND
from train_RL_agents.evaluation.suites.passing_encounters import COURSE, PACE, PASSING_SIDE
from train_RL_agents.experiments.failures import POPULATION_SIZE, run_search
from train_RL_agents.experiments.searches import (
    SearchSpace,
    Trials,
    concatenate_batches,
    describe_encounters,
    signatures,
)

SPACE = SearchSpace(2)


def narrow(*regions, unavoidable_kinds=()):
    """Outcomes of a policy that fails only within a tenth of points of some kinds, for every behaviour.

    Args:
        regions: kind, course, side and speed of each.
        unavoidable_kinds: kinds whose collisions are unavoidable.
    """

    def run(encounters, seed):
        unit, kind = encounters.unit[:, 0], encounters.kind[:, 0]
        gaps = []
        for name, *point in regions:
            away = (unit[:, [COURSE, PASSING_SIDE, PACE]] - torch.tensor(point)).norm(dim=-1)
            gaps.append(10.0 * (away - 0.1) + 3.0 * (kind != [*COURSES_BY_KIND].index(name)))
        gap = torch.stack(gaps).amin(0)
        collision = gap < 0.0
        unavoidable = collision & torch.isin(
            kind, torch.tensor([[*COURSES_BY_KIND].index(name) for name in unavoidable_kinds]).long()
        )
        hit, no = torch.zeros_like(encounters.num_others), torch.zeros_like(collision)
        return Trials(gap, collision, unavoidable, unavoidable, hit, no, collision & ~unavoidable)

    return run


ONE, TWO = ("head-on", 0.2, 0.7, 0.5), ("overtaking", 0.8, 0.3, 0.6)


def rate(method, run, episodes=2000, seed=0):
    return run_search(method, run, SPACE, episodes, seed).rate


def test_far_more_failures_are_found_than_at_random():
    for seed in range(3):
        found, random = rate("cross-entropy", narrow(ONE), seed=seed), rate("random", narrow(ONE), seed=seed)
        assert found.value > 10 * max(random.value, 1.0)
        assert found.low > random.high


def test_not_one_failure_is_found_a_thousand_times():
    result = run_search("cross-entropy", narrow(ONE, TWO), SPACE, 3000, 0)
    rows = result.distinct
    assert len({*result.encounters.kind[rows, 0].tolist()}) == 2
    assert len({*result.encounters.behaviour[rows, 0].tolist()}) > len(DRAWN_BEHAVIOURS) / 2
    found = signatures(result.encounters.rows(rows), result.trials.hit[rows])
    assert len(found.unique(dim=0)) == len(rows) > 80


def test_unavoidable_collisions_are_not_searched_for():
    result = run_search("cross-entropy", narrow(ONE, TWO, unavoidable_kinds=("head-on",)), SPACE, 2000, 0)
    assert result.trials.failed.sum() > 1.5 * result.trials.unavoidable.sum()
    metrics = result.metrics()
    assert metrics["collisions"] == metrics["failures"] + metrics["unavoidable"]
    assert set(metrics["by_kind"]) == {"overtaking"} and sum(metrics["by_behaviour"].values()) == metrics["failures"]


def test_a_seed_gives_the_same_search():
    one, same, other = (run_search("cross-entropy", narrow(ONE), SPACE, 500, seed) for seed in (3, 3, 4))
    for one_part, other_part in zip(one.encounters, same.encounters, strict=True):
        assert torch.equal(one_part, other_part)
    assert not torch.equal(one.encounters.unit, other.encounters.unit)


def test_a_search_takes_its_budget_and_ends_when_it_is_asked_to():
    calls = []
    run = narrow(ONE)
    for method in ("cross-entropy", "random"):
        assert len(run_search(method, run, SPACE, 333, 0).trials.clearance) == 333
        assert len(run_search(method, run, SPACE, 3, 0).trials.clearance) == 3
        assert run_search(method, run, SPACE, 333, 0, is_stopped=lambda: True) is None
        stopped = run_search(method, run, SPACE, 1000, 0, lambda *call: calls.append(call), lambda: len(calls) > 0)
        assert len(stopped.trials.clearance) == calls[0][1] == POPULATION_SIZE and calls[0][0] == method
        calls.clear()


def test_a_policy_without_failures_has_none():
    result = run_search("cross-entropy", narrow(("head-on", 5.0, 5.0, 5.0)), SPACE, 400, 0)
    assert result.rate.value == 0.0 and len(result.distinct) == 0 and result.metrics()["by_kind"] == {}
    random = run_search("random", narrow(("head-on", 5.0, 5.0, 5.0)), SPACE, 400, 0)
    assert random.rate.low == 0.0 < random.rate.high < 10.0


def test_the_interval_is_that_of_a_share():
    def half(encounters, seed):
        hit = torch.arange(len(encounters.num_others)) % 2 == 0
        gap, no = torch.where(hit, -1.0, 1.0), torch.zeros_like(hit)
        return Trials(gap, hit, no, no, torch.zeros_like(encounters.num_others), no, hit)

    estimate = run_search("cross-entropy", half, SPACE, 800, 0).rate
    assert estimate.value == 500.0 and 460.0 < estimate.low < 470.0 and 530.0 < estimate.high < 540.0


def test_random_encounters_have_what_is_allowed_and_all_of_it():
    encounters = drawn(vessels=4, behaviours=("stop", "keep"))
    assert encounters.num_others.unique().tolist() == [1, 2, 3]
    assert {DRAWN_BEHAVIOURS[code] for code in encounters.behaviour.unique()} == {"stop", "keep"}
    assert encounters.kind.unique().tolist() == [*range(len(COURSES_BY_KIND))]
    assert 0.0 <= encounters.unit.min() < 0.01 and 0.99 < encounters.unit.max() <= 1.0
    assert (encounters.present.sum(-1) == encounters.num_others).all()


def test_encounters_that_hardly_differ_count_as_one():
    near = concatenate_batches(
        [encounter("head-on", "stop", *values) for values in ((0.3, 0.4), (0.4, 0.3), (0.3, 0.8))]
    )
    hit = torch.zeros(3, dtype=torch.int64)
    first, second, other = signatures(near, hit).tolist()
    assert first == second != other
    # The onset of a behaviour that begins with the episode does not matter.
    same = concatenate_batches([encounter("head-on", "keep", *[0.5] * 4, lead) for lead in (0.1, 0.9)])
    assert len(signatures(same, hit[:2]).unique(dim=0)) == 1
    assert describe_encounters(near, hit)[0] == "head-on, stop, 2 vessels"
