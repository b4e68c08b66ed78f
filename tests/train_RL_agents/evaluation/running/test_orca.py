"""ORCA against the reference implementation (RVO2, by its Python bindings) and by search."""

import pytest
import torch

from train_RL_agents.evaluation.running.orca import best_velocity, half_planes

HORIZON, STEP, RADIUS, TOP_SPEED = 4.0, 0.5, 2.5, 2.0


def crowds(count, others, spread):
    """Positions, velocities and wanted velocities of crowds, [N, 1 + others, 2]."""
    generator = torch.Generator().manual_seed(others)
    shape = (count, 1 + others, 2)
    position = spread * (torch.rand(shape, generator=generator, dtype=torch.float64) - 0.5)
    velocity, wanted = (
        torch.nn.functional.normalize(torch.randn(shape, generator=generator, dtype=torch.float64), dim=-1)
        * TOP_SPEED
        * torch.rand((*shape[:-1], 1), generator=generator, dtype=torch.float64)
        for _ in range(2)
    )
    return position, velocity, wanted


@pytest.fixture
def pyrvo():
    """RVO2; not at the module's level, where its absence would end the collection of all tests."""
    return pytest.importorskip("pyrvo", reason="needs the extra test")


def reference(pyrvo, position, velocity, wanted):
    """The first agent's next velocity, as RVO2 computes it."""
    world = pyrvo.RVOSimulator(STEP, 1e3, 10, HORIZON, HORIZON, RADIUS, TOP_SPEED)
    for place, course, wish in zip(*map(torch.Tensor.tolist, (position, velocity, wanted)), strict=True):
        number = world.add_agent(list(place))
        world.set_agent_velocity(number, list(course))
        world.set_agent_pref_velocity(number, list(wish))
    world.do_step()
    found = world.get_agent_velocity(0)
    return [found.x, found.y]


def computed(position, velocity, wanted, share=0.5):
    """The same by our functions, for all crowds at once."""
    relative = position[:, 1:] - position[:, :1]
    sizes = torch.full(relative.shape[:-1], 2.0 * RADIUS, dtype=torch.float64)
    planes = half_planes(
        velocity[:, 0],
        relative,
        velocity[:, 1:],
        sizes,
        torch.full_like(sizes, share),
        torch.full_like(sizes, HORIZON),
        STEP,
    )
    return best_velocity(wanted[:, 0], *planes, TOP_SPEED), planes


@pytest.mark.parametrize(("others", "spread"), [(1, 20.0), (2, 20.0), (5, 60.0), (5, 30.0)])
def test_as_the_reference_does(pyrvo, others, spread):
    """Apart and overlapping, with and without an allowed velocity."""
    drawn = crowds(200, others, spread)
    found, (normal, bound) = computed(*drawn)
    expected = torch.tensor([reference(pyrvo, *each) for each in zip(*drawn, strict=True)])
    worst = (bound - (normal * expected[:, None]).sum(-1)).amax(-1)
    assert (worst > 1e-3).any()
    torch.testing.assert_close(found.float(), expected, atol=2e-3, rtol=0.0)


def test_no_velocity_on_a_grid_is_better():
    """With all of the change on the own side, as for things that stand still."""
    position, velocity, wanted = crowds(50, 5, 40.0)
    found, (normal, bound) = computed(position, velocity, wanted, share=1.0)
    axis = torch.linspace(-TOP_SPEED, TOP_SPEED, 81, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    grid = grid[grid.norm(dim=-1) <= TOP_SPEED]
    violation = (bound[:, None] - (grid @ normal.mT)).amax(-1)
    allowed = violation <= 0.0
    distance = torch.where(allowed, (grid - wanted[:, :1]).norm(dim=-1), torch.inf).amin(-1)
    own = (bound - (normal * found[:, None]).sum(-1)).amax(-1)
    some = allowed.any(-1)
    assert 5 < some.sum() < 45
    assert (own[some] <= 2e-4).all()
    assert ((found - wanted[:, 0]).norm(dim=-1)[some] <= distance[some] + 1e-6).all()
    assert (own[~some] <= violation.amin(-1)[~some] + 1e-6).all()


def test_without_objects_the_wish_is_granted():
    wanted = torch.tensor([[0.3, -0.4], [2.0, 0.0]])
    normal, bound = torch.zeros(2, 5, 2), torch.full((2, 5), -1e3)
    assert torch.equal(best_velocity(wanted, normal, bound, 2.0), wanted)
