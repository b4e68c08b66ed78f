"""Settings of the networks' encoders; torch is not imported."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from marinenav_env.support.validation import IS_NOT_EMPTY, NonNegativeFloat, at_least, at_most, check_fields, require

FeatureSet = Literal["raw", "scaled", "geometric"]
"""Inputs of encoders: raw observations, scaled ones, or scaled ones and the geometry of the encounters."""
SELF_STATE = "self_state"
"""Name of the entry of the observation with the own state of a vessel."""
LayerWidth = Annotated[int, at_least(1), at_most(4096)]
"""Type of the number of units of a layer."""
LayerWidths = Annotated[tuple[int, ...], IS_NOT_EMPTY, at_least(1), at_most(4096)]
"""Type of the numbers of units of consecutive layers."""


@dataclass(frozen=True)
class MemoryConfig:
    """Settings of the memory of a policy."""

    kind: Literal["none", "frames", "gru"] = "none"
    """What a policy remembers of earlier steps of an episode: nothing, the last observations, or the state of a gated
    recurrent unit (PPO and A2C)."""
    number: Annotated[int, at_least(2), at_most(16)] = 4
    """Number of observations, with the present one, that frames are."""
    size: LayerWidth = 64
    """Units of the gated recurrent unit."""
    window: Annotated[int, at_least(1), at_most(64)] = 8
    """Largest number of steps that gradients go back; a rollout is divided into equal windows, each from the memory
    that the policy had. Longer ones take longer to compile."""

    def __post_init__(self) -> None:
        check_fields(self, "agent.memory")
        for name, kind in (("number", "frames"), ("size", "gru"), ("window", "gru")):
            value = getattr(self, name)
            has_effect = self.kind == kind or value == getattr(type(self), name)
            require(has_effect, f"agent.memory.{name}", value, f"left out without agent.memory.kind={kind}")

    def window_of(self, steps: int) -> int:
        """Return the length of the windows of a rollout of so many steps: its largest divisor up to ``window``."""
        return max(length for length in range(1, self.window + 1) if steps % length == 0)


@dataclass(frozen=True)
class EncoderConfig:
    """Settings of the networks' encoders and hidden layers."""

    features: FeatureSet = "geometric"
    """Inputs of encoders: raw observations, scaled ones, or scaled ones and the geometry of the encounters."""
    encoder: Literal["concat", "max", "attention"] = "concat"
    """Pooling of the encoded objects: concatenation slot by slot, as published, maximum, or attention; the latter two
    take any number of objects in any order."""
    goal_reach: NonNegativeFloat = 0.0
    """Distance (m) that the position of the goal is limited to, in its direction; 0: no limit."""
    self_width: LayerWidth = 56
    """Units of the encoder of the vessel's own state, and of additional vectors."""
    object_width: LayerWidth = 40
    """Units of the encoder of each object."""
    scan_width: LayerWidth = 64
    """Units of the encoder of a range scan."""
    hidden_sizes: LayerWidths = (128, 128)
    """Units of each hidden layer."""
    excluded: tuple[str, ...] = ()
    """Entries of the observation that the networks do not use, such as objects_state."""
    entry_encoders: tuple[str, ...] = ()
    """User-defined encoders of entries as ``entry=package.module:Class``; one for self_state is used in addition to the
    built-in one."""
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    """Memory of the policy and of what values its actions."""

    def __post_init__(self) -> None:
        check_fields(self, "agent")
        require(SELF_STATE not in self.excluded, "agent.excluded", self.excluded, f"without {SELF_STATE}")
        for encoder in self.entry_encoders:
            require("=" in encoder, "agent.entry_encoders", encoder, "entry=package.module:Class")
