"""Which scenarios are chosen by the options of a command."""

from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from marinenav_env import ConfigError, Level, WorldConfig
from marinenav_env.scenarios.scenario_file import write_scenarios
from marinenav_env.vessels import scaled_world
from tests.marinenav_env.helpers import simple_episode
from tests.refusals import refusal
from train_RL_agents.config.levels import convert_levels
from train_RL_agents.config.reading import from_dict
from train_RL_agents.config.schema import MAX_SEED, EvalSchedule
from train_RL_agents.evaluation.comparing.selection import choose_scenarios, default_schedule_and_world
from train_RL_agents.evaluation.judging.policies import EvaluatedPolicy

WORLD = WorldConfig()
DATA = Path(__file__).parents[3] / "data"
SCHEDULE = from_dict({"eval_schedule": {"num_episodes": [2, 1, 0, 1, 1, 1], "seed": 7}}).eval_schedule


def test_without_options_it_is_the_fixed_set():
    chosen, described = choose_scenarios(WORLD, SCHEDULE, {})
    (part,) = chosen.parts
    assert (chosen.seed, len(part.scenarios)) == (7, 6)
    assert [*described] == [f"level {number}" for number in range(1, 7)]
    assert [each["episodes"] for each in described.values()] == [2, 1, 0, 1, 1, 1]


def test_the_first_episodes_of_a_file_may_be_chosen(tmp_path):
    episodes = [simple_episode([(5.0, y, 0.0)], [[45.0, y]]) for y in (5.0, 15.0, 25.0)]
    write_scenarios(tmp_path / "x.json", episodes)
    for count in (1, 3):
        chosen, _ = choose_scenarios(WORLD, SCHEDULE, {"scenarios": tmp_path / "x.json", "episodes": count})
        assert [episode.start for episode in chosen.parts[0].scenarios] == [each.start for each in episodes[:count]]


def test_levels_are_counted_from_one():
    chosen, described = choose_scenarios(WORLD, SCHEDULE, {"levels": [6, 2], "episodes": 3})
    assert chosen.parts[0].scenarios.level.tolist() == [1] * 3 + [5] * 3
    assert list(described) == ["level 2", "level 6"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"levels": [0]}, "--levels=0: must be from 1 to 6"),
        ({"seed": -1}, "--seed=-1: must be"),
        ({"seed": MAX_SEED + 1}, f"--seed={MAX_SEED + 1}: must be"),
        ({"scenarios": DATA / "dnv_input.json", "episodes": 2}, "--episodes=2: must be at most the 1 of"),
        ({"suite": "papr"}, "--suite='papr': must be one of paper, fresh"),
        ({"suite": "paper", "episodes": 5}, "--episodes=5: must be left out: paper is a fixed set"),
    ],
)
def test_what_cannot_be_chosen_is_refused(given, message):
    assert refusal(choose_scenarios, WORLD, SCHEDULE, given).startswith(message)


def test_baselines_are_evaluated_in_the_published_world():
    found = default_schedule_and_world([EvaluatedPolicy("orca"), EvaluatedPolicy("apf")])
    assert found == (EvalSchedule(), WorldConfig())


def test_seed_and_levels_are_those_given():
    chosen, described = choose_scenarios(WORLD, SCHEDULE, {"seed": MAX_SEED, "levels": [2]})
    assert chosen.seed == MAX_SEED and len(chosen.parts[0].scenarios) == 1
    assert chosen.groups == tuple(f"level {number}" for number in range(1, 7))
    (level,) = convert_levels(Level, SCHEDULE.levels[1:2])
    assert described == {"level 2": {**asdict(level), "episodes": 1}}
    fixed, _ = choose_scenarios(WORLD, SCHEDULE, {})
    again, _ = choose_scenarios(WORLD, SCHEDULE, {"seed": 7})
    assert torch.equal(fixed.parts[0].scenarios.start, again.parts[0].scenarios.start)


def test_suites_take_episodes_and_a_seed_given_or_fresh(monkeypatch):
    chosen, described = choose_scenarios(WORLD, SCHEDULE, {"suite": "rules", "episodes": 2, "seed": 5})
    assert (chosen.name, chosen.seed, len(chosen), described) == ("rules", 5, 8, None)
    monkeypatch.setattr("secrets.randbelow", lambda limit: limit - 1)
    fresh = {"suite": "rules", "episodes": 1, "fresh": True}
    assert choose_scenarios(WORLD, SCHEDULE, fresh)[0].seed == 2**31 - 1


def test_a_file_has_scenarios_of_its_own(tmp_path):
    path = tmp_path / "mine.json"
    write_scenarios(path, [simple_episode([(5, 5, 0)], [(20, 20)])] * 3)
    chosen, described = choose_scenarios(WORLD, SCHEDULE, {"scenarios": path})
    assert (chosen.name, chosen.groups, len(chosen), chosen.seed) == ("scenarios", (), 3, 7)
    assert described is None


def test_a_doubtful_file_is_counted_or_refused(tmp_path):
    path = tmp_path / "doubtful.json"
    write_scenarios(path, [simple_episode([(5, 5, 0), (6, 5, 0)], [(20, 20), (9, 9)])])
    with pytest.warns(UserWarning, match="1 episodes with 2 starts that touch another robot"):
        choose_scenarios(WORLD, SCHEDULE, {"scenarios": path})
    with pytest.raises(ConfigError, match="1 episodes with 2 starts that touch another robot"):
        choose_scenarios(WORLD, SCHEDULE, {"scenarios": path, "strict": True})


def test_the_first_trained_policy_says_levels_and_world():
    config = from_dict({"world": {"max_steps": 9}, "eval_schedule": {"seed": 3}})
    policies = [
        EvaluatedPolicy("DQN", SimpleNamespace(config=each, path=path))
        for each, path in ((config, "a.pt"), (from_dict({}), "b.pt"))
    ]
    with pytest.warns(UserWarning, match=r"b\.pt: is evaluated with world\.max_steps of a\.pt, not its own"):
        found = default_schedule_and_world([EvaluatedPolicy("orca"), *policies])
    assert found == (config.eval_schedule, config.world)


@pytest.mark.filterwarnings("error")
def test_a_warning_says_that_a_file_has_other_vessels_or_sensors(tmp_path):
    path = tmp_path / "mine.json"
    write_scenarios(path, [simple_episode([(5, 5, 0)], [(20, 20)])])
    boat = scaled_world("otter")
    with pytest.warns(
        UserWarning, match=r"mine\.json: episodes have world\.dt, world\.\S+.* of the file, or the defaults"
    ):
        choose_scenarios(boat, SCHEDULE, {"scenarios": path})
    more = replace(WORLD, sensor=replace(WORLD.sensor, max_objects=8))
    for world, file in ((WORLD, path), (more, path), (boat, DATA / "dnv_generated.json")):
        choose_scenarios(world, SCHEDULE, {"scenarios": file})


def test_situations_of_other_programs_have_the_vessels_of_the_world():
    world = replace(WORLD, vessel=replace(WORLD.vessel, m=410.0))
    chosen, _ = choose_scenarios(world, SCHEDULE, {"scenarios": DATA / "dnv_generated.json"})
    (part,) = chosen.parts
    (episode,) = part.scenarios
    assert len(episode.start) == 3 and episode.world.vessel.m == 410.0
