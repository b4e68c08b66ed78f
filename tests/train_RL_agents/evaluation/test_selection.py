"""Which scenarios are chosen by the options of a command."""

import pytest

from marinenav_env import ConfigError, WorldConfig
from train_RL_agents.config.schema import EvalSchedule
from train_RL_agents.evaluation.selection import choose_set, defaults

WORLD, SCHEDULE = WorldConfig(), EvalSchedule(num_episodes=(2, 1, 0, 1, 1, 1), seed=7)


def test_without_options_it_is_the_fixed_set():
    chosen, described = choose_set(WORLD, SCHEDULE, {})
    (part,) = chosen.parts
    assert (chosen.seed, len(part.scenarios)) == (7, 6)
    assert {name: each["episodes"] for name, each in described.items()} == {
        "level 1": 2, "level 2": 1, "level 3": 0, "level 4": 1, "level 5": 1, "level 6": 1
    }  # fmt: skip


def test_levels_are_counted_from_one():
    chosen, described = choose_set(WORLD, SCHEDULE, {"levels": [6, 2], "episodes": 3})
    assert chosen.parts[0].scenarios.level.tolist() == [1] * 3 + [5] * 3
    assert list(described) == ["level 2", "level 6"]


def test_fresh_seeds_differ():
    seeds = {choose_set(WORLD, SCHEDULE, {"fresh": True, "levels": [1]})[0].seed for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [({"levels": [0]}, "--levels=0: must be from 1 to 6"), ({"seed": -1}, "--seed=-1: must be"),
     ({"scenarios": "x.json", "episodes": 2}, "--episodes=2: must be left out: x.json has its own"),
     ({"suite": "none"}, "--suite='none': must be one of")],
)  # fmt: skip
def test_what_cannot_be_chosen_is_refused(given, message):
    with pytest.raises(ConfigError) as caught:
        choose_set(WORLD, SCHEDULE, given)
    assert str(caught.value).startswith(message)


def test_baselines_are_evaluated_in_the_published_world():
    assert defaults(["orca", "apf"]) == (EvalSchedule(), WorldConfig())
