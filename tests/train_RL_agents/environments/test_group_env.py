"""Environments of others with the keys and shapes that training works on."""

import re

import pytest
import torch
from torchrl.data import Binary, Bounded, Composite, Unbounded
from torchrl.envs import SerialEnv, check_env_specs

from marinenav_env import GROUP
from marinenav_env.specs import STATISTICS
from tests.refusals import refusal
from tests.train_RL_agents.environments.helpers import AGENTS, Alone, Chase, Forgetful, with_specs
from train_RL_agents.environments.group_env import GroupEnv

CPU = torch.device("cpu")


def chase(num_envs=2, max_steps=0, **options):
    return GroupEnv(Chase(num_envs, CPU, 0, **options), "chase", max_steps)


def acting(env, action):
    step, following = env.step_and_maybe_reset(env.reset_now.set((GROUP, "action"), action))
    env.reset_now = following
    return step


def begun(env):
    env.reset_now = env.reset()
    return env


@pytest.mark.parametrize(
    "options", [{}, {"ends": "each"}, {"tells": "success"}, {"tells": "mask"}, {"action": "multi"}]
)
def test_torchrl_accepts_the_adapter(options):
    check_env_specs(chase(**options))


def test_observations_rewards_and_masks_have_the_keys_of_the_world():
    env = chase()
    assert {name: (entry.kind, entry.shape) for name, entry in env.entries.items()} == {
        "objects": ("objects", (4, 3)),
        "objects_mask": ("mask", (4,)),
        "place": ("vector", (2,)),
    }
    assert env.entries["objects"].mask == "objects_mask" and env.entries["place"].scale == (8.0, 8.0)
    step = env.reset()
    assert step[GROUP, "observation", "place"].shape == (2, AGENTS, 2) and step[GROUP, "mask"].all()
    after = env.step(env.rand_action(step))["next"]
    expected = -after[GROUP, "observation", "place"][..., :1].abs()
    assert torch.equal(after[GROUP, "reward"], expected)


def test_finite_bounds_are_the_typical_magnitude_of_numbers_of_any_type_and_shape():
    shape = (2, AGENTS)
    entries = {
        "memory": Bounded(0, 255, (*shape, 2), dtype=torch.uint8),
        "speed": Bounded(-8.0, 2.0, shape),
        "grid": Bounded(-1.0, torch.tensor([3.0, 5.0]).expand(*shape, 4, 2), (*shape, 4, 2)),
        "byte": Unbounded((*shape, 1), dtype=torch.uint8),  # as TorchRL wraps Gymnasium's Box(0, 255, ..., uint8)
        "half": Bounded(0.0, torch.tensor([1.0, torch.inf]).expand(*shape, 2), (*shape, 2)),
    }
    env = GroupEnv(with_specs(observation=entries), "chase")
    found = {name: entry.scale for name, entry in env.entries.items()}
    assert found == {"memory": (255.0, 255.0), "speed": (8.0,), "grid": (3.0, 5.0), "byte": (255.0,), "half": ()}


def test_a_single_agent_has_a_group_of_one_and_numbers_have_a_dimension():
    env = GroupEnv(SerialEnv(2, [lambda: Alone(1, CPU, 0), lambda: Alone(1, CPU, 1)]), "alone")
    assert env.num_robots == 1 and {name: entry.shape for name, entry in env.entries.items()} == {
        "place": (2,),
        "speed": (1,),
    }
    step = env.reset()
    assert step[GROUP, "observation", "speed"].shape == (2, 1, 1)
    after = env.step(step.set((GROUP, "action"), torch.ones(2, 1, 1)))["next"]
    torch.testing.assert_close(
        after[GROUP, "observation", "speed"] - step[GROUP, "observation", "speed"], torch.ones(2, 1, 1)
    )


def test_actions_are_scaled_to_the_bounds():
    env = begun(chase())
    acting(env, torch.tensor([-1.0, 1.0]).expand(2, AGENTS, 2))
    acting(env, torch.tensor([0.0, 9.0]).expand(2, AGENTS, 2))
    assert env.base.taken[0][0, 0].tolist() == [-2.0, 4.0]
    assert env.base.taken[1][0, 0].tolist() == [1.0, 4.0]


