"""Multi-step transitions of the real world, through TorchRL's collector."""

import copy

import pytest
import torch
from torchrl.collectors import Collector

from marinenav_env import GROUP, Episode, MarineNavEnv, WorldConfig
from tests.train_RL_agents.memory.test_transitions import GAMMA, SCALE, Streams, stored


def episode(starts, goals, obstacles=()):
    """Vessels at rest that head for their goals."""
    count = len(starts)
    blank = [[0.0, 0.0] for _ in range(count)]
    return Episode(
        start=starts,
        goal=goals,
        heading=[0.0] * count,
        velocity=[[0.0, 0.0, 0.0] for _ in range(count)],
        thruster_angle=blank,
        thrust=copy.deepcopy(blank),
        obstacles=[list(each) for each in obstacles],
    )


def full_ahead(step):
    """Every robot accelerates; those in odd slots of odd environments do nothing."""
    action = torch.ones(*step[GROUP, "mask"].shape, 2)
    action[1::2, 1::2] = 0.0
    return step.set((GROUP, "action"), action)


@pytest.mark.parametrize(("n", "per_batch"), [(1, 5), (3, 1)])
def test_collector_on_the_real_world(n, per_batch):
    """Arrival, collision, time-out and empty slots, through the collector and its resets."""
    episodes = [
        # The first arrives, the second hits an obstacle.
        episode([[5, 5], [5, 25]], [[12, 5], [40, 25]], [(14, 25, 1)]),
        # The first arrives, the second stays where it is.
        episode([[5, 5], [5, 25]], [[10, 5], [40, 25]]),
        # A single robot on its way until time is up.
        episode([[5, 5]], [[50, 5]]),
    ]
    env = MarineNavEnv(WorldConfig(max_steps=14), scenarios=episodes, seed=1)
    envs, robots, batches = 3, 2, 60 // per_batch
    collector = Collector(
        env,
        full_ahead,
        frames_per_batch=envs * per_batch,
        total_frames=envs * per_batch * batches,
        track_traj_ids=False,
        use_buffers=False,
        auto_register_policy_transforms=False,
        trust_policy=True,
    )
    streams, parts, rows = Streams(n), [], []
    for batch in collector:
        parts.append(batch.clone())
        rows.append(stored(streams, batch))
    collector.shutdown()
    whole, rows = torch.cat(parts, 1), torch.cat(rows)
    assert whole.batch_size == (envs, 60)

    # Which robot-steps there were, straight from the batch, one robot and one step at a time.
    group, after = whole[GROUP], whole["next", GROUP]
    expected, ends = [], {"arrived or collided": 0, "timed out": 0}
    for e in range(envs):
        for r in range(robots):
            open_ = []
            for t in range(60):
                if not group["mask"][e, t, r]:
                    assert not open_
                    continue
                open_.append(t)
                over = bool(after["done"][e, t, r])
                if over:
                    kind = "arrived or collided" if after["terminated"][e, t, r] else "timed out"
                    ends[kind] += 1
                first = [open_.pop(0)] if len(open_) == n and not over else []
                for start in open_ if over else first:
                    gained = [float(after["reward"][e, k, r]) for k in range(start, t + 1)]
                    reward = sum(GAMMA**k * SCALE * value for k, value in enumerate(gained))
                    dead = bool(after["terminated"][e, t, r])
                    discount = 0.0 if dead else GAMMA ** len(gained)
                    expected.append((e, start, t, r, reward, discount))
                if over:
                    open_ = []
    assert ends["arrived or collided"] >= 9
    assert ends["timed out"] >= 8
    assert len(rows) == len(expected)
    # Rows come in another order: match them by first observation, last one, action and reward.
    names = [(part, entry) for part in ("observation", "next_observation") for entry in ("self_state", "objects_state")]
    found = torch.cat(
        [
            *(rows[name].flatten(1) for name in names),
            rows["action"],
            rows["reward"][:, None],
            rows["discount"][:, None],
        ],
        1,
    )
    remaining = list(range(len(found)))
    for e, start, t, r, reward, discount in expected:
        seen = group["observation"][e, start, r], after["observation"][e, t, r]
        parts = [each[entry].flatten() for each in seen for entry in ("self_state", "objects_state")]
        key = torch.cat((*parts, group["action"][e, start, r], torch.tensor([reward, discount])))
        distance = (found[remaining] - key).abs().amax(1)
        best = int(distance.argmin())
        assert float(distance[best]) < 1e-4
        del remaining[best]
    assert not remaining

    # The observation after a step is the one before the next, but for a reset in between; so what
    # a time-out bootstraps from is of the old episode.
    cut = whole["next", "done"][:, :-1, 0]
    now, then = group["observation", "self_state"][:, 1:], after["observation", "self_state"]
    gap = (now - then[:, :-1]).abs().amax(-1) * group["mask"][:, 1:]
    assert not gap[~cut].any()
    assert (gap[cut].amax(-1) > 1.0).all()
