"""Interface of the loggers of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


class RunLogger:
    """Base class of loggers; methods for what a logger cannot show do nothing."""

    def log(self, scalars: dict[str, float], env_steps: int) -> None:
        """Log scalars, with env-steps as the x axis."""

    def log_histogram(self, tag: str, values: Tensor, env_steps: int) -> None:
        """Log the distribution of values."""

    def log_image(self, tag: str, pixels: NDArray[np.uint8], env_steps: int) -> None:
        """Log an image [height, width, 3]."""

    def log_end(self, env_steps: int) -> None:
        """Log that the run has reached its last env-step."""

    def flush(self) -> None:
        """Write everything to the disk."""

    def close(self) -> None:
        """Flush and close the logger."""
