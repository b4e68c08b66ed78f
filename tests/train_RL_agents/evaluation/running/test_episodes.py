"""Evaluation of scenarios in which everything happens, again and again, and by policies that are none."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from tensordict.nn import TensorDictModuleBase

from marinenav_env import GROUP, ConfigError, Level, WorldConfig
from marinenav_env.config import ScenarioConfig, SensorConfig
from marinenav_env.runtime.execution import Execution
from tests.train_RL_agents.evaluation.helpers import EPISODES, WORLD, episode, to_the_goal
from tests.train_RL_agents.fake_gpu import replayed
from train_RL_agents.evaluation.running import episodes as episodes_module
from train_RL_agents.evaluation.running.episodes import EpisodeRunner, draw_scenarios, make_evaluation_env, run_episodes

close = pytest.approx
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def fast():
    return run_episodes(to_the_goal, EPISODES, WORLD, continuous=True, device=CPU, dtype=torch.float64)


def test_robots_that_arrive_are_counted_to_the_end(fast):
    """Also of those that arrive after others have collided; the sums are compared with what recordings hold."""
    assert fast.robots.tolist() == [len(one.start) for one in EPISODES]
    assert fast.robots_arrived.tolist() == [2, 1, 2, 1, 1, 0, 2]
    assert fast.report()["robot_success_rate"] == close(9 / 14)


def test_results_may_be_those_of_the_own_vessel_alone(fast):
    world = replace(WORLD, max_steps=6)
    own, every = (
        run_episodes(to_the_goal, EPISODES[:2], world, only_own=only, continuous=True, device=CPU)
        for only in (True, False)
    )
    assert own.robots.tolist() == [1, 1] and every.robots.tolist() == [2, 3]
    alone = run_episodes(to_the_goal, [episode([(5, 5)], [(15, 5)], [0.0])], WORLD, continuous=True, device=CPU)
    own = run_episodes(to_the_goal, EPISODES[:1], WORLD, only_own=True, continuous=True, device=CPU)
    for name in ("time", "energy", "returns"):
        assert getattr(own, name).tolist() == close(getattr(alone, name).tolist())
        assert getattr(own, name)[0].item() != close(getattr(fast, name)[0].item(), rel=1e-3)
    assert own.robots_arrived.tolist() == [1] and own.exposure()["vessel_hours"] == close(own.time[0].item() / 3600.0)


def test_the_worlds_own_stop_makes_no_difference(fast):
    """Evaluation looks beyond the first collision whatever the world says."""
    other = run_episodes(
        to_the_goal,
        EPISODES,
        replace(WORLD, ends_at_first_collision=True),
        continuous=True,
        device=CPU,
        dtype=torch.float64,
    )
    for name, value in fast.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name


def test_discrete_policies():
    """Action 18 (500 N/s on both sides) and 0 (none): 250 N for one step, then 500 N."""

    def ahead(step):
        own = step[GROUP, "observation", "self_state"]
        return step.set((GROUP, "action"), torch.where(own[..., 5] < 400.0, 18, 0))

    got = run_episodes(ahead, EPISODES[:1] + EPISODES[5:6], WORLD, continuous=False, device=CPU)
    assert got.success.tolist() == [True, False]
    assert got.energy.tolist() == close([1000.0 * time - 250.0 for time in got.time.tolist()])


# Repetition --------------------------------------------------------------------------------------


def shy(step):
    """Steers for the goal but turns away from what is near: depends on noisy measurements."""
    step = to_the_goal(step)
    near = step[GROUP, "observation", "objects_state"][..., 0, 1]
    push = torch.stack((0.3 * near.sign(), -0.3 * near.sign()), -1) * (near != 0)[..., None]
    return step.set((GROUP, "action"), (step[GROUP, "action"] + push).clamp(-1.0, 1.0))


@pytest.fixture(scope="module")
def scenarios():
    levels = (Level(3, 0, 0, 20.0), Level(3, 2, 2, 20.0))
    return draw_scenarios(WORLD, levels, (3, 4), seed=5)


def same(one, other):
    return all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


def test_same_arguments_same_numbers(scenarios):
    first, again, other = (
        run_episodes(shy, scenarios, WORLD, continuous=True, device=CPU, seed=seed) for seed in (3, 3, 4)
    )
    assert same(first, again)
    assert not torch.equal(first.returns, other.returns)  # other measurement noise
    usual, zero = (
        run_episodes(shy, scenarios, WorldConfig(max_steps=5), continuous=True, device=CPU, **seed)
        for seed in ({}, {"seed": 0})
    )
    assert same(usual, zero)
    assert first.level.tolist() == [0] * 3 + [1] * 4


def test_policies_are_asked_once_per_step_and_without_gradients(scenarios):
    class Watched(TensorDictModuleBase):
        in_keys, out_keys = [], [(GROUP, "action")]
        calls = 0

        def forward(self, step):
            self.calls += 1
            assert not torch.is_grad_enabled()
            assert (GROUP, "reward") not in step.keys(True)
            mask = step[GROUP, "mask"]
            return step.set((GROUP, "action"), torch.zeros(*mask.shape, 2))

    policy = Watched()
    got = run_episodes(policy, scenarios, WorldConfig(max_steps=8), continuous=True, device=CPU)
    assert policy.calls == 8
    assert got.time.tolist() == close([4.0] * 7)
    assert not got.success.any()


def test_stops_soon_after_the_last_episode(request):
    requested = []

    def counted(step):
        requested.append(step[GROUP, "mask"].any().item())
        return to_the_goal(step)

    run_episodes(counted, EPISODES[4:5], WorldConfig(max_steps=100), continuous=True, device=CPU)
    assert 0 < sum(requested) == len(requested) < 100
    steps, world = len(requested), WorldConfig(max_steps=100)
    # Where a look costs time it is taken every 25 steps.
    request.getfixturevalue("reads_cost_time")
    repeated(counted, EPISODES[4:5], world, 0).run()
    assert len(requested) - steps == 25 * math.ceil(steps / 25) < 100


def repeated(policy, episodes, world, seed):
    """An evaluation to be run again and again, as on a GPU."""
    env = make_evaluation_env(episodes, world, continuous=True, device=CPU, seed=seed)
    return EpisodeRunner(policy, env, seed, execution=Execution(compile=False))


def noisy(step):
    """Steers for the goal; a little of what is measured of the others goes into the action."""
    step = to_the_goal(step)
    seen = step[GROUP, "observation", "objects_state"].sum(-1).sum(-1, keepdim=True)
    return step.set((GROUP, "action"), (step[GROUP, "action"] + 1e-3 * seen).clamp(-1.0, 1.0))


def test_episodes_that_have_ended_leave_the_batch_and_change_nothing(monkeypatch):
    """Of 40 episodes those with noise see others' noise if it does not follow their number."""
    monkeypatch.setattr(episodes_module, "MIN_BATCH_SIZE", 2)
    pair = [replace(each, world=replace(each.world, sensor=SensorConfig())) for each in (EPISODES[6], EPISODES[2])]
    many = [*EPISODES[4:6] * 10, *pair * 10]
    sizes, seen = [], []

    def counted(step):
        sizes.append(len(step[GROUP, "mask"]))
        return noisy(step)

    def on_step(transition, env):
        assert len(transition.rows) == len(transition.acted[GROUP, "mask"])
        assert env.num_envs == 40
        seen.append(transition.rows)

    options = {"continuous": True, "device": CPU, "dtype": torch.float64}
    dropped = run_episodes(counted, many, WORLD, on_step=on_step, **options)
    assert sizes[0] == 40
    assert sizes == sorted(sizes, reverse=True)
    assert {16, 32} <= set(sizes) <= {2, 4, 8, 16, 32, 40}
    sizes.clear()
    whole = run_episodes(counted, many, WORLD, drop_ended=False, **options)
    assert set(sizes) == {40}
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(dropped.state_dict()[name], value, rtol=1e-9, atol=1e-9)
    # Those that needed all the time are in the last batch.
    assert set(range(1, 20, 2)) <= set(seen[-1].tolist())


