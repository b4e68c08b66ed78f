"""Published TorchScript files: their weights are read, and nothing in them is run."""

import io
import pickle
import shutil
import warnings
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from marinenav_env import ConfigError
from tests.train_RL_agents.run.helpers import (
    PROBE,
    REAL,
    Published,
    example,
    observed,
    program,
    program_of,
    read_probe,
    weights_of,
)
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents import load
from train_RL_agents.commands.cli import main
from train_RL_agents.run.checkpoint import load_policy
from train_RL_agents.run.published import IMPORT_NOTE, PUBLISHED_AGENTS, import_agent, is_torchscript, read_weights


@pytest.fixture(scope="module")
def probe():
    return read_probe()


def test_the_published_file_acts_as_its_program(probe):
    policy, given = load_policy(REAL), {name: each.double() for name, each in observed(probe).items()}
    assert policy.config.agent_type == "AC-IQN"
    assert policy.metrics == {"note": f"imported from {REAL.name}: {IMPORT_NOTE}"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        expected = torch.jit.load(REAL)(tuple(given.values()))
    for one, other in zip(load(REAL).loaded.agent.parameters(), policy.agent.parameters(), strict=True):
        assert torch.equal(one, other)
    answer = policy.agent.networks["actor"].double()(given)
    torch.testing.assert_close(answer, expected, atol=1e-6, rtol=0.0)


def test_every_published_network_is_recognised(tmp_path):
    for name in PUBLISHED_AGENTS:
        path = tmp_path / f"traced_{name.replace('-', '_')}_model.pt"
        path.write_bytes(program_of(name))
        assert load_policy(path).config.agent_type == name
    # The name in the program tells which of two agents, also where the file has another name.
    shutil.copy(REAL, tmp_path / "model.pt")
    assert load_policy(tmp_path / "model.pt").config.agent_type == "AC-IQN"


def test_frozen_weights_are_read_and_buffers_are_not(tmp_path, probe):
    weights, path = weights_of(probe, "IQN"), tmp_path / "model.pt"
    path.write_bytes(program_of("IQN", weights, buffer=True))
    found = read_weights(path)
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[key].float(), each) for key, each in weights.items())
    path.write_bytes(program(Published("DQN").requires_grad_(False), example()))
    assert load_policy(path).config.agent_type == "DQN"


def test_where_no_name_tells_the_agent_must_be_given(capsys, tmp_path):
    path, out = tmp_path / "model.pt", tmp_path / "policy.pt"
    path.write_bytes(program_of("DDPG"))
    text = f"{path}: may be of AC-IQN or DDPG; say which: marinenav import FILE --agent NAME"
    assert text in refused(capsys, "evaluate", str(path))
    assert text in refused(capsys, "import", str(path), "--out", str(out))
    assert main(["import", str(path), "--agent", "DDPG", "--out", str(out)]) == 0
    assert load_policy(out).config.agent_type == "DDPG"


@pytest.mark.parametrize("suffix", [".npz", ".pth"])
def test_arrays_are_recognised_too(capsys, tmp_path, probe, suffix):
    path, weights = tmp_path / f"weights{suffix}", weights_of(probe, "SAC")
    if suffix == ".npz":
        np.savez(path, **{name: each.numpy() for name, each in weights.items()})
    else:
        torch.save(weights, path, _use_new_zipfile_serialization=False)
    assert main(["import", str(path), "--out", str(tmp_path / "imported")]) == 0
    assert f"{tmp_path / 'imported' / 'policy.pt'}: SAC, imported from" in capsys.readouterr().out


@pytest.mark.slow
def test_a_published_file_is_taken_wherever_a_policy_is(capsys, tmp_path):
    out_folder = tmp_path / "imported"
    assert main(["import", str(REAL), "--out", str(out_folder)]) == 0
    options = ["--episodes", "1", "--levels", "1", "-D", "cpu"]
    for policy in (REAL, out_folder):
        assert main(["evaluate", str(policy), *options]) == 0
        assert main(["export", str(policy), "--out", str(tmp_path / "exported")]) == 0
        assert main(["info", str(policy)]) == 0
    assert capsys.readouterr().out.count(IMPORT_NOTE) == 3
    # What was exported has other layers.
    exported = tmp_path / "exported" / REAL.name
    said = refused(capsys, "evaluate", str(exported))
    assert said.startswith(f"{exported}: holds no published network (AC-IQN, IQN,")
    assert said.endswith("of an exported policy, only the ONNX file can be evaluated")


class Act:
    """Anything that a pickle may ask for."""

    def __init__(self, call, *arguments):
        self.call_and_arguments = call, arguments

    def __reduce__(self):
        return self.call_and_arguments


def rewritten(path, content=None, **entries):
    """A program with other entries."""
    with zipfile.ZipFile(io.BytesIO(content or program_of("DQN"))) as given:
        found = {name.partition("/")[2]: given.read(name) for name in given.namelist()}
    with zipfile.ZipFile(path, "w") as taken:
        for name, each in (found | entries).items():
            taken.writestr(f"archive/{name}", each)
    return path


@pytest.mark.parametrize("entry", ["data.pkl", "constants.pkl", "traced_inputs.pkl"])
def test_nothing_in_a_file_is_run(tmp_path, entry):
    touched = tmp_path / "touched"
    evil = pickle.dumps(Act(open, str(touched), "w"), protocol=2)
    path = rewritten(tmp_path / "model.pt", **{entry: evil})
    if entry == "data.pkl":
        with pytest.raises(ConfigError, match="damaged, or not a file of weights"):
            load_policy(path)
    else:
        assert load_policy(path).config.agent_type == "DQN"
    assert not touched.exists()
    # Code is not even parsed.
    with zipfile.ZipFile(io.BytesIO(program_of("DQN"))) as archive:
        code = [name.partition("/")[2] for name in archive.namelist() if name.endswith(".py")]
    path = rewritten(tmp_path / "model.pt", **dict.fromkeys(code, b"while True: pass"))
    assert load_policy(path).config.agent_type == "DQN"


def test_networks_of_other_sizes_are_refused(tmp_path):
    path = tmp_path / "model.pt"
    module = Published("DQN")
    module.output_layer = nn.Linear(128, 9)
    path.write_bytes(program(module, example()))
    with pytest.raises(ConfigError, match="holds no published network"):
        load_policy(path)
    with pytest.raises(ConfigError, match=r"output_layer.weight is \(9, 128\), must be \(25, 128\)"):
        import_agent("DQN", read_weights(path), path)
    module.output_layer = nn.Linear(128, 25)
    module.hidden_layer.weight.data.fill_(torch.nan)
    path.write_bytes(program(module, example()))
    with pytest.raises(ConfigError, match=r"hidden_layer\.weight='nan or inf': must be finite"):
        load_policy(path)


def test_checkpoints_and_weights_are_no_programs(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "weights.pt")
    for path in (PROBE, tmp_path / "weights.pt", tmp_path, tmp_path / "absent", __file__):
        assert not is_torchscript(path)
    assert is_torchscript(REAL)
