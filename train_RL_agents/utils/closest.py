"""Suggestions for mistyped names; torch is not imported, so that they are immediate."""

import difflib
import re
from collections.abc import Iterable

ALIASES = {
    "learning_rate": "lr",
    "total_timesteps": "steps iterations epochs",
    "seconds": "steps",
    "device": "gpu cuda cpu",
    "agent_type": "algo algorithm model",
    "gamma": "discount",
    "max_grad_norm": "grad_clip",
    "tau": "polyak",
    "exploration_final_eps": "epsilon",
    "save_dir": "output logdir",
    "out": "save",
}
"""Names of settings and options, and those of the same ones in other programs that are not alike."""
_MIN_SIMILARITY = 0.6
"""Smallest similarity of a mistyped and a suggested name, as the ratio of difflib from 0 to 1."""


def closest_names(word: str, valid: Iterable[str], count: int = 3) -> list[str]:
    """Return the names most similar to a word, the most similar first.

    Case, hyphens and underscores are ignored. The last component of a dotted name suffices, and names that other
    programs use are translated (``ALIASES``).
    """
    names: dict[str, list[str]] = {}
    for name in valid:
        for plain in dict.fromkeys((normalized_name(name), normalized_name(name.rpartition(".")[2]))):
            names.setdefault(plain, []).append(name)
    last = word.rpartition(".")[2]
    matches: dict[str, None] = {}
    translated = [name for name, others in ALIASES.items() if last.replace("-", "_") in others.split()]
    for candidate in (word, last, *translated):
        matches |= dict.fromkeys(names.get(normalized_name(candidate), ()))
    if not matches:
        for plain in difflib.get_close_matches(normalized_name(word), names, count, _MIN_SIMILARITY):
            matches |= dict.fromkeys(names[plain])
    return list(matches)[:count]


def did_you_mean(word: object, valid: Iterable[str]) -> str:
    """Return "; did you mean A or B?" with the valid names most similar to a mistyped word; empty if there are none."""
    suggestions = closest_names(word, valid) if isinstance(word, str) else []
    return f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""


def normalized_name(name: str) -> str:
    """Return a name in lower case, without hyphens and underscores."""
    return re.sub(r"[-_]", "", name).lower()