@pytest.mark.parametrize(
    ("total", "running", "size"),
    [(100, 1, 32), (100, 32, 32), (100, 33, 64), (100, 64, 64), (100, 65, None), (32, 1, None)],
)
def test_smaller_batches_have_a_power_of_two(total, running, size):
    """And the episodes that run on, in their order."""
    flags = torch.zeros(total, dtype=torch.bool)
    flags[torch.randperm(total, generator=torch.Generator().manual_seed(0))[:running]] = True
    rows = episodes_module.rows_to_keep(flags)
    assert (None if rows is None else len(rows)) == size
    if rows is not None:
        assert int(flags[rows].sum()) == running and (rows.diff() > 0).all()


def test_on_a_gpu_the_same_is_run_again(request):
    options = {"continuous": True, "device": CPU, "seed": 3}
    expected = run_episodes(noisy, EPISODES, WORLD, drop_ended=False, **options).state_dict()
    request.getfixturevalue("reads_cost_time")
    with replayed() as notes:
        again, watched = repeated(noisy, EPISODES, WORLD, 3), []
    runs = [again.run(lambda transition, env: watched.append(transition)), again.run()]
    assert len(notes) > 2 * len(watched) - 10
    for found in (run_episodes(noisy, EPISODES, WORLD, **options), *runs):
        for name, value in found.state_dict().items():
            torch.testing.assert_close(value, expected[name])
    moved = watched[0].after.now.state.pose - watched[0].before.now.state.pose
    assert moved.abs().amax() > 0.1


