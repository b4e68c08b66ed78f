"""Resets of the environment, and which scenarios they take."""

from dataclasses import replace

import pytest
import torch
from torchrl.envs import EnvBase
from torchrl.envs.utils import step_mdp

from marinenav_env import GROUP, ConfigError, MarineNavEnv, WorldConfig
from tests.host_reads import no_host_reads
from tests.marinenav_env.env_helpers import (
    ACTION,
    KINDS,
    MASK,
    REWARD,
    SCHEDULE,
    SHORT,
    actions_of,
    advance,
    episodes,
    equal,
    make,
)


def controlled(env):
    """[E, R] bool: active robots that are no traffic."""
    scripted = env.scenario.scripted
    return env.state.active if scripted is None else env.state.active & ~scripted


def fields_of(env):
    """Everything that an environment consists of."""
    parts = {"state": env.state, "scenario": env.scenario, "parameters": env.constants}
    return {
        f"{part}.{name}": value.clone()
        for part, tensors in parts.items()
        for name, value in tensors.to_tensordict().flatten_keys(".").items()
        if value.shape[0] == env.num_envs
    }


@pytest.mark.parametrize("kind", ["sea", "episodes"])
def test_a_masked_reset_touches_only_what_it_is_asked_to(kind):
    env = make(kind, config=replace(SHORT, max_steps=100))
    _, td = advance(env, env.reset(), actions_of(env, 5))
    before, given = fields_of(env), td.clone()
    reset = torch.tensor([True, False, False, True])
    td.set("_reset", reset[:, None])
    after_td = env.reset(td)
    after = fields_of(env)
    assert len(before) > 20
    for name, value in after.items():
        assert torch.equal(value[~reset], before[name][~reset]), name
    assert env.state.steps.bool().tolist() == [False, True, True, False]
    changed = (after["state.pose"] != before["state.pose"]).flatten(1).any(-1)
    assert torch.equal(changed, reset)
    for key, value in after_td.items(True, True):
        if key != "_reset":
            assert torch.equal(value[~reset], given[key][~reset]), key
    observed = after_td[GROUP, "observation", "self_state"]
    assert (observed != given[GROUP, "observation", "self_state"])[reset].any()
    assert torch.equal(after_td[MASK], controlled(env))


@pytest.mark.parametrize("kind", ["mixture", "unruly", "episodes"])
def test_episodes_that_are_over_start_anew_and_the_others_go_on(kind):
    env = make(kind)
    td = env.reset()
    starts, ended = 0, 0
    for number, action in enumerate(actions_of(env, 20)):
        if number == 3:  # so that the episodes do not end all together
            td.set("_reset", torch.tensor([[True], [False], [True], [False]]))
            td = env.reset(td)
        td.set(ACTION, action)
        row, following = env.step_and_maybe_reset(td)
        done = row["next", "done"].squeeze(-1)
        assert torch.equal(done, (row["next", "terminated"] | row["next", "truncated"]).squeeze(-1))
        assert not following["done"].any() and not following["truncated"].any()
        assert torch.equal(env.state.steps == 0, done)
        assert torch.equal(following[MASK], controlled(env))
        ended += int((~env.state.active & env.scenario.robot_mask).sum())
        # A robot that ended stays done while the episode goes on; an absent one always is.
        for name in ("done", "terminated"):
            assert torch.equal(following[GROUP, name].squeeze(-1), ~controlled(env))
        for key, value in row["next"].items(True, True):
            if key in following.keys(True, True) and key not in ("done", "terminated", "truncated"):
                assert torch.equal(following[key][~done], value[~done]), key
        starts += int(done.sum())
        assert not done.any() or not done.all()
        td = following
    assert starts >= 8
    if kind == "episodes":
        assert ended > 0


@pytest.mark.parametrize(
    "read",
    [
        bool,
        lambda t: t.item(),
        lambda t: t.cpu(),
        lambda t: t[t > 0],
        lambda t: torch.equal(t, t),
        lambda t: t.new_tensor((1.0, 2.0)),
    ],
)
def test_the_guard_against_host_reads_works(read):
    tensor = torch.tensor([1])
    with no_host_reads(), pytest.raises(AssertionError, match="read"):
        read(tensor)


@pytest.mark.usefixtures("reads_cost_time")
@pytest.mark.parametrize(("kind", "continuous"), [(kind, kind != "mixture") for kind in KINDS])
def test_steps_and_resets_read_nothing_on_the_host(kind, continuous):
    env = make(kind, continuous=continuous)
    td, actions = env.reset(), actions_of(env, 9)  # refreshes of the pool and time-outs
    first = env.state.pose.clone()
    with no_host_reads():
        for action in actions:
            td.set(ACTION, action)
            td = env.step(td)
            td = env.maybe_reset(step_mdp(td))
    assert env.env_steps == 9 * 4
    assert env.state.steps.max() < 7 and not torch.equal(env.state.pose, first)


