"""What cannot be written is refused before the work, by every command."""

import argparse
import json
import re
from pathlib import Path

import pytest

from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands import COMMANDS

FEW = ("--levels", "1", "--episodes", "1")
WRITERS = {
    "evaluate": [("evaluate", "iqn", *FEW, f"--{name}") for name in ("json", "csv", "markdown", "record")]
    + [("evaluate", "iqn", *FEW, "--report")],
    "play": [
        ("play", "iqn", *FEW, "--html"),
        ("play", "iqn", *FEW, "--overview"),
        ("play", "iqn", *FEW, "--out"),
        ("play", "iqn", *FEW, "--frames", "0", "--out"),
    ],
    "chart": [("chart", "cell.000", "--out")],
    "demo": [("demo", "iqn", "--no-open", "--out")],
    "export": [("export", "iqn", "--out")],
    "import": [("import", "weights.npz", "--agent", "DQN", "--out")],
    "identify": [("identify", "log.csv", "--out"), ("identify", "--plan", "--out")],
    "plot": [("plot", "runs", "--out")],
    "study": [("study", "study.json", "--out")],
    "falsify": [("falsify", "iqn", "--out")],
    "bench": [("bench", "--json")],
    "train": [("train",)],
}
"""Command lines whose last word is to be a file or a folder."""
_WORK = (
    "train_RL_agents.evaluation.running.episodes.run_episodes",
    "train_RL_agents.figures.curves.read_runs",
    "train_RL_agents.run.checkpoint.torch.load",
    "train_RL_agents.experiments.runner.Runner.run",
    "train_RL_agents.experiments.benchmark_report.describe_machine",
    "train_RL_agents.torchrl_trainer.TorchRLTrainer",
)


@pytest.mark.parametrize("line", [line for lines in WRITERS.values() for line in lines])
def test_no_work_is_done_for_what_cannot_be_written(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("study.json").write_text(json.dumps({"agents": ["dqn"]}))
    loads = line[0] == "evaluate"  # what was read is not written over
    for work in _WORK:
        if not (loads and work.endswith("torch.load")):
            monkeypatch.setattr(work, lambda *_, work=work, **__: pytest.fail(work))
    ending = ".png" if {"--overview", "--plot"} & {*line} else ".html" if "--report" in line else ""
    path = f"file/inside{'.json' if line[0] == 'chart' else ending}"
    words = [f"save_dir={path}", "--quiet"] if line == ("train",) else [path]
    assert path in refused(capsys, *line, *words)


def test_every_command_that_writes_is_tried():
    outputs = {"--out", "--json", "--csv", "--markdown", "--record", "--html", "--overview", "--report", "--plot"}
    for name in COMMANDS:
        parser = argparse.ArgumentParser(add_help=False)
        COMMANDS[name].add_arguments(parser)
        known = set(re.findall(r"^  (?:-.*, )?(--[a-z-]+)", parser.format_help(), re.M)) & outputs
        tried = {word for line in WRITERS.get(name, ()) for word in line} & outputs
        assert known == tried, name


def test_two_outputs_are_two_files(capsys, tmp_path):
    line = ["evaluate", "iqn", *FEW, "--json", str(tmp_path / "a"), "--csv", f"{tmp_path}/./a"]
    assert "must be given for one file only" in refused(capsys, *line)


def test_a_missing_option_is_named(capsys):
    assert refused(capsys, "export", "iqn").startswith("the following arguments are required: --out")
