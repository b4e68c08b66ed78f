"""What a run is logged to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


class RunLogger:
    """A place that a run is logged to; it takes what it can show, and nothing here."""

    def log(self, scalars: dict[str, float], env_steps: int) -> None:
        """Log scalars, with env-steps as the x axis."""

    def log_histogram(self, tag: str, values: Tensor, env_steps: int) -> None:
        """Log how values are distributed."""

    def log_image(self, tag: str, pixels: NDArray[np.uint8], env_steps: int) -> None:
        """Log a picture [height, width, 3]."""

    def log_end(self, env_steps: int) -> None:
        """Log that the run has made all its env-steps."""

    def flush(self) -> None:
        """Bring all to the disk."""

    def close(self) -> None:
        """Flush, and release the place."""