def test_environments_that_continue_a_run_start_in_the_level_of_its_env_steps():
    """As in workers, which create their environments again when a run is resumed."""
    env = make("schedule")
    env.env_steps = 80
    env.reset()
    assert (env.scenario.level == SCHEDULE.level_at(80)).all() and SCHEDULE.level_at(80) > 0


def test_the_curriculum_goes_by_env_steps():
    env = make("schedule")  # levels from 0, 40 and 80 env-steps, 4 environments
    td = env.reset()
    robots = {0: 2, 1: 3, 2: 1}
    seen = []
    for action in actions_of(env, 30):
        td.set(ACTION, action)
        row, td = env.step_and_maybe_reset(td)
        expected = SCHEDULE.level_at(env.env_steps)
        fresh = row["next", "done"].squeeze(-1)
        assert (env.scenario.level[fresh] == expected).all()
        assert td[MASK].sum(-1)[fresh].eq(robots[expected]).all()
        seen += env.scenario.level[fresh].tolist()
    assert env.env_steps == 120 and set(seen) == {0, 1, 2}


def test_given_scenarios_are_gone_through_with_their_parameters():
    given = episodes(5)
    env = MarineNavEnv(WorldConfig(max_steps=3), 2, scenarios=given, dtype=torch.float64, seed=0)
    td = env.reset()
    order = [[0, 2, 4, 1], [1, 3, 0, 2]]
    for number in range(4):
        for e in range(2):
            episode = given[order[e][number]]
            count = len(episode.start)
            assert env.scenario.start[e, :count].tolist() == episode.start
            assert env.scenario.robot_mask[e].sum() == count
            assert env.constants.vessel.m[e, :count].tolist() == list(episode.world.vessel.m)
            assert env.constants.rules.goal_reward[e] == episode.world.reward.goal_reward
        td = advance(env, td, actions_of(env, 3))[1]


def with_extras(env):
    """A reset with entries that are not the environment's, at every depth."""
    td = env.reset()
    for key in ("extra", (GROUP, "hidden"), ("other", "deep"), REWARD):
        td.set(key, torch.ones(4, 3, 1))
    return td


@pytest.mark.parametrize(("kind", "flat"), [("sea", False), ("episodes", False), ("mixture", True)])
def test_a_step_with_resets_is_torchrls_own(kind, flat):
    actual, reference = (make(kind, seed=1, flat=flat) for _ in range(2))
    td, expected = with_extras(actual), with_extras(reference)
    started = 0
    for action in actions_of(actual, 10):
        td.set(ACTION, action)
        expected.set(ACTION, action)
        (row, td), (row_expected, expected) = (
            actual.step_and_maybe_reset(td),
            EnvBase.step_and_maybe_reset(reference, expected),
        )
        assert equal(row, row_expected) and equal(td, expected)
        for a, b in ((row, row_expected), (td, expected)):
            assert a.device == b.device and a[GROUP].batch_size == b[GROUP].batch_size
            assert a[GROUP].device == b[GROUP].device
        started += int(row["next", "done"].sum())
    assert started >= 4
    td["other"].set("deep", torch.zeros(4, 3, 1))
    assert row["other", "deep"].all()  # the step keeps what it had


def test_a_step_of_another_number_of_environments_is_refused():
    env, other = make(), make(num_envs=5)
    expected = r"^a step with the batch size \[5\]; this environment has \[\d\]$"
    with pytest.raises(RuntimeError, match=expected):
        env.step_and_maybe_reset(other.reset())


def test_a_part_of_an_environment_neither_steps_nor_starts_an_episode():
    """TorchRL's partial steps moved all environments, and a reset of some robots started episodes in all."""
    env = make()
    td = env.rand_action(env.reset())
    td.set((GROUP, "_reset"), torch.zeros(4, 3, 1, dtype=torch.bool))
    with pytest.raises(ConfigError, match=r"^_reset='\.\.\.': must be given for environments, since robots are not "):
        env.reset(td)
    td.set("_step", torch.ones(4, dtype=torch.bool))
    assert env.step(td)["next", GROUP, "reward"].any()
    td.set("_step", torch.tensor([True, False, True, False]))
    with pytest.raises(ConfigError, match=r"^_step='\.\.\.': must be true for all environments, since they step to"):
        env.step(td)
    assert env.state.steps.tolist() == [1] * 4