# Scenarios ---------------------------------------------------------------------------------------


def late(step, value, continuous):
    """Steers as ``idle`` until the third step, and then one robot of one episode by a value."""
    late.calls += 1
    shape = (*step[GROUP, "mask"].shape, *(2,) * continuous)
    action = torch.zeros(shape, dtype=torch.float32 if continuous else torch.int64)
    if late.calls == 3:
        action[1, 0] = value
    # Those of robots that do not act have no effect.
    action[~step[GROUP, "mask"]] = value
    return step.set((GROUP, "action"), action)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("value", [math.nan, math.inf, 25, -1])
def test_actions_that_are_none_are_refused_at_the_end(scenarios, monkeypatch, value, free):
    if not free:
        monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
    continuous = not isinstance(value, int)
    late.calls = 0 if free else 99
    policy = partial(late, value=value, continuous=continuous)
    given, world = {"continuous": continuous, "device": CPU}, replace(WORLD, max_steps=6)
    if not free:
        run_episodes(policy, scenarios, world, **given)
        late.calls = 0
    allowed = "finite" if continuous else "indices from 0 to 24"
    sentence = rf"^actions in 1 of {len(scenarios)} episodes: must be {allowed}$"
    with pytest.raises(ConfigError, match=sentence):
        run_episodes(policy, scenarios, world, **given)


def test_actions_of_another_shape_are_refused_at_once(scenarios):
    for shape, dtype in (((), torch.float32), ((1,), torch.float32), ((2,), torch.bool)):

        def policy(step):
            action = torch.ones(*step[GROUP, "mask"].shape, *shape, dtype=dtype)  # noqa: B023
            return step.set((GROUP, "action"), action)

        with pytest.raises(ConfigError, match=r"^action\.(shape|dtype)="):
            run_episodes(policy, scenarios, WORLD, continuous=True, device=CPU)


def test_sets_have_all_that_was_asked_for_or_are_refused(monkeypatch):
    level = Level(4, 2, 2, 30.0)
    world = WorldConfig(scenario=ScenarioConfig(draws=25))
    drawn = draw_scenarios(world, (level,), (100,), 0)
    assert drawn.robot_mask.all() and drawn.obstacle_mask.all()
    assert drawn.core_circulation.all()
    monkeypatch.setattr("marinenav_env.scenarios.complete.MAX_DRAWS", 1000)
    with pytest.raises(ConfigError, match="level 2: num_robots=20: too many for the map"):
        draw_scenarios(world, (level, Level(20, 0, 0, 40.0)), (5, 5), 0)
