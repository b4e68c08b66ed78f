"""Encounters that a search chooses from."""

import torch

from marinenav_env.levels import DRAWN_BEHAVIOURS
from tests.train_RL_agents.falsification.parameters import drawn, encounter
from train_RL_agents.evaluation.suites.encounter_suites import COURSES_BY_KIND
from train_RL_agents.falsification.encounters import concatenate_batches, describe_encounters, signatures


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
