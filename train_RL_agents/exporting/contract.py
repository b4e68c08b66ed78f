"""The contract of an exported policy, ``contract.json``: what a program needs to know to use it, with examples."""

from typing import Any

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.sensing.duties import DUTIES, DUTY_COLUMNS, DutyScales
from marinenav_env.sensing.perception import OBJECTS_ID
from marinenav_env.sensing.shores import SHORE, SHORE_MASK
from train_RL_agents.agents import Agent
from train_RL_agents.boat.network import ACTION_OUTPUT
from train_RL_agents.boat.runtime import CONTRACT_VERSION
from train_RL_agents.config.reading import to_dict
from train_RL_agents.exporting.deployed import DeployedAgent
from train_RL_agents.networks.encoders import OBJECTS_STATE
from train_RL_agents.networks.memory import MEMORY, NEXT_MEMORY
from train_RL_agents.run.checkpoint import LoadedPolicy
from train_RL_agents.utils.provenance import software_versions

NUM_EXAMPLES = 16
"""Number of examples, observations with their outputs and action, in the contract."""
EXAMPLE_TOLERANCE = 1e-5
"""Largest difference of an output from an example that a runtime may have, as a share of 1 + |output|."""
SEQUENCE_STEPS = 30
"""Number of steps of the example of a recurrent policy."""
_MAX_EXAMPLE_DRAWS = 20
"""Number of seeds that are tried for examples which do not depend on rounding, such as those without a close choice."""
FRAMES = {
    "body": "x forward, y to starboard; origin at the own vessel",
    "world": "x north, y east; yaw from x towards y, clockwise from above",
}
"""Descriptions of the frames of the inputs of policies for vessels, by name."""
SELF_COLUMNS = [
    *("goal x (m, body)", "goal y (m, body)"),
    *("velocity over ground x (m/s, body)", "velocity over ground y (m/s, body)"),
    *("yaw rate (rad/s)", "left thrust (N)", "right thrust (N)"),
]
SHORE_COLUMNS = [
    *("begin x", "begin y", "end x", "end y of a segment with land on its left, cut to the range (m, body)"),
    *("nearest point x (m, body)", "nearest point y (m, body)", "distance of that point (m)"),
]
OBJECT_COLUMNS = [
    *("position x (m, body)", "position y (m, body)"),
    *("velocity over ground x (m/s, body, not relative)", "velocity over ground y (m/s, body, not relative)"),
    "radius (m)",
]


_MEMORY_RULE = {
    "input": MEMORY,
    "output": NEXT_MEMORY,
    "rule": "the input is zeros in the first step of an episode and after a pause, else the output of the last step",
    "example": "examples.sequence: steps of one episode, each with the memory after the step before",
}
"""Description of how the memory of a recurrent policy is carried."""


def make_contract(loaded: LoadedPolicy, files: dict[str, Any]) -> dict[str, Any]:
    """Return the content of ``contract.json`` of an exported policy, with descriptions of its files by format."""
    agent, world = loaded.agent, loaded.config.world if loaded.config.env.is_built_in else None
    network = DeployedAgent(agent)
    outputs = network.outputs(*network.inputs(1))
    further = [*network.extra_names, *([MEMORY] if agent.memory_size else [])]
    arguments = [f"({', '.join(network.entries)})", *further]
    names = zip(agent.output_meanings.items(), outputs, strict=True)
    kinds = sorted({file["dtype"] for file in files.values()} or {"float64"}, reverse=True)
    return {
        "format": "marinenav export",
        "version": CONTRACT_VERSION,
        "versions": software_versions(),
        "agent": loaded.config.agent_type,
        "policy": loaded.path.name,
        "env_steps": loaded.env_steps,
        "files": files,
        "dtype": f"{' or '.join(kinds)}, the mask included",
        **(_describe_boat(agent, world) if world else _describe_external(agent, loaded.config.env.name)),
        "scaling": "none: inputs are raw, in the units given; networks scale by themselves",
        "inputs": _describe_inputs(network, world),
        **({"memory": _MEMORY_RULE} if agent.memory_size else {}),
        "outputs": [
            {"name": name, "shape": list(output.shape), "meaning": meaning} for (name, meaning), output in names
        ],
        "call": {
            "torchscript": f"forward({', '.join(arguments)})",
            "onnx": "the inputs in this order; the first dimension may be of any size; "
            f"{ACTION_OUTPUT}, the last output, is the action",
        },
        "config": to_dict(loaded.config),
        "examples": _make_examples(network),
    }


