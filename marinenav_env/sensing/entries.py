"""Descriptions of the entries of an observation, and the base class of the sensors that measure them.

An observation is a set of named tensors. The vessel's own state and the objects around it come
from ``perception``, since collisions and the rules of the sea depend on them. Every other entry
comes from an EntrySensor.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.state import Parameters, Scenario, State

EntryKind = Literal["vector", "objects", "mask", "scan", "identity"]
"""Kind of an entry: vector (numbers of a robot), objects (one row per object), mask (which rows hold an object), scan
(numbers in the order of their directions) or identity (numbers by which objects in rows are known, no features)."""
ENTRY_KINDS: tuple[str, ...] = get_args(EntryKind)
DEFAULT_LIMIT = 1e4
"""Largest magnitude of the numbers of an entry that states no limits."""


@dataclass(frozen=True)
class Entry:
    """One named tensor ``[E, R, *shape]`` of an observation."""

    name: str
    """Key below ``robots/observation``."""
    kind: EntryKind
    """Meaning of the numbers, which decides how a network encodes them."""
    shape: tuple[int, ...]
    """Shape of the tensor for one robot."""
    meaning: str = ""
    """Description of content and units, for people."""
    scale: tuple[float, ...] = ()
    """Typical magnitude: one number for all, or one for each index of the last dimension; empty: 1."""
    limits: tuple[tuple[float, float], ...] = ((-DEFAULT_LIMIT, DEFAULT_LIMIT),)
    """Smallest and largest value: one pair for all, or one for each index of the last dimension."""
    mask: str = ""
    """Name of the entry of kind mask that says which rows hold an object; only for kinds objects and identity."""

    @property
    def has_features(self) -> bool:
        """Return whether networks encode the entry by itself."""
        return self.kind not in ("mask", "identity")

    def dtype(self, floating: torch.dtype) -> torch.dtype:
        """Return the dtype of the entry in a world that computes with a floating-point dtype."""
        return torch.bool if self.kind == "mask" else floating


class Scene(NamedTuple):
    """Input of a sensor: the world after the motion of a control step, or at the start of an episode."""

    state: State
    """State of the robots, batch [E]; active robots observe and are observed, also those that end in this step."""
    scenario: Scenario
    """Scenarios, batch [E]."""
    parameters: Parameters
    """Parameters of the world, batch [E], or [1] when shared by all environments."""
    config: WorldConfig
    """Configuration shared by all environments."""


class EntrySensor:
    """Base class of sensors that measure one entry of every robot.

    A sensor is created without arguments. ``observe`` is compiled with the world: it must be a
    pure function of tensors, without Python loops over environments, without random numbers of
    its own and without reading values on the host.
    """

    name: str
    """Key of the entry below ``robots/observation``."""
    kind: EntryKind = "vector"
    """Kind of the entry, one of ENTRY_KINDS."""
    meaning: str = ""
    """Description of content and units, for people."""
    mask: str = ""
    """Name of the entry of kind mask that says which rows hold an object; only for kind objects."""

    def shape(self, config: WorldConfig) -> tuple[int, ...]:
        """Return the shape of the entry for one robot."""
        raise NotImplementedError

    def scale(self, config: WorldConfig) -> tuple[float, ...]:
        """Return the typical magnitude of the numbers, in the form of ``Entry.scale``."""
        return ()

    def limits(self, config: WorldConfig) -> tuple[tuple[float, float], ...]:
        """Return the smallest and largest value, in the form of ``Entry.limits``."""
        return ((-DEFAULT_LIMIT, DEFAULT_LIMIT),)

    def noise(self, shape: tuple[int, ...], source: RandomSource, dtype: torch.dtype) -> Tensor | None:
        """Draw the random numbers of one observation of shape ``[E, R, *shape]``; None if the sensor has no noise.

        This method is compiled with the world, too. The methods ``normal`` and ``uniform`` of the source return a
        tensor of a given shape and dtype, and the same numbers when called again.
        """
        return None

    def observe(self, scene: Scene, noise: Tensor | None) -> Tensor:
        """Return the entry of all robots, ``[E, R, *shape]``, from the world and the result of ``noise``.

        The world sets the rows of inactive robots to zero.
        """
        raise NotImplementedError

    def entry(self, config: WorldConfig) -> Entry:
        """Return the description of this sensor's observation entry: name, kind, shape, meaning, scale and limits."""
        return Entry(
            self.name, self.kind, self.shape(config), self.meaning, self.scale(config), self.limits(config), self.mask
        )
