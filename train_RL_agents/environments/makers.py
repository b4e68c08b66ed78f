"""Factories of external environments: TorchRL's wrappers by short names, and users' own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torchrl.data import Binary, Composite
from torchrl.envs import EnvBase, ParallelEnv, SerialEnv
from torchrl.envs.gym_like import BaseInfoDictReader
from torchrl.envs.libs.vmas import VmasEnv

from marinenav_env.support import plugins
from marinenav_env.support.extras import import_optional
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.config.environment import LIBRARY_NAMES, EnvConfig
from train_RL_agents.environments.global_random import GlobalRandomState
from train_RL_agents.environments.group_env import SUCCESS_NAMES, GroupEnv, wrap_errors
from train_RL_agents.utils.device import preserve_num_threads

EnvFactory = Callable[..., EnvBase]
"""Function ``make(num_envs=..., device=..., seed=..., **options)`` that returns an environment of TorchRL."""
_PETTINGZOO_PACKAGES = ("pettingzoo", "mpe2")
"""Families of environments that are packages of their own; other families are modules of the package pettingzoo."""
_TASK_PATTERN = re.compile(r"[a-z][a-z0-9_]*(/[a-z][a-z0-9_]*)?")
"""Allowed names of environments of PettingZoo (FAMILY/NAME) and of scenarios of VMAS (NAME)."""


def make_gymnasium(task: str, num_envs: int, device: torch.device, seed: int, **options: Any) -> EnvBase:
    """Return the Gymnasium environment with the ID ``task`` and the arguments ``options``, wrapped for TorchRL."""
    import gymnasium
    from torchrl.envs import GymWrapper

    require(":" not in task, "env.name", f"gymnasium:{task}", "an ID without a module")
    env = gymnasium.make(task, **options)
    with _close_on_error(env):
        _require_actions_from_zero(env.action_space, f"gymnasium:{task}")
        is_tuple = isinstance(env.observation_space, gymnasium.spaces.Tuple)
        require(not is_tuple, f"gymnasium:{task}: observation", "a Tuple of spaces", "a Dict of them, or a single one")
        env.action_space.seed(seed)
        info = {**env.reset(seed=seed)[1], **env.step(env.action_space.sample())[4]}
        key = next((name for name in SUCCESS_NAMES if name in info), None)
        # GymEnv is not used, because one of its options imports a module.
        wrapped = GymWrapper(env)
        return wrapped if key is None else wrapped.set_info_dict_reader(SuccessReader(key))


@contextmanager
def _close_on_error(env: Any) -> Iterator[None]:
    """Close an environment, of any library, if an error is raised in this context."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            env.close()
        raise


def _require_actions_from_zero(action_space: Any, name: str) -> None:
    """Check that the choices of an action space of Gymnasium begin at 0, because TorchRL's wrappers number them so."""
    start = np.asarray(getattr(action_space, "start", 0))
    require(not start.any(), f"{name}: the first action", start.tolist(), "0, as TorchRL counts actions from 0")


