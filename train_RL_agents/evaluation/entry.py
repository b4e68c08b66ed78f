"""Entries of the benchmark: results of one policy on the suites, as one JSON file.

The certificate of a policy and the table of several policies are made from entries alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from marinenav_env.rules.roles import ROLES
from marinenav_env.support import files
from marinenav_env.support.validation import (
    ConfigError,
    Fraction,
    NonNegativeInt,
    Rule,
    check_fields,
    is_nonnegative_int,
    is_number,
    is_printable_text,
    require,
)
from train_RL_agents.evaluation.tables import ENCOUNTER_COLUMNS, RULES_COLUMNS, UNRULY_COLUMNS
from train_RL_agents.results.rows import OVERALL, Episodes, count_clear_situations
from train_RL_agents.results.statistics import Estimate, wilson_interval

FORMAT_NAME = "marinenav entry"
"""Name of the file format, which files state."""
BENCHMARK_VERSION = 4
"""Version of the benchmark's suites, sizes and seeds (see evaluation.frozen)."""
SUCCESS, COLLISION, TIMEOUT = "sct"
"""Letters of the outcomes of episodes in an entry."""
_UNBOUNDED_METRICS = {"closest_approach", "delay", "detour", "broken_rules"}
"""Compliance metrics that are no shares, so not limited to [0, 1]."""
_RATE_PREFIX = "hours_per_"
"""Prefix of the names of metrics that may have only the lower end of their interval."""
_MAX_COORDINATE = 1e4
"""Largest absolute value of a coordinate of a track (m)."""

_HASH = re.compile("[0-9a-f]{32}")
Hash = Annotated[str, Rule("32 hexadecimal digits", lambda text: bool(_HASH.fullmatch(text)))]
"""Text of 32 hexadecimal digits."""
_KEYS_IN_FILES = {"compliance": "conduct"}
"""Keys in files by field of SuiteResult, where they differ."""
Counts = tuple[NonNegativeInt, ...]
"""Nonnegative integers, such as one per episode."""
Numbers = tuple[float, ...]
"""Finite numbers, such as one per episode."""


