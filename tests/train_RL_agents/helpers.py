"""What the tests of the trainer share: random inputs and batches, and stand-ins for graphs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.collectors import Collector

from marinenav_env import WorldConfig
from marinenav_env.runtime.host_reads import true_indices
from marinenav_env.runtime.loop import Loop
from train_RL_agents.agents import Agent, Batch
from train_RL_agents.agents.batches import RolloutBatch
from train_RL_agents.config.building import make_observation_spec
from train_RL_agents.learning import replay as replays
from train_RL_agents.learning.replay import STORED_MASK
from train_RL_agents.networks.observation import ACTIVE_KEY, Observation, ObservationSpec

SPEC = make_observation_spec(WorldConfig())
"""The published observation."""


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_inputs(*shape: int, generator: torch.Generator, spec: ObservationSpec = SPEC) -> Observation:
    """Random observations of any leading shape, of the size that the world's have."""
    found: Observation = {}
    for name, entry in spec.entries.items():
        full = (*shape, *entry.shape)
        if entry.kind == "mask":
            found[name] = torch.rand(full, generator=generator) < 0.6
        else:
            drawn = torch.randn(full, generator=generator)
            found[name] = drawn * torch.tensor(entry.scale or (1.0,))
    for name, entry in spec.entries.items():
        if entry.mask in found:
            found[name] = found[name] * found[entry.mask][..., None]
    return found


def each_entry(observation: Observation, change: Callable[[Tensor], Tensor]) -> Observation:
    """An observation with the same done to all of its entries."""
    return {name: change(each) for name, each in observation.items()}


def fail(error: BaseException) -> Callable[..., Any]:
    """A function that raises an error."""

    def failing(*arguments: Any, **keywords: Any) -> None:
        raise error

    return failing


def make_actions(agent: Agent[Any], count: int, generator: torch.Generator) -> Tensor:
    if agent.continuous:
        return 2.0 * torch.rand(count, 2, generator=generator) - 1.0
    return torch.randint(agent.num_actions, (count,), generator=generator)


def insert_rows(replay: Any, rows: TensorDict) -> None:
    """Insert the rows whose entry STORED_MASK is true: these alone, or all with a mask where the host must not ask."""
    index = true_indices(rows[STORED_MASK])
    replay.insert(rows if index is None else rows.exclude(STORED_MASK)[index])


def explored(agent: Agent[Any], observation: Observation, seed: int = 0) -> Tensor:
    """Actions while training, for one draw of what is random in them."""
    shape = observation["self_state"].shape[:-1]
    return agent.explore(observation, agent.exploration_noise(shape, seeded(seed)))[0]


def make_batch(agent: Agent[Any], count: int, generator: torch.Generator) -> Any:
    """What the agent learns from, at random: transitions, or robot-steps of a rollout."""
    if agent.algorithm == "on-policy":
        return make_rollout(agent, count, generator=generator)
    return make_transitions(agent, count, generator)


def make_transitions(agent: Agent[Any], count: int, generator: torch.Generator) -> Batch:
    """Random transitions, about a third of them terminal."""
    return Batch(
        make_inputs(count, generator=generator, spec=agent.spec),
        make_actions(agent, count, generator),
        torch.randn(count, generator=generator),
        0.9 * (torch.rand(count, generator=generator) < 2 / 3),
        make_inputs(count, generator=generator, spec=agent.spec),
    )


def make_rollout(agent: Agent[Any], *shape: int, generator: torch.Generator) -> RolloutBatch:
    """Robot-steps of the agent's own exploration, [B] or [B, R], most of them of active robots."""
    observation = make_inputs(*shape, generator=generator, spec=agent.spec)
    active = torch.rand(shape, generator=generator) < 0.8
    noise = agent.exploration_noise(torch.Size(shape), generator)
    with torch.no_grad():
        action, extras = agent.explore({**observation, ACTIVE_KEY: active}, noise)
    advantage, target = torch.randn(2, *shape, generator=generator)
    return RolloutBatch(observation, action, extras, advantage, target, active.float(), torch.tensor(0.25))


def gradient_sizes(losses: Tensor, parameters: Sequence[Tensor]) -> list[float]:
    """Largest absolute entry of the gradient of each parameter; 0 where none arrives."""
    gradients = torch.autograd.grad(losses, parameters, retain_graph=True, allow_unused=True)
    return [0.0 if each is None else float(each.abs().max()) for each in gradients]


def torchrl_collector(env: Any, policy: Any, frames: int) -> Iterator[TensorDict]:
    """Batches of so many frames by TorchRL's own collector."""
    options = dict.fromkeys(("use_buffers", "track_traj_ids", "auto_register_policy_transforms"), False)
    return iter(Collector(env, policy, frames_per_batch=frames, total_frames=-1, **options))


class Replays:
    """A recorder of Loop for the CPU, whose replays are calls that leave a note.

    Args:
        notes: gets a note for each replay.
        name: the note.
    """

    def __init__(self, notes: list[str], name: str) -> None:
        self.notes, self.name = notes, name

    def on_side_stream(self) -> Any:
        return nullcontext()

    def record(self, call: Callable[[], Any], generators: Any) -> Callable[[], Any]:
        def replay() -> Any:
            self.notes.append(self.name)
            return call()

        return replay


@contextmanager
def replayed() -> Iterator[list[str]]:
    """Within it, what would be captured on a GPU is recorded; gives the names of all replays."""
    initialize, notes = Loop.__init__, list[str]()

    def init(self: Loop, *args: Any, **options: Any) -> None:
        recorder = Replays(notes, options["name"]) if options.get("capture", True) else None
        initialize(self, *args, recorder=recorder, **options)

    with patch.object(Loop, "__init__", init):
        yield notes


@contextmanager
def memory_of_rows() -> Iterator[list[Tensor]]:
    """Within it, gives the tensors in which replay that is made keeps its rows."""
    found, blank = list[Tensor](), replays.blank_rows

    def noted(*args: Any) -> Any:
        created = blank(*args)
        found.extend(created.values(True, True))
        return created

    with patch.object(replays, "blank_rows", noted):
        yield found
