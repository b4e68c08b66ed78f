"""The page in which a policy steers: world and network in one HTML file that needs nothing else."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

import torch

from marinenav_env import Episode, WorldConfig
from marinenav_env.physics.weather import build_weather
from marinenav_env.pictures.drawing import COLOURS
from marinenav_env.scenarios.scenario_file import episodes_of
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from train_RL_agents.evaluation.suites import make_set
from train_RL_agents.figures.episode_view import CROSSING, HEAD_ON, RULES, zone_outline
from train_RL_agents.figures.page import assemble, read_part

SCRIPTS = (
    "tensors.js",
    "policies.js",
    "dynamics.js",
    "perception.js",
    "world.js",
    "sessions.js",
    "contests.js",
    "items.js",
    "keys.js",
    "maps.js",
    "cards.js",
    "demo.js",
)
"""The last one alone needs a page."""
SCENARIOS = (
    ("paper", None, "Published levels, {group}"),
    ("rules", 3, "Two vessels, {group}"),
    ("imazu", 1, "Imazu's problems of up to four vessels"),
    ("currents", 5, "Currents: {group}"),
)
"""Suites in the page, how many episodes of each of their groups, and the title that they are listed
under."""
FIRST = ("currents", 0)
"""The scenario that the page begins with: a suite, and which of its episodes."""
_STARTS = ("start", "goal", "heading", "velocity", "thruster_angle", "thrust", "obstacles", "cores")


def write_page(
    title: str,
    config: WorldConfig,
    policy: dict[str, Any],
    continuous: bool,
    risk: str | None,
    scale: float,
    are_returns: bool = True,
) -> str:
    """Make the page.

    Args:
        title: names the policy.
        config: the world that it was trained in.
        policy: its graphs and weights, see exporting.graph.
        continuous: whether its actions are continuous.
        risk: its risk setting, if it has one.
        scale: factor on rewards in what it estimates.
        are_returns: whether the scores of its actions are returns, or else logits.

    Returns:
        HTML.

    Raises:
        ConfigError: when the policy computes with an operator that the page does not have.
    """
    missing = operators_of(policy) - known_operators()
    require(not missing, title, ", ".join(sorted(missing)), "a policy of the page's operators")
    zones = {RULES[rule]: zone_outline(rule, config.colregs) for rule in (CROSSING, HEAD_ON)}
    listed = scenarios(config)
    first = [number for number, each in enumerate(listed) if each["suite"] == FIRST[0]][FIRST[1]]
    data = {
        "title": title,
        "config": _settings(config),
        "policy": policy,
        "continuous": continuous,
        "risk": risk,
        "scale": scale,
        "scores": "returns" if are_returns else "logits",
        "scenarios": listed,
        "first": first,
        "colours": COLOURS,
        "zones": {rule: outline.tolist() for rule, outline in zones.items()},
    }
    return assemble("demo", SCRIPTS, data)


def operators_of(policy: dict[str, Any]) -> set[str]:
    """The operators that a policy's graphs use."""
    return {node[0] for graph in policy["graphs"].values() for node in graph["nodes"]}


def known_operators() -> set[str]:
    """The operators that the page has, by ATen's names."""
    table = read_part("tensors.js").partition("const OPERATORS = {")[2].partition("\n  };")[0]
    return set(re.findall(r"^    (\w+)[:,]", table, re.MULTILINE))


def scenarios(config: WorldConfig) -> list[dict[str, Any]]:
    """List the scenarios to choose from: suite, group, name and what the episode starts from."""
    found = []
    for suite, count, title in SCENARIOS:
        chosen = make_set(suite, config, count)
        rows: dict[str, list[Episode]] = {group: [] for group in chosen.groups}
        for part in chosen.parts:
            assert isinstance(part.scenarios, Scenario)  # as all of these suites draw them
            episodes = episodes_of(part.scenarios, part.world)
            for level, episode in zip(part.scenarios.level.tolist(), episodes, strict=True):
                rows[chosen.groups[level]].append(episode)
        for group, episodes in rows.items():
            for number, episode in enumerate(episodes, 1):
                name = group if len(episodes) == 1 else f"{group}, {number}"
                listed = {"suite": suite, "group": title.format(group=group), "name": name}
                found.append(listed | {"episode": _start(episode, config)})
    return found


def _settings(config: WorldConfig) -> dict[str, Any]:
    """A world's configuration, and the spectrum of waves of 1 m for the page to scale."""
    high = replace(config.weather, wave_height=1.0)
    waves = build_weather([high], torch.device("cpu"), torch.float64)
    parts = ("frequency", "amplitude", "phase")
    spectrum = {part: getattr(waves, f"wave_{part}")[0].tolist() for part in parts}
    return asdict(config) | {"spectrum": spectrum}


def _start(episode: Episode, config: WorldConfig) -> dict[str, Any]:
    """Initial state of an episode, and settings of its world that differ from the given one."""
    common, own = asdict(config), asdict(episode.world)
    other = {name: value for name, value in own.items() if value != common[name]}
    return {name: getattr(episode, name) for name in _STARTS} | other
