"""Descriptions of the entries of an observation, and the base class of the sensors that measure them.

An observation is a set of named tensors. The vessel's own state and the objects around it come
from ``perception``, since collisions and the rules of the sea depend on them. Every other entry
comes from an EntrySensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.state import Parameters, Scenario, State

Kind = Literal["vector", "objects", "mask", "scan"]
"""vector: numbers of a robot; objects: one row per object; mask: which rows hold an object; scan:
numbers in the order of their directions."""
KINDS: tuple[str, ...] = get_args(Kind)
LIMIT = 1e4
"""Largest magnitude of a number whose entry gives no limits."""


@dataclass(frozen=True)
class Entry:
    """One named tensor ``[E, R, *shape]`` of an observation."""

    name: str
    """Key below ``robots/observation``."""
    kind: Kind
    """Meaning of the numbers, which decides how a network encodes them."""
    shape: tuple[int, ...]
    """Shape for one robot."""
    meaning: str = ""
    """Content and units, for people."""
    scale: tuple[float, ...] = ()
    """Typical magnitude, one number for all or one for each of the last dimension; none: 1."""
    limits: tuple[tuple[float, float], ...] = ((-LIMIT, LIMIT),)
    """Smallest and largest value, one pair for all or one for each of the last dimension."""
    mask: str = ""
    """For objects: the entry of kind mask that says which rows are real."""

    def dtype(self, floating: torch.dtype) -> torch.dtype:
        """Return the type of the tensor in a world with a floating-point type."""
        return torch.bool if self.kind == "mask" else floating


class Scene(NamedTuple):
    """Input of a sensor: the world after the motion of a control step, or at the start of an episode."""

    state: State
    """Batch [E]; active robots observe and are observed, also those that end in this step."""
    scenario: Scenario
    """Batch [E]."""
    parameters: Parameters
    """Batch [E], or [1] when shared by all environments."""
    config: WorldConfig
    """Configuration shared by all environments."""


class EntrySensor:
    """Base class of sensors that measure one entry of every robot.

    A sensor is created without arguments. ``observe`` is compiled with the world: it must be a
    pure function of tensors, without Python loops over environments, without random numbers of
    its own and without reading values on the host.
    """

    name: str
    """Key of the entry."""
    kind: Kind = "vector"
    """Kind of the entry."""
    meaning: str = ""
    """Content and units, for people."""
    mask: str = ""
    """For objects: the entry of kind mask that says which rows are real."""

    def shape(self, config: WorldConfig) -> tuple[int, ...]:
        """Return the shape of the entry for one robot."""
        raise NotImplementedError

    def scale(self, config: WorldConfig) -> tuple[float, ...]:
        """Return the typical magnitude of the numbers, as in ``Entry.scale``."""
        return ()

    def limits(self, config: WorldConfig) -> tuple[tuple[float, float], ...]:
        """Return the smallest and largest value, as in ``Entry.limits``."""
        return ((-LIMIT, LIMIT),)

    def noise(self, shape: tuple[int, ...], source: RandomSource, dtype: torch.dtype) -> Tensor | None:
        """Draw the random numbers of one observation; compiled with the world, too.

        Args:
            shape: ``[E, R, *shape]``.
            source: random source; its methods ``normal`` and ``uniform`` return tensors of a shape
                and type, and the same numbers when called again.
            dtype: floating-point type.

        Returns:
            The noise that ``observe`` receives; None if it needs none.
        """
        return None

    def observe(self, scene: Scene, noise: Tensor | None) -> Tensor:
        """Return the entry of all robots.

        Args:
            scene: state of the world.
            noise: random numbers returned by ``noise``.

        Returns:
            ``[E, R, *shape]``; the world sets the rows of inactive robots to zero.
        """
        raise NotImplementedError

    def entry(self, config: WorldConfig) -> Entry:
        """Return the name, shape, scale and limits of this observation entry."""
        return Entry(
            self.name,
            self.kind,
            self.shape(config),
            self.meaning,
            self.scale(config),
            self.limits(config),
            self.mask,
        )
