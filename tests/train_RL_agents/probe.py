"""Published networks, and what they answer: ``tests/data/published_probe.npz``.

The file has the weights of two published networks, observations, and what the networks answer to
them in float64. The float32 weights are kept as four planes of bytes each, which compress better.
"""

from pathlib import Path

import numpy as np
import torch

PROBE = Path(__file__).parents[1] / "data" / "published_probe.npz"


def read_probe() -> dict[str, np.ndarray]:
    with np.load(PROBE) as file:
        return dict(file)


def weights_of(probe: dict[str, np.ndarray], name: str) -> dict[str, torch.Tensor]:
    prefix = f"{name}/weights/"
    planes = {key.removeprefix(prefix): probe[key] for key in probe if key.startswith(prefix)}
    return {
        key: torch.from_numpy(np.ascontiguousarray(np.moveaxis(value, 0, -1)).view("<f4")[..., 0])
        for key, value in planes.items()
    }
