"""Rollouts, advantages against a slow oracle, minibatches, and what an update leaves."""

from dataclasses import replace

import pytest
import torch

from marinenav_env import GROUP
from tests.host_reads import no_host_reads
from tests.train_RL_agents.helpers import seeded
from tests.train_RL_agents.tiny_runs import trainer_of
from train_RL_agents.learning.on_policy import OnPolicy, normalize
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.networks.observation import ACTIVE_KEY, to_observation
from train_RL_agents.utils.memory import tree_bytes

LONG = ("agent_type=PPO", "trainer.rollout_steps=12", "total_timesteps=960", "trainer.normalize_advantages=false")
"""Rollouts in which every environment restarts: episodes take at most 8 steps."""
FLEET = ("agent.critic=fleet",)
pytestmark = pytest.mark.usefixtures("surroundings")


def rollout_of(trainer, skipped=1):
    """Steps [E, T] of a rollout that begins in the middle of episodes."""
    for _ in range(skipped):
        trainer.collector.collect()
    return trainer.collector.collect()


def value_of(trainer, group, memory=None):
    observation = to_observation(group["observation"])
    if memory is not None:
        observation[MEMORY] = memory
    network = trainer.algorithm.agent.networks["policy"]
    with torch.no_grad():
        return network({**observation, ACTIVE_KEY: group["mask"]})[1]


def parts(steps):
    """Value, reward, done, terminated and activity, each [E, T, R]."""
    group, following = steps[GROUP], steps["next", GROUP]
    flags = [following[name].squeeze(-1) for name in ("reward", "done", "terminated")]
    return group["value"], *flags, group["mask"]


def learned_from(trainer, steps):
    """The minibatches that an update takes from steps; nothing is learned."""
    algorithm, batches = trainer.algorithm, []

    def note(batch):
        batches.append(batch)
        return {"noted": batch.weight.mean()}, None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithm.learner, "update", note)
        algorithm.add_steps(steps)
        algorithm.update(0)
    return batches


def numbered(trainer, steps):
    """The same steps with the numbers of their rows, which minibatches keep."""
    *lead, robots = steps[GROUP, "mask"].shape
    numbers = torch.arange(steps[GROUP, "mask"].numel()).view(*lead, robots)
    if trainer.algorithm.agent.samples_are_joint:
        numbers = (numbers // robots).clone()
    steps = steps.clone()
    steps[GROUP, "number"] = numbers
    return steps


def rows_of(trainer, steps):
    """The rows that steps give, in order, without those of nobody who is active."""
    algorithm, mask = trainer.algorithm, steps[GROUP, "mask"]
    size = int(mask.any(-1).sum()) * mask.shape[-1] if algorithm.agent.samples_are_joint else int(mask.sum())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithm, "settings", replace(algorithm.settings, epochs=1, batch_size=size))
        whole, *_ = learned_from(trainer, numbered(trainer, steps))
    number = whole.extras["number"]
    return whole.take((number if number.ndim == 1 else number[:, 0]).argsort())


def estimates_of(trainer, steps):
    """Advantages and targets [E, T, R]; NaN of robots that are not active."""
    rows, active, found = rows_of(trainer, steps), steps[GROUP, "mask"], []
    for each in (rows.advantage, rows.target):
        found.append(torch.full(active.shape, torch.nan))
        found[-1][active] = each[rows.active]
    return found


# Advantages -------------------------------------------------------------------------------------


def slow_advantages(trainer, steps):
    """Of active robot-steps, one at a time; what follows is valued before any reset."""
    settings = trainer.config.trainer
    value, reward, done, terminated, active = parts(steps)
    following = value_of(trainer, steps["next", GROUP], steps[GROUP].get(MEMORY, None))
    found = {}
    for e in range(value.shape[0]):
        for r in range(value.shape[2]):
            advantage = 0.0
            for t in reversed(range(value.shape[1])):
                if not active[e, t, r]:
                    advantage = 0.0
                    continue
                after = 0.0 if terminated[e, t, r] else float(following[e, t, r])
                gained = settings.reward_scale * float(reward[e, t, r])
                error = gained + settings.gamma * after - float(value[e, t, r])
                rest = 0.0 if done[e, t, r] else advantage
                advantage = error + settings.gamma * settings.gae_lambda * rest
                found[e, t, r] = advantage
    return found


def kinds_of_ends(steps):
    """How many robots ended, were cut, and restarted within a rollout."""
    *_, done, terminated, active = parts(steps)
    inside = active[:, :-1]
    ended = inside & terminated[:, :-1]
    cut = inside & done[:, :-1] & ~terminated[:, :-1]
    begun = active[:, 1:] & done[:, :-1]
    return [int(each.sum()) for each in (ended, cut, begun)]


