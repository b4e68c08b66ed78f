"""marinenav import."""

import pytest
import torch

from tests.train_RL_agents.run.helpers import import_command, named_weights, write_arrays
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main
from train_RL_agents.run.checkpoint import load_policy
from train_RL_agents.run.published import IMPORT_NOTE, PUBLISHED_AGENTS, published_config


@pytest.mark.parametrize(("name", "suffix"), zip(PUBLISHED_AGENTS, ("npz", "pt", "pth", "npz", "pt"), strict=True))
def test_import_and_load(capsys, tmp_path, name, suffix):
    weights, file = named_weights(name), tmp_path / f"weights.{suffix}"
    if suffix == "npz":
        write_arrays(file, weights)
    else:
        torch.save(weights, file)
    assert main(import_command(name, file, tmp_path / "policy.pt")) == 0
    assert f"imported from {file.name}: {IMPORT_NOTE}" in capsys.readouterr().out
    loaded = load_policy(tmp_path / "policy.pt")
    assert loaded.config == published_config(name)
    assert loaded.metrics["note"] == f"imported from {file.name}: {IMPORT_NOTE}"
    acting = dict(loaded.agent.networks[loaded.agent.output_networks()[0]].named_parameters())
    assert acting.keys() == weights.keys()
    assert all(torch.equal(acting[key], value) for key, value in weights.items())
    assert main(["info", str(tmp_path / "policy.pt")]) == 0
    assert IMPORT_NOTE in capsys.readouterr().out


def test_an_existing_file_is_kept(capsys, tmp_path):
    file, out = tmp_path / "weights.npz", tmp_path / "policy.pt"
    write_arrays(file, named_weights("DQN"))
    assert main(import_command("DQN", file, out)) == 0
    before = out.read_bytes()
    capsys.readouterr()
    assert "must be a new file" in refused(capsys, *import_command("DQN", file, out))
    assert out.read_bytes() == before
    # A policy of ours is no weights file.
    message = refused(capsys, *import_command("DQN", out, tmp_path / "other.pt"))
    assert message.endswith("what this program has written needs no import")
