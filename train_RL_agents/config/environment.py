"""Settings of the environment of a run, which is the built-in one or one of another library."""

import math
from dataclasses import dataclass, replace

from marinenav_env.support import plugins
from marinenav_env.support.validation import NonNegativeInt, PositiveInt, check_fields, require

BUILT_IN = "marinenav"
LIBRARY_NAMES = ("gymnasium", "pettingzoo", "vmas")
"""Libraries whose environments are named LIBRARY:NAME, such as vmas:navigation."""


@dataclass(frozen=True)
class EnvConfig:
    """The environment of a run."""

    name: str = BUILT_IN
    """Environment: marinenav, gymnasium:ID, pettingzoo:FAMILY/NAME or vmas:SCENARIO, or a user-defined one
    as package.module:make_env."""
    options: tuple[str, ...] = ()
    """Keyword arguments of an external environment, as name=value."""
    max_steps: NonNegativeInt = 0
    """Steps after which an episode of an external environment is truncated; 0: the environment's own limit."""
    eval_episodes: PositiveInt = 100
    """Number of episodes of an evaluation in an external environment."""
    parallel: bool = False
    """Run each environment of a library without batched environments in its own process, instead of one after
    another."""
    timeout: NonNegativeInt = 300
    """Seconds that environments in other processes may take before the run ends with the last saved state; 0: no limit.
    It limits one step with env.parallel, and with trainer.collectors a whole batch, which has trainer.steps_per_batch
    (PPO, A2C: trainer.rollout_steps) steps in every environment of a worker."""

    def __post_init__(self) -> None:
        check_fields(self, "env")
        library, _, task = self.name.partition(":")
        known = (BUILT_IN, *plugins.registered_names(plugins.ENVIRONMENTS))
        is_known = self.name in known or plugins.is_reference(self.name) or (library in LIBRARY_NAMES and bool(task))
        names = f"{BUILT_IN}, {', '.join(f'{name}:NAME' for name in LIBRARY_NAMES)}, or package.module:make_env"
        require(is_known, "env.name", self.name, names)
        limited = library != "vmas" or self.max_steps > 0
        require(limited, "env.max_steps", self.max_steps, "above 0, as scenarios of VMAS have no time limit")

    def require_built_in(self, what: str) -> None:
        """Check that the environment is the built-in one, for a feature that needs it."""
        require(self.is_built_in, "env.name", self.name, f"{BUILT_IN} for {what}")

    @property
    def episode_settings(self) -> "EnvConfig":
        """Return a copy with default ``eval_episodes``, ``parallel`` and ``timeout``, which do not affect episodes."""
        usual = EnvConfig()
        return replace(self, eval_episodes=usual.eval_episodes, parallel=usual.parallel, timeout=usual.timeout)

    @property
    def max_wait(self) -> float:
        """Return the time limit for answers of workers (s); infinite for the built-in world or with ``timeout`` 0."""
        return self.timeout if self.timeout and not self.is_built_in else math.inf

    @property
    def is_built_in(self) -> bool:
        """Return whether the environment is the built-in one."""
        return self.name == BUILT_IN
