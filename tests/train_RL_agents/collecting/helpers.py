"""The collector that others are compared with."""

from collections.abc import Iterator
from typing import Any

from tensordict import TensorDict
from torchrl.collectors import Collector


def torchrl_collector(env: Any, policy: Any, frames: int) -> Iterator[TensorDict]:
    """Batches of so many frames by TorchRL's own collector."""
    options = dict.fromkeys(("use_buffers", "track_traj_ids", "auto_register_policy_transforms"), False)
    return iter(Collector(env, policy, frames_per_batch=frames, total_frames=-1, **options))
