"""Videos of policies in external environments, from the frames that these render."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from marinenav_env.support.validation import require
from train_RL_agents.environments.group_env import GroupEnv, wrap_errors
from train_RL_agents.environments.makers import make_env
from train_RL_agents.figures.animation import write_frames
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.run.checkpoint import LoadedPolicy

_MAX_FRAMES = 10_000
"""Number of frames after which a video ends even if the episode is not over."""
_FRAME_RATE = 20.0


def write_video(loaded: LoadedPolicy, seed: int, folder: Path) -> list[Path]:
    """Write a video of one episode of a policy as MP4, and return a list with its path."""
    config = loaded.config.env
    if config.name.partition(":")[0] in ("gymnasium", "pettingzoo"):
        config = replace(config, options=(*config.options, "render_mode=rgb_array"))
    env = make_env(config, 1, torch.device("cpu"), seed)
    task = config.name.rpartition(":")[2].replace("/", "_")
    try:
        return write_frames(_frames(loaded, env), _FRAME_RATE, folder, f"{loaded.config.agent_type}_{task}_{seed}")
    finally:
        env.close(raise_if_closed=False)


@torch.no_grad()
def _frames(loaded: LoadedPolicy, env: GroupEnv) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of one episode of a policy, images [height, width, 3]."""
    policy, step = PolicyWrapper(loaded.agent.cpu()), env.reset()
    for _ in range(_MAX_FRAMES):
        yield _render(env)
        step, following = env.step_and_maybe_reset(policy(step))
        if step.get(("next", "done")):
            break
        step = following


def _render(env: GroupEnv) -> NDArray[np.uint8]:
    """Return an image [height, width, 3] of the first environment."""
    base: Any = env.base
    with wrap_errors(f"{env.name}: cannot be rendered"):
        try:
            pixels = base.render(mode="rgb_array")
        except TypeError:
            pixels = base.render()
    pixels = pixels[0] if isinstance(pixels, list | tuple) else pixels
    picture = np.asarray(pixels)
    is_picture = picture.ndim == 3 and picture.shape[-1] in (3, 4)
    require(is_picture, f"{env.name}: render", type(pixels).__name__, "a function that returns pixels")
    return picture[..., :3].astype(np.uint8)
