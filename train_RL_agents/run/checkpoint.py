"""Checkpoints: written atomically, read without pickle, rejected with a one-sentence error if they are invalid.

There are two types of file: a *policy* (acting weights and configuration; small, one per evaluation) and the
*training state* (everything that a resumed run continues from; one per run and rank).
"""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.serialization import default_restore_location

from marinenav_env.support import plugins
from marinenav_env.support.files import open_regular, protect_input
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, is_number, is_printable_text, require
from train_RL_agents.agents import Agent
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import restore_config, to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.networks.encoders import is_scale_buffer
from train_RL_agents.networks.observation import ObservationSpec
from train_RL_agents.run.finding import CONFIG_FILE, MANIFEST_FILE, POLICY_PATTERN, resolve_path, single_run
from train_RL_agents.run.published import import_policy, is_torchscript
from train_RL_agents.run.resuming import list_changes
from train_RL_agents.utils.arrays import stores_all_elements
from train_RL_agents.utils.files import parse_json, read_json, write_atomically
from train_RL_agents.utils.shipped import shipped_paths

POLICY_FORMAT = "marinenav policy"
TRAINING_FORMAT = "marinenav training state"
FORMAT_VERSION = 2
"""Version of the format of both types of file; files of marinenav before 0.2 have version 1."""
_MAX_LISTED_POLICIES = 4
CHECKPOINTS_FOLDER = "checkpoints"
STATE_FILE = "training_state.pt"
"""Name of the file in the folder of checkpoints with the training state of the first rank."""
TEACHER_FILE = "teacher.pt"
"""Name of a run's copy of the policy that the run imitates."""
_PROTECTED_FILES = ("trial_config.json", "eval_configs.json", "evaluations.*", TEACHER_FILE, f"{CHECKPOINTS_FOLDER}/*")
"""Patterns of the files of a run that the outputs of commands must not overwrite."""
STOPPED_POLICY_FILE = "policy_stopped.pt"
"""Name of the policy file that a run saves when it stops; the next evaluation deletes it."""
NOT_EVALUATED_NOTE = "saved when training stopped, and not evaluated since"
"""Note in place of the metrics of such a policy."""
SHIPPED_POLICY_FILE = "policy.pt"


