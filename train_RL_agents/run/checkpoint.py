"""Checkpoints: written atomically, read without pickle, refused with one sentence.

Two kinds of file: a *policy* (weights that act, and the configuration; small, one per evaluation)
and the *training state* (everything that the rest of a run depends on, one per run).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from marinenav_env.support.files import keep, open_regular
from marinenav_env.support.validation import ConfigError, is_count, is_number, is_text, require
from train_RL_agents.agents import Agent
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import flatten, parse_json, read_json, saved_config, to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.results.table import Table
from train_RL_agents.run.finding import POLICIES, meant, single_run
from train_RL_agents.run.published import import_policy, is_program
from train_RL_agents.utils.arrays import LARGEST, calls_builtins, is_whole
from train_RL_agents.utils.files import inside, write_atomically
from train_RL_agents.utils.shipped import shipped

POLICY, TRAINING = "marinenav policy", "marinenav training state"
VERSION = 1
_LISTED = 4
"""Policies of a run that a message names."""
_MOST_SHARED = 8
"""Leaves of a list that a checkpoint holds twice."""
_LARGEST_PICKLE = {POLICY: 8 * 2**20, TRAINING: 32 * 2**20}
"""Bytes of a checkpoint beside its tensors; an evaluation takes 2 kB of a training state."""
CHECKPOINTS, MANIFEST, STATE = "checkpoints", "manifest.json", "training_state.pt"
TEACHER = "teacher.pt"
"""A run's copy of the policy that it imitates."""
_OWN = ("trial_config.json", "eval_configs.json", "evaluations.*", TEACHER, f"{CHECKPOINTS}/*")
"""Files of a run, which outputs of commands do not replace."""
STOPPED = "policy_stopped.pt"
"""A run's policy at the moment it was stopped, until the next evaluation."""
NOT_EVALUATED = "saved when training stopped, and not evaluated since"
PUBLISHED = "policy.pt"
"""The policy in a folder of ``pretrained/``."""


def _placing(device: torch.device) -> Callable[[Any, str], Any]:
    """Put on the device what was on one; what was on the host may be larger than any device."""

    def place(storage: Any, location: str) -> Any:
        target = location if location == "cpu" else str(device)
        return torch.serialization.default_restore_location(storage, target)

    return place


