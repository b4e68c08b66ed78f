"""The ring of observations against lists: transitions have the frames that their robots saw, whatever came between."""

import pytest
import torch

from marinenav_env import ConfigError
from marinenav_env.sensing.entries import Entry
from tests.train_RL_agents.learning.helpers import Robots
from train_RL_agents.learning.frame_store import PLACES, FrameStore
from train_RL_agents.learning.replay import Replay
from train_RL_agents.learning.transitions import MultiStep, example_transition
from train_RL_agents.networks.encoder_config import EncoderConfig, MemoryConfig
from train_RL_agents.networks.frames import FrameStack
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.networks.observation import ObservationSpec

SHAPE, NUMBER, CAPACITY = (3, 2), 3, 20
STACK = FrameStack(
    EncoderConfig(memory=MemoryConfig("frames", NUMBER)), ObservationSpec({"cue": Entry("cue", "vector", (1,))})
)


def frames_of(seen, number):
    """The last k of what a robot saw up to a number, with zeros before its episode."""
    return [number, *seen[number], *[0.0] * NUMBER][:NUMBER]


@pytest.mark.parametrize("n_steps", [1, 3])
def test_transitions_refer_to_what_their_robots_saw(n_steps):
    robots, store = Robots(SHAPE), FrameStore(STACK, SHAPE, CAPACITY, n_steps, torch.device("cpu"))
    first = store.refer(robots.step())
    multi_step = MultiStep(example_transition(first[:, 0]), SHAPE, n_steps, 0.9, 1.0)
    generator = torch.Generator().manual_seed(0)
    replay = Replay(example_transition(first[:, 0]), CAPACITY, 64, generator)
    windows, rows = multi_step.advance(multi_step.closed_windows(), first)
    replay.insert(rows)
    past = 0
    for _ in range(300):
        windows, rows = multi_step.advance(windows, store.refer(robots.step()))
        replay.insert(rows)
        drawn = replay.transitions_at(torch.arange(int(replay.num_stored)))
        for key in ("observation", "next_observation"):
            found = store.observation(drawn.get((key, PLACES)))
            memory = found[MEMORY].unflatten(-1, (NUMBER - 1, STACK.width))
            got = torch.cat((found["cue"], memory[..., 0]), -1).tolist()
            assert got == [frames_of(robots.seen, number) for number, *_ in got]
            assert memory[..., 1].tolist() == [[float(each > 0.0) for each in row[1:]] for row in got]
            past += sum(row[2] > 0.0 for row in got)
    assert past > 1000 and robots.count > 4 * store.capacity


def test_a_state_has_what_is_stored_and_places_in_it():
    robots, store = Robots(SHAPE), FrameStore(STACK, SHAPE, CAPACITY, 1, torch.device("cpu"))
    for _ in range(5):
        store.refer(robots.step())
    state = store.state_dict()
    assert len(state["observations"]["rows"]["row"]) == int(state["observations"]["filled"]) < store.capacity
    with pytest.raises(ConfigError, match="frames latest"):
        store.load_state_dict({**state, "latest": state["latest"] + store.capacity})


def test_other_environments_begin_new_episodes():
    robots, store = Robots(SHAPE), FrameStore(STACK, SHAPE, CAPACITY, 1, torch.device("cpu"))
    store.refer(robots.step())
    store.forget()
    places = store.refer(robots.step()).get(("robots", "observation", PLACES))
    memory = store.observation(places.flatten(0, 2))[MEMORY]
    assert not memory.any()
