"""External situations that are part of the package, as groups of episodes.

DNV's 55 standard situations are those that ship-traffic-generator made of its inputs, and Imazu's 22 problems are those
of colav-simulator; ``marinenav_env.scenarios.situations`` states how they are scaled.
"""

from __future__ import annotations

from marinenav_env import Episode, WorldConfig
from marinenav_env.scenarios.dnv import KINDS
from marinenav_env.scenarios.reading import packaged
from marinenav_env.scenarios.situations import scaled_episode

LARGER = ("2 others", "3 others")
"""Names of the groups of DNV's situations with more than one other ship."""


def packaged_suite(name: str, world: WorldConfig) -> tuple[tuple[str, ...], list[int], list[Episode]]:
    """Return the names of the groups, the index of the group of each situation, and the episodes of the situations.

    The groups of ``dnv`` are the kinds of encounter with one other ship, and the numbers of other ships where there are
    more; each of Imazu's problems is a group.

    Args:
        name: ``dnv`` or ``imazu_ntnu``.
        world: world whose vessels and sensors the episodes have.
    """
    situations = packaged(name)
    episodes = [scaled_episode(situation, world) for situation in situations]
    if name != "dnv":
        return tuple(f"case {number}" for number in range(1, len(episodes) + 1)), [*range(len(episodes))], episodes
    kinds = [*KINDS.values()]
    levels = [
        kinds.index(situation.name) if len(situation.ships) == 2 else len(kinds) + len(situation.ships) - 3
        for situation in situations
    ]
    return (*(kind.replace("-", " ") for kind in KINDS), *LARGER), levels, episodes
