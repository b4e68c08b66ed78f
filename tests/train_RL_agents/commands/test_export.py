"""marinenav export."""

import sys

from tests.train_RL_agents.exporting.helpers import write_policy
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main


def test_files_and_contract_are_written(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert main(["export", str(write_policy(tmp_path / "policy.pt", "DQN")), "--out", str(out)]) == 0
    names = {"traced_DQN_model.pt", "contract.json"}
    assert {path.name for path in out.iterdir()} == names
    printed = capsys.readouterr().out
    assert all(str(out / name) in printed for name in names)


def test_what_cannot_be_exported_is_refused_in_one_sentence(tmp_path, capsys, monkeypatch):
    path, out = write_policy(tmp_path / "policy.pt", "DQN"), tmp_path / "out"

    def refusal(*argv):
        return refused(capsys, "export", *map(str, argv))

    assert refusal(tmp_path / "none", "--out", out)
    assert "argument --format: invalid choice: 'tflite'" in refusal(path, "--out", out, "--format", "tflite")
    assert "must be a folder, as several files are written" in refusal(path, "--out", path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    said = refusal(path, "--out", tmp_path / "other", "--format", "onnx")
    assert said == "onnxscript is not installed, and this needs it: pip install 'marinenav[export]'"
    assert not (tmp_path / "other").exists()