@dataclass(frozen=True)
class SuiteResult:
    """Result of a policy in a suite of N episodes: a row for each episode, and further measurements."""

    scenarios: Hash
    """Hash of the scenarios (see frozen.scenario_hash)."""
    seed: NonNegativeInt
    """Seed of scenarios and measurement noise."""
    groups: tuple[str, ...]
    """Names of the groups of scenarios by which results are reported."""
    level: Counts
    """[N] index of each episode's group in ``groups``."""
    outcome: str
    """N letters, one per episode: s (success), c (collision) or t (time-out)."""
    robots: Counts
    """[N] number of vessels."""
    arrived: Counts
    """[N] number of vessels that arrive if the others continue after a collision."""
    time: Numbers
    """[N] travel time, mean of the vessels (s)."""
    energy: Numbers
    """[N] thrust spent, mean of the vessels (N s)."""
    returns: Numbers
    """[N] return, mean of the vessels."""
    astern: Fraction
    """Share of the steps in which vessels go astern."""
    compliance: dict[str, dict[str, float | None]]
    """Metrics of RULES_COLUMNS, ENCOUNTER_COLUMNS or UNRULY_COLUMNS by group; empty for suites that have none."""
    duties: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Numbers of kept and of all duties by role; empty for suites that have none."""
    tracks: tuple[tuple[Numbers, ...], ...] = ()
    """Track of each vessel in the first episode of each group: x, y (m) of each second, in one row; empty for
    suites that are not drawn."""
    situations: Counts = ()
    """[N] number of the situation that each episode repeats; empty for suites whose episodes all differ."""

    def __post_init__(self) -> None:
        check_fields(self)
        count = len(self.level)
        columns = (self.outcome, self.robots, self.arrived, self.time, self.energy, self.returns)
        is_whole = count > 0 and all(len(column) == count for column in columns)
        require(is_whole, "level", count, "as long as the other columns, and not empty")
        has_all = set(self.level) == set(range(len(self.groups)))
        require(has_all, "level", set(self.level), "the numbers of all groups")
        require(set(self.outcome) <= {*"sct"}, "outcome", self.outcome, "letters of sct")
        require(len(self.situations) in (0, count), "situations", len(self.situations), f"none, or {count}")
        pairs = zip(self.arrived, self.robots, strict=True)
        require(
            all(0 <= some <= robots > 0 for some, robots in pairs), "arrived", "...", "at most the number of robots"
        )
        self._check_compliance()
        is_drawn = len(self.tracks) in (0, len(self.groups)) and all(
            vessels and all(path and len(path) % 2 == 0 and max(map(abs, path)) <= _MAX_COORDINATE for path in vessels)
            for vessels in self.tracks
        )
        require(is_drawn, "tracks", "...", "pairs of coordinates of every group")

    def _check_compliance(self) -> None:
        """Check that the metrics of compliance and the duties are complete and in range.

        Raises:
            ConfigError: when they are not.
        """
        rows = [*self.compliance.values()]
        is_whole = self.compliance.keys() - {OVERALL} in (set(), {*self.groups}) and all(map(_is_compliance_row, rows))
        is_whole = is_whole and any(
            all(names.keys() <= row.keys() for row in rows)
            for names in (RULES_COLUMNS, ENCOUNTER_COLUMNS, UNRULY_COLUMNS)
        )
        require(is_whole, "conduct", "...", "the figures of all groups, finite numbers or null")
        are_pairs = self.duties.keys() <= {*ROLES} and all(
            isinstance(pair, list | tuple)
            and len(pair) == 2
            and all(map(is_nonnegative_int, pair))
            and pair[0] <= pair[1]
            for pair in self.duties.values()
        )
        require(are_pairs, "duties", "...", "of each role two counts, the first not above the other")

    @classmethod
    def from_episodes(cls, episodes: Episodes, **other: Any) -> SuiteResult:
        """Return the result with the rows of episodes, rounded, and with further fields.

        Args:
            episodes: episodes of the suite.
            **other: all fields that are not rows.
        """
        pairs = zip(episodes.success.tolist(), episodes.collision.tolist(), strict=True)
        return cls(
            level=tuple(episodes.level.tolist()),
            outcome="".join(SUCCESS if success else COLLISION if hit else TIMEOUT for success, hit in pairs),
            robots=tuple(episodes.robots.tolist()),
            arrived=tuple(episodes.robots_arrived.tolist()),
            time=tuple(round(value, 2) for value in episodes.time.tolist()),
            energy=tuple(round(value) for value in episodes.energy.tolist()),
            returns=tuple(round(value, 2) for value in episodes.returns.tolist()),
            **other,
        )

    @cached_property
    def episodes(self) -> Episodes:
        """Return the rows as Episodes, from which metrics and intervals are computed."""
        outcome = np.array([*self.outcome])
        integers = (self.level, outcome == SUCCESS, outcome == COLLISION, self.robots, self.arrived)
        floats = (torch.tensor(column, dtype=torch.float64) for column in (self.time, self.energy, self.returns))
        return Episodes(*map(torch.as_tensor, integers), *floats)

    @cached_property
    def table(self) -> dict[str, dict[str, Any]]:
        """Return the metrics by name of the group and overall; see Episodes.metrics."""
        return self.episodes.metrics(self.groups)

    @property
    def clear_situations(self) -> tuple[int, int] | None:
        """Return the number of situations without a collision in any of their episodes, and of all situations.

        None for suites whose episodes all differ.
        """
        return count_clear_situations(self.situations, self.episodes.collision.tolist()) if self.situations else None

    def estimates(self, group: str = OVERALL) -> dict[str, Estimate]:
        """Return estimates of the metrics of a group: those of ``Episodes.estimates``, compliance, and two more.

        ``no_collision`` is the share of episodes without a collision; ``astern`` is that of all groups, without an
        interval.

        Args:
            group: name of a group, or ``overall``; for any other name there are no estimates.
        """
        if group not in self.table:
            return {}
        estimates = self.episodes.estimates(None if group == OVERALL else self.groups.index(group))
        rate, low, high = estimates["collision_rate"]
        estimates["no_collision"] = Estimate(1.0 - rate, 1.0 - high, 1.0 - low)
        row, count = self.compliance.get(group, {}), self.table[group]["episodes"]
        for name, value in row.items():
            if value is None or name.endswith(("_low", "_high")):
                continue
            if f"{name}_low" in row:
                low, high = row[f"{name}_low"], row[f"{name}_high"]
                if low is None and name not in _UNBOUNDED_METRICS and not name.startswith(_RATE_PREFIX):
                    low, high = 0.0, 1.0  # of the share of a single vessel nothing else is known
                estimates[name] = Estimate(value, low, high)
            elif name not in _UNBOUNDED_METRICS:
                estimates[name] = Estimate(value, *wilson_interval(round(value * count), count))
        return estimates | {"astern": Estimate(*[self.astern] * 3)}


def _is_compliance_row(row: Any) -> bool:
    """Return whether a row has only numbers or None, shares in [0, 1], and one-sided intervals only of rates."""
    if not isinstance(row, dict) or not all(value is None or is_number(value) for value in row.values()):
        return False
    shares = (
        row[name] for name in row.keys() & {*RULES_COLUMNS, *ENCOUNTER_COLUMNS, *UNRULY_COLUMNS} - _UNBOUNDED_METRICS
    )
    stems = {name.removesuffix("_low").removesuffix("_high") for name in row if name.endswith(("_low", "_high"))}
    parts = ([row.get(f"{stem}{end}") for end in ("", "_low", "_high")] for stem in stems)
    return all(share is None or 0.0 <= share <= 1.0 for share in shares) and all(
        None not in part or part[1] is part[2] is None or (stem.startswith(_RATE_PREFIX) and part[0] is part[2] is None)
        for stem, part in zip(stems, parts, strict=True)
    )


@dataclass(frozen=True)
class Entry:
    """Results of one policy on the suites of the benchmark."""

    policy: dict[str, Any]
    """Description of the policy: ``name``, ``agent``, and of a trained one ``env_steps`` (of its training), ``file``,
    ``sha256`` (of the file) and what it observes; values are texts, numbers or None."""
    program: dict[str, Any]
    """Software that made the entry, by name: versions of ``python``, the ``platform`` and packages, ``revision`` (git
    commit) and ``changed`` (``yes`` if files differed from that commit)."""
    made: str
    """Date on which the entry was made (UTC)."""
    suites: dict[str, SuiteResult]
    """Results by suite, in the order of the benchmark."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("policy", "program"):
            values = getattr(self, name).values()
            are_plain = all(value is None or is_printable_text(value) or is_number(value) for value in values)
            require(are_plain, name, "...", "texts, numbers and null by name")
        for name in ("name", "agent", "sha256"):
            value = self.policy.get(name)
            # A baseline has no file.
            require(is_printable_text(value) or (value is None and name == "sha256"), f"policy.{name}", value, "text")

    def to_json(self) -> str:
        """Return the text of the entry's file, which is JSON."""
        suites = {
            name: {_KEYS_IN_FILES.get(key, key): value for key, value in asdict(result).items()}
            for name, result in self.suites.items()
        }
        header = {"format": FORMAT_NAME, "benchmark": BENCHMARK_VERSION}
        return json.dumps(header | asdict(self) | {"suites": suites}, allow_nan=False) + "\n"


