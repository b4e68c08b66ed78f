"""Files of exported policies, against the agents, from Python and from C++."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.train_RL_agents.exporting.helpers import make_policy, require_onnx
from train_RL_agents.agents import AGENTS
from train_RL_agents.exporting.deployed import DeployedAgent
from train_RL_agents.exporting.export import FORMATS, ONNX_OPSET, export
from train_RL_agents.exporting.torchscript import file_name

ROOT, DTYPES = Path(__file__).parents[3], (torch.float64, torch.float32)
PLANNERS = {
    "AC-IQN": [(1, 2)], "IQN": [(1, 32, 25)], "DDPG": [(1, 2)], "DQN": [(1, 25)],
    "SAC": [(1, 2), (1, 2)], "Rainbow": [(1, 25, 51)], "PPO": [(1, 25)], "A2C": [(1, 25)],
}  # fmt: skip
"""Shapes of what the field's planners are given."""
WIDER = {
    "world.sensor.scan_beams": 12,
    "world.sensor.duties": True,
    "world.scenario.shore_segments": 16,
    "agent.hidden_sizes": [24],
    "agent.self_width": 16,
    "agent.object_width": 8,
}
"""Further entries, and other sizes."""
STYLES = {
    "max": {"agent.encoder": "max"},
    "attention": {"agent.encoder": "attention"},
    "scan": WIDER,
    "frames": {"agent.memory.kind": "frames", "agent.memory.number": 3},
    "without objects": WIDER | {"agent.excluded": ["objects_state"]},
}
ON_POLICY_STYLES = STYLES | {
    "gaussian": {"agent.actions": "gaussian"},
    "clipped": {"agent.actions": "clipped_gaussian"},
    "fleet": {"agent.critic": "fleet"},
    "memory": WIDER | {"agent.memory.kind": "gru", "agent.memory.size": 6},
}
STYLED = [
    pytest.param(name, style, marks=[pytest.mark.slow] * (name != "PPO" or style in ("attention", "gaussian", "fleet")))
    for name, kind in AGENTS.items()
    for style in (ON_POLICY_STYLES if kind.algorithm == "on-policy" else STYLES)
]
FILES = [(name, "frames" if name == "IQN" else "plain", dtype) for name in AGENTS for dtype in DTYPES]
ONNX_FILES = [*FILES, *(("PPO", style, torch.float64) for style in ON_POLICY_STYLES)]


def test_the_numbers_of_a_torchscript_file_have_the_type_that_is_asked_for(tmp_path):
    policy = make_policy("PPO")
    assert export(policy, tmp_path, ["torchscript"], torch.float32)["files"]["torchscript"]["dtype"] == "float32"
    network = DeployedAgent(policy.agent, torch.float32)
    inputs = network.inputs(1, seed=5)
    outputs = torch.jit.load(tmp_path / file_name("PPO"))(inputs)
    torch.testing.assert_close(outputs, network.outputs(*inputs)[0])


@pytest.mark.parametrize("name", AGENTS)
def test_torchscript_is_what_planners_load(name, tmp_path):
    policy = make_policy(name)
    written = export(policy, tmp_path, ["torchscript"])
    assert written["files"]["torchscript"]["file"] == file_name(name)
    planner = torch.jit.load(tmp_path / file_name(name))
    inputs = DeployedAgent(policy.agent).inputs(1, seed=5)
    outputs = planner(inputs[:3], *inputs[3:])
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    assert [tuple(output.shape) for output in outputs] == PLANNERS[name]
    assert {output.dtype for output in outputs} == {torch.float64}
    expected = DeployedAgent(policy.agent).outputs(*inputs)
    torch.testing.assert_close(outputs, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(("name", "style"), STYLED)
def test_every_encoder_can_be_exported(name, style, tmp_path):
    written = export(make_policy(name, **ON_POLICY_STYLES[style]), tmp_path, ["torchscript"])
    assert written["files"]["torchscript"]["largest_difference"] < 1e-9
    inputs = [each["name"] for each in written["inputs"]]
    assert ("scan" in inputs) == ("scan_beams" in str(ON_POLICY_STYLES[style]))
    assert ("objects_state" in inputs) == (style != "without objects")
    # The contract in the file, whose examples alone are a long line.
    text = (tmp_path / "contract.json").read_text()
    assert json.loads(text) == written
    assert [len(line) > 2000 for line in text.splitlines()].count(True) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "style", "dtype"), ONNX_FILES)
