"""Checks of actions, and conversion of discrete actions to continuous ones.

Shapes and types are known on the host and are checked at every step. Values are on the device:
where reading them is free, they are checked before a step; elsewhere the step sets a flag that is read later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import VesselConfig
from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.scenarios.reset import controlled_robots
from marinenav_env.state import ResetState
from marinenav_env.support.validation import ConfigError, brief, require
from marinenav_env.vessels import largest_value

STEPS_BETWEEN_READS = 1000
"""Number of steps of the batch between two reads of ``ActionChecks.flag`` by ``read_flag_periodically``."""
_INTEGER_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def check_shape_and_dtype(action: Any, robots: Sequence[int], continuous: bool) -> None:
    """Raise ConfigError unless actions of robots [E, R] have the required shape and type; values are not read."""
    shape = (*robots, 2) if continuous else (*robots,)
    # Messages are formatted only if needed, because code with this check is compiled.
    if not isinstance(action, Tensor):
        raise ConfigError(f"action={brief(action)}: must be a tensor under (robots, action)")
    if action.shape != shape:
        raise ConfigError(f"action.shape={list(action.shape)}: must be {list(shape)}")
    if action.dtype not in _INTEGER_DTYPES and not (continuous and action.dtype.is_floating_point):
        allowed = "a floating-point type" if continuous else "an integer type"
        raise ConfigError(f"action.dtype={action.dtype}: must be {allowed}")


def find_invalid_actions(action: Tensor, acting: Tensor, pairs: int | None) -> Tensor:
    """Return which actions [E, R] of acting robots are not finite or, with a number of pairs, not an index below it."""
    if pairs is None:
        return acting & ~action.isfinite().all(-1)
    return acting & ((action < 0) | (action >= pairs))


def commands_of_discrete_actions(vessel: VesselConfig) -> Tensor:
    """Return the continuous actions [A, 2] in [-1, 1] (left, right) that are closest to the A discrete actions.

    They command the same thrust rates up to ``max_thrust_rate``, of which the largest counts if robots differ.
    """
    sides = (vessel.left_thrust_change, vessel.right_thrust_change)
    rates = torch.cartesian_prod(*map(torch.tensor, sides))
    return (rates / largest_value(vessel.max_thrust_rate)).clamp(-1.0, 1.0)


class ActionChecks:
    """Checks of the actions of every step of an environment.

    Where host reads are free, invalid values raise an error before the step. Elsewhere a flag on the
    device records whether there was an invalid value, until the flag is read.
    Discrete actions index ``pairs`` of thrust changes (None: they are continuous).
    """

    def __init__(self, pairs: int | None, device: torch.device, values: bool = True) -> None:
        self._pairs, self._reads = pairs, values and host_reads_are_free(device)
        self.flag: Tensor | None = None
        """[] bool, True if there was an invalid action since the last ``read_flag``; None if no flag is used."""
        self._stepped, self._read_at = False, 0
        if values and not self._reads:
            self.flag = torch.zeros((), dtype=torch.bool, device=device)

    def check_before_step(self, action: Any, now: ResetState) -> None:
        """Check shape and type of actions before a step and, where host reads are free, their values."""
        acting = controlled_robots(now)
        check_shape_and_dtype(action, acting.shape, self._pairs is None)
        self._stepped = self.flag is not None
        if self._reads:
            refused = find_invalid_actions(action, acting, self._pairs)
            if refused.any():  # host: free
                env, robot = refused.nonzero()[0].tolist()  # host: free
                value = action[env, robot].tolist()  # host: free
                require(False, f"action[{env}, {robot}]", value, self._allowed)

    def flag_invalid(self, action: Tensor, now: ResetState) -> None:
        """Set the flag, if there is one, when an action of a step is invalid; this can be captured in a CUDA graph."""
        if self.flag is not None:
            self.flag.logical_or_(find_invalid_actions(action, controlled_robots(now), self._pairs).any())

    def read_flag(self) -> None:
        """Read the flag on the host and clear it, if there were steps since; raise ConfigError when it was set."""
        if self.flag is not None and self._stepped:
            self._stepped = False
            was_set = bool(self.flag)  # host: requested
            self.flag.zero_()
            if was_set:
                raise ConfigError(f"an action since the last check: must be {self._allowed}")

    def read_flag_periodically(self, step: int) -> None:
        """Read the flag if STEPS_BETWEEN_READS vector steps have passed since this method last did, also backwards."""
        if self.flag is not None and abs(step - self._read_at) >= STEPS_BETWEEN_READS:
            self._read_at = step
            self.read_flag()

    @property
    def _allowed(self) -> str:
        """Return a description of valid action values, for error messages."""
        return "finite" if self._pairs is None else f"an index from 0 to {self._pairs - 1}"
