"""Export of policies to files that do not need this project; every file is checked after writing.

All formats compute in float64, ONNX optionally in float32. They take raw observations and return ``Agent.outputs``.
``contract.json`` in the same folder, called the contract, describes files, inputs, outputs and actions, with examples.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marinenav_env import WorldConfig
from marinenav_env.support.extras import import_optional
from marinenav_env.support.validation import ConfigError
from train_RL_agents import boat
from train_RL_agents.agents import Agent
from train_RL_agents.config.reading import to_dict
from train_RL_agents.exporting import torchscript
from train_RL_agents.exporting.loading import load_network, suppress_warnings
from train_RL_agents.exporting.torchscript import Tensors, as_tuple
from train_RL_agents.networks.observation import Observation
from train_RL_agents.run.checkpoint import LoadedPolicy
from train_RL_agents.utils.files import make_folder, sha256_of, write_atomically
from train_RL_agents.utils.provenance import software_versions

ONNX_OPSET = 18
"""Version of the operator set of ONNX files."""
FLOAT64_TOLERANCE = 1e-6
"""Largest absolute difference between the outputs of a file in float64 and of the agent."""
NUM_CHECKS = 64
"""Number of random observations that a written file is checked on."""
NUM_EXAMPLES = 16
"""Number of examples, observations with their outputs and action, in the contract."""
EXAMPLE_TOLERANCE = 1e-5
"""Largest difference of an output from an example that ``check_file`` allows, as a share of 1 + |output|."""
_MAX_EXAMPLE_DRAWS = 20
"""Number of seeds that are tried for examples which do not depend on rounding, such as those without a close choice."""
TOLERANCES_BY_DTYPE = {torch.float64: (0.0, FLOAT64_TOLERANCE), torch.float32: (EXAMPLE_TOLERANCE, EXAMPLE_TOLERANCE)}
"""Largest differences of outputs from the agent's, relative and absolute, by the file's dtype."""
CONTRACT_FILE = "contract.json"
CONTRACT_VERSION = 3
FRAMES = {
    "body": "x forward, y to starboard; origin at the own vessel",
    "world": "x north, y east; yaw from x towards y, clockwise from above",
}
"""Descriptions of the frames of the inputs of policies for vessels, by name."""
ACTION_OUTPUT = "selected_action"
"""Name of the action among the outputs of ONNX files."""


class DeployedAgent(nn.Module):
    """Agent as a module for export, with positional inputs and without target networks and unused networks.

    Args:
        agent: agent, which is copied to the CPU.
        dtype: dtype of inputs, weights and outputs.
    """

    agent: Agent[Any]

    def __init__(self, agent: Agent[Any], dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.agent = copy.deepcopy(agent).cpu().to(dtype).eval().requires_grad_(False)
        self.dtype = dtype
        self.agent.targets = nn.ModuleDict()
        for name in list(self.agent.networks):
            if name not in agent.output_networks():
                del self.agent.networks[name]
        self.entries = agent.spec.exclude(agent.config.excluded).entries
        self.extra_names = list(self.agent.extra_inputs(self.observations(1)))

    @property
    def input_names(self) -> list[str]:
        """Return the names of the inputs in their order: entries of the observation, then such as ``taus``."""
        return [*self.entries, *self.extra_names]

    def forward(self, *inputs: Tensor) -> Tensor | Tensors:
        """Return the outputs [B, ...] as a tuple, or the only one, for inputs [B, ...] in the order of input_names."""
        named = dict(zip(self.input_names, inputs, strict=True))
        extras = {name: named.pop(name) for name in self.extra_names}
        outputs = tuple(self.agent.outputs(named, **extras).values())
        return outputs if len(outputs) > 1 else outputs[0]

    def outputs(self, *inputs: Tensor) -> Tensors:
        """Return the outputs for the inputs as a tuple, even if there is only one."""
        return as_tuple(self(*inputs))

    def outputs_and_action(self, *inputs: Tensor) -> Tensors:
        """Return the outputs and, as the last one, the action that the agent selects from them."""
        outputs = self.outputs(*inputs)
        return *outputs, self.agent.select(dict(zip(self.output_names, outputs, strict=False)))

    @property
    def output_names(self) -> list[str]:
        """Return the names of the results of ``outputs_and_action``."""
        return [*self.agent.output_meanings, ACTION_OUTPUT]

    def observations(self, count: int, seed: int = 0) -> Observation:
        """Return random observations, [B, ...] by entry, of magnitudes typical of the environment, in float64.

        Args:
            count: number B of observations; the first one is all zeros.
            seed: seed of the random numbers.
        """
        options: dict[str, Any] = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.float64}
        observation: Observation = {}
        for name, entry in self.entries.items():
            shape = (count, *entry.shape)
            if entry.kind == "mask":
                observation[name] = (torch.rand(shape, **options) < 0.6).double()
            else:
                scale = torch.tensor(entry.scale or (1.0,), dtype=torch.float64)
                drawn = torch.randn(shape, **options) * scale
                # Distances and radii are not negative.
                lowest = torch.tensor([low for low, _ in entry.limits], dtype=torch.float64)
                observation[name] = torch.where(lowest < 0.0, drawn, drawn.abs())
        for name, entry in self.entries.items():
            if entry.kind == "objects":
                # Empty slots are zero, and the radius is the last column.
                observation[name][..., -1].abs_()
                if entry.mask:
                    observation[name] *= observation[entry.mask][..., None]
        for entry_values in observation.values():
            entry_values[0] = 0.0
        return observation

    def inputs(self, count: int, seed: int = 0) -> tuple[Tensor, ...]:
        """Return random inputs [count, ...] in the order of input_names; see observations for the arguments."""
        drawn = {name: value.to(self.dtype) for name, value in self.observations(count, seed).items()}
        return (*drawn.values(), *self.agent.extra_inputs(drawn).values())


# Formats ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExportFormat:
    """Format of exported files: how they are named and made."""

    file_name: Callable[[str], str]
    """Function from the name of an agent to that of the file."""
    make_content: Callable[[DeployedAgent, tuple[Tensor, ...]], bytes]
    """Function from a network and example inputs [B, ...] to the content of the file."""


def _make_torchscript(network: DeployedAgent, example: tuple[Tensor, ...]) -> bytes:
    single = tuple(tensor[:1] for tensor in example)
    return torchscript.trace_to_bytes(network, single, len(network.entries))


def _make_program(network: DeployedAgent, example: tuple[Tensor, ...]) -> bytes:
    program = torch.export.export(network, example, dynamic_shapes=_dynamic_batch(example))
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def _dynamic_batch(example: tuple[Tensor, ...]) -> tuple[tuple[dict[int, Any], ...]]:
    """Return ``dynamic_shapes`` for torch.export in which the first dimension of every input may have any size."""
    batch = torch.export.Dim("batch")
    return (tuple({0: batch} for _ in example),)


class _NetworkWithAction(nn.Module):
    """Network with the action among its outputs, so that the runtime on board needs no selection rule."""

    def __init__(self, network: DeployedAgent) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> Tensors:
        """Return the outputs and the action, which is cloned so that no output is returned twice."""
        *outputs, action = self.network.outputs_and_action(*inputs)
        return *outputs, action.clone()


def _make_onnx(network: DeployedAgent, example: tuple[Tensor, ...]) -> bytes:
    with suppress_warnings("torch.onnx"):
        program = torch.onnx.export(
            _NetworkWithAction(network),
            example,
            dynamo=True,
            verbose=False,
            opset_version=ONNX_OPSET,
            dynamic_shapes=_dynamic_batch(example),
            input_names=network.input_names,
            output_names=network.output_names,
            custom_translation_table=_onnx_translations(network.dtype),
        )
    assert program is not None  # dynamo=True returns a program
    content: bytes = program.model_proto.SerializeToString()
    return content


def _onnx_translations(dtype: torch.dtype) -> dict[Any, Any]:
    """Return ONNX translations, by ATen operator, of two operators that the exporter does not translate exactly."""
    number = np.float64 if dtype == torch.float64 else np.float32
    onnxscript = import_optional("onnxscript", "export")
    op, tensor = getattr(onnxscript, f"opset{ONNX_OPSET}"), onnxscript.ir.tensor

    def atan(self):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        # onnxruntime has no arc tangent of float64; that of float32 is right to 1e-7.
        return op.CastLike(op.Atan(op.Cast(self, to=1)), self)

    def scalar_tensor(s, dtype=1, layout="", device="", pin_memory=False):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        # The exporter rounds numbers such as pi to float32, which is not exact enough.
        return op.Constant(value=tensor(number(s)))

    aten = torch.ops.aten
    return {aten.atan.default: atan, aten.scalar_tensor.default: scalar_tensor}


FORMATS = {
    "torchscript": ExportFormat(torchscript.file_name, _make_torchscript),
    "torch": ExportFormat(lambda agent: f"{agent}.pt2", _make_program),
    "onnx": ExportFormat(lambda agent: f"{agent}.onnx", _make_onnx),
}
"""Formats by their names in ``marinenav export --format``."""


# Writing and checking ---------------------------------------------------------------------------


def export(
    loaded: LoadedPolicy, out: Path, formats: list[str], onnx_dtype: torch.dtype = torch.float64
) -> dict[str, Any]:
    """Write a policy in the given formats, check every file, and write ``contract.json``.

    Args:
        loaded: policy to export.
        out: folder of the files, which is created if it is missing.
        formats: names from FORMATS; duplicates are written once.
        onnx_dtype: dtype of an ONNX file, float64 or float32; other formats compute in float64.

    Returns:
        The contract: the content of ``contract.json``, a description of the files, inputs, outputs and actions.

    Raises:
        ConfigError: when a package is missing, or a file differs from the agent.
    """
    agent_type = loaded.config.agent_type
    make_folder(out)
    files = {}
    for name in dict.fromkeys(formats):
        target, dtype = FORMATS[name], onnx_dtype if name == "onnx" else torch.float64
        network = DeployedAgent(loaded.agent, dtype)
        # Of a user's package.module:Class, only the class is used, as file names should not have a colon.
        path = out / target.file_name(agent_type.rpartition(":")[2])
        write_atomically(path, target.make_content(network, network.inputs(NUM_CHECKS)))
        difference = check_exported(path, loaded.agent, dtype)
        files[name] = {
            "file": path.name,
            "dtype": str(dtype).removeprefix("torch."),
            "sha256": sha256_of(path),
            "largest_difference": difference,
        }
    if "onnx" in files:
        _copy_boat_runtime(out / "boat")
    written = make_contract(loaded, files)
    write_atomically(out / CONTRACT_FILE, _contract_text(written))
    return written


def _copy_boat_runtime(folder: Path) -> None:
    """Copy the runtime for boats to a folder; it needs neither torch nor the rest of this project."""
    make_folder(folder)
    for module in sorted(Path(boat.__file__).parent.glob("*.py")):
        write_atomically(folder / module.name, module.read_bytes())


def _contract_text(contract: dict[str, Any]) -> str:
    """Return a contract as JSON: indented, except for the numbers of its examples, which take one line."""
    *rest, (name, examples) = contract.items()
    text = json.dumps(dict(rest), indent=2, allow_nan=False).removesuffix("\n}")
    return f'{text},\n  "{name}": {json.dumps(examples, allow_nan=False)}\n}}\n'


def check_exported(path: Path, agent: Agent[Any], dtype: torch.dtype = torch.float64) -> float:
    """Compare a file with its agent on NUM_CHECKS random observations, as a batch and on a single one.

    Args:
        path: exported file, which is deleted if the check fails.
        agent: agent that was exported.
        dtype: dtype of the file.

    Returns:
        The largest absolute difference of an output.

    Raises:
        ConfigError: when an output differs from that of the agent in the same dtype by more than TOLERANCES_BY_DTYPE,
            or leads to another action.
    """
    exact, (relative, absolute) = DeployedAgent(agent, dtype), TOLERANCES_BY_DTYPE[dtype]
    inputs = exact.inputs(NUM_CHECKS, seed=1)
    call = load_network(path, len(exact.entries))
    expected = exact.outputs_and_action(*inputs)
    outputs = call(*inputs)
    single = call(*(tensor[-1:] for tensor in inputs))
    # Only some formats return the action, which is the last output.
    pairs = [
        *zip(outputs, expected, strict=False),
        *((output, batch[-1:]) for output, batch in zip(single, expected, strict=False)),
    ]
    difference = max(float((output - reference).abs().max()) for output, reference in pairs)
    # The action that the agent selects from these outputs is compared, too.
    selected = exact.agent.select(dict(zip(exact.output_names, outputs, strict=False)))
    observation = dict(zip(exact.entries, inputs, strict=False))
    pairs.append((selected, copy.deepcopy(agent).cpu().to(dtype).act(observation)))
    if not all(torch.allclose(output.double(), reference.double(), relative, absolute) for output, reference in pairs):
        path.unlink()
        raise ConfigError(
            f"{path}: not kept, as its outputs differ from the agent's by {difference:.1e}, "
            f"more than {absolute:.0e}, or lead to another action"
        )
    return difference


# The contract -----------------------------------------------------------------------------------


def make_contract(loaded: LoadedPolicy, files: dict[str, Any]) -> dict[str, Any]:
    """Return the content of ``contract.json``: all that a program needs to know to use an exported policy.

    Args:
        loaded: exported policy.
        files: descriptions of the written files by format, with their ``file``, ``dtype``, ``sha256`` and
            ``largest_difference``.
    """
    agent, world, built_in = loaded.agent, loaded.config.world, loaded.config.env.is_built_in
    network = DeployedAgent(agent)
    outputs = network.outputs(*network.inputs(1))
    arguments = [f"({', '.join(network.entries)})", *network.extra_names]
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
        **({"frames": FRAMES} if built_in else {"env": loaded.config.env.name, "spec": agent.spec.to_dict()}),
        "scaling": "none: inputs are raw, in the units given; networks scale by themselves",
        "inputs": _describe_inputs(network, world if built_in else None),
        "outputs": [
            {"name": name, "shape": list(output.shape), "meaning": meaning} for (name, meaning), output in names
        ],
        "call": {
            "torchscript": f"forward({', '.join(arguments)})",
            "torch, onnx": "the inputs in this order; the first dimension may be of any size",
            "onnx": f"{ACTION_OUTPUT}, the last output, is the action",
        },
        **({"boat": {"name": world.vessel.name, "steering": world.vessel.actuators.steering}} if built_in else {}),
        "action": _describe_vessel_action(agent, world) if built_in else _describe_external_action(agent),
        **({"goal_distance": {"value": world.vessel.goal_distance, "unit": "m"}} if built_in else {}),
        "config": to_dict(loaded.config),
        "check": {"observations": NUM_CHECKS, "tolerance": FLOAT64_TOLERANCE},
        "examples": _make_examples(network),
    }


def _make_examples(network: DeployedAgent) -> dict[str, Any]:
    """Return the examples of a contract: random ``inputs``, ``outputs`` by name, ``action``, and a ``tolerance``.

    They are those of the first seed with which the agent reproduces them in float32, if there is one.
    """
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
    }


def _rounded_values(output: Tensor) -> list[Any]:
    is_integer = not output.is_floating_point()
    return list((output if is_integer else output.double().round(decimals=7)).tolist())


def _describe_inputs(network: DeployedAgent, world: WorldConfig | None) -> list[dict[str, Any]]:
    """Return a description of each input: ``name``, ``shape`` and meaning, such as the ``columns`` of its last axis.

    Args:
        network: exported network.
        world: world of the policy; None for an external environment.
    """
    self_columns = [
        "goal x (m, body)",
        "goal y (m, body)",
        "velocity over ground x (m/s, body)",
        "velocity over ground y (m/s, body)",
        "yaw rate (rad/s)",
        "left thrust (N)",
        "right thrust (N)",
    ]
    object_columns = [
        "position x (m, body)",
        "position y (m, body)",
        "velocity over ground x (m/s, body, not relative)",
        "velocity over ground y (m/s, body, not relative)",
        "radius (m)",
    ]
    order = "those with the smallest distance less radius, nearest first; the rest zero"
    details: dict[str, dict[str, Any]] = (
        {}
        if world is None
        else {
            "self_state": {"columns": self_columns},
            "objects_state": {"columns": object_columns, "rows": order, "seen": to_dict(world.sensor)},
            "objects_mask": {"meaning": "1 for an object, 0 for none"},
        }
    )
    inputs: list[dict[str, Any]] = [
        {"name": name, "shape": [1, *entry.shape], **details.get(name, {"meaning": entry.meaning})}
        for name, entry in network.entries.items()
    ]
    agent, observation = network.agent, network.observations(1)  # nothing in sight
    fractions: dict[str, Any] = {
        "meaning": "fractions in (0, 1); multiplied by x < 1, they select the worst share x; with "
        "risk adaptive, x = clip(distance of the closest object / risk_distance, 0, 1)",
        "risk": getattr(agent.config, "risk", None),
    }
    if world is not None:
        fractions["risk_distance"] = {"value": agent.spec.scales.risk_distance, "unit": "m"}
    for name, extra in agent.extra_inputs(observation).items():
        description = {"name": name, "shape": [1, *extra.shape[1:]], "usual": extra[0].tolist()}
        inputs.append(description | (fractions if agent.supports_risk else {}))
    return inputs


def _describe_external_action(agent: Agent[Any]) -> dict[str, Any]:
    """Return the description of an action in an external environment: ``rule``, ``meaning``, ``size`` or ``count``."""
    if agent.continuous:
        meaning = "each number from -1 to 1, the lower and the upper bound of the environment"
        return {"rule": agent.selection_rule, "size": agent.spec.action_size, "meaning": meaning}
    meaning = "index of a choice, or of a combination with the last choice varying fastest"
    return {"rule": agent.selection_rule, "count": agent.num_actions, "meaning": meaning}


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
        "effect": "each side's thrust changes at the commanded rate for one control step, and is "
        "kept within the limits",
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
