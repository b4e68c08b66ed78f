"""Levels as objects, with a name to be like, and as columns."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from marinenav_env import LEVELS, ConfigError, Level
from train_RL_agents.config.levels import (
    NAMED,
    SIZES,
    EvalLevel,
    TrainingLevel,
    as_levels,
    short_dict,
)
from train_RL_agents.config.reading import flatten, from_dict, load_config, override, to_dict
from train_RL_agents.config.resuming import changes

CONFIGS = Path(__file__).parents[3] / "configs"
TWO = [{"like": "crossing", "num_robots": 4, "weight": 3}, {"num_robots": 3, "num_cores": 1}]


def levels(values, *words, section="training_schedule"):
    return getattr(from_dict(values, words), section).levels


def refused(*given, **options):
    with pytest.raises(ConfigError) as caught:
        levels(*given, **options)
    return str(caught.value)


def test_a_level_has_what_it_states_and_the_rest_of_the_one_that_it_is_like():
    crossing, other = levels({"training_schedule": {"levels": TWO}})
    assert crossing == TrainingLevel(4, 0, 0, 0.0, encounter=True, weight=3.0)
    assert other == TrainingLevel(3, 1)
    (word,) = levels({}, 'training_schedule.levels={"like": "published_4", "noise": 2}')
    assert word == TrainingLevel(5, 0, 2, 40.0, noise=2.0)


def test_defaults_are_the_published_levels():
    assert as_levels(Level, levels({})) == LEVELS
    assert levels({}, section="eval_schedule") == as_levels(EvalLevel, LEVELS)


def test_levels_and_columns_make_the_same_configuration():
    columns = {
        "num_robots": [4, 3],
        "num_cores": [0, 1],
        "num_obstacles": [0, 4],
        "min_start_goal_dis": [0, 40],
        "encounter": [True, False],
        "weights": [3, 1],
        "noise": [],
        "timesteps": [],
    }
    assert from_dict({"training_schedule": columns}) == from_dict({"training_schedule": {"levels": TWO}})


def test_columns_are_laid_over_levels_of_a_file_and_new_levels_replace_columns():
    file = {"training_schedule": {"levels": TWO}}
    first, second = levels(file, "training_schedule.weights=5,6", "training_schedule.noise=")
    assert (first.num_robots, first.weight, second.weight) == (4, 5.0, 6.0)
    sizes = [f"training_schedule.{name}=1" for name in SIZES]
    assert levels(file, *sizes) == (TrainingLevel(1, 1, 1, 1.0),)
    columns = {"training_schedule": {"num_robots": [1] * 6}}
    assert len(levels(columns, f"training_schedule.levels={json.dumps(TWO)}")) == 2


SEA = {
    "num_robots": [3, 4, 5, 5, 5, 5, 2, 3, 4, 5, 2, 3, 4, 6, 10, 10, 5, 3, 4, 3, 4],
    "num_cores": [*[0] * 13, 8, *[0] * 7],
    "num_obstacles": [0, 0, 0, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 8, 8, 6, 3, 0, 0, 0, 0],
    "min_start_goal_dis": [30, 35, *[40] * 4, *[0] * 7, *[40] * 4, *[0] * 4],
    "encounter": [*[False] * 6, *[True] * 7, *[False] * 4, *[True] * 4],
    "traffic": [*[0] * 10, 0.7, 0.6, 0.6, *[0] * 6, 0.05, 0.05],
    "map_size": [*[0] * 14, 78, 60, *[0] * 5],
    "weights": [1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 1, 0.5, 0.5, 12, 9, 9, 3, 2, 2, 3, 3],
    "vessel_spread": [*[1] * 16, 2, 4, 4, 1, 1],
    "separation": [*[0] * 19, 0.12, 0.12],
}  # fmt: skip
"""Levels of the shipped configurations for sea, as they once were written."""
MORE = {"num_robots": [5, 2], "num_cores": [0, 0], "num_obstacles": [3, 0],
        "min_start_goal_dis": [40, 0], "encounter": [False, True], "weather": [1, 0],
        "traffic": [0, 0.05], "separation": [0, 0.12]}  # fmt: skip
"""Two that are in those of PPO and A2C alone."""
OTHER = [1, 1, 1, 1, 1, 2, 2, 5, 5, 5, 1, 0.5, 0.5, 16, 9, 9, 4, 4, 4, 5, 5]
LAST = [1, 1, 1, 1, 1, 2, 2, 7, 7, 7, 1, 0.5, 0.5, 16, 13, 13, 4, 5, 5, 14, 14]


@pytest.mark.parametrize(
    ("name", "weights", "more"),
    [
        *((name, SEA["weights"], []) for name in ("ac_iqn", "ddpg", "dqn", "iqn", "rainbow", "sac")),
        ("a2c", OTHER, [3, 2]),
        ("ppo", LAST, [3, 8]),
    ],
)
def test_levels_of_shipped_configurations_are_what_they_were_as_columns(name, weights, more):
    shipped = list(levels(json.loads((CONFIGS / f"{name}_sea.json").read_text())))
    expected = list(levels({"training_schedule": SEA | {"weights": weights}}))
    if more:
        between, narrow = levels({"training_schedule": MORE | {"weights": more}})
        expected[17:17] = [between]
        expected[20:20] = [narrow]
    if name == "ppo":
        slow = [
            replace(level, slow_vessel=True, weight=weight) for level, weight in zip(expected[-2:], (6, 8), strict=True)
        ]
        expected += slow
    assert shipped == expected


def test_published_curricula_are_the_same_in_both_forms():
    usual = load_config(CONFIGS / "published_schedule.json")
    for path in sorted((CONFIGS / "faithful").glob("*.json")):
        config = load_config(path)
        assert config.training_schedule == usual.training_schedule
        assert config.eval_schedule == usual.eval_schedule


def test_a_saved_configuration_holds_levels_and_makes_the_same_one():
    config = from_dict({"training_schedule": {"levels": TWO}})
    saved = to_dict(config)
    assert saved["training_schedule"]["levels"] == [
        {
            "num_robots": 4,
            "num_cores": 0,
            "num_obstacles": 0,
            "min_start_goal_dis": 0.0,
            "encounter": True,
            "weight": 3.0,
        },
        {"num_robots": 3, "num_cores": 1, "num_obstacles": 4, "min_start_goal_dis": 40.0},
    ]
    assert from_dict({}, saved=saved) == config
    other = override(config, ["training_schedule.num_cores=0,2"])
    assert changes(flatten(saved), flatten(to_dict(other))) == [
        "training_schedule.levels: level 2: num_cores=2 (was 1)"
    ]
    other = override(config, ['training_schedule.levels={"like": "traffic"}'])
    assert changes(flatten(saved), flatten(to_dict(other))) == ["training_schedule.levels: 1 long (was 2)"]


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ({"like": "crosing"}, "level 2: like='crosing': must be one of published_1, "),
        ({"num_robot": 3}, "level 2: num_robot=3: there is no such setting; the closest: num_robots"),
        ({"num_robots": 0}, "level 2: num_robots=0: must be at least 1"),
        ({"like": "crossing", "num_robots": 7}, "level 2: num_robots=7: must be at most 6 in an"),
        ({"weight": -1}, "level 2: weight=-1"),
        (5, "level 2=5: must be an object such as"),
        ({"starts_at": 4}, "weight=(3.0, 1.0): must be left out beside starts_at"),
    ],
)
def test_mistakes_in_a_level(level, said):
    file = {"training_schedule": {"levels": [TWO[0], level]}}
    assert refused(file).startswith(f"training_schedule.levels: {said}")


def test_mistakes_in_all_levels():
    assert refused({}, "training_schedule.levels=[]").endswith("must be of one level or more")
    assert "weight=(0.0, 0.0): must be above 0" in refused(
        {"training_schedule": {"levels": TWO}}, "training_schedule.weights=0,0"
    )
    assert "starts_at=(1, 1): must be increasing, the first 0" in refused(
        {"training_schedule": {"levels": TWO}}, "training_schedule.timesteps=1,1"
    )


@pytest.mark.parametrize("name, value", [("map_size", 80), ("weather", 1), ("vessel_spread", 2)])
def test_an_evaluation_refuses_what_it_would_not_do(name, value):
    file = {"eval_schedule": {"levels": [{name: value}]}}
    said = refused(file, section="eval_schedule")
    assert said.startswith(f"eval_schedule.levels: level 1: {name}={value}")
    assert said.endswith("in an evaluation")


@pytest.mark.parametrize("kind", [TrainingLevel, EvalLevel])
def test_the_shortest_form_of_a_level_makes_it(kind):
    section = "eval_schedule" if kind is EvalLevel else "training_schedule"
    for level in as_levels(kind, [*LEVELS, Level(7, 1, 1, 5.0)]):
        assert levels({section: {"levels": [short_dict(level)]}}, section=section) == (level,)
    assert short_dict(TrainingLevel(**vars(NAMED["traffic"]))) == {"like": "traffic"}
