"""TorchRL specs of the observations, actions, rewards and done flags of MarineNavEnv."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from marinenav_env.sensing.entries import Entry

if TYPE_CHECKING:
    from torchrl.data import Binary, Composite

GROUP = "robots"
"""Key of the tensordict with the data of all agents, which form one group."""
STATISTICS = "episode_statistics"
"""Key of the statistics of the current episodes, [E, S]; for the columns see episode_statistics.statistic_names."""
INIT = "is_init"
"""Key of the mask [E, 1] of environments whose episode begins with this step, as recurrent modules of TorchRL use."""


class Specs(NamedTuple):
    """TorchRL specs of the observation, action, reward and done keys of MarineNavEnv."""

    observation: Composite
    action: Composite
    reward: Composite
    done: Composite


def make_specs(
    shape: tuple[int, int],
    entries: Mapping[str, Entry],
    flat: bool,
    num_actions: int | None,
    device: torch.device | None,
    dtype: torch.dtype,
    num_statistics: int = 0,
    action_size: int = 2,
) -> Specs:
    """Return the TorchRL specs of a MarineNavEnv with E environments and R robots, in the form ``shape``.

    ``num_actions`` is None for continuous actions; without ``num_statistics`` there is no such key.
    """
    # Imported here, because it takes seconds and policies need only the names of the keys.
    from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded

    def entry_spec(entry: Entry) -> Any:
        if entry.kind == "mask":
            return Binary(shape=(*shape, *entry.shape), device=device, dtype=torch.bool)
        return Unbounded((*shape, *entry.shape), device=device, dtype=dtype)

    def group_spec(**specs: Any) -> Composite:
        group = Composite(specs, shape=shape, device=device)
        return Composite({GROUP: group}, shape=shape[:1], device=device)

    def flag_specs(*batch: int) -> dict[str, Binary]:
        names = ("done", "terminated", "truncated")
        options: Any = {"device": device, "dtype": torch.bool}
        return {name: Binary(shape=(*batch, 1), **options) for name in names}

    size = sum(math.prod(entry.shape) for entry in entries.values())
    measurements = {name: entry_spec(entry) for name, entry in entries.items()}
    observation = group_spec(
        observation=Unbounded((*shape, size), device=device, dtype=dtype)
        if flat
        else Composite(measurements, shape=shape, device=device),
        mask=Binary(shape=shape, device=device, dtype=torch.bool),
    )
    observation[INIT] = Binary(shape=(shape[0], 1), device=device, dtype=torch.bool)
    if num_statistics:
        numbers = Unbounded((shape[0], num_statistics), device=device, dtype=dtype)
        observation[STATISTICS] = numbers
    action = group_spec(
        action=Bounded(-1.0, 1.0, shape=(*shape, action_size), device=device, dtype=dtype)
        if num_actions is None
        else Categorical(num_actions, shape=shape, device=device, dtype=torch.int64)
    )
    reward = group_spec(reward=Unbounded((*shape, 1), device=device, dtype=dtype))
    done = group_spec(**flag_specs(*shape))
    done.update(flag_specs(shape[0]))
    return Specs(observation, action, reward, done)
