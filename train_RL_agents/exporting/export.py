"""Export of policies to TorchScript and ONNX files, each of which is checked after it is written.

Both take raw observations and return ``Agent.outputs``, in float64 or float32.
``contract.json`` in the same folder, called the contract, describes files, inputs, outputs and actions.
"""

import copy
import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marinenav_env.support.extras import import_optional
from marinenav_env.support.validation import ConfigError
from train_RL_agents import boat
from train_RL_agents.agents import Agent
from train_RL_agents.boat.network import load_outputs
from train_RL_agents.boat.runtime import CONTRACT_FILE
from train_RL_agents.exporting import torchscript
from train_RL_agents.exporting.contract import EXAMPLE_TOLERANCE, make_contract
from train_RL_agents.exporting.deployed import DeployedAgent, Tensors
from train_RL_agents.run.checkpoint import LoadedPolicy
from train_RL_agents.utils.files import make_folder, sha256_of, write_atomically

ONNX_OPSET = 18
NUM_CHECKS = 64
"""Number of random observations that a written file is checked on."""
FLOAT64_TOLERANCE = 1e-6
"""Largest absolute difference between the outputs of a file in float64 and of the agent."""
TOLERANCES_BY_DTYPE = {torch.float64: (0.0, FLOAT64_TOLERANCE), torch.float32: (EXAMPLE_TOLERANCE, EXAMPLE_TOLERANCE)}
"""Largest differences of outputs from the agent's, relative and absolute, by the file's dtype."""
NetworkFunction = Callable[..., Tensors]
"""Function from the inputs [B, ...] of a network, as separate tensors in their order, to its outputs [B, ...]."""


@dataclass(frozen=True)
class ExportFormat:
    """Format of exported files: how they are named, made and, for the check, read."""

    file_name: Callable[[str], str]
    """Function from the name of an agent to that of the file."""
    make_content: Callable[[DeployedAgent, Tensors], bytes]
    """Function from a network and example inputs [B, ...] to the content of the file."""
    load: Callable[[Path, DeployedAgent], NetworkFunction]
    """Function from a file and the network that was written to the network in the file."""


class _NetworkWithAction(nn.Module):
    """Network with the action among its outputs, so that the runtime on board needs no selection rule."""

    def __init__(self, network: DeployedAgent) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> Tensors:
        """Return the outputs and the action, which is cloned so that no output is returned twice."""
        *outputs, action = self.network.outputs_and_action(*inputs)
        return *outputs, action.clone()


def _make_onnx(network: DeployedAgent, example: Tensors) -> bytes:
    batch, log = torch.export.Dim("batch"), logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                _NetworkWithAction(network),
                example,
                dynamo=True,
                verbose=False,
                opset_version=ONNX_OPSET,
                dynamic_shapes=(tuple({0: batch} for _ in example),),
                input_names=network.input_names,
                output_names=network.output_names,
                custom_translation_table=_onnx_translations(network.dtype),
            )
    finally:
        log.setLevel(level)
    assert program is not None  # dynamo=True returns a program
    content: bytes = program.model_proto.SerializeToString()
    return content


def _load_onnx(path: Path, network: DeployedAgent) -> NetworkFunction:
    import_optional("onnxruntime", "export")
    outputs, names = load_outputs(path), network.input_names

    def call(*inputs: Tensor) -> Tensors:
        found = outputs({name: value.numpy() for name, value in zip(names, inputs, strict=True)})
        return tuple(map(torch.from_numpy, found.values()))

    return call


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
    "torchscript": ExportFormat(torchscript.file_name, torchscript.make_content, torchscript.load),
    "onnx": ExportFormat(lambda agent: f"{agent}.onnx", _make_onnx, _load_onnx),
}


def export(loaded: LoadedPolicy, out: Path, formats: list[str], dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """Write a policy in some of FORMATS to a folder, check every file, and write and return ``contract.json``.

    The files compute in ``dtype``, float64 or float32. A ConfigError says which package is missing, or which file
    differs from the agent.
    """
    agent_type, network = loaded.config.agent_type, DeployedAgent(loaded.agent, dtype)
    make_folder(out)
    files = {}
    for name in dict.fromkeys(formats):
        target = FORMATS[name]
        # Of a user's package.module:Class, only the class is used, as file names should not have a colon.
        path = out / target.file_name(agent_type.rpartition(":")[2])
        write_atomically(path, target.make_content(network, network.inputs(NUM_CHECKS)))
        difference = _check_exported(target, path, loaded.agent, dtype)
        files[name] = {
            "file": path.name,
            "dtype": str(dtype).removeprefix("torch."),
            "sha256": sha256_of(path),
            "largest_difference": difference,
        }
    if "onnx" in files:
        # The runtime needs neither torch nor the rest of this project.
        make_folder(out / "boat")
        for module in sorted(Path(boat.__file__).parent.glob("*.py")):
            write_atomically(out / "boat" / module.name, module.read_bytes())
    written = make_contract(loaded, files)
    write_atomically(out / CONTRACT_FILE, _contract_text(written))
    return written


def _contract_text(contract: dict[str, Any]) -> str:
    """Return a contract as JSON: indented, except for the numbers of its examples, which take one line."""
    *rest, (name, examples) = contract.items()
    text = json.dumps(dict(rest), indent=2, allow_nan=False).removesuffix("\n}")
    return f'{text},\n  "{name}": {json.dumps(examples, allow_nan=False)}\n}}\n'


def _check_exported(target: ExportFormat, path: Path, agent: Agent[Any], dtype: torch.dtype) -> float:
    """Return the largest absolute difference of an output from the agent's; delete a file with a larger one."""
    exact, (relative, absolute) = DeployedAgent(agent, dtype), TOLERANCES_BY_DTYPE[dtype]
    inputs = exact.inputs(NUM_CHECKS, seed=1)
    call = target.load(path, exact)
    expected = exact.outputs_and_action(*inputs)
    outputs = call(*inputs)
    single = call(*(tensor[-1:] for tensor in inputs))
    # Only ONNX returns the action, which is the last output.
    pairs = [*zip(outputs, expected, strict=False), *zip(single, (each[-1:] for each in expected), strict=False)]
    difference = max(float((output - reference).abs().max()) for output, reference in pairs)
    # The action that the agent selects from these outputs is compared, too.
    selected = exact.agent.select(dict(zip(exact.output_names, outputs, strict=False)))
    observation = dict(zip(exact.input_names, inputs, strict=True))
    pairs.append((selected, copy.deepcopy(agent).cpu().to(dtype).act(observation)))
    if not all(torch.allclose(output.double(), reference.double(), relative, absolute) for output, reference in pairs):
        path.unlink()
        raise ConfigError(
            f"{path}: not kept, as its outputs differ from the agent's by {difference:.1e}, "
            f"more than {absolute:.0e}, or lead to another action"
        )
    return difference