def _make_examples(network: DeployedAgent) -> dict[str, Any]:
    """Return random examples, of the first seed with which the agent reproduces them in float32, if there is one."""
    single = DeployedAgent(network.agent, torch.float32)
    for seed in range(2, 2 + _MAX_EXAMPLE_DRAWS):
        inputs = [value.round(decimals=4) for value in network.inputs(NUM_EXAMPLES, seed)]
        *outputs, action = expected = network.outputs_and_action(*inputs)
        rounded = single.outputs_and_action(*(value.float() for value in inputs))
        pairs = zip(rounded, expected, strict=True)
        if all(torch.allclose(a.double(), b.double(), EXAMPLE_TOLERANCE, EXAMPLE_TOLERANCE) for a, b in pairs):
            break
    named = zip(network.agent.output_meanings, outputs, strict=True)
    return {
        "tolerance": EXAMPLE_TOLERANCE,
        "meaning": "|difference of an output| <= tolerance (1 + |output|); outputs are rounded to 1e-7",
        "inputs": {name: value.tolist() for name, value in zip(network.input_names, inputs, strict=True)},
        "outputs": {name: _rounded_values(value) for name, value in named},
        "action": _rounded_values(action),
        **({"sequence": _make_sequence(network)} if network.agent.memory_size else {}),
    }


def _make_sequence(network: DeployedAgent) -> dict[str, Any]:
    """Return an episode of SEQUENCE_STEPS random observations, with the action and the memory after each."""
    drawn = zip(network.input_names, network.inputs(SEQUENCE_STEPS, 1), strict=True)
    inputs = {name: value.round(decimals=4) for name, value in drawn if name != MEMORY}
    memory, actions, memories = torch.zeros(1, network.agent.memory_size, dtype=torch.float64), [], []
    for step in range(SEQUENCE_STEPS):
        given = [value[step : step + 1] for value in inputs.values()]
        found = dict(zip(network.output_names, network.outputs_and_action(*given, memory), strict=True))
        memory = found[NEXT_MEMORY]
        actions.append(found[ACTION_OUTPUT])
        memories.append(memory)
    return {
        "inputs": {name: value.tolist() for name, value in inputs.items()},
        "action": _rounded_values(torch.cat(actions)),
        NEXT_MEMORY: _rounded_values(torch.cat(memories)),
    }


def _rounded_values(output: Tensor) -> list[Any]:
    return list((output.double().round(decimals=7) if output.is_floating_point() else output).tolist())


def _describe_inputs(network: DeployedAgent, world: WorldConfig | None) -> list[dict[str, Any]]:
    """Return the name, shape and meaning of each input; ``world`` is None for an external environment."""
    details: dict[str, dict[str, Any]] = {}
    if world is not None:
        order = "those with the smallest distance less radius, nearest first; the rest zero"
        details = {
            "self_state": {"columns": SELF_COLUMNS},
            "objects_state": {"columns": OBJECT_COLUMNS, "rows": order, "seen": to_dict(world.sensor)},
            "objects_mask": {"meaning": "1 for an object, 0 for none"},
            DUTIES: _describe_duties(world),
            SHORE: {"columns": SHORE_COLUMNS, "rows": "nearest first; the rest zero", "seen": to_dict(world.sensor)},
            SHORE_MASK: {"meaning": "1 for a segment of shore, 0 for none"},
            OBJECTS_ID: {"meaning": "a whole number from 1 for each object, the same while it is known; 0 for none"},
        }
    inputs: list[dict[str, Any]] = [
        {"name": name, "shape": [1, *entry.shape], **details.get(name, {"meaning": entry.meaning})}
        for name, entry in network.entries.items()
    ]
    agent, observation = network.agent, network.observations(1)  # nothing in sight
    risk = getattr(agent.config, "risk", None)
    fractions: dict[str, Any] = {
        "meaning": "fractions in (0, 1); multiplied by x < 1, they select the worst share x; with "
        "risk adaptive, x = clip(distance of the closest object / risk_distance, 0, 1)",
        "risk": risk if risk is None or OBJECTS_STATE in network.entries else "neutral",
    }
    if world is not None:
        fractions["risk_distance"] = {"value": agent.spec.scales.risk_distance, "unit": "m"}
    for name, extra in agent.extra_inputs(observation).items():
        description = {"name": name, "shape": [1, *extra.shape[1:]], "usual": extra[0].tolist()}
        inputs.append(description | (fractions if agent.supports_risk else {}))
    if agent.memory_size:
        inputs.append({"name": MEMORY, "shape": [1, agent.memory_size], "meaning": _MEMORY_RULE["rule"]})
    return inputs


