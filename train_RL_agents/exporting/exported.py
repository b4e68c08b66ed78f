"""Loading of policies that ``marinenav export`` wrote, for evaluation like the original ones."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from marinenav_env.support.validation import ConfigError, is_nonnegative_int, require
from train_RL_agents.agents import Agent
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import restore_config
from train_RL_agents.evaluation import contenders
from train_RL_agents.evaluation.contenders import Contender
from train_RL_agents.exporting.checking import load_checked
from train_RL_agents.exporting.export import CONTRACT_FILE, DeployedAgent
from train_RL_agents.exporting.loading import NetworkFunction
from train_RL_agents.networks.observation import Observation, ObservationSpec
from train_RL_agents.run.checkpoint import LoadedPolicy
from train_RL_agents.utils.files import read_json

_MAX_SIZE_RATIO = 64
"""Largest ratio of the size of an agent's networks to that of an exported file, which has only the acting ones."""


class FileAgent(nn.Module):
    """Agent whose outputs an exported file computes, on the CPU in float64.

    Args:
        agent: agent of the same type, whose weights are not used.
        call: network in the file, as a function of separate inputs.
    """

    def __init__(self, agent: Agent[Any], call: NetworkFunction) -> None:
        super().__init__()
        self.template, self._call = DeployedAgent(agent), call
        self.spec, self.continuous = agent.spec, agent.continuous
        self.num_actions, self.scores_are_returns = agent.num_actions, agent.scores_are_returns
        self.supports_risk = self.acts_at_random = False

    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Return the outputs [..., n] by name that the file computes for observations, [..., n] by entry.

        Raises:
            ConfigError: when a risk level is given, because the file has its own.
        """
        require(risk is None, "--risk", "...", "left out for an exported file, which has its own")
        name, entry = next(iter(self.template.entries.items()))
        batch = observation[name].shape[: observation[name].ndim - len(entry.shape)]
        entries = {name: observation[name].cpu().double().flatten(0, len(batch) - 1) for name in self.template.entries}
        extras = self.template.agent.extra_inputs(entries)
        outputs = self._call(*entries.values(), *(extra.double() for extra in extras.values()))
        device = observation[name].device
        return {
            meaning: output.unflatten(0, batch).to(device)
            for meaning, output in zip(self.template.agent.output_meanings, outputs, strict=False)
        }

    def scores(self, outputs: dict[str, Tensor]) -> Tensor | None:
        """Return the scores [B, A] of which the highest is selected; None for continuous actions; like Agent.scores."""
        return self.template.agent.scores(outputs)

    def act(self, observation: Observation, risk: Tensor | None = None) -> Tensor:
        """Return the best actions for observations by entry: indices [...], or continuous actions [..., n]."""
        action = self.template.agent.select(self.outputs(observation, risk))
        return action.float() if self.continuous else action

    def return_quantiles(self, observation: Observation, action: Tensor) -> None:
        """Return None, as the file does not contain critics."""


def find_contender(name: str, which: str, device: torch.device) -> Contender:
    """Return a trained or exported policy, or a baseline, by path or name.

    Args:
        name: path of a run, a policy or an exported file, or name of a shipped policy or a baseline.
        which: policy of a run: ``best``, ``latest`` or a file's name.
        device: device of a policy that is not exported.

    Raises:
        ConfigError: when the policy does not exist, or an exported file differs from its ``contract.json``.
    """
    path = Path(name)
    contract = path.parent / CONTRACT_FILE
    content = read_json(contract) if path.is_file() and contract.is_file() else {}
    # A checkpoint may also be in the folder of a contract.
    if f'"{path.name}"' not in json.dumps(content.get("files")):
        return contenders.find_contender(name, which, device)
    call = load_checked(path)
    saved, steps = content.get("config"), content.get("env_steps")
    if not isinstance(saved, dict) or not is_nonnegative_int(steps):
        raise ConfigError(f"{contract}: does not say how the policy was made; export it again")
    config = restore_config(saved, str(contract))
    actions, spec = config.world.vessel.num_actions, None
    if not config.env.is_built_in:
        try:
            spec = ObservationSpec.from_dict(content.get("spec"))
            actions = content["action"].get("count", 1)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(f"{contract}: does not say what the policy observes; export it again") from error
        require(is_nonnegative_int(actions), f"{contract}: action.count", actions, "a whole number")
    # A contract may describe an agent that does not fit into memory, although the file does.
    with contextlib.suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        blank = make_agent(config, actions, torch.device("meta"), spec)
        size = sum(weight.nbytes for weight in blank.networks.state_dict().values())
        is_plausible = size <= _MAX_SIZE_RATIO * path.stat().st_size
        require(is_plausible, f"{contract}: config.agent", f"{size:,} bytes", f"that of {path.name}")
    agent = make_agent(config, actions, torch.device("cpu"), spec)
    loaded = FileAgent(agent, call).eval()
    return Contender.from_loaded(LoadedPolicy(cast("Agent[Any]", loaded), config, path, steps, {}))