def test_onnx_computes_as_the_agent(name, style, dtype, tmp_path):
    require_onnx()
    import onnx
    import onnxruntime

    policy, path = make_policy(name, **ON_POLICY_STYLES.get(style, {})), tmp_path / f"{name}.onnx"
    written = export(policy, tmp_path, ["onnx", "torchscript"], dtype)
    kind = str(dtype).removeprefix("torch.")
    assert {key: each["dtype"] for key, each in written["files"].items()} == {"onnx": kind, "torchscript": kind}
    assert {each.domain: each.version for each in onnx.load(path).opset_import}[""] == ONNX_OPSET
    session, network = onnxruntime.InferenceSession(path), DeployedAgent(policy.agent, dtype)
    assert [each.name for each in session.get_inputs()] == network.input_names
    assert re.findall(r"\w+", written["call"]["torchscript"])[1:] == network.input_names
    assert [each.name for each in session.get_outputs()] == network.output_names
    assert {each.type for each in session.get_inputs()} == {"tensor(double)" if kind == "float64" else "tensor(float)"}
    tolerance = 2e-7 if dtype == torch.float64 else 1e-5
    for count in (1, 50):  # batches of any size
        inputs = network.inputs(count, seed=4)
        feed = {name: value.numpy() for name, value in zip(network.input_names, inputs, strict=True)}
        for got, wanted in zip(session.run(None, feed), network.outputs_and_action(*inputs), strict=True):
            torch.testing.assert_close(torch.from_numpy(got), wanted, rtol=tolerance, atol=tolerance)


def test_the_page_names_the_version_of_the_operators():
    assert re.findall(r"opset (\d+)", (ROOT / "docs/export.md").read_text()) == [str(ONNX_OPSET)]


@pytest.mark.parametrize("part", ["outputs", "action"])
def test_a_file_with_other_outputs_is_refused_and_removed(part, tmp_path, monkeypatch):
    policy, other = make_policy("DQN"), make_policy("DQN")
    with torch.no_grad():
        for network in other.agent.networks.values():
            # All values alike change no action, one value alone does.
            network.output_layer.bias[...] += 2e-6 if part == "outputs" else 0.0
            network.output_layer.bias[3] += 0.0 if part == "outputs" else 100.0
            network.value_layer.bias += 2e-6 if part == "outputs" else 0.0
    network = DeployedAgent(other.agent)
    content = FORMATS["torchscript"].make_content(network, network.inputs(1))
    monkeypatch.setattr("train_RL_agents.exporting.export.write_atomically", lambda path, _: path.write_bytes(content))
    with pytest.raises(ValueError, match="not kept, as its outputs differ"):
        export(policy, tmp_path, ["torchscript"])
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def onnx_runner(tmp_path_factory):
    """tools/run_onnx.cpp, compiled against the library inside the onnxruntime wheel, which has no headers."""
    require_onnx()
    import onnxruntime

    compiler = shutil.which("g++") or pytest.skip("there is no C++ compiler (g++)")
    given = [os.environ.get("ONNXRUNTIME_INCLUDE"), "/usr/include/onnxruntime", "/usr/local/include/onnxruntime"]
    found = [each for each in given if each and Path(each, "onnxruntime_cxx_api.h").exists()]
    if not found:
        pytest.skip("no headers of ONNX Runtime: see docs/export.md, From C++")
    libraries = [*Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")]
    if not libraries:
        pytest.skip("this wheel of onnxruntime has no library of its own")
    folder = tmp_path_factory.mktemp("onnx")
    (folder / "libonnxruntime.so.1").symlink_to(libraries[0])
    command = [compiler, "-std=c++20", "-O0", str(ROOT / "tools/run_onnx.cpp"), "-o", str(folder / "run")]
    words = [f"-I{found[0]}", f"-L{folder}", f"-Wl,-rpath,{folder}", "-l:libonnxruntime.so.1"]
    done = subprocess.run([*command, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "run"


@pytest.mark.parametrize(
    ("name", "dtype"), [("IQN", torch.float64), pytest.param("SAC", torch.float32, marks=pytest.mark.slow)]
)
def test_cpp_without_torch_gets_outputs_and_actions(name, dtype, onnx_runner, tmp_path):
    policy, tolerance = make_policy(name), 1e-6 if dtype == torch.float64 else 1e-5
    export(policy, tmp_path, ["onnx"], dtype)
    network = DeployedAgent(policy.agent, dtype)
    inputs = network.inputs(20, seed=9)
    rows, text = torch.cat([tensor.flatten(1) for tensor in inputs], -1).numpy(), tmp_path / "observations.txt"
    np.savetxt(text, rows, fmt="%.17g")
    command = [str(onnx_runner), str(tmp_path / f"{name}.onnx"), str(text)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    got = np.array([[float(word) for word in line.split()] for line in done.stdout.splitlines()])
    columns = [each.reshape(20, -1).double() for each in network.outputs_and_action(*inputs)]
    np.testing.assert_allclose(got, torch.cat(columns, -1).numpy(), rtol=0.0, atol=tolerance)
