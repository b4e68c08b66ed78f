"""Worlds with shores: groundings, routes, starts on land, levels with maps, and states set from outside."""

import json
from dataclasses import replace

import pytest
import torch

from marinenav_env import Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import NAMED_LEVELS
from marinenav_env.physics.shores import shore_clearance
from marinenav_env.scenarios import map_bank
from marinenav_env.scenarios.episode import episodes_from_scenarios
from marinenav_env.scenarios.map_bank import load_charts
from marinenav_env.scenarios.scenario_file import parse_scenarios, scenario_text
from marinenav_env.support.validation import ConfigError
from marinenav_env.waters.charts import read_chart
from tests.marinenav_env.env_helpers import actions_of, advance, same
from tests.marinenav_env.helpers import DATA, QUIET, simple_episode

COAST = [[40.0, -20.0, 40.0, 80.0]]
"""A coast from west to east, with land north of it (x is north)."""
ISLAND = [[20.0, 10.0, 20.0, 40.0], [20.0, 40.0, 30.0, 40.0], [30.0, 40.0, 30.0, 10.0], [30.0, 10.0, 20.0, 10.0]]


def ahead(env, steps):
    """The last result of steps full ahead."""
    data = env.reset()
    for _ in range(steps):
        data["robots", "action"] = torch.ones(*env.batch_size, env.num_robots, 2)
        data = env.step(data)["next"]
    return data


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_grounding_is_counted_apart_from_collisions(compiled):
    scene = simple_episode([(30.0, 10.0, 0.0), (30.0, 40.0, 0.0)], [(0.0, 10.0), (0.0, 40.0)], [(38.0, 40.0, 1.0)])
    scene = replace(scene, shores=COAST)
    env = MarineNavEnv(scenarios=[scene], episode_statistics=True, compile_step=compiled)
    ahead(env, 12)
    assert env.state.grounded.tolist() == [[True, False]]
    assert env.state.collided.all()
    statistics = dict(zip(env.statistics, env.outcome.statistics[0].tolist(), strict=True))
    assert (statistics["collision"], statistics["grounding"], statistics["success"]) == (1.0, 1.0, 0.0)


def test_a_grounding_costs_what_a_collision_costs():
    scene = replace(simple_episode([(36.0, 10.0, 0.0)], [(0.0, 10.0)]), shores=COAST)
    env, rewards = MarineNavEnv(scenarios=[scene]), []
    data = env.reset()
    while not data["done"].all():
        data["robots", "action"] = torch.ones(1, 1, 2)
        data = env.step(data)["next"]
        rewards.append(data["robots", "reward"].item())
    assert rewards[-1] < env.config.reward.collision_penalty
    assert env.outcome.grounded.item()


def test_a_vessel_cannot_jump_over_a_wall():
    scene = replace(simple_episode([(30.0, 10.0, 0.0)], [(90.0, 10.0)]), shores=[*COAST, COAST[0][2:] + COAST[0][:2]])
    thin = replace(scene.world, vessel=replace(scene.world.vessel, radius=0.01))
    env = MarineNavEnv(thin, scenarios=[replace(scene, world=thin, route=[[]])])
    ahead(env, 20)
    assert env.state.grounded.all()


@pytest.mark.parametrize("route", [[], [[]]])
@pytest.mark.parametrize(
    ("start", "goal", "what"), [(25.0, 50.0, "starts"), (31.0, 50.0, "starts"), (10.0, 25.0, "has its goal")]
)
def test_starts_and_goals_on_land_and_starts_that_touch_it_are_refused(start, goal, what, route):
    scene = replace(simple_episode([(start, 20.0, 0.0)], [(goal, 20.0)]), shores=ISLAND, route=route)
    tensors = MarineNavEnv(scenarios=[replace(scene, shores=[[900.0, 0.0, 910.0, 0.0]])]).scenario.clone()
    tensors.shores[0, : len(ISLAND)] = torch.tensor(ISLAND)
    for scenarios in ([scene], tensors):
        with pytest.raises(ConfigError, match=rf"^episode 1: robot 1 {what} at \[.*\], on land or too close to it$"):
            MarineNavEnv(scenarios=scenarios)


def test_a_route_leads_around_an_island_and_progress_is_along_it():
    scene = replace(simple_episode([(10.0, 25.0, 0.0)], [(45.0, 25.0)]), shores=ISLAND)
    env = MarineNavEnv(scenarios=[scene], dtype=torch.float64)
    env.reset()
    route = env.scenario.route[0, 0]
    length = torch.linalg.vector_norm(route[0, 3:]) + route[0, 2]
    assert 35.0 + 10.0 < length < 70.0
    assert abs(env.state.pose[0, 0, 1] - route[0, 1]) > 10.0
    assert shore_clearance(route[None, :, :2], env.scenario.shores).min() >= 4.9
    goal = env.world_state.now.observation["self_state"][0, 0, :2]
    assert goal.tolist() == pytest.approx((route[0, :2] - env.state.pose[0, 0, :2]).tolist())


