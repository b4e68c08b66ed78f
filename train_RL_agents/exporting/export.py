"""Policies for use elsewhere: files that need nothing of this project, each checked once written.

All formats compute in float64, ONNX in float32 if asked for, take raw observations and give what
``Agent.outputs`` gives. A JSON contract beside them describes inputs and outputs.
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
from marinenav_env.support.extras import need
from marinenav_env.support.validation import ConfigError
from train_RL_agents import boat
from train_RL_agents.agents import Agent
from train_RL_agents.config.reading import to_dict
from train_RL_agents.exporting import torchscript
from train_RL_agents.exporting.loading import load, quietly
from train_RL_agents.exporting.torchscript import Tensors, as_tuple
from train_RL_agents.networks.observation import Observation
from train_RL_agents.run.checkpoint import LoadedPolicy
from train_RL_agents.utils.files import make_folder, sha256_of, write_atomically
from train_RL_agents.utils.provenance import versions

OPSET = 18
"""Version of the operators in ONNX files."""
TOLERANCE = 1e-6
"""Largest difference between the outputs of a file in float64 and those of the agent."""
CHECKS = 64
"""Observations that each file is checked on."""
EXAMPLES = 16
"""Observations in the contract, with their outputs."""
EXAMPLE_TOLERANCE = 1e-5
"""Difference of an output to an example, as a share of 1 + |output|, that ``check_file`` allows."""
TOLERANCES = {torch.float64: (0.0, TOLERANCE), torch.float32: (EXAMPLE_TOLERANCE, EXAMPLE_TOLERANCE)}
"""Largest differences of outputs from the agent's, relative and absolute, by the file's dtype."""
CONTRACT, VERSION = "contract.json", 2
SELECTED = "selected_action"
"""Name of the action among the outputs of ONNX files."""


class Deployed(nn.Module):
    """An agent as others call it, without targets and networks that give no output.

    Args:
        agent: is copied.
        dtype: of inputs, weights and outputs.
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
        self.entries = agent.spec.without(agent.config.excluded).entries
        self.extras = list(self.agent.extra_inputs(self.observations(1)))

    @property
    def input_names(self) -> list[str]:
        """Return the names of the inputs, in their order."""
        return [*self.entries, *self.extras]

    def forward(self, *inputs: Tensor) -> Tensor | Tensors:
        """Return the outputs [B, ...], or the only one, for observations [B]; a mask is of numbers, too."""
        named = dict(zip(self.input_names, inputs, strict=True))
        extras = {name: named.pop(name) for name in self.extras}
        outputs = tuple(self.agent.outputs(named, **extras).values())
        return outputs if len(outputs) > 1 else outputs[0]

    def outputs(self, *inputs: Tensor) -> Tensors:
        """Return the outputs, always as a tuple."""
        return as_tuple(self(*inputs))

    def outputs_and_action(self, *inputs: Tensor) -> Tensors:
        """Return the outputs, and the action that follows from them."""
        outputs = self.outputs(*inputs)
        return *outputs, self.agent.select(dict(zip(self.output_names, outputs, strict=False)))

    @property
    def output_names(self) -> list[str]:
        """Return the names of what ``outputs_and_action`` gives."""
        return [*self.agent.output_meanings, SELECTED]

    def observations(self, count: int, seed: int = 0) -> Observation:
        """Return the random observations [B] of the size that the world's have, in float64.

        Args:
            count: B, how many.
            seed: of the draw; the first observation is all zero.
        """
        options: dict[str, Any] = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.float64}
        found: Observation = {}
        for name, entry in self.entries.items():
            shape = (count, *entry.shape)
            if entry.kind == "mask":
                found[name] = (torch.rand(shape, **options) < 0.6).double()
            else:
                scale = torch.tensor(entry.scale or (1.0,), dtype=torch.float64)
                drawn = torch.randn(shape, **options) * scale
                # Distances and radii are not negative.
                lowest = torch.tensor([low for low, _ in entry.limits], dtype=torch.float64)
                found[name] = torch.where(lowest < 0.0, drawn, drawn.abs())
        for name, entry in self.entries.items():
            if entry.kind == "objects":
                # Slots that are not filled are zero, and the radius is the last column.
                found[name][..., -1].abs_()
                if entry.mask:
                    found[name] *= found[entry.mask][..., None]
        for each in found.values():
            each[0] = 0.0
        return found

    def inputs(self, count: int, seed: int = 0) -> tuple[Tensor, ...]:
        """``observations`` in the network's dtype, and further inputs of agents that take them."""
        drawn = {name: each.to(self.dtype) for name, each in self.observations(count, seed).items()}
        return (*drawn.values(), *self.agent.extra_inputs(drawn).values())


