"""Encounters in the world: what is a failure, and what was unavoidable."""

from dataclasses import replace

import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.config import ColregsConfig
from tests.train_RL_agents.experiments.helpers import encounter
from train_RL_agents.evaluation.judging import avoidance
from train_RL_agents.evaluation.judging.policies import EvaluatedPolicy
from train_RL_agents.evaluation.suites import passing_encounters as geometry
from train_RL_agents.experiments.failures import SearchResult, distinct_failures, run_encounters, select_reproducible
from train_RL_agents.experiments.searches import Trials, concatenate_batches

CPU, STRAIGHT, WORLD = torch.device("cpu"), EvaluatedPolicy("straight"), WorldConfig(dt=0.25, substeps=2)
MEETING, PASSING = ("head-on", "keep", 0.5, 0.5), ("crossing from port", "keep", 0.5, 0.95)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Short episodes, and a sixth of the manoeuvres."""
    monkeypatch.setattr(geometry, "INITIAL_DISTANCES", (21.0, 24.0))
    monkeypatch.setattr(geometry, "MAX_STEPS", 36)
    monkeypatch.setattr(avoidance, "DENSE_LIST", avoidance.DENSE_LIST[::6])


@pytest.mark.heavy
def test_outcomes_are_in_the_order_of_the_encounters():
    """The second one is in a world of its own, as the own vessel is slow."""
    several = concatenate_batches([encounter(*PASSING), encounter("overtaken", *MEETING[1:]), encounter(*MEETING)])
    trials = run_encounters(STRAIGHT, several, WORLD, 0, CPU)
    assert trials.collision.tolist()[::2] == [False, True]
    assert trials.clearance[0] > 3.0 and trials.clearance[2] < 0.0
    assert not trials.unavoidable.any() and torch.equal(trials.failed, trials.collision)


def test_collisions_at_close_quarters_are_unavoidable(monkeypatch):
    monkeypatch.setattr(geometry, "INITIAL_DISTANCES", (6.0, 6.0))
    close = run_encounters(STRAIGHT, encounter(*MEETING), WORLD, 0, CPU)
    assert close.collision.item() and close.unavoidable.item() and close.unavoidable_at_sight.item()
    assert not close.failed.item() and close.clearance.item() < 0.0


@pytest.mark.heavy
@pytest.mark.parametrize(("confirm", "urgent"), [(3.0, 10.0), (100.0, 0.0)])
def test_contacts_of_candidates_can_be_searched_for(confirm, urgent):
    """Every contact is preceded by an urgent risk, unless no risk is urgent."""
    rules = ColregsConfig(confirm=confirm, urgent_time=0.0, urgent_distance=urgent)
    several = concatenate_batches([encounter(*PASSING), encounter(*MEETING)])
    trials = run_encounters(STRAIGHT, several, replace(WORLD, colregs=rules), 0, CPU, "candidates")
    assert trials.collision.tolist() == [False, True]
    assert trials.failed.tolist() == trials.unconfirmed.tolist() == [False, urgent == 0.0]


@pytest.mark.heavy
def test_the_vessel_that_is_hit_is_known():
    far, near = encounter(*PASSING), encounter(*MEETING)
    both = type(far)(torch.tensor([2]), torch.cat((far.cell, near.cell), 1), torch.cat((far.unit, near.unit), 1))
    trials = run_encounters(STRAIGHT, both, WORLD, 0, CPU)
    assert trials.hit.tolist() == [1] and trials.collision.item()


@pytest.mark.heavy
def test_episodes_that_do_not_fail_leave_their_places(monkeypatch):
    several = concatenate_batches([encounter(*PASSING), encounter(*MEETING), encounter("head-on", "stop", 0.5, 0.5)])
    never = torch.zeros(3, dtype=torch.bool)
    wrong = Trials(-torch.ones(3), ~never, never, never, torch.zeros(3, dtype=torch.int64), never, ~never)
    found = distinct_failures([SearchResult("random", several, wrong, 0.0)], WORLD, 0)
    assert len(found) == 3
    selected, recording = select_reproducible(STRAIGHT, found, WORLD, 0, CPU)
    labels = [label for _, label in selected]
    assert sorted(labels) == ["head-on, keep, 2 vessels", "head-on, stop, 2 vessels"]
    assert recording.groups == tuple(labels)
    none, recording = select_reproducible(STRAIGHT, found[:1], WORLD, 0, CPU)
    assert len(none) == 0 and recording is None