def test_a_stated_route_is_kept():
    scene = replace(simple_episode([(10.0, 25.0, 0.0)], [(45.0, 25.0)]), shores=ISLAND, route=[[[25.0, 60.0]]])
    env = MarineNavEnv(scenarios=[scene])
    assert env.scenario.route[0, 0, :3, :2].tolist() == [[25.0, 60.0], [45.0, 25.0], [45.0, 25.0]]


def test_a_route_of_one_vessel_leads_no_other_over_land():
    """A way without waypoints is straight where no shore is on it."""
    both = simple_episode(
        [(10.0, 5.0, 0.0), (10.0, 25.0, 0.0), (10.0, 50.0, 0.0)], [(45.0, 5.0), (45.0, 25.0), (45.0, 50.0)]
    )
    env = MarineNavEnv(scenarios=[replace(both, shores=ISLAND, route=[[[25.0, 6.0]], [], []])])
    assert env.scenario.route[0, 0, 0, :2].tolist() == [25.0, 6.0]
    assert abs(env.scenario.route[0, 1, 0, 1] - 25.0) > 5.0
    assert env.scenario.route[0, 2, 0, :2].tolist() == [45.0, 50.0]


def test_the_margin_of_computed_routes_is_that_of_the_world():
    walls = [[20.0, -40.0, 20.0, 21.0], [20.0, 29.0, 20.0, 90.0]]
    gap = [*walls, *([*each[2:], *each[:2]] for each in walls)]
    scene = replace(simple_episode([(8.0, 25.0, 0.0)], [(45.0, 25.0)]), shores=gap)
    for margin, is_detour in ((5.0, True), (2.0, False)):
        env = MarineNavEnv(WorldConfig(scenario=ScenarioConfig(shore_margin=margin)), scenarios=[scene])
        assert (env.scenario.route[0, 0, 0, :2] != env.scenario.goal[0, 0]).any() == is_detour


def test_scenario_files_carry_shores_and_routes():
    scene = replace(simple_episode([(10.0, 25.0, 0.0)], [(45.0, 25.0)]), shores=ISLAND, route=[[[25.0, 60.0]]])
    assert parse_scenarios(json.loads(scenario_text([scene]))) == [scene]
    env = MarineNavEnv(scenarios=[scene], dtype=torch.float64)
    again = episodes_from_scenarios(env.scenario, env.config)[0]
    assert (again.shores, again.route) == (scene.shores, scene.route)


def test_shores_far_away_change_nothing():
    config = WorldConfig(sensor=QUIET)
    far = [[900.0, 900.0, 910.0, 900.0], [910.0, 900.0, 900.0, 900.0]]
    scenes = [simple_episode([(10.0, 10.0, 0.3), (20.0, 25.0, 2.0)], [(40.0, 40.0), (10.0, 40.0)])]
    worlds = [
        MarineNavEnv(config, scenarios=[replace(each, shores=shores, route=[[], []]) for each in scenes], seed=1)
        for shores in ([], far)
    ]
    results = [ahead(env, 25) for env in worlds]
    for key in (
        ("robots", "reward"),
        ("robots", "observation", "self_state"),
        ("robots", "observation", "objects_state"),
    ):
        assert torch.allclose(results[0][key], results[1][key], atol=1e-4), key


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """A folder with charts of two windows."""
    folder = tmp_path_factory.mktemp("maps")
    for name in ("island", "marina"):
        read_chart(DATA / "waters" / f"miami_{name}_300.json").save(folder / f"{name}.json")
    return folder


def test_levels_draw_starts_goals_and_routes_on_the_water_of_charts(maps):
    levels = (Level(3, 0, 2, 80.0, maps=str(maps)), Level(3, 0, 0, 30.0))
    env = MarineNavEnv(num_envs=48, scenarios=Curriculum(levels=levels, pool_size=64, refresh_size=64), seed=3)
    scenario = env.scenario
    on_map = scenario.level == 0
    assert 8 < on_map.sum() < 40
    assert env.config.scenario.shore_segments == 64
    places = torch.cat((scenario.start, scenario.goal, scenario.route[..., :2].flatten(1, 2)), 1)[on_map]
    assert shore_clearance(places, scenario.shores[on_map]).min() >= env.config.scenario.shore_margin - 1e-2
    stones = scenario.obstacle_position[on_map], scenario.obstacle_radius[on_map]
    assert (shore_clearance(stones[0], scenario.shores[on_map]) > stones[1]).all()
    assert torch.equal(scenario.route[:, :, -1, :2], scenario.goal)
    assert scenario.robot_mask.sum(-1).tolist() == [3] * 48
    assert torch.equal(scenario.map_size[~on_map], torch.full_like(scenario.map_size[~on_map], 55.0))
    assert torch.equal(scenario.map_size[on_map], torch.full_like(scenario.map_size[on_map], 300.0))
    sizes = [each.world.scenario.width for each in episodes_from_scenarios(scenario, env.config)]
    assert sizes == scenario.map_size[:, 0].tolist()
    data = env.reset()
    for _ in range(5):
        data = env.step(env.rand_action(data))["next"]
    assert data["robots", "observation", "shore"].isfinite().all()