def read_checkpoint(path: Path, kind: str, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint, and return its content by name after checking its format and version."""

    def place(storage: Any, location: str) -> Any:
        # Tensors from host memory stay there, as they may be larger than the memory of any device.
        return default_restore_location(storage, location if location == "cpu" else str(device))

    with open_regular(path, "a checkpoint", math.inf) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if archive.testzip() is not None:  # torch checks no sums
                    raise zipfile.BadZipFile
            content = torch.load(path, map_location=place, weights_only=True)
            file_kind = content.get("format") if isinstance(content, dict) else None
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # damaged bytes may raise any error
            raise _damaged_error(path) from error
    require(file_kind == kind, str(path), file_kind, f"a {kind}")
    version = content.get("version")
    hint = "it is of a version before 0.2, which this one does not read" if version == 1 else "update marinenav"
    require(version == FORMAT_VERSION, f"{path}: version", version, f"{FORMAT_VERSION}; {hint}")
    return dict(content)


def _damaged_error(path: Path) -> ConfigError:
    """Return the error to raise for a damaged checkpoint."""
    hint = restart_hint(path.parent.parent) if path.name == STATE_FILE else "; give a run or a policy_*.pt of one"
    return ConfigError(f"{path}: damaged, or not a checkpoint of this program{hint}")


def restart_hint(run: Path) -> str:
    """Return the end of a sentence that says how to go on from a run without a state to resume."""
    return f"; load_model={run} starts a new run from its policy"


def saved_settings(state: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the settings of a training state by dotted key."""
    if state.get("config") is None:
        raise ConfigError(f"{path}: does not say which settings it was made with; start a new run")
    source = f"{path}: config"
    return flatten(to_dict(restore_config(parse_json(state["config"], source), source)))


def require_resumable(before: dict[str, Any], now: dict[str, Any], env_steps: Any, run: Path) -> None:
    """Check that a run can be resumed from a saved state."""
    if changed := list_changes(before, now):
        state = run / CHECKPOINTS_FOLDER / STATE_FILE
        raise ConfigError(f"{state}: was made with other settings than {run / CONFIG_FILE} has: {'; '.join(changed)}")
    total = now["total_timesteps"]
    fewer = is_nonnegative_int(env_steps) and total < env_steps and total != before["total_timesteps"]
    require(not fewer, "total_timesteps", total, f"at least {env_steps}, as {run} has already made so many")


def save_policy(
    path: Path, agent: Agent[Any], config: TrainConfig[Any], env_steps: int, metrics: dict[str, Any]
) -> None:
    """Write a policy file."""
    content = {
        "format": POLICY_FORMAT,
        "version": FORMAT_VERSION,
        "config": json.dumps(to_dict(config)),
        "num_actions": agent.num_actions,
        # The specification of the built-in environment follows from the configuration.
        **({} if config.env.is_built_in else {"spec": json.dumps(agent.spec.to_dict())}),
        "env_steps": env_steps,
        "metrics": metrics,
        # Cloned because those of a learning agent are views of one tensor. Scales tell whose boat the policy is for.
        "weights": {
            name: weight.clone()
            for name, weight in agent.networks.state_dict().items()
            if is_scale_buffer(name) or not agent.follows_from_config(name)
        },
    }
    write_atomically(path, content, replace_input=True)


@dataclass(frozen=True, repr=False)
class LoadedPolicy:
    """Agent read from the policy file ``path``, with the configuration and the env-steps (0 if imported) of its run.

    ``metrics`` are those of its evaluation by name, or a ``note`` if it has none.
    """

    agent: Agent[Any]
    config: TrainConfig[Any]
    path: Path
    env_steps: int
    metrics: dict[str, Any]


def load_weights(agent: Agent[Any], weights: dict[str, Any], path: Path) -> None:
    """Load weights into an agent's networks and their target copies; what its configuration determines may lack."""
    current = agent.networks.state_dict()
    weights = {name: value for name, value in current.items() if agent.follows_from_config(name)} | weights
    expected, actual = ({name: list(weight.shape) for name, weight in each.items()} for each in (current, weights))
    for name in sorted(expected.keys() | actual.keys()):
        wanted, shape = expected.get(name, "absent"), actual.get(name, "absent")
        if wanted != shape:
            raise ConfigError(f"{path}: does not fit this agent ({name} is {shape}, here {wanted})")
    for name, weight in weights.items():
        dtype = current[name].dtype
        is_float = dtype.is_floating_point
        require(weight.is_floating_point() == is_float, f"{path}: {name}", weight.dtype, str(dtype))
        is_finite = not is_float or bool(weight.isfinite().all())
        require(is_finite, f"{path}: {name}", "nan or inf", "finite")
        if is_scale_buffer(name) and not torch.allclose(weight, current[name].to(weight)):
            raise ConfigError(f"{path}: {name} is not that of this boat; train the policy again")
    agent.networks.load_state_dict(weights)
    for name, target in agent.targets.items():
        target.load_state_dict(agent.networks[name].state_dict())


def load_policy(path: Path | str, which: str = "best", device: torch.device | None = None) -> LoadedPolicy:
    """Load a policy from a file, a shipped policy or a run folder."""
    device = device or torch.device("cpu")
    file = find_policy(Path(path), which)
    require(file.suffix != ".onnx", "policy", str(file), "a policy file; ONNX files are for evaluate, play and falsify")
    if is_torchscript(file):
        imported, config, note = import_policy(file)
        return LoadedPolicy(imported.to(device), config, file, 0, {"note": note})
    content = read_checkpoint(file, POLICY_FORMAT, device)
    if not _is_policy(content):
        raise _damaged_error(file)
    source = f"{file}: config"
    config = restore_config(parse_json(content.get("config"), source), source)
    weights, actions = content["weights"], content["num_actions"]
    try:
        spec = None if config.env.is_built_in else ObservationSpec.from_dict(parse_json(content.get("spec"), source))
    except ValueError as error:
        raise _damaged_error(file) from error
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn, and replaced
        agent = make_agent(config, actions, device, spec)
    load_weights(agent, weights, file)
    return LoadedPolicy(agent.eval(), config, file, content["env_steps"], content["metrics"])


def _is_policy(content: dict[str, Any]) -> bool:
    """Return whether the content of a policy file has the entries and types of one."""
    weights, actions = content.get("weights"), content.get("num_actions")
    return (
        isinstance(weights, dict)
        and all(isinstance(name, str) and stores_all_elements(weight) for name, weight in weights.items())
        and _is_metrics(content.get("metrics"))
        and is_nonnegative_int(actions)
        and actions != 0
        and is_nonnegative_int(content.get("env_steps"))
    )


def _is_metrics(value: Any) -> bool:
    """Return whether a value is a dict of metrics: numbers or None by name, and perhaps a note."""
    return isinstance(value, dict) and all(
        is_printable_text(name)
        and (is_printable_text(metric) if name == "note" else metric is None or is_number(metric))
        for name, metric in value.items()
    )


def find_policy(path: Path, which: str = "best") -> Path:
    """Return the file of a policy: ``path`` itself, a shipped policy, or policy ``which`` of a run; see load_policy."""
    path = resolve_path(path, POLICY_PATTERN)
    single = next((file for file in (path, path / SHIPPED_POLICY_FILE) if file.is_file()), None)
    if single is not None:
        is_single = which in ("best", "latest", single.name)
        require(is_single, "--which", which, f"left out, as {path} has only one policy")
        return single if single == path else path / SHIPPED_POLICY_FILE
    names = ", ".join(shipped_paths("pretrained"))
    run = find_run(path, "checkpoint", f"a policy file or a run folder, or one of {names}")
    name: Any = which
    if which in ("best", "latest"):
        manifest = read_manifest(run / CHECKPOINTS_FOLDER)
        name = manifest.get(which) or manifest.get("latest")
        if name is None:
            command = shlex.join(["marinenav", "train", "--resume", str(run), *plugins.option_words()])
            raise ConfigError(f"{run}: has no policy yet, as nothing was evaluated or saved; go on with: {command}")
    file = run / CHECKPOINTS_FOLDER / name
    if name == which:
        files = sorted(policy.name for policy in file.parent.glob("policy_*.pt"))
        names = ", ".join(["best", "latest", *files[-_MAX_LISTED_POLICIES:]])
        require(file.exists(), "--which", which, f"of {run}, one of {names}")
    return file


def find_run(path: Path, key: str = "run", allowed: str = "a run folder") -> Path:
    """Return the run folder of a path and protect its files from being overwritten; see single_run."""
    run = single_run(path, key, allowed)
    for file in (match for pattern in _PROTECTED_FILES for match in run.glob(pattern)):
        with contextlib.suppress(OSError):
            protect_input(file.stat())
    return run


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest in ``folder``, the checkpoints of a run.

    Its key ``policies`` is a list of dicts with ``file``, ``env_steps`` and ``metrics``; ``latest`` and ``best`` are
    names of files. Without a manifest the list is empty, and the other keys are missing.
    """
    file = folder / MANIFEST_FILE
    if not file.exists():
        return {"policies": []}
    content = read_json(file)
    entries = content.get("policies")
    is_valid = isinstance(entries, list) and all(map(_is_entry, entries))
    require(is_valid, f"{file}: policies", entries, "a list with file, env_steps and metrics of each")
    for name in ("latest", "best"):
        is_valid = is_printable_text(content.get(name)) or not (entries or name in content)
        require(is_valid, f"{file}: {name}", content.get(name), "the name of a file")
    return content


def _is_entry(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and is_printable_text(value.get("file"))
        and is_nonnegative_int(value.get("env_steps"))
        and _is_metrics(value.get("metrics"))
    )