def _describe_duties(world: WorldConfig) -> dict[str, Any]:
    """Return the columns of the duties, and what they depend on."""
    turn, gap = DutyScales.from_config(world)
    return {
        "columns": list(DUTY_COLUMNS),
        "rows": "those of objects_state; 0 without an encounter",
        "rules": to_dict(world.colregs),
        "seen": to_dict(world.sensor),
        "radius": {"value": world.vessel.radius, "unit": "m", "meaning": "collision radius of the own vessel"},
        "turn": {"value": turn, "unit": "rad"},
        "gap": {"value": gap, "unit": "m"},
    }


def _describe_external(agent: Agent[Any], name: str) -> dict[str, Any]:
    """Return the name of an external environment, what is observed in it, and the meaning of an action."""
    if agent.continuous:
        meaning = "each number from -1 to 1, the lower and the upper bound of the environment"
        action = {"size": agent.spec.action_size, "meaning": meaning}
    else:
        meaning = "index of a choice, or of a combination with the last choice varying fastest"
        action = {"count": agent.num_actions, "meaning": meaning}
    return {"env": name, "spec": agent.spec.to_dict(), "action": {"rule": agent.selection_rule, **action}}


def _describe_boat(agent: Agent[Any], world: WorldConfig) -> dict[str, Any]:
    """Return the frames of the inputs, the boat, and the effect of an action on it."""
    vessel = world.vessel
    return {
        "frames": FRAMES,
        "boat": {"name": vessel.name, "steering": vessel.actuators.steering},
        "action": _describe_vessel_action(agent, world),
        "goal_distance": {"value": vessel.goal_distance, "unit": "m"},
    }


def _describe_differences(world: WorldConfig) -> dict[str, Any]:
    """Return descriptions of a delay of commands and of smaller limits of the two sides, if the world has them."""
    weather, actuators = world.weather, world.vessel.actuators
    shares = [actuators.left_limit, actuators.right_limit]
    delay = "thrusts change so much later, and are observed so"
    limits = "shares of thrust_limits that are the limits of the left and the right side"
    return ({"delay": {"value": weather.delay, "unit": "control steps", "meaning": delay}} if weather.delay else {}) | (
        {"side_limits": {"value": shares, "unit": "1", "meaning": limits}} if shares != [1.0, 1.0] else {}
    )


def _describe_vessel_action(agent: Agent[Any], world: WorldConfig) -> dict[str, Any]:
    """Return the description of an action's effect on the vessel, with limits and rates of thrust and their units."""
    vessel, angle = world.vessel, {}
    if vessel.actuators.steering != "thrusters":
        meaning = (
            "right thrust, kept from minus to plus the largest thrust and divided by it, times this, is the angle; "
            "positive is clockwise from above"
        )
        angle = {"angle_limit": {"value": vessel.actuators.angle_limit, "unit": "rad", "meaning": meaning}}
    common = {
        "rule": agent.selection_rule,
        "control_step": {"value": world.control_step, "unit": "s"},
        "effect": "each side's thrust changes at the commanded rate for one control step, within the limits",
        "thrust_limits": {"value": [vessel.min_thrust, vessel.max_thrust], "unit": "N"},
        **_describe_differences(world),
        **angle,
    }
    if agent.continuous:
        meaning = "command (left, right) times this is the rate"
        return {**common, "rate": {"value": vessel.max_thrust_rate, "unit": "N/s"}, "meaning": meaning}
    pairs = [[left, right] for left in vessel.left_thrust_change for right in vessel.right_thrust_change]
    meaning = "index of a pair of rates (left, right)"
    return {**common, "rates": {"value": pairs, "unit": "N/s"}, "meaning": meaning}