def read_checked(path: Path, kind: str, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint of one kind.

    Args:
        path: the file.
        kind: POLICY or TRAINING.
        device: where its tensors go, but for those that were saved from the host.

    Raises:
        ConfigError: when it is missing, damaged, of another kind or of a later version.
    """
    # Replay may be of any size.
    with open_regular(path, "a checkpoint", LARGEST if kind == POLICY else math.inf) as file:
        try:
            _require_plain(file, _LARGEST_PICKLE[kind])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of tensors that are refused below
                content = torch.load(path, map_location=_placing(device), weights_only=True)
            found = content.get("format") if isinstance(content, dict) else None
            if not _is_plain(content, set()):
                raise ValueError
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # damaged bytes can lead anywhere
            raise _damaged(path) from error
    require(found == kind, str(path), found, f"a {kind}")
    version = content.get("version")
    fine = is_count(version) and version <= VERSION
    require(fine, f"{path}: version", version, f"at most {VERSION}; update marinenav")
    return dict(content)


def _damaged(path: Path) -> ConfigError:
    return ConfigError(f"{path}: damaged, or not a checkpoint of this program")


def _require_plain(file: BinaryIO, largest: int) -> None:
    """Refuse a zip file that torch did not write so, or that unpacks to more than it has.

    Raises:
        BadZipFile: when it is such a file.
    """
    with zipfile.ZipFile(file) as archive:
        size = 0
        for entry in archive.infolist():
            size += entry.file_size
            # Checksums leave one bit out: of an entry marked as a folder, torch reads nothing.
            odd = entry.external_attr & 0x10 or entry.compress_type != zipfile.ZIP_STORED
            name = entry.filename.rpartition("/")[2]
            # With constants, torch would take it for a program.
            odd |= name == "constants.pkl" or (name == "data.pkl" and entry.file_size > largest)
            if odd or (name == "data.pkl" and calls_builtins(archive.read(entry))):
                raise zipfile.BadZipFile
        if size > os.fstat(file.fileno()).st_size or archive.testzip() is not None:
            raise zipfile.BadZipFile


def _is_plain(value: Any, seen: set[int]) -> bool:
    """Whether nested dicts and lists hold whole tensors, finite numbers, texts and None only.

    Args:
        value: what a file holds.
        seen: dicts and lists that were met before, by id. One that is there twice, as the betas of
            an optimiser, holds a few leaves: others could unfold to more than any memory.
    """
    if isinstance(value, dict | list | tuple):
        inner = list(value.values() if isinstance(value, dict) else value)
        if id(value) in seen:
            return len(inner) <= _MOST_SHARED and all(map(_is_leaf, inner))
        seen.add(id(value))
        named = not isinstance(value, dict) or all(isinstance(key, int) or is_text(key) for key in value)
        return named and all(_is_plain(each, seen) for each in inner)
    return is_whole(value) if isinstance(value, torch.Tensor) else _is_leaf(value)


def _is_leaf(value: Any) -> bool:
    """Whether it is a finite number, a text or None."""
    return value is None or isinstance(value, bool | str) or is_number(value)


def saved_settings(state: dict[str, Any], path: Path) -> dict[str, Any]:
    """The settings that a training state was made with, by dotted key.

    Args:
        state: what ``path`` holds.
        path: for messages.

    Raises:
        ConfigError: when it does not say.
    """
    if state.get("config") is None:
        raise ConfigError(f"{path}: does not say which settings it was made with; start a new run")
    return flatten(to_dict(saved_config(parse_json(state["config"], f"{path}: config"))))


def save_policy(
    path: Path, agent: Agent[Any], config: TrainConfig[Any], env_steps: int, metrics: dict[str, Any]
) -> None:
    """Write a policy.

    Args:
        path: the file.
        agent: whose weights act.
        config: of the run.
        env_steps: of the run so far.
        metrics: of its evaluation.
    """
    content = {
        "format": POLICY,
        "version": VERSION,
        "config": json.dumps(to_dict(config)),
        "num_actions": agent.num_actions,
        "env_steps": env_steps,
        "metrics": metrics,
        # Copies: while an agent learns, its weights are parts of one tensor.
        "weights": {name: each.clone() for name, each in agent.networks.state_dict().items()},
    }
    write_atomically(path, content, own=True)


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy read from a file."""

    agent: Agent[Any]
    config: TrainConfig[Any]
    path: Path
    env_steps: int
    metrics: dict[str, Any]

    def __repr__(self) -> str:
        about = ", ".join(f"{name}: {value}" for name, value in self._about().items())
        return f"<LoadedPolicy {about}>"

    def _repr_html_(self) -> str:
        rows = [{"": name, "policy": value} for name, value in self._about().items()]
        return Table.of(rows).html(f"Policy {self.path}")

    def _about(self) -> dict[str, str]:
        """What it is, by name."""
        success = self.metrics.get("success_rate")
        weights = sum(each.numel() for each in self.agent.networks.parameters())
        return {
            "agent": self.config.agent_type,
            "env-steps": f"{self.env_steps:,}",
            "file": str(self.path),
            "weights": f"{weights:,}",
            "actions": "two commands" if self.agent.continuous else f"{self.agent.num_actions}",
            "observes": ", ".join(self.agent.spec.entries),
        } | ({} if success is None else {"success while training": f"{success:.3f}"})


def check_shapes(agent: Agent[Any], weights: dict[str, Any], path: Path) -> None:
    """Refuse weights of another architecture.

    Raises:
        ConfigError: when they do not fit the agent.
    """
    ours = {name: list(weight.shape) for name, weight in agent.networks.state_dict().items()}
    theirs = {name: list(weight.shape) for name, weight in weights.items()}
    for name in sorted(ours.keys() | theirs.keys()):
        here, there = ours.get(name, "absent"), theirs.get(name, "absent")
        if here != there:
            raise ConfigError(f"{path}: does not fit this agent ({name} is {there}, here {here})")


def load_weights(agent: Agent[Any], weights: dict[str, Any], path: Path) -> None:
    """Put weights into an agent's networks and their target copies.

    Raises:
        ConfigError: when they are of another architecture, or not finite.
    """
    check_shapes(agent, weights, path)
    own = agent.networks.state_dict()
    for name, weight in weights.items():
        kind = own[name].dtype
        real = kind.is_floating_point
        require(weight.is_floating_point() == real, f"{path}: {name}", weight.dtype, str(kind))
        fine = not real or bool(weight.isfinite().all())
        require(fine, f"{path}: {name}", "nan or inf", "finite")
    agent.networks.load_state_dict(weights)
    for name, target in agent.targets.items():
        target.load_state_dict(agent.networks[name].state_dict())


def load_policy(path: Path | str, which: str = "best", device: torch.device | None = None) -> LoadedPolicy:
    """Load a policy.

    Args:
        path: a policy file, a published TorchScript file, the name of a policy that is shipped, or
            a run folder (or a folder with a single run, or ``latest`` for the newest).
        which: in a run folder, best, latest or the name of a file in its checkpoints.
        device: where it goes; the CPU by default.

    Raises:
        ConfigError: when there is none, or it is damaged.
    """
    device = device or torch.device("cpu")
    file = find_policy(Path(path), which)
    if is_program(file):
        imported, config, note = import_policy(file)
        return LoadedPolicy(imported.to(device), config, file, 0, {"note": note})
    content = read_checked(file, POLICY, device)
    if not _is_policy(content):
        raise _damaged(file)
    config = saved_config(parse_json(content.get("config"), f"{file}: config"))
    weights, actions = content["weights"], content["num_actions"]
    # Of another size than its weights, an agent might not fit into memory. An agent of a user's
    # may be one that cannot be made without memory.
    with contextlib.suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        check_shapes(make_agent(config, actions, torch.device("meta")), weights, file)
    agent = make_agent(config, actions, device)
    load_weights(agent, weights, file)
    return LoadedPolicy(agent.eval(), config, file, content["env_steps"], content["metrics"])


def _is_policy(content: dict[str, Any]) -> bool:
    """Whether a policy file's content is of the right types."""
    weights, actions = content.get("weights"), content.get("num_actions")
    return (
        isinstance(weights, dict)
        and all(isinstance(name, str) and is_whole(each) for name, each in weights.items())
        and _is_metrics(content.get("metrics"))
        and is_count(actions)
        and actions != 0
        and is_count(content.get("env_steps"))
    )


def _is_metrics(value: Any) -> bool:
    """Whether these are figures by name, with None for those that there are not, and a note."""
    return isinstance(value, dict) and all(
        is_text(name) and (is_text(each) if name == "note" else each is None or is_number(each))
        for name, each in value.items()
    )


def find_policy(path: Path, which: str = "best") -> Path:
    """The policy file that a path means; see load_policy."""
    path = meant(path, POLICIES)
    single = next((each for each in (path, path / PUBLISHED) if each.is_file()), None)
    if single is not None:
        fine = which in ("best", "latest", single.name)
        require(fine, "--which", which, f"left out, as {path} has only one policy")
        return single if single == path else inside(path, PUBLISHED)
    known = ", ".join(shipped("pretrained"))
    run = find_run(path, "checkpoint", f"a policy file or a run folder, or one of {known}")
    name: Any = which
    if which in ("best", "latest"):
        manifest = read_manifest(run / CHECKPOINTS)
        name = manifest.get(which) or manifest.get("latest")
        if name is None:
            command = shlex.join(["marinenav", "train", "--resume", str(run)])
            raise ConfigError(f"{run}: has no policy yet, as nothing was evaluated or saved; go on with: {command}")
    file = inside(run, f"{CHECKPOINTS}/{name}")
    if name == which:
        there = sorted(each.name for each in file.parent.glob("policy_*.pt"))
        known = ", ".join(["best", "latest", *there[-_LISTED:]])
        require(file.exists(), "--which", which, f"of {run}, one of {known}")
    return file


def find_run(path: Path, key: str = "run", allowed: str = "a run folder") -> Path:
    """The run folder that a path means; see single_run. Its files are not written over.

    Args:
        path: a run folder, a folder with one run, or ``latest``.
        key: what the path is called in messages.
        allowed: what it might be.

    Raises:
        ConfigError: when there is none, or more than one.
    """
    run = single_run(path, key, allowed)
    for file in (found for pattern in _OWN for found in run.glob(pattern)):
        with contextlib.suppress(OSError):
            keep(file.stat())
    return run


def read_manifest(folder: Path) -> dict[str, Any]:
    """The list of a run's policies: ``latest``, ``best`` and the metrics of each.

    Raises:
        ConfigError: when it is damaged.
    """
    file = inside(folder.parent, f"{folder.name}/{MANIFEST}")
    if not file.exists():
        return {"policies": []}
    content = read_json(file)
    entries = content.get("policies")
    fine = isinstance(entries, list) and all(map(_is_entry, entries))
    require(fine, f"{file}: policies", entries, "a list with file, env_steps and metrics of each")
    for name in ("latest", "best"):
        fine = is_text(content.get(name)) or not (entries or name in content)
        require(fine, f"{file}: {name}", content.get(name), "the name of a file")
    return content


def _is_entry(value: Any) -> bool:
    """Whether this is a policy in a manifest."""
    return (
        isinstance(value, dict)
        and is_text(value.get("file"))
        and is_count(value.get("env_steps"))
        and _is_metrics(value.get("metrics"))
    )