# Formats ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """A kind of file."""

    name: Callable[[str], str]
    """The file's name for an agent's."""
    make: Callable[[Deployed, tuple[Tensor, ...]], bytes]
    """The file's content, of a network and a few observations."""


def _make_torchscript(network: Deployed, example: tuple[Tensor, ...]) -> bytes:
    single = tuple(tensor[:1] for tensor in example)
    return torchscript.traced(network, single, len(network.entries))


def _make_program(network: Deployed, example: tuple[Tensor, ...]) -> bytes:
    program = torch.export.export(network, example, dynamic_shapes=_any_batch(example))
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def _any_batch(example: tuple[Tensor, ...]) -> tuple[tuple[dict[int, Any], ...]]:
    """That the first dimension of every input may be of any size."""
    batch = torch.export.Dim("batch")
    return (tuple({0: batch} for _ in example),)


class _Deciding(nn.Module):
    """A network with the action among its outputs: the runtime on board needs no other rule."""

    def __init__(self, network: Deployed) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> Tensors:
        """See Deployed.outputs_and_action; the action is a tensor of its own."""
        *outputs, action = self.network.outputs_and_action(*inputs)
        return *outputs, action.clone()


def _make_onnx(network: Deployed, example: tuple[Tensor, ...]) -> bytes:
    with quietly("torch.onnx"):
        program = torch.onnx.export(
            _Deciding(network),
            example,
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            dynamic_shapes=_any_batch(example),
            input_names=network.input_names,
            output_names=network.output_names,
            custom_translation_table=_translations(network.dtype),
        )
    assert program is not None  # dynamo=True gives one
    content: bytes = program.model_proto.SerializeToString()
    return content


def _translations(dtype: torch.dtype) -> dict[Any, Any]:
    """Return the ONNX translations of two operators that the exporter does not translate exactly."""
    number = np.float64 if dtype == torch.float64 else np.float32
    onnxscript = need("onnxscript", "export")
    op, tensor = getattr(onnxscript, f"opset{OPSET}"), onnxscript.ir.tensor

    def atan(self):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        # onnxruntime has no arc tangent of float64; that of float32 is right to 1e-7.
        return op.CastLike(op.Atan(op.Cast(self, to=1)), self)

    def scalar_tensor(s, dtype=1, layout="", device="", pin_memory=False):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        # The exporter rounds numbers to float32, and pi in float32 is not pi.
        return op.Constant(value=tensor(number(s)))

    aten = torch.ops.aten
    return {aten.atan.default: atan, aten.scalar_tensor.default: scalar_tensor}


FORMATS = {
    "torchscript": Format(torchscript.file_name, _make_torchscript),
    "torch": Format(lambda agent: f"{agent}.pt2", _make_program),
    "onnx": Format(lambda agent: f"{agent}.onnx", _make_onnx),
}
"""What ``--format`` offers."""


# Writing and checking ---------------------------------------------------------------------------


def export(
    loaded: LoadedPolicy, out: Path, formats: list[str], onnx_dtype: torch.dtype = torch.float64
) -> dict[str, Any]:
    """Write a policy in some formats, check every file, and write the contract.

    Args:
        loaded: the policy.
        out: folder; made if it is not there.
        formats: names from FORMATS; each is written once.
        onnx_dtype: what an ONNX file computes in, float64 or float32; the others do in float64.

    Returns:
        The contract.

    Raises:
        ConfigError: when a package is missing, or a file differs from the agent.
    """
    agent_type = loaded.config.agent_type
    make_folder(out)
    files = {}
    for name in dict.fromkeys(formats):
        kind, dtype = FORMATS[name], onnx_dtype if name == "onnx" else torch.float64
        network = Deployed(loaded.agent, dtype)
        # Of a user's package.module:Class the class: a colon is not for file names.
        path = out / kind.name(agent_type.rpartition(":")[2])
        write_atomically(path, kind.make(network, network.inputs(CHECKS)))
        difference = check(path, loaded.agent, dtype)
        files[name] = {
            "file": path.name,
            "dtype": str(dtype).removeprefix("torch."),
            "sha256": sha256_of(path),
            "largest_difference": difference,
        }
    if "onnx" in files:
        _add_runtime(out / "boat")
    written = contract(loaded, files)
    write_atomically(out / CONTRACT, _readable(written))
    return written


