"""Descriptions of all scalars that a run logs, as TensorBoard shows them beside its charts."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

TOP_METRICS = {
    "Result": ("success_rate", "collision_rate", "timeout_rate", "avg_time", "avg_return"),
    "Training": ("episode_return", "success_rate", "collision_rate"),
}
"""Names of the most important metrics of evaluations and of training episodes, in the order of their tags."""

TAG_DESCRIPTIONS = {
    "Result/*": "the five figures to look at first, as under `eval/`; TensorBoard sorts by name, "
    "so they come first in TIME SERIES, and are the metrics shown in HPARAMS",
    "Training/*": "the three figures of training to look at first, as under `train/`: first in "
    "TIME SERIES until there is an evaluation, then after `Result/*`",
    "eval/success_rate": "share of evaluation episodes in which every robot arrives (such an episode stops at its "
    "first collision), or that an external environment reports as a success",
    "eval/success_rate_level_*": "the same for each level",
    "eval/collision_rate": "share of episodes with a collision",
    "eval/grounding_rate": "share of episodes in which a vessel runs aground; in waters with shores",
    "eval/timeout_rate": "share of episodes without a collision in which some robot did not arrive in time",
    "eval/return_low": "in external environments: lower end of the 95% interval of the mean `eval/avg_return`",
    "eval/return_high": "upper end of it",
    "eval/*_low": "lower end of the 95% Wilson interval of the rate",
    "eval/*_high": "upper end of it",
    "eval/robot_success_rate": "share of robots that arrive when episodes continue after a collision",
    "eval/avg_time": "travel time per robot (s), mean over successful episodes",
    "eval/avg_energy": "thrust spent per robot (N s), mean over successful episodes",
    "eval/avg_return": "sum of 0.99^t reward per robot, mean over all episodes; without discount in external "
    "environments",
    "eval/avg_length": "steps of an episode, mean; in external environments",
    "eval/episodes": "episodes of an evaluation",
    "losses/loss*": "what is minimised",
    "losses/value": "mean value of a batch (scaled rewards)",
    "losses/target": "mean target of a batch (scaled rewards)",
    "losses/grad_norm": "norm of all gradients before clipping",
    "losses/temperature": "SAC: weight of the entropy",
    "losses/entropy": "PPO and A2C: entropy of the action distribution (nat)",
    "losses/approx_kl": "PPO: KL divergence from the policy of the rollout (nat), mean of (r - 1) - log r",
    "losses/clip_fraction": "PPO: share of robot-steps whose probability ratio is clipped",
    "losses/explained_variance": "PPO and A2C: 1 - Var(target - value) / Var(target); 1 is "
    "perfect, 0 no better than a constant",
    "losses/policy_gain": "PPO and A2C: objective of the policy, without weight",
    "losses/value_error": "PPO and A2C: squared error of the value, without weight",
    "train/episode_return": "sum of the rewards per robot of a training episode, without discount; "
    "this and the next five are of the episodes that ended since the last entry, means over all "
    "environments, with exploration and the rewards of training, and continue after a collision",
    "train/episode_length": "control steps of a training episode",
    "train/success_rate": "share of training episodes in which every robot arrived without a collision, or that an "
    "external environment reports as a success",
    "train/collision_rate": "share of training episodes with a collision",
    "train/grounding_rate": "share of training episodes in which a vessel runs aground; in waters with shores",
    "train/reward/*": "part of `train/episode_return` from one term of the reward; a reward of your own has no terms",
    "train/episodes": "training episodes that ended since the last entry",
    "train/exploration": "epsilon or standard deviation of the action noise, in the environment that explores most",
    "train/scenarios_kept": "on a GPU: scenarios that refreshes of the pool have kept so far, since none "
    "was drawn with all that its level asks for; if there are any",
    "train/learning_rate": "learning rate of the optimiser",
    "train/imitation_weight": "weight of the imitation loss; with a teacher",
    "train/replay_fill": "off-policy agents: filled share of replay",
    "train/updates": "updates so far",
    "train/micro_batches": "parts that a batch is divided into; more than 1 after memory was short",
    "charts/SPS": "env-steps per second, evaluations excluded",
    "charts/compile_seconds": "seconds spent on compilation",
    "time/*": "share of wall time: collect, insert, sample, update, evaluate, save, compile",
    "system/cpu_percent": "use of all processors by all programs (%)",
    "system/memory_gb": "memory of this process (GB)",
    "gpu/memory_gb": "peak device memory (GB)",
    "gpu/utilization": "from the driver (%); this and the next two with the extra `gpu`",
    "gpu/temperature_c": "from the driver (deg C)",
    "gpu/power_w": "from the driver (W)",
}
"""Descriptions of the logged scalars by tag pattern (``*`` is a wildcard); the first match counts."""


def describe_tag(tag: str) -> str:
    """Return the description of the scalar with a tag; empty for scalars of a user's agent."""
    return next((text for pattern, text in TAG_DESCRIPTIONS.items() if fnmatchcase(tag, pattern)), "")


def top_scalars(group: str, values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the most important values of a group of TOP_METRICS by tag; numbered, as TensorBoard sorts by name."""
    return {
        f"{group}/{number}_{name}": values[name] for number, name in enumerate(TOP_METRICS[group], 1) if name in values
    }
