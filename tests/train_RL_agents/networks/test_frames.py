"""Frames against a slow oracle that follows every object by its number."""

import random

import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.config import SensorConfig
from marinenav_env.sensing.entries import Entry
from train_RL_agents.config.building import make_observation_spec
from train_RL_agents.networks.encoder_config import EncoderConfig, MemoryConfig
from train_RL_agents.networks.frames import FrameStack
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.networks.observation import ObservationSpec

SLOTS, NUMBER = 3, 4
WORLD = WorldConfig(sensor=SensorConfig(max_objects=SLOTS, duties=True, scan_beams=6, objects_id=True))
SPEC = make_observation_spec(WORLD)
SET = {
    "cue": Entry("cue", "vector", (2,), scale=(3.0,)),
    "buoys": Entry("buoys", "objects", (SLOTS, 2), scale=(4.0, 5.0), mask="buoys_mask"),
    "buoys_mask": Entry("buoys_mask", "mask", (SLOTS,)),
}


def frames(spec=SPEC, **settings):
    return FrameStack(EncoderConfig(memory=MemoryConfig("frames", NUMBER), **settings), spec)


def drawn(spec, draw):
    """One observation whose objects have numbers in a changing order, or none."""
    seen = {name: torch.rand(entry.shape, dtype=torch.float64) * 30.0 for name, entry in spec.entries.items()}
    count = draw.randint(0, SLOTS)
    for name, entry in spec.entries.items():
        if entry.kind == "mask":
            seen[name] = torch.arange(SLOTS) < count
        if entry.kind == "identity":
            numbers = draw.sample(range(1, 6), count)
            seen[name] = torch.tensor([*numbers, *[0] * (SLOTS - count)], dtype=torch.float64)
    for name, entry in spec.entries.items():
        if entry.kind == "objects":
            seen[name] *= seen[entry.mask][:, None]
    return seen


def row_then(entry, now, then, slot):
    """The slot of an earlier observation with the object that is in a slot now; None if it was not observed."""
    if "objects_id" in now and entry.mask == "objects_mask":
        number, numbers = float(now["objects_id"][slot]), then["objects_id"].tolist()
        return numbers.index(number) if number and number in numbers else None
    return slot if then[entry.mask][slot] else None


def oracle(spec, history):
    """The earlier observations of each entry, the latest of ``history`` being the present one."""
    now, found = history[-1], {}
    for name, entry in spec.entries.items():
        if not entry.has_features:
            continue
        later, parts = now[name].clone(), []
        for back in range(1, NUMBER):
            then = history[-1 - back] if back < len(history) else None
            seen = torch.zeros(SLOTS, 1, dtype=torch.float64)
            if entry.kind == "objects":
                for slot in range(SLOTS):
                    place = None if then is None else row_then(entry, now, then, slot)
                    if place is not None:
                        later[slot], seen[slot] = then[name][place], 1.0
                parts.append(torch.cat((later.clone(), seen), -1))
            else:
                later = later if then is None else then[name]
                parts.append(later.flatten())
        found[f"past_{name}"] = torch.cat(parts, -1)
    return found


@pytest.mark.parametrize("spec", [SPEC, ObservationSpec(SET)], ids=["vessel", "other"])
def test_earlier_observations_follow_their_objects(spec):
    draw, stack = random.Random(0), frames(spec)
    torch.manual_seed(0)
    followed = 0
    for _ in range(40):
        memory, history = torch.zeros(1, stack.size, dtype=torch.float64), []
        for _ in range(draw.randint(1, 8)):
            history.append(drawn(spec, draw))
            observation = {name: value[None] for name, value in history[-1].items()} | {MEMORY: memory}
            stacked, expected = stack.stack(observation), oracle(spec, history)
            assert stacked.keys() == {*observation, *expected}
            for name, value in expected.items():
                assert value.shape == stack.spec.entries[name].shape
                torch.testing.assert_close(stacked[name][0], value, rtol=0.0, atol=1e-12)
                followed += value.shape[0] == SLOTS and bool((value[:, -1] == 1.0).any())
            memory = stack.push(observation)
    assert followed > 20


def test_rows_have_all_of_an_observation():
    torch.manual_seed(0)
    stack, seen = frames(), drawn(SPEC, random.Random(1))
    unpacked = stack.unpack(stack.pack(seen))
    assert unpacked.keys() == seen.keys()
    for name, value in seen.items():
        torch.testing.assert_close(unpacked[name], value, rtol=0.0, atol=0.0)
    assert stack.pack(seen)[-1] == 1.0 and stack.width == len(stack.pack(seen))


def test_a_far_goal_is_as_near_as_networks_see_it():
    torch.manual_seed(0)
    stack, seen = frames(goal_reach=10.0), drawn(SPEC, random.Random(1))
    seen["self_state"][:2] = torch.tensor([300.0, 400.0])
    torch.testing.assert_close(stack.unpack(stack.pack(seen))["self_state"][:2], torch.tensor([6.0, 8.0]).double())


def test_what_is_excluded_is_not_remembered():
    stack = frames(excluded=("objects_state", "duties"))
    assert {name for name in stack.spec.entries if name.startswith("past_")} == {"past_self_state", "past_scan"}
    assert stack.width == 7 + 6 + 1


@pytest.mark.heavy
def test_generated_code_has_one_graph():
    torch.manual_seed(0)
    stack, seen = frames(), drawn(SPEC, random.Random(1))
    given = {name: value[None] for name, value in seen.items()}
    given[MEMORY] = stack.push(given | {MEMORY: torch.zeros(1, stack.size, dtype=torch.float64)})
    compiled = torch.compile(lambda each: (stack.stack(each), stack.push(each)), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(given), (stack.stack(given), stack.push(given)), rtol=0.0, atol=0.0)
