"""The turn angle of the rules of the sea, against the oracle."""

import math
import random
from collections import Counter

import pytest
import torch

from marinenav_env.config import ColregsConfig
from marinenav_env.rules.colregs import required_turn
from marinenav_env.state import Observation
from tests.oracle import colregs as oracle
from tests.oracle.angles import to_world, wrap_pi

CLOSE = 1e-7  # how near to an edge of a zone the draws come

X_EDGES, Y_EDGES = (-9.0, 0.0, 12.0, 17.0), (-17.0, -7.0, -4.5, 0.0, 4.5)
PSI_EDGES = (math.pi / 4.0, 3.0 * math.pi / 4.0, -3.0 * math.pi / 4.0, math.pi)


def near(rng: random.Random, edges: tuple[float, ...], low: float, high: float) -> float:
    """Some of the draws just on one side or the other of an edge, the others anywhere."""
    if rng.random() < 0.3:
        return rng.choice(edges) + rng.choice((-CLOSE, CLOSE))
    return rng.uniform(low, high)


def draw_speed(rng: random.Random) -> float:
    """A speed, mostly above the limit."""
    return near(rng, (0.5,), 0.4, 3.0)


def draw_object(rng: random.Random, own_direction: float) -> list[float]:
    """An object as observed, drawn by where the ego is in the object's frame."""
    x = near(rng, X_EDGES, -10.0, 18.0)
    y = near(rng, Y_EDGES, -18.0, 6.0)
    if rng.random() < 0.2:  # at the cut corner
        y = -7.0 - 7.0 / 12.0 * (x - 12.0) + rng.choice((-CLOSE, CLOSE))
    psi = near(rng, PSI_EDGES, -math.pi, math.pi)
    direction, speed = own_direction - psi, draw_speed(rng)
    position = to_world(direction, -x, -y)
    velocity = to_world(direction, speed, 0.0)
    return [*position, *velocity, rng.uniform(0.3, 4.0)]


def observed(
    own: list[list[list[float]]], objects: list[list[list[list[float]]]], mask: list[list[list[bool]]]
) -> Observation:
    """An observation of [E, R] own velocities and [E, R, K] objects."""
    velocity = torch.tensor(own, dtype=torch.float64)
    return Observation(
        self_state=torch.nn.functional.pad(velocity, (2, 3)),
        objects_state=torch.tensor(objects, dtype=torch.float64),
        objects_mask=torch.tensor(mask),
        batch_size=[len(own)],
    )


def test_equals_the_oracle_on_every_branch() -> None:
    rng, envs, robots, slots = random.Random(0), 600, 4, 5
    own, objects, mask = [], [], []
    for _ in range(envs):
        directions = [rng.uniform(-math.pi, math.pi) for _ in range(robots)]
        own.append([list(to_world(d, draw_speed(rng), 0.0)) for d in directions])
        objects.append([[draw_object(rng, d) for _ in range(slots)] for d in directions])
        mask.append([[rng.random() < 0.9 for _ in range(slots)] for _ in range(robots)])
    radii = [rng.uniform(1.0, 4.0) for _ in range(robots)]

    applies, phi = required_turn(
        observed(own, objects, mask), torch.tensor([radii], dtype=torch.float64), ColregsConfig()
    )
    branches: Counter[str] = Counter()
    for e in range(envs):
        for r in range(robots):
            args = (objects[e][r], mask[e][r], (own[e][r][0], own[e][r][1]), radii[r])
            expected = oracle.turn_angle(*args)
            assert bool(applies[e, r]) == expected[0]
            assert float(phi[e, r]) == pytest.approx(expected[1], abs=1e-10)
            for slot, (thing, real) in enumerate(zip(args[0], args[1], strict=True)):
                branches[branch(thing, real, *args[2:])] += 1
                alone = oracle.turn_angle([thing], [real], *args[2:])
                if alone[0]:
                    # An object that would apply decides only if it is the first to do so.
                    first = alone[1] == expected[1]
                    branches[f"{'first' if first else 'later'} in slot {slot}"] += 1
    names = {
        "masked",
        "own too slow",
        "other too slow",
        "clear",
        "cut corner",
        "inside the margin",
        "crossing to port",
        "crossing",
        "head-on to port",
        "head-on",
    }
    names |= {f"first in slot {k}" for k in range(slots)} | {f"later in slot {k}" for k in range(1, slots)}
    assert {name for name, count in branches.items() if count >= 10} == names, branches