@pytest.mark.parametrize(
    ("action", "count", "index", "taken"),
    [
        ("categorical", 4, 3, 3),
        ("one_hot", 4, 2, [0, 0, 1, 0]),
        ("multi", 6, 5, [1, 2]),
        ("multi", 6, 1, [0, 1]),
        ("binary", 8, 4, [1, 0, 0]),
    ],
)
def test_choices_are_as_the_environment_takes_them(action, count, index, taken):
    env = begun(chase(action=action))
    assert env.action_space.num_actions == count
    acting(env, torch.full((2, AGENTS), index))
    assert env.base.taken[0][1, 2].tolist() == taken


def test_agents_that_end_early_are_masked_until_the_episode_is_over():
    env = begun(chase(ends="each"))
    still = torch.full((2, AGENTS, 2), -1.0 / 3.0)
    masks, dones, rewards, groups = [], [], [], []
    for _ in range(5):
        step = acting(env, still)
        groups.append(step["next", GROUP])
        masks.append(step["next", GROUP, "mask"][0].tolist())
        dones.append(bool(step["next", "done"][0]))
        rewards.append((step["next", GROUP, "reward"][0, 0] != 0.0).item())
    assert masks[:4] == [[True] * 3, [False, True, True], [False, False, True], [False] * 3]
    assert dones == [False, False, False, True, False]
    assert rewards == [True, True, False, False, True]
    assert env.reset_now[GROUP, "mask"].all()
    done, terminated, truncated = (groups[2][name][0, :, 0].tolist() for name in ("done", "terminated", "truncated"))
    assert done == terminated == [True, True, False]
    assert not any(truncated)


def test_a_time_limit_truncates():
    env = begun(chase(max_steps=3))
    for number in range(1, 7):
        step = acting(env, torch.zeros(2, AGENTS, 2))["next"]
        late = number % 3 == 0
        assert step["done"].all() == step["truncated"].all() == step[GROUP, "truncated"].all() == late
        assert not step["terminated"].any() and not step[GROUP, "terminated"].any()


def test_a_mask_says_which_agents_there_are():
    env = begun(chase(tells="mask", max_steps=2))
    assert env.reset_now[GROUP, "mask"][0].tolist() == [False, True, True]
    assert (env.reset_now[GROUP, "observation", "place"][:, 0] == 0.0).all()
    step = acting(env, torch.zeros(2, AGENTS, 2))
    assert (step["next", GROUP, "reward"][:, 0] == 0.0).all()


def test_an_agent_may_leave_and_come_back():
    env = begun(chase(tells="tides", max_steps=6))
    masks, truncated = [], []
    for _ in range(6):
        step = acting(env, torch.zeros(2, AGENTS, 2))["next", GROUP]
        masks.append(step["mask"][0].tolist())
        truncated.append(step["truncated"][0, 0].item())
        assert step["observation", "place"][0, 0].any() or not step["mask"][0, 0]
        assert step["done"][0, 0] == step["truncated"][0, 0] and not step["terminated"].any()
    assert [mask[0] for mask in masks] == [True, False, False, True, True, False]
    assert truncated == [False, True, True, False, False, True]
    assert all(mask[1:] == [True, True] for mask in masks[:5])


def test_the_return_is_the_mean_of_all_agents_of_the_episode():
    env, total = begun(chase(ends="each")), 0.0
    for _ in range(4):
        step = acting(env, torch.zeros(2, AGENTS, 2))["next"]
        total = total + step[GROUP, "reward"].sum((1, 2))
    assert step["done"].all()
    torch.testing.assert_close(step[STATISTICS][:, 0], total / AGENTS)


def test_copies_of_a_single_environment_have_no_state_to_save():
    def make():
        env = Alone(1, CPU, 0)
        env.saves_state = True
        return env

    assert GroupEnv(SerialEnv(2, [make, make]), "alone").state_dict() is None


