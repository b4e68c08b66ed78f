"""The network of an exported ONNX file, computed by onnxruntime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import BoatError, require

Array = NDArray[np.float64]
Network = Callable[[dict[str, Array]], NDArray[Any] | tuple[NDArray[Any], Array]]
"""Function from inputs by name, [B, ...] each, to actions: [B] indices of discrete ones, or [B, 2] from -1 to 1; with
the memory [B, H] after them if the inputs have the memory before."""
ACTION_OUTPUT = "selected_action"
MEMORY, NEXT_MEMORY = "memory", "next_memory"
"""Names of the input with the memory of a policy, and of the output with that after a step."""
_MAX_TOLERANCE = 0.01
"""Largest tolerance that a contract may state."""
OBJECTS_ID = "objects_id"
"""Name of the input with the numbers of the objects, from 1."""


def load_outputs(file: Path, *names: str) -> Callable[[dict[str, Array]], dict[str, NDArray[Any]]]:
    """Return the network of an ONNX file, a function from inputs by name to (named) outputs by name, [B, ...] each.

    It uses one thread, because one observation is little work. A BoatError says why a file cannot be used.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # fatal only, as errors are also raised
    try:
        session = onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has an exception of its own for every reason
        raise BoatError(f"{file}: cannot be loaded ({str(error).splitlines()[0]})") from error
    every = [output.name for output in session.get_outputs()]
    require(ACTION_OUTPUT in every, f"{file}: has no output {ACTION_OUTPUT}, export the policy again")
    computed = names or every
    dtypes = {node.name: np.float32 if node.type == "tensor(float)" else np.float64 for node in session.get_inputs()}

    def outputs(inputs: dict[str, Array]) -> dict[str, NDArray[Any]]:
        feed = {name: value.astype(dtypes.get(name, value.dtype)) for name, value in inputs.items()}
        return dict(zip(computed, map(np.asarray, session.run(list(computed), feed)), strict=True))

    return outputs


def load_network(file: Path, is_recurrent: bool = False) -> Network:
    """Return the function from inputs to actions, and memory if the policy is recurrent, in an ONNX file."""
    outputs = load_outputs(file, ACTION_OUTPUT, *([NEXT_MEMORY] if is_recurrent else []))

    def network(inputs: dict[str, Array]) -> NDArray[Any] | tuple[NDArray[Any], Array]:
        found = outputs(inputs)
        return (found[ACTION_OUTPUT], found[NEXT_MEMORY]) if is_recurrent else found[ACTION_OUTPUT]

    return network


def reproduces(network: Network, examples: dict[str, Any]) -> bool:
    """Return whether a network gives the actions of the examples of a contract and, if it has one, of their episode."""
    inputs = {name: np.array(values, float) for name, values in examples["inputs"].items()}
    episode, tolerance = examples.get("sequence"), min(examples["tolerance"], _MAX_TOLERANCE)
    if episode is None:
        return np.allclose(network(inputs), examples["action"], tolerance, tolerance)
    is_reproduced = np.allclose(network(inputs)[0], examples["action"], tolerance, tolerance)
    memory = np.zeros_like(inputs[MEMORY][:1])
    for step, expected in enumerate(episode["action"]):
        now = {name: np.array(values[step : step + 1], float) for name, values in episode["inputs"].items()}
        action, memory = network({**now, MEMORY: memory})
        is_reproduced &= np.allclose(action[0], expected, tolerance, tolerance)
        is_reproduced &= np.allclose(memory, episode[NEXT_MEMORY][step], tolerance, tolerance)
    return bool(is_reproduced)