def branch(thing: list[float], real: bool, own: tuple[float, float], own_radius: float) -> str:
    """Which way through the rules an object takes."""
    p = oracle.ColregsParams()
    direction, own_direction = math.atan2(thing[3], thing[2]), math.atan2(own[1], own[0])
    x, y = to_world(-direction, -thing[0], -thing[1])
    psi = wrap_pi(own_direction - direction)
    if not real:
        return "masked"
    if math.hypot(*own) < p.min_speed:
        return "own too slow"
    if math.hypot(thing[2], thing[3]) < p.min_speed:
        return "other too slow"
    crossing, head_on = oracle.crossing_from_left(x, y, psi, p), oracle.head_on(x, y, psi, p)
    if not (crossing or head_on):
        uncut = oracle.ColregsParams(crossing_corner=(12.0, 100.0))
        return "cut corner" if oracle.crossing_from_left(x, y, psi, uncut) else "clear"
    if math.hypot(thing[0], thing[1]) < thing[4] + p.margin:
        return "inside the margin"
    name = "crossing" if crossing else "head-on"
    applies, _ = oracle.turn_angle([thing], [True], own, own_radius)
    return name if applies else f"{name} to port"


@pytest.mark.parametrize(
    ("x", "y", "own", "expected"),
    [
        # crossing from the left, with a course difference of 45 and of 135 degrees
        (-9.0, -5.0, (1.0, 1.0), True),
        (-9.0, -5.0, (-1.0, 1.0), False),  # a turn to port
        (-9.000001, -5.0, (1.0, 1.0), False),
        (12.0, -7.0, (-1.0, 1.0), True),
        (12.000001, -7.0, (-1.0, 1.0), False),
        (12.0, -6.999999, (-1.0, 1.0), False),  # beyond the cut
        (0.0, 0.0, (-1.0, 1.0), False),  # the cut meets the axis at x = 0; nobody passes through
        (5.0, -17.0, (-1.0, 1.0), True),
        (5.0, -17.000001, (-1.0, 1.0), False),
        (-5.0, 0.0, (1.0, 1.0), True),
        (-5.0, 0.000001, (1.0, 1.0), False),
        (5.0, -10.0, (1.000001, 1.0), False),
        (5.0, -10.0, (-1.000001, 1.0), False),
        # head-on
        (17.0, 0.0, (-1.0, 0.0), True),
        (17.000001, 0.0, (-1.0, 0.0), False),
        (10.0, 4.5, (-1.0, 0.0), True),
        (10.0, 4.500001, (-1.0, 0.0), False),
        (10.0, -4.5, (-1.0, 0.0), True),
        (10.0, 3.0, (-1.000001, -1.0), True),
        (10.0, 3.0, (-1.0, -1.0), False),
        (10.0, 3.0, (-1.0, -0.999999), True),
        # speeds
        (17.0, 0.0, (-0.5, 0.0), True),
        (17.0, 0.0, (-0.499999, 0.0), False),
    ],
)
def test_edges_of_the_zones(x: float, y: float, own: tuple[float, float], expected: bool) -> None:
    """The object is at the origin of its frame and sails along x, so nothing is rounded."""
    thing = [-x, -y, 0.5, 0.0, 0.1]
    big = 1e3  # an own radius so large that every pass is a quarter turn wide
    applies, phi = required_turn(
        observed([[list(own)]], [[[thing]]], [[[True]]]), torch.tensor([[big]]), ColregsConfig()
    )
    assert applies.tolist() == [[expected]]
    assert (phi > 0.0).tolist() == [[expected]]
    assert oracle.turn_angle([thing], [True], own, big)[0] == expected


def test_zones_come_from_the_configuration() -> None:
    head_on = [[[[10.0, 0.0, -1.0, 0.0, 1.0]]]]
    crossing = [[[[5.0, 5.0, 0.0, -1.0, 1.0]]]]
    radius = torch.tensor([[2.795]], dtype=torch.float64)
    for thing, change in (
        (head_on, {"head_on_x": (0.0, 9.0)}),
        (head_on, {"head_on_heading": math.pi}),
        (head_on, {"min_speed": 1.1}),
        (head_on, {"clearance": 10.0}),
        (crossing, {"crossing_x": (-9.0, 4.0)}),
        (crossing, {"crossing_y": (-4.0, 0.0)}),
        (crossing, {"crossing_corner_y": -20.0}),
        (crossing, {"crossing_corner_slope": -1.0}),
        (crossing, {"crossing_heading": (2.0, 3.0)}),
    ):
        observation = observed([[[1.0, 0.0]]], thing, [[[True]]])
        assert required_turn(observation, radius, ColregsConfig())[0].all()
        assert not required_turn(observation, radius, ColregsConfig(**change))[0].any(), change
    off_axis = observed([[[1.0, 0.0]]], [[[[10.0, 1.0, -1.0, 0.0, 1.0]]]], [[[True]]])
    assert required_turn(off_axis, radius, ColregsConfig())[0].all()
    assert not required_turn(off_axis, radius, ColregsConfig(head_on_half_width=0.9))[0].any()


def test_an_object_at_the_own_place_gives_no_nan() -> None:
    things = [[[[0.0] * 5, [0.0, 0.0, -1.0, 0.0, -1.0]]]]
    for own in ([0.0, 0.0], [1.0, 0.0]):
        applies, phi = required_turn(
            observed([[own]], things, [[[True, True]]]), torch.tensor([[2.0]]), ColregsConfig()
        )
        assert torch.isfinite(phi).all() and (applies == (phi > 0.0)).all()
