"""Routes: passing waypoints, and distances along them."""

import math

import pytest
import torch

from marinenav_env.config import MAX_WAYPOINTS
from marinenav_env.physics.routes import goal_distance, is_at_goal, make_route, next_waypoint, pass_waypoints
from marinenav_env.scenarios.episode import stack_episodes
from marinenav_env.stepping.world import initial_state
from tests.marinenav_env.helpers import CPU, simple_episode

START, GOAL = (0.0, 0.0, 0.0), (40.0, 40.0)
WAYPOINTS = [(20.0, 0.0), (20.0, 40.0)]
RADIUS = torch.tensor([[3.0]], dtype=torch.float64)


def at(x, y, waypoint=0):
    """State and scenario of a robot at a place on the way over WAYPOINTS, and the waypoint it steers for."""
    scenario, parameters, _ = stack_episodes([simple_episode([START], [GOAL])], CPU, torch.float64)
    places = torch.tensor([[*WAYPOINTS, *[GOAL] * (MAX_WAYPOINTS - 2)]], dtype=torch.float64)
    scenario.route = make_route(scenario.start, places[None])
    state = initial_state(scenario, parameters.rules.core_radius)
    state.pose[..., :2] = torch.tensor([x, y])
    state.waypoint = torch.tensor([[waypoint]])
    return state, scenario


def test_the_distance_is_that_along_the_route():
    assert goal_distance(*at(0.0, 0.0)).item() == pytest.approx(20.0 + 40.0 + 20.0)
    assert goal_distance(*at(20.0, 30.0, 1)).item() == pytest.approx(10.0 + 20.0)
    assert goal_distance(*at(23.0, 40.0, MAX_WAYPOINTS - 1)).item() == pytest.approx(17.0)


@pytest.mark.parametrize(
    ("place", "waypoint", "expected"),
    [
        ((10.0, 0.0), 0, 0),
        ((17.5, 1.0), 0, 1),  # near
        ((21.0, -8.0), 0, 1),  # abeam, beyond the line through the waypoint
        ((19.0, -8.0), 0, 0),
        ((30.0, 39.0), 1, 1),  # the second leg leads to the east
        ((30.0, 41.0), 1, 2),
        ((40.0, 40.0), MAX_WAYPOINTS - 1, MAX_WAYPOINTS - 1),
    ],
)
def test_waypoints_are_passed_near_or_abeam(place, waypoint, expected):
    state, scenario = at(*place, waypoint)
    assert pass_waypoints(state, scenario, RADIUS).item() == expected


def test_waypoints_around_the_head_of_a_pier_are_passed_one_after_another():
    state, scenario = at(23.0, 0.5, 1)
    scenario.route = make_route(
        scenario.start, torch.tensor([[[[20.0, 0.0], [24.0, 2.0], [20.0, 4.0]]]], dtype=torch.float64)
    )
    assert pass_waypoints(state, scenario, RADIUS).item() == 2
    state.pose[..., :2] = torch.tensor([21.0, 2.0])  # 1 m from the pier: within the radius of the last, not around it
    assert pass_waypoints(state, scenario, RADIUS).item() == 1


def test_a_robot_steers_for_its_waypoint_and_then_for_the_goal():
    assert next_waypoint(*at(0.0, 0.0)).flatten().tolist() == [20.0, 0.0]
    assert next_waypoint(*at(0.0, 0.0, 2)).flatten().tolist() == [*GOAL]


def test_the_goal_may_be_reached_from_any_leg():
    state, scenario = at(39.0, 40.0, 1)
    assert is_at_goal(state, scenario, RADIUS).all()


def test_without_routes_the_way_is_straight():
    state, scenario = at(10.0, 0.0)
    scenario.route = None
    assert goal_distance(state, scenario).item() == pytest.approx(math.hypot(30.0, 40.0))
    assert pass_waypoints(state, scenario, RADIUS) is None
