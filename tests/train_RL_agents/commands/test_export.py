"""marinenav export."""

import sys

from tests.train_RL_agents.exporting.policies import make_policy
from train_RL_agents.cli import main
from train_RL_agents.run.checkpoint import save_policy


def saved(folder):
    policy = make_policy("DQN", **{"agent.critics": 1})
    save_policy(folder / "policy.pt", policy.agent, policy.config, 7, {})
    return folder / "policy.pt"


def test_files_and_contract_are_written(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert main(["export", str(saved(tmp_path)), "--out", str(out)]) == 0
    names = {"traced_DQN_model.pt", "contract.json"}
    assert {path.name for path in out.iterdir()} == names
    printed = capsys.readouterr().out
    assert all(str(out / name) in printed for name in names)


def test_what_cannot_be_exported_is_refused_in_one_sentence(tmp_path, capsys, monkeypatch):
    path, out = saved(tmp_path), tmp_path / "out"

    def refusal(*argv):
        assert main(["export", *map(str, argv)]) == 2
        return capsys.readouterr().err

    assert refusal(tmp_path / "none", "--out", out).count("\n") == 1
    assert "argument --format: invalid choice: 'tflite'" in refusal(path, "--out", out, "--format", "tflite")
    assert "argument --dtype: float32 is for --format onnx" in refusal(path, "--out", out, "--dtype", "float32")
    assert "must be a folder, as several files are written" in refusal(path, "--out", path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    message = refusal(path, "--out", tmp_path / "other", "--format", "onnx")
    assert message == (
        "marinenav: error: onnxscript is not installed, and this needs it: pip install 'marinenav[export]'\n"
    )
    assert not (tmp_path / "other").exists()