def test_statistics_are_return_length_and_success():
    env = begun(chase(tells="success", max_steps=4))
    assert env.statistics == ("return", "length", "success")
    total = 0.0
    for _ in range(4):
        step = acting(env, torch.full((2, AGENTS, 2), -1.0 / 3.0))["next"]
        total = total + step[GROUP, "reward"].mean((1, 2))
    reported = (env.base.taken[0].shape[0] == 2) and step[STATISTICS]
    torch.testing.assert_close(reported[:, 0], total)
    assert reported[:, 1].tolist() == [4.0, 4.0]
    last = step[GROUP, "observation", "place"][:, 0, 0].abs() < 0.5
    assert reported[:, 2].tolist() == last.float().tolist()


def test_the_same_seed_gives_the_same_episodes_and_a_saved_state_continues():
    first, second = (begun(chase(max_steps=3)) for _ in range(2))
    for env in (first, second):
        env.set_seed(5)
        begun(env)
    actions = torch.rand(9, 2, AGENTS, 2, generator=torch.Generator().manual_seed(0))
    for action in actions[:5]:
        one, two = acting(first, action), acting(second, action)
        assert torch.equal(one["next", GROUP, "observation", "place"], two["next", GROUP, "observation", "place"])
    state, third = first.state_dict(), chase(max_steps=3)
    third.load_state_dict(state)
    begun(third)
    for action in actions[5:]:
        one, two = acting(first, action), acting(third, action)
        assert torch.equal(one["next", GROUP, "observation", "place"], two["next", GROUP, "observation", "place"])
        assert torch.equal(one["next", "done"], two["next", "done"])
    assert GroupEnv(Forgetful(2, CPU, 0), "chase").state_dict() is None


SHAPE = (2, AGENTS)
NUMBERS, MASKS = Unbounded((*SHAPE, 2)), Binary(4, (*SHAPE, 4), dtype=torch.bool)
MOVES = Bounded(-1.0, 1.0, (*SHAPE, 1))
WIND = Composite(speed=Unbounded((*SHAPE, 1)), shape=SHAPE)
UNEQUAL = torch.tensor([1.0, 5.0, 9.0])[:, None].expand(*SHAPE, 2).clone()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Chase(2, CPU, 0, action="unbounded"), "fleet.action"),
        (lambda: Chase(2, CPU, 0, action="many"), "4096 combinations"),
        (lambda: with_specs(observation={"camera": Unbounded((*SHAPE, 3, 8, 8), dtype=torch.uint8)}), "images are not"),
        (lambda: with_specs(actions=dict.fromkeys(("boats", "ferries"), MOVES)), "one group of agents"),
        (lambda: Alone(1, CPU, 0), "batched along one dimension"),
        (lambda: with_specs(actions={"fleet": Bounded(-UNEQUAL, UNEQUAL, (*SHAPE, 2))}), "of different bounds"),
        (lambda: with_specs(observation={"place": NUMBERS, "action_mask": MASKS}), "a mask of actions"),
        (lambda: with_specs(observation={"wind_speed": NUMBERS, "wind": WIND}), "must be of different names"),
        (lambda: with_specs(observation={"self_state": NUMBERS}), "none of self_state"),
    ],
)
def test_specs_that_are_not_supported_get_a_sentence(make, says):
    message = refusal(GroupEnv, make(), "toy")
    assert re.search(says, message) and message.startswith("toy: ")


@pytest.mark.parametrize(("breaks", "says"), [("raise", "the winch is jammed"), ("shape", "the shape of place")])
def test_an_environment_that_fails_in_a_step_gets_a_sentence(breaks, says):
    env = begun(chase(breaks=breaks))
    acting(env, torch.zeros(2, AGENTS, 2))
    acting(env, torch.zeros(2, AGENTS, 2))
    message = refusal(acting, env, torch.zeros(2, AGENTS, 2))
    assert re.search(says, message) and message.startswith("chase: ")
