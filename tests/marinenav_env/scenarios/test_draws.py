"""Random numbers of scenarios by counter."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import LEVELS, Level
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios import draws
from marinenav_env.scenarios.scenario import ScenarioSampler
from marinenav_env.state import Scenario
from tests.marinenav_env.helpers import CPU

CROWDED = (Level(14, 12, 20, 40.0), Level(5, 8, 4, 40.0), Level(3, 0, 0, 30.0))
MEETING = (
    Level(6, 1, 2, 70.0, encounter=True, separation=0.9, traffic=0.5),
    Level(2, 0, 0, 0.0, encounter=True, map_size=80.0),
    Level(8, 0, 0, 30.0),
)
COUNT = 60


def drawn(levels: tuple[Level, ...], numbers: slice = slice(None)) -> Scenario:
    sampler = ScenarioSampler(ScenarioConfig(), levels, CPU, torch.float32)
    level = torch.arange(COUNT) % len(levels)
    return sampler.sample(level[numbers], RandomSource.from_seed(5, COUNT, CPU).select(numbers))


def same(first: Scenario, second: Scenario) -> bool:
    pairs = zip(first.values(True, True), second.values(True, True), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("levels", [LEVELS, CROWDED, MEETING], ids=["usual", "crowded", "meeting"])
@pytest.mark.parametrize("way", ["all", "one", "gpu"])
def test_scenarios_do_not_depend_on_how_many_candidates_are_examined_at_first(
    levels: tuple[Level, ...], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = drawn(levels)
    if way == "gpu":
        monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
    else:
        monkeypatch.setattr(draws, "FIRST_CANDIDATES", 1 if way == "one" else 500)
    assert same(drawn(levels), expected)


def test_more_candidates_are_examined_for_few_scenarios_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, candidates = [], draws.CounterDraws.candidates

    def counted(self: draws.CounterDraws, purpose: int, count: int, *given: Any) -> Any:
        if purpose == draws.ROBOTS:
            asked.append((count, len(self.source.environment)))
        return candidates(self, purpose, count, *given)

    monkeypatch.setattr(draws.CounterDraws, "candidates", counted)
    monkeypatch.setattr(draws, "FIRST_CANDIDATES", 16)
    drawn(LEVELS)
    counts, rows = zip(*asked, strict=True)
    assert counts == (16, 64, 256) and rows[0] == COUNT > rows[1] > 2 * rows[2] > 0


@pytest.mark.parametrize("levels", [LEVELS, CROWDED, MEETING])
def test_a_scenario_does_not_depend_on_the_others(levels: tuple[Level, ...]) -> None:
    some = slice(20, 45)
    assert same(drawn(levels, some), drawn(levels)[some])


@pytest.mark.parametrize("sizes", [(2, 2), (2, 1, 1), (2, 1), (5, 5), (0, 0)])
def test_the_first_candidates_are_the_same_of_any_number(sizes: tuple[int, ...]) -> None:
    source = draws.CounterDraws(RandomSource.from_seed(3, 7, CPU), torch.float64)
    few, many = (source.candidates(5, count, sizes, 3) for count in (6, 40))
    for size, one, other in zip(sizes, few, many, strict=True):
        assert one.shape == (size, 7, 6)
        assert torch.equal(one, other[..., :6])
    assert many[0].dtype == torch.int64 and set(many[0].unique().tolist()) <= {0, 1, 2}
    every = torch.cat([each.flatten() for each in many[1:]])
    assert len(every.unique()) == every.numel()
    other = replace(source, source=source.source._replace(step=torch.tensor(1)))
    for one, two in ((6, source), (5, other)):
        again = two.candidates(one, 40, sizes)
        assert not any(torch.equal(a, b) for a, b in zip(again[1:], many[1:], strict=True) if len(a))


def test_numbers_of_every_shape_differ() -> None:
    source = draws.CounterDraws(RandomSource.from_seed(3, 7, CPU), torch.float32)
    for before, after in (((), ()), ((3,), ()), ((2,), (4, 2)), ((), (5,))):
        found = source.uniform(5, before, after)
        assert found.shape == (*before, 7, *after) and found.dtype == torch.float32
        assert found.is_contiguous() and len(found.unique()) == found.numel()
        row = source.rows(torch.tensor([4])).uniform(5, before, after)
        assert torch.equal(row.squeeze(len(before)), found.select(len(before), 4))
