"""What a mistyped name may mean; torch is not imported, so that answers come at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

USUAL = {
    "lr": "learning_rate",
    "lr_final": "learning_rate_final",
    "batch": "batch_size",
    "minibatch_size": "batch_size",
    "steps": "total_timesteps",
    "timesteps": "total_timesteps",
    "total_steps": "total_timesteps",
    "iterations": "total_timesteps",
    "epochs": "total_timesteps",
    "envs": "num_envs",
    "n_envs": "num_envs",
    "gpu": "device",
    "cuda": "device",
    "cpu": "device",
    "algo": "agent_type",
    "algorithm": "agent_type",
    "model": "agent_type",
    "replay_size": "buffer_size",
    "memory_size": "buffer_size",
    "discount": "gamma",
    "grad_clip": "max_grad_norm",
    "hidden": "hidden_sizes",
    "layers": "hidden_sizes",
    "n_step": "n_steps",
    "polyak": "tau",
    "eval_interval": "eval_freq",
    "log_interval": "log_freq",
    "epsilon": "exploration_final_eps",
    "output": "save_dir",
    "logdir": "save_dir",
    "out": "save_dir",
    "save": "out",
}
"""Names that other programs have for settings and options, and those that they have here."""
_ALIKE = 0.6
"""Least similarity, from 0 to 1, of names that are proposed."""


def closest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the names most like a word, the most similar first.

    Case, hyphens and underscores do not count. Of dotted names the last part is enough, and names
    that other programs use are known (``USUAL``).

    Args:
        word: what was written.
        known: the names that there are.
        count: the most that are given.
    """
    names: dict[str, list[str]] = {}
    for name in known:
        for plain in dict.fromkeys((_plain(name), _plain(name.rpartition(".")[2]))):
            names.setdefault(plain, []).append(name)
    last = word.rpartition(".")[2]
    found: dict[str, None] = {}
    for each in (word, last, USUAL.get(last.replace("-", "_"), "")):
        found |= dict.fromkeys(names.get(_plain(each), ()))
    if not found:
        for plain in difflib.get_close_matches(_plain(word), names, count, _ALIKE):
            found |= dict.fromkeys(names[plain])
    return list(found)[:count]


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return the end of a sentence that proposes names like a word; empty if there are none."""
    found = closest(word, known) if isinstance(word, str) else []
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _plain(name: str) -> str:
    return re.sub(r"[-_]", "", name).lower()