@pytest.mark.parametrize(("words", "way"), [((), "host"), (FLEET, "device")], ids=["own", "fleet"])
def test_advantages_are_those_of_a_slow_oracle(request, tmp_path, words, way):
    if way == "device":
        request.getfixturevalue("reads_cost_time")
    trainer = trainer_of(tmp_path, *LONG, *words)
    steps = rollout_of(trainer)
    assert min(kinds_of_ends(steps)) >= 3
    advantage, target = estimates_of(trainer, steps)
    expected = slow_advantages(trainer, steps)
    assert len(expected) == int(steps[GROUP, "mask"].sum())
    for place, value in expected.items():
        assert float(advantage[place]) == pytest.approx(value, abs=1e-4)
        before = float(steps[GROUP, "value"][place])
        assert float(target[place]) == pytest.approx(value + before, abs=1e-4)


def test_the_value_of_a_fleet_after_a_truncation_uses_the_robots_that_it_ended(tmp_path):
    trainer = trainer_of(tmp_path, *LONG, *FLEET)
    steps = rollout_of(trainer)
    following = steps["next", GROUP]
    assert (following["mask"] & following["truncated"].squeeze(-1)).any()
    expected = estimates_of(trainer, steps)
    following["mask"] = following["mask"] & ~following["done"].squeeze(-1)  # as external environments mask them
    torch.testing.assert_close(estimates_of(trainer, steps), expected, rtol=0.0, atol=0.0, equal_nan=True)


# Rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), FLEET], ids=["own", "fleet"])
def test_rows_are_those_of_the_steps(tmp_path, words):
    trainer = trainer_of(tmp_path, *LONG, *words)
    steps = rollout_of(trainer)
    rows, group = rows_of(trainer, steps), steps[GROUP]
    there = group["mask"].any(-1) if words else group["mask"]
    assert rows.weight.shape == group["mask"][there].shape
    assert rows.observation.keys() == set(group["observation"].keys())
    for name, each in rows.observation.items():
        assert torch.equal(each, group["observation", name][there]), name
    assert torch.equal(rows.action, group["action"][there])
    assert rows.extras.keys() == {"log_prob", "value", "number"}
    for name in ("log_prob", "value"):
        assert torch.equal(rows.extras[name], group[name][there]), name
    assert torch.equal(rows.weight, group["mask"][there].float())


GRU = ("agent.memory.kind=gru", "agent.memory.size=6")


@pytest.mark.parametrize("words", [GRU, GRU + FLEET], ids=["own", "fleet"])
def test_windows_give_what_the_policy_gave_while_it_was_stepped(tmp_path, words):
    trainer = trainer_of(tmp_path, *LONG, *words, "trainer.batch_size=9999")
    steps = rollout_of(trainer)
    assert min(kinds_of_ends(steps)) >= 3
    rows = learned_from(trainer, steps)[0]
    agent = trainer.algorithm.agent
    with torch.no_grad():
        log_prob, _, value = agent.evaluate(rows)
        memory = agent.networks["policy"](rows.observation | {ACTIVE_KEY: rows.active})[2]
    assert rows.weight.shape[1] == 6 and memory.abs().mean() > 0.05
    for found, name in ((log_prob, "log_prob"), (value, "value")):
        torch.testing.assert_close(found[rows.active], rows.extras[name][rows.active], rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(("words", "way"), [(GRU, "device"), (GRU + FLEET, "host")], ids=["own", "fleet"])
def test_what_follows_a_step_is_valued_with_the_memory_after_it(request, monkeypatch, tmp_path, words, way):
    if way == "device":
        request.getfixturevalue("reads_cost_time")
    trainer = trainer_of(tmp_path, *LONG, *words)
    steps = rollout_of(trainer)
    _, _, _, _, active = parts(steps)
    steps[GROUP, "number"] = torch.arange(active.numel()).view(active.shape)
    robots = active.shape[-1] if len(words) > len(GRU) else 1
    settings = replace(trainer.algorithm.settings, epochs=1, batch_size=6 * robots)  # a window each
    monkeypatch.setattr(trainer.algorithm, "settings", settings)
    found = torch.full((active.numel(),), torch.nan)
    for batch in learned_from(trainer, steps):
        found[batch.extras["number"][batch.active]] = batch.advantage[batch.active]
    expected = slow_advantages(trainer, steps)
    assert len(expected) == int(active.sum()) == int(found.isfinite().sum())
    for place, value in expected.items():
        assert float(found.view(active.shape)[place]) == pytest.approx(value, abs=1e-4)


# Minibatches ------------------------------------------------------------------------------------


BATCHES = ("agent_type=PPO", "trainer.rollout_steps=4", "trainer.batch_size=8")
"""Minibatches of 8 robot-steps from rollouts of 96."""


def steps_with(trainer, active):
    """Steps of a rollout in which other robots are active: [E, T, R]."""
    steps = numbered(trainer, rollout_of(trainer))
    steps[GROUP, "mask"] = active
    return steps


def drawn(share, seed=0):
    """Robots [E, T, R] that are active with a probability."""
    return torch.rand(8, 4, 3, generator=seeded(seed)) < share


def numbers(batch):
    number = batch.extras["number"]
    return (number if number.ndim == 1 else number[:, 0]).tolist()


def all_numbers(batches):
    return [number for batch in batches for number in numbers(batch)]


def test_every_active_row_comes_at_most_once_per_epoch(tmp_path):
    trainer, mask = trainer_of(tmp_path, *BATCHES, "trainer.epochs=3"), drawn(0.6)
    active = set(mask.flatten().nonzero().squeeze(-1).tolist())
    batches = learned_from(trainer, steps_with(trainer, mask))
    each = len(active) // 8
    assert len(batches) == 3 * each
    epochs = [all_numbers(batches[k * each : (k + 1) * each]) for k in range(3)]
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch) == 8 * each
        assert set(epoch) <= active
    assert epochs[0] != epochs[1]
    # Which rows make up the remainder is drawn again in every epoch.
    assert len(active) % 8 == 0 or set(epochs[0]) | set(epochs[1]) | set(epochs[2]) > set(epochs[0])