def _add_runtime(folder: Path) -> None:
    """Copy the runtime on board, which needs neither torch nor this project."""
    make_folder(folder)
    for module in sorted(Path(boat.__file__).parent.glob("*.py")):
        write_atomically(folder / module.name, module.read_bytes())


def _readable(contract: dict[str, Any]) -> str:
    """Return a contract as text: indented, but the thousands of numbers of its examples in one line."""
    *rest, (name, examples) = contract.items()
    text = json.dumps(dict(rest), indent=2, allow_nan=False).removesuffix("\n}")
    return f'{text},\n  "{name}": {json.dumps(examples, allow_nan=False)}\n}}\n'


def check(path: Path, agent: Agent[Any], dtype: torch.dtype = torch.float64) -> float:
    """Compare a file with the agent on random observations, as one batch and one by one.

    Args:
        path: the file; it is deleted when it fails.
        agent: what it was made of.
        dtype: what the file computes in.

    Returns:
        The largest absolute difference of an output.

    Raises:
        ConfigError: when an output differs from that of the agent in the same dtype by more than
            TOLERANCES, or leads to another action.
    """
    exact, (relative, absolute) = Deployed(agent, dtype), TOLERANCES[dtype]
    inputs = exact.inputs(CHECKS, seed=1)
    call = load(path, len(exact.entries))
    expected = exact.outputs_and_action(*inputs)
    got = call(*inputs)
    single = call(*(tensor[-1:] for tensor in inputs))
    # Only some formats give the action, which is last.
    pairs = [
        *zip(got, expected, strict=False),
        *((one, all_[-1:]) for one, all_ in zip(single, expected, strict=False)),
    ]
    difference = max(float((one - other).abs().max()) for one, other in pairs)
    # Not the outputs but what follows from them: the agent's own action.
    chosen = exact.agent.select(dict(zip(exact.output_names, got, strict=False)))
    seen = dict(zip(exact.entries, inputs, strict=False))
    pairs.append((chosen, copy.deepcopy(agent).cpu().to(dtype).act(seen)))
    if not all(torch.allclose(one.double(), other.double(), relative, absolute) for one, other in pairs):
        path.unlink()
        raise ConfigError(
            f"{path}: not kept, as its outputs differ from the agent's by {difference:.1e}, "
            f"more than {absolute:.0e}, or lead to another action"
        )
    return difference


# The contract -----------------------------------------------------------------------------------


def contract(loaded: LoadedPolicy, files: dict[str, Any]) -> dict[str, Any]:
    """Return the contract of an exported policy, for JSON.

    Args:
        loaded: the policy.
        files: what was written, by format.
    """
    agent, world = loaded.agent, loaded.config.world
    network = Deployed(agent)
    outputs = network.outputs(*network.inputs(1))
    arguments = [f"({', '.join(network.entries)})", *network.extras]
    names = zip(agent.output_meanings.items(), outputs, strict=True)
    kinds = sorted({each["dtype"] for each in files.values()} or {"float64"}, reverse=True)
    return {
        "format": "marinenav export",
        "version": VERSION,
        "versions": versions(),
        "agent": loaded.config.agent_type,
        "policy": loaded.path.name,
        "env_steps": loaded.env_steps,
        "files": files,
        "dtype": f"{' or '.join(kinds)}, the mask included",
        "frames": {
            "body": "x forward, y to starboard; origin at the own vessel",
            "world": "x north, y east; yaw from x towards y, clockwise from above",
        },
        "scaling": "none: inputs are raw, in the units given; networks scale by themselves",
        "inputs": _inputs(network, world),
        "outputs": [
            {"name": name, "shape": list(output.shape), "meaning": meaning} for (name, meaning), output in names
        ],
        "call": {
            "torchscript": f"forward({', '.join(arguments)})",
            "torch, onnx": "the inputs in this order; the first dimension may be of any size",
            "onnx": f"{SELECTED}, the last output, is the action",
        },
        "action": _action(agent, world),
        "goal_distance": {"value": world.vessel.goal_distance, "unit": "m"},
        "config": to_dict(loaded.config),
        "check": {"observations": CHECKS, "tolerance": TOLERANCE},
        "examples": _examples(network),
    }


