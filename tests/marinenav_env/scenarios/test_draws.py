"""Random numbers of scenarios by counter."""

import pytest
import torch

from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import LEVELS, Level
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios import draws
from marinenav_env.scenarios.scenario import ScenarioSampler
from tests.marinenav_env.helpers import CPU

CROWDED = (Level(14, 12, 20, 40.0), Level(5, 8, 4, 40.0), Level(3, 0, 0, 30.0))
MEETING = (
    Level(6, 1, 2, 70.0, encounter=True, separation=0.9, traffic=0.5),
    Level(2, 0, 0, 0.0, encounter=True, map_size=80.0),
    Level(8, 0, 0, 30.0),
)
COUNT = 60


def drawn(levels, numbers=slice(None)):
    sampler = ScenarioSampler(ScenarioConfig(), levels, CPU, torch.float32)
    level = torch.arange(COUNT) % len(levels)
    return sampler.sample(level[numbers], RandomSource.from_seed(5, COUNT, CPU).select(numbers))


def same(first, second):
    pairs = zip(first.values(True, True), second.values(True, True), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("levels", [LEVELS, CROWDED, MEETING], ids=["usual", "crowded", "meeting"])
@pytest.mark.parametrize("way", ["all", "one", "gpu"])
def test_scenarios_do_not_depend_on_how_many_candidates_are_examined_at_first(levels, way, monkeypatch):
    expected = drawn(levels)
    if way == "gpu":
        monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
    else:
        monkeypatch.setattr(draws, "FIRST_CANDIDATES", 1 if way == "one" else 500)
    assert same(drawn(levels), expected)


@pytest.mark.parametrize("levels", [LEVELS, CROWDED, MEETING])
def test_a_scenario_does_not_depend_on_the_others(levels):
    some = slice(20, 45)
    assert same(drawn(levels, some), drawn(levels)[some])
