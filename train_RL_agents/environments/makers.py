"""Functions that make the environments of others: TorchRL's wrappers by short names, and users' own."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.data import Binary, Composite
from torchrl.envs import EnvBase, ParallelEnv, SerialEnv
from torchrl.envs.gym_like import BaseInfoDictReader

from marinenav_env.support import plugins
from marinenav_env.support.extras import need
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.config.environment import SHORT_NAMES, EnvConfig
from train_RL_agents.environments.group_env import SUCCESS, reported

Make = Callable[..., EnvBase]
_PETTINGZOO = ("pettingzoo", "mpe2")
"""Packages whose environments the short name imports."""
_TASK = re.compile(r"[a-z][a-z0-9_]*(/[a-z][a-z0-9_]*)?")


def make_gymnasium(task: str, num_envs: int, device: torch.device, seed: int, **options: Any) -> EnvBase:
    """Return an environment of Gymnasium by its ID."""
    import gymnasium
    from torchrl.envs import GymWrapper

    require(":" not in task, "env.name", f"gymnasium:{task}", "an ID without a module")
    env = gymnasium.make(task, **options)
    env.action_space.seed(seed)
    told = {**env.reset(seed=seed)[1], **env.step(env.action_space.sample())[4]}
    key = next((name for name in SUCCESS if name in told), None)
    # Not GymEnv, one of whose options imports a module.
    wrapped = GymWrapper(env)
    return wrapped if key is None else wrapped.set_info_dict_reader(SuccessReader(key))


class SuccessReader(BaseInfoDictReader):
    """Reader of whether an episode is a success, which Gymnasium's ``info`` tells.

    Args:
        key: name in the info.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._info_spec = Composite({SUCCESS[0]: Binary(1, (1,), dtype=torch.bool)})

    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Add the success of a step to it; False where the info does not tell."""
        return tensordict.set(SUCCESS[0], torch.tensor([bool(info_dict.get(self._key, False))]))

    @property
    def info_spec(self) -> Composite:
        """Return the spec of what is added."""
        return self._info_spec


def make_pettingzoo(task: str, num_envs: int, device: torch.device, seed: int, **options: Any) -> EnvBase:
    """Return a parallel environment of PettingZoo, such as sisl/waterworld_v4, or mpe2/simple_spread_v3."""
    allowed = "a family and an environment, such as sisl/waterworld_v4 or mpe2/simple_spread_v3"
    require(_TASK.fullmatch(task) is not None and "/" in task, "env.name", f"pettingzoo:{task}", allowed)
    need("pettingzoo", "pettingzoo")
    from torchrl.envs.libs.pettingzoo import PettingZooWrapper

    family, _, name = task.partition("/")
    module = f"{family}.{name}" if family in _PETTINGZOO else f"pettingzoo.{family}.{name}"
    try:
        make = import_module(module).parallel_env
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"env.name=pettingzoo:{task}: {plugins.first_line(error)}") from error
    return PettingZooWrapper(make(**options), return_state=False, use_mask=True, done_on_any=False, seed=seed)


def make_vmas(task: str, num_envs: int, device: torch.device, seed: int, **options: Any) -> EnvBase:
    """Return a batch of a scenario of VMAS."""
    require(_TASK.fullmatch(task) is not None, "env.name", f"vmas:{task}", "a scenario, such as vmas:navigation")
    for name in ("max_steps", "group_map"):
        allowed = "left out; env.max_steps limits episodes" if name == "max_steps" else "left out"
        require(name not in options, "env.options", name, allowed)
    need("vmas", "vmas")
    from train_RL_agents.environments.vmas import SeparateVmasEnv

    return SeparateVmasEnv(task, num_envs=num_envs, device=device, seed=seed, **options)


_MAKERS: dict[str, Make] = {"gymnasium": make_gymnasium, "pettingzoo": make_pettingzoo, "vmas": make_vmas}


def find_maker(name: str) -> Make:
    """Return the function that makes an environment: ``make_env(num_envs, device, seed, ...) -> EnvBase``.

    Args:
        name: short name, entry point in ``marinenav.environments``, or ``package.module:make_env``.

    Raises:
        ConfigError: when there is none.
    """
    library, _, task = name.partition(":")
    if library in SHORT_NAMES:
        return partial(_MAKERS[library], task)
    make = plugins.resolve(plugins.ENVIRONMENTS, name)
    require(callable(make), "env.name", name, "a function that returns an EnvBase")
    maker: Make = make
    return maker


def read_options(config: EnvConfig, make: Make) -> dict[str, Any]:
    """Return the arguments of a maker; values are JSON, or else text.

    Raises:
        ConfigError: when one is not ``name=value``, or the maker has no such argument.
    """
    options: dict[str, Any] = {}
    # The metaclass of EnvBase hides the arguments of a class.
    hidden: Any = make.__init__ if isinstance(make, type) else make  # type: ignore[misc]
    takes = inspect.signature(hidden).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values())
    for option in config.options:
        name, equals, text = option.partition("=")
        require(bool(equals) and name.isidentifier(), "env.options", option, "name=value")
        require(name not in options, "env.options", name, "given once")
        known = (name in takes or takes_any) and name not in ("num_envs", "device", "seed")
        require(known, "env.options", name, f"an option of {config.name}")
        try:
            options[name] = json.loads(text)
        except (ValueError, RecursionError):
            options[name] = text
    return options


def make_base(config: EnvConfig, num_envs: int, device: torch.device, seed: int) -> EnvBase:
    """Return environments of the batch [E].

    A maker may return a batch of E environments, or a single one without a batch, of which E are then made.

    Raises:
        ConfigError: when they cannot be made.
    """
    make = find_maker(config.name)
    options = read_options(config, make)
    made = partial(_made, make, config.name, options)
    env = made(num_envs, device, seed)
    if env.batch_size == (num_envs,):
        return env
    shape = list(env.batch_size)
    env.close(raise_if_closed=False)
    require(shape == [], f"{config.name}: the batch size", shape, f"[{num_envs}], or [] for a single environment")
    kind = ParallelEnv if config.parallel and num_envs > 1 else SerialEnv
    cpu = torch.device("cpu")
    # One function for all, whose specs are read once; the seeds differ from then on.
    with reported(f"env.name={config.name}: it cannot be made"):
        envs: EnvBase = kind(num_envs, partial(made, 1, cpu, seed))
        envs.set_seed(seed)
    if isinstance(envs, ParallelEnv) and config.timeout:
        envs.BATCHED_PIPE_TIMEOUT = config.timeout  # after the processes have started, which takes long
    return envs


def _made(make: Make, name: str, options: dict[str, Any], num_envs: int, device: torch.device, seed: int) -> EnvBase:
    """Call a maker; its errors become one sentence."""
    with reported(f"env.name={name}: it cannot be made"):
        env = make(num_envs=num_envs, device=device, seed=seed, **options)
    require(isinstance(env, EnvBase), "env.name", name, f"a function that returns an EnvBase, not {type(env).__name__}")
    return env
