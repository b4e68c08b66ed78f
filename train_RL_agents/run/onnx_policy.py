"""Policies in ONNX files of ``marinenav export``: onnxruntime computes them, their contract says what they are for."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import open_regular
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, require
from train_RL_agents.agents import Agent
from train_RL_agents.boat.checks import BoatError
from train_RL_agents.boat.network import ACTION_OUTPUT, load_network, load_outputs, reproduces
from train_RL_agents.boat.runtime import CONTRACT_FILE, CONTRACT_VERSION
from train_RL_agents.config.building import count_actions, make_agent
from train_RL_agents.config.reading import restore_config
from train_RL_agents.networks.memory import MEMORY, NEXT_MEMORY
from train_RL_agents.networks.observation import Observation, ObservationSpec
from train_RL_agents.run.checkpoint import LoadedPolicy
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import read_json, sha256_of

ONNX_SUFFIX = ".onnx"
Outputs = dict[str, NDArray[Any]]
"""Arrays [B, ...] by name."""


class OnnxAgent(nn.Module):
    """Agent whose outputs and actions an ONNX file computes, on the CPU; the weights of ``agent`` are not used."""

    def __init__(self, agent: Agent[Any], network: Callable[[Outputs], Outputs]) -> None:
        super().__init__()
        self.template, self._network = agent, network
        self.spec, self.continuous = agent.spec, agent.continuous
        self.num_actions, self.scores_are_returns = agent.num_actions, agent.scores_are_returns
        self.supports_risk = self.acts_at_random = False
        self.memory_size = agent.memory_size

    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Return all outputs of the file, the action included, [..., n] by name, for observations by entry."""
        require(risk is None, "--risk", "...", "left out for an ONNX file, which has its own")
        entries = self.spec.exclude(self.template.config.excluded).entries
        name, entry = next(iter(entries.items()))
        given, batch = observation[name], observation[name].shape[: observation[name].ndim - len(entry.shape)]
        inputs = {name: observation[name].cpu().double().flatten(0, len(batch) - 1) for name in entries}
        if self.memory_size:
            inputs[MEMORY] = observation[MEMORY].cpu().double().flatten(0, len(batch) - 1)
        inputs |= self.template.extra_inputs(inputs)
        outputs = self._network({name: value.numpy() for name, value in inputs.items()})
        tensors = {name: torch.from_numpy(output) for name, output in outputs.items()}
        return {name: output.unflatten(0, batch).to(given.device) for name, output in tensors.items()}

    def remember(self, observation: Observation, results: dict[str, Tensor]) -> Tensor:
        """Return the memory [..., H] among all outputs of the file."""
        return results[NEXT_MEMORY].float()

    def scores(self, outputs: dict[str, Tensor]) -> Tensor | None:
        """Return the scores [..., A] of which the highest is selected; None for continuous actions."""
        return self.template.scores(outputs)

    def act(self, observation: Observation, risk: Tensor | None = None) -> Tensor:
        """Return the best actions for observations by entry: indices [...], or continuous actions [..., n]."""
        return self.select(self.outputs(observation, risk))

    def select(self, outputs: dict[str, Tensor]) -> Tensor:
        """Return the action among all outputs of the file; see ``act``."""
        action = outputs[ACTION_OUTPUT]
        return action.float() if self.continuous else action

    def return_quantiles(self, observation: Observation, action: Tensor) -> None:
        """Return None, as the file does not contain critics."""


def load_onnx_policy(path: Path) -> LoadedPolicy:
    """Load the policy in an ONNX file, after comparing it with the examples in the ``contract.json`` beside it."""
    open_regular(path, "an ONNX policy", math.inf).close()
    contract = path.parent / CONTRACT_FILE
    require(contract.is_file(), "policy", str(path), f"beside the {CONTRACT_FILE} that was exported with it")
    content = read_json(contract)
    try:
        if content["version"] != CONTRACT_VERSION:
            raise ValueError("of another version")
        hashes = {file["file"]: file["sha256"] for file in content["files"].values()}
        steps, saved, examples = content["env_steps"], content["config"], content["examples"]
        spec = ObservationSpec.from_dict(content["spec"]) if "spec" in content else None
        actions = content["action"].get("count", 1)
        if not (is_nonnegative_int(steps) and is_nonnegative_int(actions) and isinstance(saved, dict)):
            raise ValueError("without steps, actions or settings")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{contract}: damaged, or not a contract ({first_line(error)}); export again") from error
    config = restore_config(saved, str(contract))
    if config.env.is_built_in:
        actions, spec = count_actions(config), None
    elif spec is None:
        raise ConfigError(f"{contract}: does not say what the policy observes; export again")
    # onnxruntime may crash at a damaged file.
    if hashes.get(path.name) not in (None, sha256_of(path)):
        raise ConfigError(f"{path}: damaged, or not the file that {CONTRACT_FILE} describes")
    import_optional("onnxruntime", "export")
    try:
        network, acting = load_outputs(path), load_network(path, "memory" in content)
        is_same = reproduces(acting, examples)
    except BoatError as error:
        raise ConfigError(str(error)) from error
    except Exception as error:  # damaged numbers may raise any error, also of onnxruntime
        raise ConfigError(f"{path}: does not fit the examples of {CONTRACT_FILE} ({first_line(error)})") from error
    require(is_same, str(path), "...", f"a network with the actions of the examples of {CONTRACT_FILE}")
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn, and not used
        template = make_agent(config, actions, torch.device("cpu"), spec)
    agent = OnnxAgent(template, network).eval()
    return LoadedPolicy(cast("Agent[Any]", agent), config, path, steps, {})