def read_entry(path: Path) -> Entry:
    """Read an entry of the current version of the benchmark from its file.

    Raises:
        ConfigError: when the file cannot be read, is damaged, or is of another version of the benchmark.
    """
    content, version = _read_content(path)
    expected = f"{BENCHMARK_VERSION}, which this program runs; run `marinenav submit` with the policy again"
    require(version == BENCHMARK_VERSION, f"{path}: benchmark", version, expected)
    return _entry_from_content(path, content)


def read_entry_of_any_version(path: Path) -> tuple[int, Entry]:
    """Read an entry of any version of the benchmark whose file has the current format.

    Returns:
        The version and the entry.

    Raises:
        ConfigError: when the file cannot be read, or is damaged.
    """
    content, version = _read_content(path)
    return version, _entry_from_content(path, content)


def _read_content(path: Path) -> tuple[dict[str, Any], int]:
    """Return the parsed JSON of an entry's file, less the version of the benchmark, and that version."""
    content = files.read_json(path, "an entry of the benchmark")
    is_entry = isinstance(content, dict) and content.get("format") == FORMAT_NAME
    require(is_entry, str(path), type(content).__name__, f"a {FORMAT_NAME}")
    version = content.pop("benchmark", None)
    require(is_nonnegative_int(version), f"{path}: benchmark", version, "a version")
    return content, version


def _entry_from_content(path: Path, content: dict[str, Any]) -> Entry:
    """Return the entry in the parsed JSON of a file; ``path`` is named in errors."""
    try:
        names = {stored: name for name, stored in _KEYS_IN_FILES.items()}
        suites = {
            suite: SuiteResult(**{names.get(key, key): value for key, value in result.items()})
            for suite, result in content.pop("suites").items()
        }
        del content["format"]
        return Entry(suites=suites, **content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"{path}: damaged, or not an entry of the benchmark") from error