class SuccessReader(BaseInfoDictReader):
    """Reader of the success of an episode from ``key`` in Gymnasium's ``info``; that of TorchRL takes no bool."""

    info_spec = Composite({SUCCESS_NAMES[0]: Binary(1, (1,), dtype=torch.bool)})

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Add the success of a step to its tensordict; False if ``info`` does not have it."""
        return tensordict.set(SUCCESS_NAMES[0], torch.tensor([bool(info_dict.get(self._key, False))]))


def make_pettingzoo(task: str, num_envs: int, device: torch.device, seed: int, **options: Any) -> EnvBase:
    """Return the parallel environment ``task`` of PettingZoo, such as sisl/multiwalker_v9, single and on the CPU."""
    allowed = "a family and an environment, such as sisl/multiwalker_v9 or mpe2/simple_spread_v3"
    require(_TASK_PATTERN.fullmatch(task) is not None and "/" in task, "env.name", f"pettingzoo:{task}", allowed)
    import_optional("pettingzoo", "pettingzoo")
    from torchrl.envs.libs.pettingzoo import PettingZooWrapper

    family, _, name = task.partition("/")
    module = f"{family}.{name}" if family in _PETTINGZOO_PACKAGES else f"pettingzoo.{family}.{name}"
    try:
        make = import_module(module).parallel_env
    except (ImportError, AttributeError) as error:
        hint = f"; pip install {family}" if getattr(error, "name", None) == family else ""
        raise ConfigError(f"env.name=pettingzoo:{task}: {plugins.summarize_error(error)}{hint}") from error
    env = make(**options)
    with _close_on_error(env):
        for agent in env.possible_agents:
            _require_actions_from_zero(env.action_space(agent), f"pettingzoo:{task}")
        return PettingZooWrapper(env, return_state=False, use_mask=True, done_on_any=False, seed=seed)


def make_vmas(task: str, num_envs: int, device: torch.device, seed: int, **options: Any) -> EnvBase:
    """Return a batch of ``num_envs`` environments of the VMAS scenario ``task``."""
    require(
        _TASK_PATTERN.fullmatch(task) is not None, "env.name", f"vmas:{task}", "a scenario, such as vmas:navigation"
    )
    for name in ("max_steps", "group_map"):
        allowed = "left out; env.max_steps limits episodes" if name == "max_steps" else "left out"
        require(name not in options, "env.options", name, allowed)
    import_optional("vmas.simulator.environment", "vmas")
    return VmasEnv(task, num_envs=num_envs, device=device, seed=seed, **options)


_ENV_FACTORIES: dict[str, EnvFactory] = {"gymnasium": make_gymnasium, "pettingzoo": make_pettingzoo, "vmas": make_vmas}


def find_factory(name: str) -> EnvFactory:
    """Return the factory of an environment: ``make_env(num_envs, device, seed, ...) -> EnvBase``."""
    library, _, task = name.partition(":")
    if library in LIBRARY_NAMES:
        return partial(_ENV_FACTORIES[library], task)
    make = plugins.resolve(plugins.ENVIRONMENTS, name)
    is_maker = issubclass(make, EnvBase) if isinstance(make, type) else callable(make)
    allowed = "a function that returns an EnvBase, such as make_env(num_envs, device, seed) with GymWrapper(...)"
    require(is_maker, "env.name", name, allowed)
    maker: EnvFactory = make
    return maker


def read_options(config: EnvConfig) -> dict[str, Any]:
    """Return ``config.options`` as keyword arguments of an environment factory: parsed as JSON, or else as text."""
    options: dict[str, Any] = {}
    for option in config.options:
        name, equals, text = option.partition("=")
        require(bool(equals), "env.options", option, "name=value")
        try:
            options[name] = json.loads(text)
        except (ValueError, RecursionError):
            options[name] = text
    return options


@preserve_num_threads()
def make_env(config: EnvConfig, num_envs: int, device: torch.device, seed: int) -> GroupEnv:
    """Return seeded external environments with the keys of MarineNavEnv and the batch size [E].

    A factory may return a batch of E environments, or a single one without a batch, of which E are then made.
    """
    with GlobalRandomState().activate(seed):
        made = partial(_make_base_env, find_factory(config.name), config.name, read_options(config))
        base = made(num_envs, device, seed)
        if base.batch_size != (num_envs,):
            shape = list(base.batch_size)
            base.close(raise_if_closed=False)
            require(
                shape == [], f"{config.name}: the batch size", shape, f"[{num_envs}], or [] for a single environment"
            )
            kind = ParallelEnv if config.parallel and num_envs > 1 else SerialEnv
            # All environments share one factory, so that specs are read once; their seeds differ by set_seed below.
            with wrap_errors(f"env.name={config.name}: it cannot be made"):
                base = kind(num_envs, partial(made, 1, torch.device("cpu"), seed))
        with _close_on_error(base):
            env = GroupEnv(base, config.name, config.max_steps, device)
    with _close_on_error(env):
        env.set_seed(seed)
    if isinstance(base, ParallelEnv) and config.timeout:
        base.BATCHED_PIPE_TIMEOUT = config.timeout  # set after the processes have started, which takes long
    return env


def _make_base_env(
    make: EnvFactory, name: str, options: dict[str, Any], num_envs: int, device: torch.device, seed: int
) -> EnvBase:
    """Call a factory, and convert its errors to a ConfigError of one sentence."""
    with wrap_errors(f"env.name={name}: it cannot be made"):
        env = make(num_envs=num_envs, device=device, seed=seed, **options)
    require(isinstance(env, EnvBase), "env.name", name, f"a function that returns an EnvBase, not {type(env).__name__}")
    vector = getattr(getattr(env, "base_env", env), "_env", None)
    metadata = getattr(vector, "metadata", None)
    mode = getattr(metadata.get("autoreset_mode"), "name", "") if isinstance(metadata, dict) else ""
    allowed = "DISABLED, as by GymWrapper(SyncVectorEnv(..., autoreset_mode=...)), or a single environment"
    require(mode != "NEXT_STEP", f"env.name={name}: autoreset_mode", mode, allowed)
    return env
