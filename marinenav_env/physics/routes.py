"""Routes over water: waypoints of robots, of which the last is the goal.

A route ``[E, R, W, 5]`` has a row for each waypoint: x and y (m), the length of the route from there to the goal (m),
and x and y of the leg that leads there (m). The goal is repeated in slots that a route does not need. A robot steers
for its next waypoint, and its distance to the goal is measured along the route. Without routes, the next waypoint is
the goal.
"""

import torch
from torch import Tensor

from marinenav_env.config import MAX_WAYPOINTS
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Scenario, State


def make_route(start: Tensor, waypoints: Tensor) -> Tensor:
    """Return the route [..., W, 5] from starts [..., 2] along waypoints [..., W, 2] (m)."""
    legs = waypoints - torch.cat((start[..., None, :], waypoints[..., :-1, :]), -2)
    lengths = torch.linalg.vector_norm(legs, dim=-1)
    rest = lengths.flip(-1).cumsum(-1).flip(-1) - lengths
    return torch.cat((waypoints, rest[..., None], legs), -1)


def straight_route(start: Tensor, goal: Tensor) -> Tensor:
    """Return the route [..., W, 5] straight from starts to goals [..., 2] (m)."""
    return make_route(start, goal[..., None, :].expand(*goal.shape[:-1], MAX_WAYPOINTS, 2))


def next_waypoint(state: State, scenario: Scenario) -> Tensor:
    """Return x and y of the waypoint that every robot steers for (m), [E, R, 2]."""
    return scenario.goal if scenario.route is None else _at_waypoint(scenario.route, state.waypoint)[..., :2]


def goal_distance(state: State, scenario: Scenario) -> Tensor:
    """Return the distance of every robot to its goal, along its route (m), [E, R]."""
    if scenario.route is None:
        return _distance(state, scenario.goal)
    waypoint = _at_waypoint(scenario.route, state.waypoint)
    return _distance(state, waypoint) + waypoint[..., 2]


def is_at_goal(state: State, scenario: Scenario, within: Tensor) -> Tensor:
    """Return which robots [E, R] are at most a distance ``within`` (m) from their goals, in a straight line."""
    return _distance(state, scenario.goal) <= within


def pass_waypoints(state: State, scenario: Scenario, within: Tensor) -> Tensor | None:
    """Return the numbers [E, R] of the waypoints that robots steer for after a step; None without routes.

    A waypoint is passed at a distance of at most ``within`` (m) and half of the leg that leads to it, so that a way
    around the head of a pier is not cut short, or when it is abeam: when the robot is beyond the line through it at
    right angles to that leg.
    """
    route, number = scenario.route, state.waypoint
    if route is None or number is None:
        return None
    waypoint = _at_waypoint(route, number)
    leg_x, leg_y = env_last(waypoint)[3:]
    to_x, to_y = _offset(state, waypoint)
    reach = torch.minimum(env_last(within).square(), 0.25 * (leg_x.square() + leg_y.square()))
    is_near = to_x.square() + to_y.square() <= reach
    is_abeam = to_x * leg_x + to_y * leg_y <= 0.0
    passed = env_first(torch.where(is_near | is_abeam, 1, 0))
    return (number + passed).clamp_max(route.shape[2] - 1)


def _at_waypoint(route: Tensor, number: Tensor | None) -> Tensor:
    """Return the rows [E, R, 5] of routes at the numbers [E, R] of waypoints."""
    assert number is not None
    index = number[..., None, None].expand(*number.shape, 1, route.shape[-1])
    return route.gather(2, index).squeeze(2)


def _offset(state: State, place: Tensor) -> tuple[Tensor, Tensor]:
    """Return x and y from every robot to a place, [E, R, 2] or more columns (m), [R, E] each."""
    place_x, place_y = env_last(place)[:2]
    x, y, _ = env_last(state.pose)
    return place_x - x, place_y - y


def _distance(state: State, place: Tensor) -> Tensor:
    """Return the distance of every robot to a place, [E, R, 2] or more columns (m), [E, R]."""
    dx, dy = _offset(state, place)
    return env_first(torch.sqrt(dx.square() + dy.square()))
