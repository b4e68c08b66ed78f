"""Files are written whole or not at all."""

import os
from pathlib import Path

import pytest
import torch

from tests.refusals import refusal
from tests.train_RL_agents.helpers import fail
from tests.train_RL_agents.tiny_runs import differences, files
from train_RL_agents.utils.files import write_atomically

FULL = OSError(28, "No space left on device")
CONTENT = {
    "weights": {"layer": torch.arange(12.0).view(3, 4)},
    "mask": torch.tensor([True, False]),
    "rows": [{"env_steps": 8, "avg_time": None, "name": "x"}],
}


@pytest.mark.parametrize("content", ["Wörter\n", b"\x00\xff", CONTENT], ids=["text", "bytes", "dict"])
def test_what_is_written_is_read_back(tmp_path, content):
    path = tmp_path / "file"
    for _ in range(2):  # new, and over an old one
        write_atomically(path, content)
        if isinstance(content, dict):
            assert differences(torch.load(path), content) == []
        else:
            assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("old", ["old", None])
@pytest.mark.parametrize(
    ("owner", "name", "error", "reason"),
    [
        (os, "fsync", FULL, "[Errno 28] No space left on device"),
        (torch, "save", FULL, "[Errno 28] No space left on device"),
        (torch, "save", RuntimeError("enforce fail.\nframe #0\nframe #1"), "enforce fail."),
        (torch, "save", RuntimeError(), "RuntimeError"),
        (Path, "replace", PermissionError(13, "Permission denied"), "[Errno 13] Permission denied"),
    ],
)
def test_a_failure_keeps_the_old_file(tmp_path, monkeypatch, old, owner, name, error, reason):
    path = tmp_path / "state.pt"
    if old:
        path.write_text(old)
    before = files(tmp_path)
    monkeypatch.setattr(owner, name, fail(error))
    message = refusal(write_atomically, path, CONTENT)
    assert message == f"{path}: cannot be written ({reason}); what was there is kept"
    assert files(tmp_path) == before


def test_a_link_is_replaced_and_not_followed(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "state.pt"
    victim.write_text("old")
    path.symlink_to(victim)
    write_atomically(path, "new")
    assert (victim.read_text(), path.read_text(), path.is_symlink()) == ("old", "new", False)
