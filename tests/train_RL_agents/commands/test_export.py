"""marinenav export."""

import json
import sys

import pytest

from tests.train_RL_agents.exporting.test_export import make_policy
from train_RL_agents.cli import main, make_parser
from train_RL_agents.exporting.export import CONTRACT_FILE, FORMATS, export
from train_RL_agents.exporting.torchscript import file_name
from train_RL_agents.run.checkpoint import save_policy


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dqn")
    return folder / file_name("DQN"), export(make_policy("DQN"), folder, ["torchscript"])


def test_files_and_contract_are_written(tmp_path, capsys):
    policy = make_policy("DQN", **{"agent.critics": 1})
    save_policy(tmp_path / "policy.pt", policy.agent, policy.config, 7, {})
    out = tmp_path / "new" / "folder"
    assert main(["export", str(tmp_path / "policy.pt"), "--out", str(out)]) == 0
    names = {"traced_DQN_model.pt", "DQN.pt2", CONTRACT_FILE}
    assert {path.name for path in out.iterdir()} == names
    printed = capsys.readouterr().out
    assert all(str(out / name) in printed for name in names)


def test_what_cannot_be_exported_is_refused_in_one_sentence(tmp_path, capsys, monkeypatch):
    policy = make_policy("DQN", **{"agent.critics": 1})
    path = tmp_path / "policy.pt"
    save_policy(path, policy.agent, policy.config, 7, {})

    def refusal(*argv):
        assert main(["export", *map(str, argv)]) == 2
        return capsys.readouterr().err

    out = tmp_path / "out"
    assert refusal(tmp_path / "none", "--out", out).count("\n") == 1
    assert "argument --format: invalid choice: 'tflite'" in refusal(path, "--out", out, "--format", "tflite")
    assert "argument --dtype: float32 is for --format onnx" in refusal(path, "--out", out, "--dtype", "float32")
    assert not out.exists()
    assert "the folder cannot be made" in refusal(path, "--out", path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    message = refusal(path, "--out", out, "--format", "onnx")
    assert message == (
        "marinenav: error: onnxscript is not installed, and this needs it: pip install 'marinenav[export]'\n"
    )


def test_every_format_is_offered():
    parser = make_parser()
    for name in FORMATS:
        parser.parse_args(["export", "policy.pt", "--out", "out", "--format", name])


def test_a_file_is_checked(exported, capsys):
    path, _ = exported
    assert main(["export", "--check", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: 16 examples compared; the largest")


def test_what_cannot_be_checked_is_refused_in_one_sentence(exported, tmp_path, capsys):
    def refusal(*argv):
        assert main(["export", *map(str, argv)]) == 2
        return capsys.readouterr().err

    path, written = exported
    assert "a POLICY and --out DIR are needed" in refusal()
    assert "--out DIR is needed" in refusal(path)
    assert "takes neither POLICY nor --out" in refusal("--check", path, "--out", tmp_path)
    assert "argument --dtype: not allowed with --check" in refusal("--check", path, "--dtype", "float32")
    model = tmp_path / "x.pt"
    assert f"{model}: cannot be read as an exported file" in refusal("--check", model)
    model.touch()
    assert "x.pt': must be beside the contract.json" in refusal("--check", model)
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(written))
    (tmp_path / "x.tflite").touch()
    assert "x.tflite: must end in .pt, .pt2, .onnx or .json" in refusal("--check", tmp_path / "x.tflite")
    written = {key: each for key, each in written.items() if key != "examples"} | {"version": 1}
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(written))
    assert "contract.json: holds no examples, as it was written by another version" in refusal("--check", model)
