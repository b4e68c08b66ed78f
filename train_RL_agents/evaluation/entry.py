"""Entries of the benchmark: what one policy did on all of its suites, as one JSON file.

The certificate of a policy and the table of several are made of entries alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch

from marinenav_env.rules.roles import ROLES
from marinenav_env.support import files
from marinenav_env.support.validation import (
    ConfigError,
    Fraction,
    Rule,
    Whole,
    check_fields,
    is_count,
    is_number,
    is_text,
    require,
)
from train_RL_agents.evaluation.episodes import Episodes
from train_RL_agents.evaluation.tables import CONDUCT, MARKS

FORMAT, BENCHMARK = "marinenav entry", 2
"""Kind of file, and version of the suites, sizes and seeds (see evaluation.frozen)."""
SUCCESS, COLLISION, TIMEOUT = "sct"
_NO_SHARES = {"closest_approach", "delay", "detour"}
"""Figures of conduct that may be above 1 or below 0."""
_FARTHEST = 1e4
"""Largest size of a coordinate of a track (m)."""

_HASH = re.compile("[0-9a-f]{32}")
Hash = Annotated[str, Rule("32 hexadecimal digits", lambda text: bool(_HASH.fullmatch(text)))]
Counts = tuple[Whole, ...]
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class SuiteResult:
    """What happened on a suite of N episodes."""

    scenarios: Hash
    """Hash of the scenarios (see frozen.hash_of)."""
    seed: Whole
    """Of scenarios and measurement noise."""
    groups: tuple[str, ...]
    """Names of the groups."""
    level: Counts
    """[N] index of the group."""
    outcome: str
    """N letters: success, collision or time-out."""
    robots: Counts
    """[N] vessels."""
    arrived: Counts
    """[N] vessels that arrive where the others go on after a collision."""
    time: Numbers
    """[N] travel time, mean of the vessels (s)."""
    energy: Numbers
    """[N] thrust spent, likewise (N s)."""
    returns: Numbers
    """[N] likewise."""
    astern: Fraction
    """Share of the steps in which vessels go astern."""
    conduct: dict[str, dict[str, float | None]]
    """Figures of CONDUCT or MARKS by group; empty for suites that have none."""
    duties: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Duties kept, and all, by role; empty likewise."""
    tracks: tuple[tuple[Numbers, ...], ...] = ()
    """Of the first episode of each group, of each vessel: x, y (m) of each second, in one row;
    empty for suites that are not drawn."""

    def __post_init__(self) -> None:
        check_fields(self)
        count = len(self.level)
        columns = (self.outcome, self.robots, self.arrived, self.time, self.energy, self.returns)
        fine = count > 0 and all(len(each) == count for each in columns)
        require(fine, "level", count, "as long as the other columns, and not empty")
        fine = set(self.level) == set(range(len(self.groups)))
        require(fine, "level", set(self.level), "the numbers of all groups")
        require(set(self.outcome) <= {*"sct"}, "outcome", self.outcome, "letters of sct")
        pairs = zip(self.arrived, self.robots, strict=True)
        require(all(0 <= one <= all_ > 0 for one, all_ in pairs), "arrived", "...", "at most the number of robots")
        self._check_conduct()
        numbers = [number for each in self.tracks for row in each for number in row]
        fine = len(self.tracks) in (0, len(self.groups)) and all(
            each and all(row and len(row) % 2 == 0 for row in each) for each in self.tracks
        )
        fine = fine and all(abs(number) <= _FARTHEST for number in numbers)
        require(fine, "tracks", "...", "pairs of coordinates of every group")

    def _check_conduct(self) -> None:
        """Refuse conduct and duties of another form.

        Raises:
            ConfigError: when they are.
        """
        rows = [*self.conduct.values()]
        fine = self.conduct.keys() - {"overall"} in (set(), {*self.groups})
        fine = fine and all(map(_is_conduct, rows))
        fine = fine and any(all(names.keys() <= row.keys() for row in rows) for names in (CONDUCT, MARKS))
        require(fine, "conduct", "...", "the figures of all groups, finite numbers or null")
        fine = self.duties.keys() <= {*ROLES} and all(
            isinstance(pair, list | tuple) and len(pair) == 2 and all(map(is_count, pair)) and pair[0] <= pair[1]
            for pair in self.duties.values()
        )
        require(fine, "duties", "...", "of each role two counts, the first not above the other")

    @classmethod
    def of(cls, episodes: Episodes, **other: Any) -> SuiteResult:
        """The result of episodes; ``other``: all that they do not have."""
        pairs = zip(episodes.success.tolist(), episodes.collision.tolist(), strict=True)
        letters = [SUCCESS if good else COLLISION if hit else TIMEOUT for good, hit in pairs]
        return cls(
            level=tuple(episodes.level.tolist()),
            outcome="".join(letters),
            robots=tuple(episodes.robots.tolist()),
            arrived=tuple(episodes.robots_arrived.tolist()),
            time=tuple(round(each, 2) for each in episodes.time.tolist()),
            energy=tuple(round(each) for each in episodes.energy.tolist()),
            returns=tuple(round(each, 2) for each in episodes.returns.tolist()),
            **other,
        )

    @property
    def episodes(self) -> Episodes:
        """The episodes, from which figures and intervals come."""

        def numbers(values: tuple[float, ...]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.float64)

        return Episodes(
            level=torch.tensor(self.level),
            success=torch.tensor([each == SUCCESS for each in self.outcome]),
            collision=torch.tensor([each == COLLISION for each in self.outcome]),
            robots=torch.tensor(self.robots),
            robots_arrived=torch.tensor(self.arrived),
            time=numbers(self.time),
            energy=numbers(self.energy),
            returns=numbers(self.returns),
        )