@pytest.mark.parametrize("count", [1, 7])
def test_fewer_rows_than_a_batch_fill_one_batch(tmp_path, count):
    """Compiled code has fixed shapes."""
    trainer, mask = trainer_of(tmp_path, *BATCHES, "trainer.epochs=2"), drawn(0.0)
    mask.flatten()[5 : 5 + count] = True
    batches = learned_from(trainer, steps_with(trainer, mask))
    assert [batch.size for batch in batches] == [8, 8]
    for batch in batches:
        found = numbers(batch)
        assert sorted(found[:count]) == list(range(5, 5 + count))
        assert found[count:] == (found * 8)[: 8 - count]


def test_rows_of_a_fleet_have_some_active_robot(tmp_path):
    words = (*BATCHES[:2], *FLEET, "trainer.epochs=1", "trainer.batch_size=12")
    trainer, mask = trainer_of(tmp_path, *words), drawn(0.3)
    there = set(mask.any(-1).flatten().nonzero().squeeze(-1).tolist())
    steps = steps_with(trainer, mask)
    batches = learned_from(trainer, steps)
    assert {batch.weight.shape for batch in batches} == {(4, 3)}  # 12 robot-steps
    found = all_numbers(batches)
    assert len(set(found)) == len(found) == len(there) // 4 * 4
    assert set(found) <= there
    trainer.algorithm.settings = replace(trainer.algorithm.settings, batch_size=2)
    batches = learned_from(trainer, steps)
    assert {batch.weight.shape for batch in batches} == {(1, 3)}  # never parts of a fleet


def test_without_host_reads_batches_are_full_and_of_active_rows(tmp_path, reads_cost_time):
    trainer, mask = trainer_of(tmp_path, *BATCHES, "trainer.epochs=2"), drawn(0.6, 1)
    steps = steps_with(trainer, mask)
    with no_host_reads():
        batches = learned_from(trainer, steps)
    # As many as if all robots were active: their number is known on the device only.
    assert len(batches) == 2 * (96 // 8)
    assert all(batch.size == 8 and bool((batch.weight == 1.0).all()) for batch in batches)
    active = int(mask.sum())
    for epoch in (batches[:12], batches[12:]):
        found = all_numbers(epoch)
        passes = [found[begin : begin + active] for begin in range(0, len(found), active)]
        assert all(len(set(each)) == len(each) for each in passes)
        assert all(set(each) == set(passes[0]) for each in passes[:-1])


# Updates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), (*FLEET, "agent.actions=clipped_gaussian")], ids=["own", "fleet"])
def test_the_first_batch_of_a_rollout_finds_the_policy_that_collected_it(tmp_path, words):
    trainer = trainer_of(tmp_path, *LONG, *words)
    update, found = trainer.algorithm.learner.update, []

    def noting(batch):
        scalars, priority = update(batch)
        found.append({name: float(each) for name, each in scalars.items()})
        return scalars, priority

    trainer.algorithm.learner.update = noting
    for _ in range(2):
        trainer.iterate()
        assert found[0]["approx_kl"] == pytest.approx(0.0, abs=1e-6)
        assert found[0]["clip_fraction"] == 0.0
        assert found[-1]["approx_kl"] > 1e-6
        found.clear()


def test_planned_memory_by_hand(tmp_path):
    trainer = trainer_of(tmp_path, *LONG)
    step, agent = trainer.collector.env.fake_tensordict()[:1], trainer.algorithm.agent
    (item,) = OnPolicy.held_memory(trainer.config, agent, step)
    assert (item.name, item.on_host) == ("rollout", False)
    assert item.size == 4 * 8 * 12 * tree_bytes(step)  # of 8 environments and 12 steps, 4 times


# By hand ----------------------------------------------------------------------------------------


def test_advantages_are_normalised_over_active_robots():
    advantage = torch.tensor([1.0, 3.0, 100.0, 5.0])
    weight = torch.tensor([1.0, 1.0, 0.0, 1.0])
    deviation = (8.0 / 3.0) ** 0.5
    found = normalize(advantage, weight)
    expected = torch.tensor([-2.0 / deviation, 0.0, 97.0 / deviation, 2.0 / deviation])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(normalize(torch.full((4,), 7.0), weight), torch.zeros(4))
    tiny = torch.tensor([1e-6, -1e-6])  # as large as what keeps the divisor from 0
    torch.testing.assert_close(normalize(tiny, torch.ones(2)), torch.tensor([0.5, -0.5]))
