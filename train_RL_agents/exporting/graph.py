"""Export of a policy to graphs of operators in JSON, which an interpreter of PyTorch's operators can run.

The graphs are those of ``torch.export`` for one observation, in float64. The page of ``marinenav demo`` runs them, so
that the computation of an agent is implemented only once, in Python.
"""

import base64
import copy
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, fx, nn

from train_RL_agents.agents import Agent
from train_RL_agents.exporting.deployed import DeployedAgent
from train_RL_agents.networks.memory import NEXT_MEMORY
from train_RL_agents.networks.observation import Observation

Outputs = dict[str, Tensor]


class _AgentFunction(nn.Module):
    """Module that calls a function of an agent with positional inputs, as torch.export requires."""

    def __init__(self, agent: Agent[Any], names: list[str], function: Callable[..., Outputs]) -> None:
        super().__init__()
        self.agent, self._names, self._function = agent, names, function

    def forward(self, *inputs: Tensor) -> Outputs:
        """Return the outputs by name."""
        return self._function(self.agent, dict(zip(self._names, inputs, strict=True)))


def _action_outputs(agent: Agent[Any], inputs: Observation) -> Outputs:
    """Return ``action`` for inputs by name: an observation and optionally ``risk``; ``scores`` and memory if any."""
    risk = inputs.pop("risk", None)
    outputs = agent.outputs(inputs, risk)
    scores, kept = agent.scores(outputs), {NEXT_MEMORY: agent.remember(inputs, outputs)} if agent.memory_size else {}
    return {"action": agent.select(outputs)} | ({} if scores is None else {"scores": scores}) | kept


def _return_outputs(agent: Agent[Any], inputs: Observation) -> Outputs:
    """Return ``quantiles`` [B, N] of the return of an ``action``, if available."""
    quantiles = agent.return_quantiles(inputs, inputs.pop("action"))
    return {} if quantiles is None else {"quantiles": quantiles}


def policy_graphs(agent: Agent[Any]) -> dict[str, Any]:
    """Return the graphs and weights of a policy, which is copied, as a dictionary for JSON.

    It has ``weights``, float32 in base64 with names, shapes and offsets, and ``graphs``: ``act`` and, if the agent
    supports them, ``act_at_risk`` and ``returns``. A graph has named inputs, names of weights, nodes
    [operator, arguments] and named outputs. Values are numbered through inputs, weights and nodes; ``{"at": n}`` in an
    argument means value n.
    """
    exact = copy.deepcopy(agent).cpu().double().eval().requires_grad_(False)
    exact.targets = nn.ModuleDict()
    weights: dict[str, Tensor] = {}
    deployed = DeployedAgent(agent)
    observation = dict(zip(deployed.input_names, deployed.inputs(1), strict=True))
    for name in deployed.extra_names:
        del observation[name]
    action = exact.act(observation)
    graphs = {"act": _trace_graph(exact, _action_outputs, observation, weights)}
    if exact.supports_risk:
        risk = {"risk": torch.ones(1, dtype=torch.float64)}
        graphs["act_at_risk"] = _trace_graph(exact, _action_outputs, observation | risk, weights)
    if exact.return_quantiles(observation, action) is not None:
        graphs["returns"] = _trace_graph(exact, _return_outputs, observation | {"action": action}, weights)
    return {"graphs": graphs, "weights": _pack_weights(weights)}


def _trace_graph(
    agent: Agent[Any], function: Callable[..., Outputs], inputs: Observation, weights: dict[str, Tensor]
) -> dict[str, Any]:
    """Return the graph of a function of an agent and example inputs by name, and add its weights to ``weights``."""
    module = _AgentFunction(agent, list(inputs), function)
    program = torch.export.export(module, tuple(inputs.values()))
    signature, nodes = program.graph_signature, list(program.graph.nodes)
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    stored = {**program.state_dict, **program.constants}
    placeholders = [node for node in nodes if node.op == "placeholder"]
    arguments = [node for node in placeholders if node.name not in names]
    used = [node for node in placeholders if node.name in names and node.users]
    calls = [node for node in nodes if node.op == "call_function" and node.users]
    views = {node: view for node in calls if (view := _view_of(node))}
    calls = [node for node in calls if node not in views or isinstance(views[node].shown, Tensor)]
    weights |= {names[node.name]: stored[names[node.name]] for node in used}
    at = {node: index for index, node in enumerate([*arguments, *used, *calls])}
    (results,) = next(node for node in nodes if node.op == "output").args
    outputs = function(agent, dict(inputs))
    return {
        "inputs": [[name, list(tensor.shape)] for name, tensor in inputs.items()],
        "weights": [names[node.name] for node in used],
        "nodes": [_call_of(node, views.get(node), at) for node in calls],
        "outputs": {name: at[node] for name, node in zip(outputs, results, strict=True)},
    }


class _View(NamedTuple):
    """Elements of a value that a node shows: a view of a contiguous tensor, or a sequence of them."""

    source: fx.Node
    shown: Any


def _view_of(node: fx.Node) -> _View | None:
    """Return what a node shows of another value, or None if it computes new elements."""
    target: Any = node.target
    if target is operator.getitem:
        parts = _view_of(node.all_input_nodes[0])
        return parts and _View(parts.source, parts.shown[node.args[1]])
    if not getattr(target, "is_view", False):
        return None
    source, *_ = node.all_input_nodes
    given = {each: torch.empty(each.meta["val"].shape, dtype=each.meta["val"].dtype) for each in node.all_input_nodes}
    args, kwargs = fx.map_arg((node.args, node.kwargs), given.__getitem__)
    shown = target(*args, **kwargs)
    changes_type = isinstance(shown, Tensor) and shown.dtype != given[source].dtype
    return None if changes_type else _View(source, shown)


def _call_of(node: Any, view: _View | None, at: dict[fx.Node, int]) -> list[Any]:
    """Return a node as [operator, arguments] for JSON; each kind of view as the one that all are, ``as_strided``."""
    if view is None:
        # A node's operator has ATen's name and that of an overload.
        return [node.target.__name__.partition(".")[0], _to_json(_all_arguments(node), at)]
    place = (view.source, view.shown.shape, view.shown.stride(), view.shown.storage_offset())
    return ["as_strided", _to_json(place, at)]


def _all_arguments(node: fx.Node) -> list[Any]:
    """Return all arguments of a node in the order of its operator, including defaults."""
    # The method requires a module, which calls of functions do not use.
    normalized = node.normalized_arguments(nn.Module(), normalize_to_only_use_kwargs=True)
    return list(node.args) if normalized is None else [*normalized.kwargs.values()]


def _to_json(value: Any, at: dict[fx.Node, int]) -> Any:
    """Convert an argument of a node to a value for JSON; ``at`` gives the numbers of nodes."""
    if isinstance(value, fx.Node):
        return {"at": at[value]}
    if isinstance(value, list | tuple):
        return [_to_json(element, at) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value).replace("inf", "Infinity")}
    return value if isinstance(value, int | float | str | None) else str(value)


def _pack_weights(weights: dict[str, Tensor]) -> dict[str, Any]:
    """Return all weights in float32 as base64, and the name, shape and offset of each."""
    arrays = [weight.numpy().astype("<f4").ravel() for weight in weights.values()]
    offsets = np.cumsum([0, *(len(array) for array in arrays)]).tolist()
    places = zip(weights.items(), offsets, strict=False)
    return {
        "entries": [[name, list(weight.shape), offset] for (name, weight), offset in places],
        "data": base64.b64encode(np.concatenate(arrays).tobytes()).decode(),
    }
