"""Building the agent that a configuration asks for."""

from __future__ import annotations

from typing import Any

import torch

from train_RL_agents.agents import Agent, agent_class
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.networks.observation import ObservationSpec


def make_agent(config: TrainConfig[Any], num_actions: int, device: torch.device) -> Agent[Any]:
    """Build the agent that a configuration asks for."""
    spec = ObservationSpec.of(config.world)
    return agent_class(config.agent_type)(config.agent, num_actions, spec).to(device)
