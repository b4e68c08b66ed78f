"""Checks of a run: values that have diverged, and settings that do not fit together."""

import math
import shlex
import warnings
from pathlib import Path
from typing import Any

from marinenav_env.support import plugins
from marinenav_env.support.validation import ConfigError
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments.worlds import training_world


class DivergedError(ConfigError):
    """Raised when observations, actions, rewards, losses, gradients or weights are not finite."""


def non_finite_names(values: dict[str, float]) -> list[str]:
    """Return the names of those values that are infinite or NaN."""
    return [name for name, value in values.items() if not math.isfinite(value)]


def describe_divergence(
    invalid: list[str], between: tuple[int, int], saved_at: int | None, config: TrainConfig[Any], run: Path
) -> str:
    """Return a sentence that says which values diverged between two numbers of env-steps, and what to do.

    ``saved_at`` are the env-steps of the saved state.
    """
    kept = "" if saved_at is None else f"the state of {saved_at:,} env-steps is kept; "
    settings = config.trainer
    command = ["marinenav", "train", "--resume", str(run), *plugins.option_words()]
    rate = (
        f"go on with a smaller rate: {shlex.join(command)} "
        f"trainer.learning_rate={0.5 * settings.learning_rate:g} "
        f"trainer.learning_rate_final={0.5 * settings.learning_rate_final:g}"
    )
    inputs = [name for name in ("observations", "actions", "reward") if name in invalid]
    more = f", or {rate}" if len(invalid) > len(inputs) else ""
    # Invalid observations lead to the other invalid values.
    first = inputs[:1] if inputs[:1] == ["observations"] else inputs
    advice = f"check the {' and '.join(first)}{more}" if inputs else rate
    problem = "infinite or NaN" if invalid != ["actions"] else "infinite, NaN or no index"
    names = ", ".join(invalid)
    return f"{names} became {problem} between {between[0]:,} and {between[1]:,} env-steps; {kept}{advice}"


def warn_of_clipped_rewards(config: TrainConfig[Any], return_range: tuple[float, float]) -> None:
    """Warn if the reward of a collision or an arrival is outside of the returns that an agent represents."""
    lowest, highest = return_range
    reward, factor = training_world(config).reward, config.trainer.reward_scale
    for name, value in (("a collision", reward.collision_penalty), ("an arrival", reward.goal_reward)):
        scaled = factor * value
        counted = min(max(scaled, lowest), highest)
        if not math.isclose(counted, scaled):
            warnings.warn(
                f"the reward {value:g} of {name}, times trainer.reward_scale={factor:g}, counts as {counted:g}: "
                f"{config.agent_type} has returns of {lowest:g} to {highest:g}; settings of agent widen the range",
                stacklevel=2,
            )