def test_a_chart_that_has_changed_is_read_again(tmp_path, monkeypatch):
    charts = [read_chart(DATA / "waters" / f"miami_{name}_300.json") for name in ("island", "marina")]
    monkeypatch.chdir(tmp_path)
    charts[0].save("here.json")
    before = load_charts("here.json")
    assert load_charts("here.json")[0] is before[0] is load_charts(str(tmp_path))[0]
    charts[1].save("here.json")
    assert load_charts("here.json")[0].text() == charts[1].text()


def test_maps_that_cannot_be_used_are_refused(tmp_path):
    for maps, message in ((tmp_path / "none.json", "none.json"), (tmp_path, "folder of 1 to")):
        with pytest.raises(ConfigError, match=message):
            MarineNavEnv(scenarios=Curriculum(levels=(Level(1, 0, 0, 30.0, maps=str(maps)),)))
    with pytest.raises(ConfigError, match=r"level\.map_size=60\.0: must be 0 with maps"):
        Level(1, 0, 0, 30.0, maps="random", map_size=60.0)


def test_states_can_be_set_from_outside():
    scene = simple_episode([(10.0, 10.0, 0.0), (40.0, 10.0, 0.0)], [(10.0, 40.0), (40.0, 40.0)], sensor=QUIET)
    env = MarineNavEnv(WorldConfig(sensor=QUIET), scenarios=[scene], dtype=torch.float64)
    env.reset()
    pose = torch.tensor([[[0.0, 0.0, 0.0], [12.0, 20.0, 1.5]]], dtype=torch.float64)
    data = env.inject({"pose": pose}, torch.tensor([[False, True]]))
    assert env.state.pose[0].tolist() == [[10.0, 10.0, 0.0], [12.0, 20.0, 1.5]]
    assert data["robots", "observation", "objects_state"][0, 0, 0, :2].tolist() == pytest.approx([2.0, 10.0])
    for states, message in (
        ({"goal": pose}, "states='goal': must be one of pose"),
        ({"pose": pose[..., :2]}, r"states\['pose'\]=\[1, 2, 2\]: must be finite numbers \[1, 2, 3\]"),
        ({"pose": pose * float("nan")}, "must be finite numbers"),
        ({"actuator": pose}, "states='actuator': must be one of"),
    ):
        with pytest.raises(ConfigError, match=message):
            env.inject(states)
    with pytest.raises(ConfigError, match=r"robots='\[1\] torch.int64': must be a mask \[1, 2\] of bool"):
        env.inject({"pose": pose}, torch.tensor([0]))


def test_room_for_shores_without_any_is_open_water():
    config = WorldConfig(scenario=ScenarioConfig(shore_segments=16))
    env = MarineNavEnv(config, 4, seed=0)
    data = env.reset()
    assert not data["robots", "observation", "shore_mask"].any()
    assert env.scenario.shores.shape == (4, 16, 4)
    drawn = MarineNavEnv(WorldConfig(), 4, seed=0).scenario  # scenarios of suites, which know nothing of shores
    given = MarineNavEnv(config, scenarios=drawn, seed=0).reset()
    assert not given["robots", "observation", "shore_mask"].any()


def test_a_chart_file_is_a_scenario_file(maps):
    env = MarineNavEnv(scenarios=maps / "marina.json", num_envs=4)
    assert (env.num_robots, env.scenario.shores.shape[1]) == (3, 64)
    assert torch.equal(env.scenario.start, MarineNavEnv(scenarios=maps / "marina.json", num_envs=4).scenario.start)
    starts = MarineNavEnv(scenarios=maps / "marina.json", num_envs=100).scenario.start.flatten(0, 1)
    assert len(torch.unique(starts, dim=0)) > 200  # a chart alone has many passages, or intervals would be too narrow


@pytest.mark.parametrize("count", [4, pytest.param(map_bank.NUM_RANDOM_MAPS, marks=pytest.mark.slow)])
def test_generated_shores_have_starts_goals_and_routes(monkeypatch, count):
    charts = map_bank._random_charts.__wrapped__
    monkeypatch.setattr(map_bank, "NUM_RANDOM_MAPS", count)
    monkeypatch.setattr(map_bank, "_random_charts", charts)  # none is kept for other tests
    level = replace(NAMED_LEVELS["harbour"], num_robots=2)
    env = MarineNavEnv(num_envs=8, scenarios=Curriculum(levels=(level,), pool_size=8, refresh_size=8))
    assert env.scenario.robot_mask.all()
    assert (env.scenario.shores[..., 0] < 1e5).any(-1).all()


def test_a_saved_world_goes_on_exactly(maps):
    given = Curriculum(levels=(Level(3, 0, 1, 60.0, maps=str(maps)),), pool_size=16, refresh_size=8)
    first, second = (MarineNavEnv(num_envs=6, scenarios=given, seed=5) for _ in range(2))
    actions = actions_of(first, 24)
    data = advance(first, first.reset(), actions[:12])[1]
    second.load_state_dict(first.state_dict())
    expected = advance(first, data, actions[12:])[0]
    assert same(advance(second, second.reset(), actions[12:])[0], expected)
    assert torch.equal(first.state.waypoint, second.state.waypoint)