def _is_conduct(row: Any) -> bool:
    """Whether these are figures, shares among them, each with both ends of an interval or none."""
    if not isinstance(row, dict):
        return False
    fine = all(each is None or is_number(each) for each in row.values())
    shares = (row[name] for name in row.keys() & {*CONDUCT, *MARKS} - _NO_SHARES)
    fine = fine and all(each is None or 0.0 <= each <= 1.0 for each in shares)
    for name in row:
        stem = name.removesuffix("_low").removesuffix("_high")
        if stem != name:
            parts = [row.get(f"{stem}{end}") for end in ("", "_low", "_high")]
            fine = fine and parts.count(None) in (0, 3)
    return fine


@dataclass(frozen=True)
class Entry:
    """What one policy did on the suites of the benchmark."""

    policy: dict[str, Any]
    """Who it is: name, agent, env_steps, sha256 of its file, and what it observes; texts, numbers
    and null."""
    program: dict[str, Any]
    """Versions of the packages, and the revision of the program."""
    made: str
    """Date (UTC)."""
    suites: dict[str, SuiteResult]
    """By name, in the order of the benchmark."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("policy", "program"):
            values = getattr(self, name).values()
            fine = all(each is None or is_text(each) or is_number(each) for each in values)
            require(fine, name, "...", "texts, numbers and null by name")
        for name in ("name", "agent", "sha256"):
            value = self.policy.get(name)
            # A baseline has no file.
            fine = is_text(value) or (value is None and name == "sha256")
            require(fine, f"policy.{name}", value, "text")

    def content(self) -> str:
        """The file's content."""
        about = {"format": FORMAT, "benchmark": BENCHMARK}
        return json.dumps(about | asdict(self), allow_nan=False) + "\n"


def read_entry(path: Path) -> Entry:
    """Read an entry.

    Raises:
        ConfigError: when it cannot be read, is damaged, or is of another version of the benchmark.
    """
    content = files.read_json(path, "an entry of the benchmark")
    fine = isinstance(content, dict) and content.get("format") == FORMAT
    require(fine, str(path), type(content).__name__, f"a {FORMAT}")
    version = content.pop("benchmark", None)
    fine = is_count(version) and version == BENCHMARK
    require(fine, f"{path}: benchmark", version, f"{BENCHMARK}, which this program runs; submit the policy again")
    try:
        suites = {name: SuiteResult(**each) for name, each in content.pop("suites").items()}
        del content["format"]
        return Entry(suites=suites, **content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"{path}: damaged, or not an entry of the benchmark") from error
