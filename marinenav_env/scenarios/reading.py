"""Reading of scenario files of this project and of other programs; the content determines the format."""

import json
import re
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from marinenav_env.config import WorldConfig
from marinenav_env.levels import NAMED_LEVELS
from marinenav_env.scenarios.colav import SHIP_LIST_KEY, is_colav, parse_colav, parse_yaml
from marinenav_env.scenarios.common_ocean import parse_common_ocean
from marinenav_env.scenarios.complete import CompleteSampler
from marinenav_env.scenarios.dnv import is_dnv, parse_dnv
from marinenav_env.scenarios.episode import Episode, episodes_from_scenarios
from marinenav_env.scenarios.plausibility import count_implausible_starts
from marinenav_env.scenarios.scenario_file import parse_scenarios
from marinenav_env.scenarios.situations import Situation, scaled_episode
from marinenav_env.support.files import parse_json, read_text
from marinenav_env.support.validation import ConfigError
from marinenav_env.waters.moos import is_moos

FILE_DESCRIPTION = "a scenario file"
"""Description of a readable scenario file, for error messages."""
SCENARIO_SUFFIXES = (".json", ".xml", ".yaml", ".yml")
"""Suffixes of the files that are read from a folder."""
CHART_EPISODES = 100
"""Number of episodes that are drawn on a chart."""
MAX_FILES = 10_000
"""Largest number of scenario files that are read from a folder."""
DATA_FOLDER = Path(__file__).with_name("data")
"""Folder of the traffic situations that are part of the package."""
_OWN_KEYS = {"env", "config", "chart"}
"""Keys of which an episode of this project, or a chart, has one."""
_YAML_SHIP_LIST = re.compile(rf"^{SHIP_LIST_KEY}\s*:", re.MULTILINE)


def read_scenarios(path: str | Path, strict: bool = False, world: WorldConfig | None = None) -> list[Episode]:
    """Read the episodes of a scenario file, or of all scenario files of a folder in the order of their names.

    In addition to scenario files of this project (see ``parse_scenarios``), it reads traffic situations of DNV's
    ship-traffic-generator, and scenarios of NTNU's colav-simulator and of CommonOcean. These are scaled to the vessels
    of ``world`` (see ``scenarios.situations``), and a warning counts what episodes cannot represent. Another warning
    counts implausible starts, goals, routes and motions (see ``scenarios.plausibility``). On a chart (see
    ``waters.charts`` and ``waters.moos``), CHART_EPISODES episodes are drawn.

    Args:
        path: path of the file or folder.
        strict: True to raise an error for implausible starts and goals instead of a warning.
        world: world whose vessels and sensors situations of other programs get; the published one by default.

    Raises:
        ConfigError: when a file cannot be read, is in none of the formats or, if strict, is implausible.
    """
    episodes: list[Episode] = []
    left_out: Counter[str] = Counter()
    for file in scenario_paths(path):
        content = read_content(file)
        if isinstance(content, dict) and "chart" in content:
            episodes += _episodes_on_chart(file, world or WorldConfig())
        elif isinstance(content, Situation):
            episodes.append(_scaled_episode_of_file(content, file, world or WorldConfig()))
            left_out.update(content.left_out)
        else:
            episodes += parse_scenarios(content, str(file))
    if left_out:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in left_out.items())
        warnings.warn(f"{path}: left out {counts}", stacklevel=2)
    if implausible := sum(map(count_implausible_starts, episodes), Counter[str]()):
        counts = ", ".join(f"{count:,} {kind}" for kind, count in implausible.items())
        line = f"{path}: {len(episodes):,} episodes with {counts}"
        if strict:
            raise ConfigError(line)
        warnings.warn(line, stacklevel=2)
    return episodes


def scenario_paths(path: str | Path) -> list[Path]:
    """Return the scenario files of a folder in the order of their names; for anything else, the path itself."""
    path = Path(path)
    try:
        if not path.is_dir():
            return [path]
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SCENARIO_SUFFIXES)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as a folder of scenario files ({error})") from error
    if not 0 < len(files) <= MAX_FILES:
        reason = f"it has {len(files):,} of {', '.join(SCENARIO_SUFFIXES)}, not 1 to {MAX_FILES:,}"
        raise ConfigError(f"{path}: cannot be read as a folder of scenario files ({reason})")
    return files


def read_content(file: Path) -> Any:
    """Read a file, and return a Situation if it is in a format of another program, otherwise its parsed JSON."""
    text, name = read_text(file, FILE_DESCRIPTION), str(file)
    if text.lstrip().startswith("<"):
        return parse_common_ocean(text.lstrip(), name)
    if is_moos(text):
        return {"chart": None}  # read where episodes are drawn on it
    is_yaml = file.suffix.lower() in (".yaml", ".yml") or bool(_YAML_SHIP_LIST.search(text))
    content = parse_yaml(text, name) if is_yaml else parse_json(text, name, FILE_DESCRIPTION)
    if is_dnv(content):
        return parse_dnv(content, name)
    if is_yaml or is_colav(content):
        return parse_colav(content, name)
    if isinstance(content, dict) and content and not content.keys() & _OWN_KEYS:
        others = ", ".join(sorted(content)[:3])
        raise ConfigError(f"{name}: must be {FILE_DESCRIPTION}, or a chart from marinenav chart; it has {others}")
    return content


def _scaled_episode_of_file(situation: Situation, file: Path, world: WorldConfig) -> Episode:
    """Scale the situation of a file to an episode of a world; an error names the file."""
    try:
        return scaled_episode(situation, world)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def _episodes_on_chart(file: Path, world: WorldConfig) -> list[Episode]:
    """Draw episodes on the water of a chart file, the same ones each time."""
    level = replace(NAMED_LEVELS["harbour"], maps=str(file))
    sampler = CompleteSampler(world.scenario, (level,), torch.device("cpu"), torch.float64)
    drawn = sampler.sample(torch.zeros(CHART_EPISODES, dtype=torch.int64), torch.Generator().manual_seed(0))
    return episodes_from_scenarios(drawn, world)


def packaged_harbours() -> list[Path]:
    """Return the chart files of the package: windows of a public-domain chart, which ``data/README.md`` describes."""
    return sorted((DATA_FOLDER / "harbours").glob("*.json"))


@cache
def packaged_situations(name: str) -> tuple[Situation, ...]:
    """Return traffic situations of the package: ``dnv`` (55 of ship-traffic-generator) or ``imazu_ntnu`` (Imazu's 22).

    ``data/README.md`` states sources and licences.
    """
    content = json.loads((DATA_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    parse = parse_dnv if name == "dnv" else parse_colav
    return tuple(parse(situation, f"{name} {number}") for number, situation in enumerate(content["situations"], 1))