def _examples(network: Deployed) -> dict[str, Any]:
    """Return the observations in short decimals, with their outputs and actions."""
    inputs = [each.round(decimals=4) for each in network.inputs(EXAMPLES, seed=2)]
    *outputs, action = network.outputs_and_action(*inputs)
    named = zip(network.agent.output_meanings, outputs, strict=True)
    return {
        "tolerance": EXAMPLE_TOLERANCE,
        "meaning": "|difference of an output| <= tolerance (1 + |output|); outputs are rounded to 1e-7",
        "inputs": {name: each.tolist() for name, each in zip(network.input_names, inputs, strict=True)},
        "outputs": {name: _rounded(each) for name, each in named},
        "action": _rounded(action),
    }


def _rounded(output: Tensor) -> list[Any]:
    whole = not output.is_floating_point()
    return list((output if whole else output.double().round(decimals=7)).tolist())


def _inputs(network: Deployed, world: WorldConfig) -> list[dict[str, Any]]:
    """Return the inputs: name, shape and the meaning of every column."""
    own = [
        "goal x (m, body)",
        "goal y (m, body)",
        "velocity over ground x (m/s, body)",
        "velocity over ground y (m/s, body)",
        "yaw rate (rad/s)",
        "left thrust (N)",
        "right thrust (N)",
    ]
    each = [
        "position x (m, body)",
        "position y (m, body)",
        "velocity over ground x (m/s, body, not relative)",
        "velocity over ground y (m/s, body, not relative)",
        "radius (m)",
    ]
    order = "those with the smallest distance less radius, nearest first; the rest zero"
    details: dict[str, dict[str, Any]] = {
        "self_state": {"columns": own},
        "objects_state": {"columns": each, "rows": order, "seen": to_dict(world.sensor)},
        "objects_mask": {"meaning": "1 for an object, 0 for none"},
    }
    inputs: list[dict[str, Any]] = [
        {"name": name, "shape": [1, *entry.shape], **details.get(name, {"meaning": entry.meaning})}
        for name, entry in network.entries.items()
    ]
    agent, far = network.agent, network.observations(1)  # nothing in sight
    fractions = {
        "meaning": "fractions in (0, 1); multiplied by x < 1, they select the worst share x; with "
        "risk adaptive, x = clip(distance of the closest object / 10 m, 0, 1)",
        "risk": getattr(agent.config, "risk", None),
    }
    for name, extra in agent.extra_inputs(far).items():
        described = {"name": name, "shape": [1, *extra.shape[1:]], "usual": extra[0].tolist()}
        inputs.append(described | (fractions if agent.supports_risk else {}))
    return inputs


def _action(agent: Agent[Any], world: WorldConfig) -> dict[str, Any]:
    """What an action does to the vessel."""
    vessel = world.vessel
    common = {
        "rule": agent.selection_rule,
        "control_step": {"value": world.dt * world.substeps, "unit": "s"},
        "effect": "each side's thrust changes at the commanded rate for one control step, and is "
        "kept within the limits",
        "thrust_limits": {"value": [vessel.min_thrust, vessel.max_thrust], "unit": "N"},
    }
    if agent.continuous:
        meaning = "command (left, right) times this is the rate"
        return {**common, "rate": {"value": vessel.max_thrust_rate, "unit": "N/s"}, "meaning": meaning}
    pairs = [[left, right] for left in vessel.left_thrust_change for right in vessel.right_thrust_change]
    meaning = "index of a pair of rates (left, right)"
    return {**common, "rates": {"value": pairs, "unit": "N/s"}, "meaning": meaning}
