"""A policy as graphs of operators in JSON, which an interpreter of PyTorch's operators can run.

What ``torch.export`` finds an agent to compute, one observation at a time, in float64. The page of
``marinenav demo`` runs it, so that an agent's rule is written once, in Python.
"""

from __future__ import annotations

import base64
import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from train_RL_agents.agents import Agent
from train_RL_agents.agents.base import join_critics
from train_RL_agents.exporting.export import Deployed
from train_RL_agents.networks.observation import Observation

Outputs = dict[str, Tensor]


class _Call(nn.Module):
    """A function of an agent and named inputs, as a module of separate inputs."""

    def __init__(self, agent: Agent[Any], names: list[str], function: Callable[..., Outputs]) -> None:
        super().__init__()
        self.agent, self._names, self._function = agent, names, function

    def forward(self, *inputs: Tensor) -> Outputs:
        """Return the outputs by name."""
        return self._function(self.agent, dict(zip(self._names, inputs, strict=True)))


def _decision(agent: Agent[Any], inputs: Observation) -> Outputs:
    """Return the action for an observation, perhaps at a risk level, and scores if there are any."""
    risk = inputs.pop("risk", None)
    outputs = agent.outputs(inputs, risk)
    scores = agent.scores(outputs)
    return {"action": agent.select(outputs)} | ({} if scores is None else {"scores": scores})


def _returns(agent: Agent[Any], inputs: Observation) -> Outputs:
    """Compute quantiles of the return of an action, and its mean [B, C] by each of C critics."""
    action = inputs.pop("action")
    each = agent.critic_quantiles(inputs, action)
    if each is not None:
        return {"quantiles": join_critics(each), "means": each.mean(-1).mT}
    quantiles = agent.return_quantiles(inputs, action)
    return {} if quantiles is None else {"quantiles": quantiles}


def policy_graphs(agent: Agent[Any]) -> dict[str, Any]:
    """Return a policy as JSON holds it.

    Args:
        agent: is copied.

    Returns:
        ``weights``, float32 in base64 with name, shape and offset of each, and ``graphs``:
        ``act`` and, if the agent knows them, ``act_at_risk`` and ``returns``. A graph has
        named inputs, names of weights, nodes [operator, arguments] and named outputs. Values are
        counted through inputs, weights and nodes; ``{"at": n}`` in an argument means value n.
    """
    exact = copy.deepcopy(agent).cpu().double().eval().requires_grad_(False)
    exact.targets = nn.ModuleDict()
    weights: dict[str, Tensor] = {}
    seen = Deployed(agent).observations(1)
    action = exact.act(seen)
    graphs = {"act": _graph(exact, _decision, seen, weights)}
    if exact.supports_risk:
        risk = {"risk": torch.ones(1, dtype=torch.float64)}
        graphs["act_at_risk"] = _graph(exact, _decision, seen | risk, weights)
    if exact.return_quantiles(seen, action) is not None:
        graphs["returns"] = _graph(exact, _returns, seen | {"action": action}, weights)
    return {"graphs": graphs, "weights": _packed(weights)}


def _graph(
    agent: Agent[Any],
    function: Callable[..., Outputs],
    inputs: Observation,
    weights: dict[str, Tensor],
) -> dict[str, Any]:
    """One graph; the weights that it uses are added to ``weights``."""
    module = _Call(agent, list(inputs), function)
    program = torch.export.export(module, tuple(inputs.values()))
    signature, nodes = program.graph_signature, list(program.graph.nodes)
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    stored = {**program.state_dict, **program.constants}
    placeholders = [node for node in nodes if node.op == "placeholder"]
    given = [node for node in placeholders if node.name not in names]
    used = [node for node in placeholders if node.name in names and node.users]
    calls = [node for node in nodes if node.op == "call_function" and node.users]
    weights |= {names[node.name]: stored[names[node.name]] for node in used}
    at = {node: index for index, node in enumerate([*given, *used, *calls])}
    (results,) = next(node for node in nodes if node.op == "output").args
    outputs = function(agent, dict(inputs))
    return {
        "inputs": [[name, list(each.shape)] for name, each in inputs.items()],
        "weights": [names[node.name] for node in used],
        "nodes": [[_operator(node), _plain(_arguments(node), at)] for node in calls],
        "outputs": {name: at[node] for name, node in zip(outputs, results, strict=True)},
    }


def _operator(node: fx.Node) -> str:
    """Return ATen's name of a node's operator, without the overload."""
    target: Any = node.target
    return str(target.__name__.partition(".")[0])


def _arguments(node: fx.Node) -> list[Any]:
    """Return all arguments of a node in the order of its operator, with the defaults."""
    # A module is asked for, which has no part in a call of a function.
    found = node.normalized_arguments(nn.Module(), normalize_to_only_use_kwargs=True)
    return list(node.args) if found is None else [*found.kwargs.values()]


def _plain(value: Any, at: dict[fx.Node, int]) -> Any:
    """Return an argument as JSON holds it."""
    if isinstance(value, fx.Node):
        return {"at": at[value]}
    if isinstance(value, list | tuple):
        return [_plain(each, at) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value).replace("inf", "Infinity")}
    return value if isinstance(value, int | float | str | None) else str(value)


def _packed(weights: dict[str, Tensor]) -> dict[str, Any]:
    """Return the weights, one after another in float32."""
    arrays = [each.numpy().astype("<f4").ravel() for each in weights.values()]
    offsets = np.cumsum([0, *(len(each) for each in arrays)]).tolist()
    places = zip(weights.items(), offsets, strict=False)
    return {
        "entries": [[name, list(each.shape), offset] for (name, each), offset in places],
        "data": base64.b64encode(np.concatenate(arrays).tobytes()).decode(),
    }
