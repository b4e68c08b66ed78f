"""Demo page of a policy: world and network run in the browser, in one self-contained HTML file."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Any

import torch

from marinenav_env import Episode, WorldConfig
from marinenav_env.physics.weather import build_weather
from marinenav_env.pictures.drawing import VESSEL_COLOURS
from marinenav_env.scenarios.episode import MOTION_FIELDS, episodes_from_scenarios, map_per_robot
from marinenav_env.scenarios.scenario_file import scenario_text
from marinenav_env.sensing.duties import DutyScales
from marinenav_env.sensing.perception import von_mises_quantiles
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from marinenav_env.vessels import value_for_robot
from train_RL_agents.boat import shield
from train_RL_agents.boat.manoeuvres import SHORT_LIST
from train_RL_agents.evaluation.suites.suites import make_scenario_set
from train_RL_agents.figures.episode_view import CROSSING, HEAD_ON, RULE_NAMES, zone_outline
from train_RL_agents.figures.page import PAGES, assemble_page

SCENARIO_SUITES = (
    ("paper", None, "Published levels, {group}"),
    ("rules", 3, "Two vessels, {group}"),
    ("imazu", 1, "Imazu's problems of up to four vessels"),
    ("currents", 5, "Currents: {group}"),
)
"""Suite, number of episodes per group (None: the suite's default), and title of the list of scenarios, per suite."""
HARBOURS = ("harbours", 3, "Harbours, {group}")
"""The same of the suite with shores, for policies that observe them."""
FIRST_SCENARIO = ("currents", 0)
"""Scenario that the page shows first: suite, and index of the episode in it."""
SHIELD_SETTINGS = {
    "manoeuvres": SHORT_LIST,
    "horizon": shield.HORIZON_STEPS,
    "substeps": shield.SUBSTEPS,
    "margin": shield.MARGIN_RADII,
    "growth": shield.MARGIN_GROWTH,
    "tolerance": shield.SHORTFALL_TOLERANCE,
    "landWeight": shield.LAND_WEIGHT,
}
"""Manoeuvres and numbers of the safety shield, for ``pages/shields.js``."""
_NUM_QUANTILES = 1025
"""Number of quantiles of the von Mises distribution of measured radii."""
_START_FIELDS = (*MOTION_FIELDS, "obstacles", "cores", "shores", "route")
"""Fields of Episode that the page needs."""


def make_page(
    title: str,
    config: WorldConfig,
    policy: dict[str, Any],
    continuous: bool,
    risk: str | None,
    reward_scale: float,
    are_returns: bool = True,
) -> str:
    """Return the demo page of a policy as HTML."""
    used = {node[0] for graph in policy["graphs"].values() for node in graph["nodes"]}  # names in ATen
    missing = used - supported_operators()
    require(not missing, title, ", ".join(sorted(missing)), "a policy of the page's operators")
    zones = {RULE_NAMES[rule]: zone_outline(rule, config.colregs) for rule in (CROSSING, HEAD_ON)}
    entries = make_scenarios(config)
    first = [number for number, entry in enumerate(entries) if entry["suite"] == FIRST_SCENARIO[0]][FIRST_SCENARIO[1]]
    data = {
        "title": title,
        "config": world_settings(config),
        "policy": policy,
        "continuous": continuous,
        "risk": risk,
        "scale": reward_scale,
        "scores": "returns" if are_returns else "logits",
        "scenarios": entries,
        "first": first,
        "file": file_template(config),
        "colours": VESSEL_COLOURS,
        "shield": SHIELD_SETTINGS,
        "zones": {rule: outline.tolist() for rule, outline in zones.items()},
    }
    return assemble_page("demo", "demo.js", data)


def file_template(config: WorldConfig) -> dict[str, Any]:
    """Return a scenario file's episode of one vessel in a world, for the files that the page saves."""
    pair = [[0.0, 0.0]]
    world = map_per_robot(config, lambda value: value[:1])
    episode = Episode(pair, pair, [0.0], [[0.0, 0.0, 0.0]], thruster_angle=pair, thrust=pair, world=world)
    content: list[dict[str, Any]] = json.loads(scenario_text([episode]))
    return content[0]


def supported_operators() -> set[str]:
    """Return the names (in ATen) of the operators that the page implements."""
    _, _, tables = (PAGES / "tensors.js").read_text(encoding="utf-8").partition("const UNARY = {")
    formulas, _, functions = tables.partition("const OPERATORS = {")
    return {*re.findall(r'(\w+): "', formulas), *re.findall(r"^  (\w+)[:,]", functions, re.MULTILINE)}


def make_scenarios(config: WorldConfig) -> list[dict[str, Any]]:
    """Return the scenarios of the page, each with ``suite``, ``group``, ``name`` and ``episode``, its initial state."""
    entries = []
    for suite, count, title in (*SCENARIO_SUITES, *([HARBOURS] if config.scenario.shore_segments else [])):
        scenario_set = make_scenario_set(suite, config, count)
        by_group: dict[str, list[Episode]] = {group: [] for group in scenario_set.groups}
        for part in scenario_set.parts:
            assert isinstance(part.scenarios, Scenario)  # as all of these suites draw them
            episodes = episodes_from_scenarios(part.scenarios, part.world)
            for level, episode in zip(part.scenarios.level.tolist(), episodes, strict=True):
                by_group[scenario_set.groups[level]].append(episode)
        for group, episodes in by_group.items():
            for number, episode in enumerate(episodes, 1):
                name = group if len(episodes) == 1 else f"{group}, {number}"
                entry = {"suite": suite, "group": title.format(group=group), "name": name}
                entries.append(entry | {"episode": _start_state(episode, config)})
    return entries


def world_settings(config: WorldConfig) -> dict[str, Any]:
    """Return the world's settings with ``spectrum`` (of waves of 1 m height), ``von_mises`` and ``duty_scales``."""
    high = replace(config.weather, wave_height=1.0)
    waves = build_weather([high], torch.device("cpu"), torch.float64)
    parts = ("frequency", "amplitude", "phase")
    spectrum = {part: getattr(waves, f"wave_{part}")[0].tolist() for part in parts}
    angles = von_mises_quantiles([value_for_robot(config.sensor.r_kappa, 0)], _NUM_QUANTILES)[0]
    scales = DutyScales.from_config(config)._asdict()
    return asdict(config) | {"spectrum": spectrum, "von_mises": angles.tolist(), "duty_scales": scales}


def _start_state(episode: Episode, config: WorldConfig) -> dict[str, Any]:
    """Return the initial state of an episode by field, and the settings of its world that differ from ``config``."""
    common, settings = asdict(config), asdict(episode.world)
    different = {name: value for name, value in settings.items() if value != common[name]}
    return {name: getattr(episode, name) for name in _START_FIELDS} | different
