"""The script that compares hashes of what the program computes."""

import json

import pytest
import torch

from tools import guard
from tools.hashing import content, digest, rounded, tensors

BEFORE = {"weights": "a1", "memory": "b2", "successes": 60}


@pytest.fixture
def parts(monkeypatch):
    """Makes a part that has one line of given values."""
    values = dict(BEFORE)
    monkeypatch.setattr(guard, "PARTS", {"short": lambda agents: iter([("DQN", dict(values))])})
    return values


@pytest.fixture
def file(tmp_path, parts):
    path = tmp_path / "before.json"
    assert guard.main(["--out", str(path)]) == 0
    return path


def compared(file):
    return guard.main(["--against", str(file)])


def test_lines_that_are_as_before_are_no_difference(file, capsys):
    assert json.loads(file.read_text()) == {"DQN": BEFORE}
    assert compared(file) == 0
    assert "every hash is as before" in capsys.readouterr().out


def test_another_hash_is_a_difference(file, parts, capsys):
    parts["memory"] = "b3"
    assert compared(file) == 1
    assert "weights a1  memory b3 DIFFERS  successes 60" in capsys.readouterr().out


def test_a_hash_that_is_missing_is_a_difference(file, parts, capsys):
    del parts["memory"]
    assert compared(file) == 1
    assert "memory IS GONE" in capsys.readouterr().out


def test_another_figure_is_shown_with_that_of_before(file, parts, capsys):
    parts["successes"] = 59
    assert compared(file) == 0
    assert "successes 59 (was 60)" in capsys.readouterr().out


def test_names_and_order_do_not_change_a_hash():
    one, other = torch.ones(2), torch.zeros(3)
    named = digest(map(content, tensors({"a": one, "b": [{"c": other}]})))
    assert named == digest(map(content, tensors((other, one))))
    assert named != digest(map(content, tensors((other, one + 1e-6))))


def test_a_shape_or_a_type_changes_a_hash():
    ones = torch.ones(2, 3)
    hashes = {digest([content(each)]) for each in (ones, ones.T, ones.double(), ones.view(6))}
    assert len(hashes) == 4


def test_the_last_bits_do_not_change_a_rounded_hash():
    value = torch.tensor([1.25], dtype=torch.float64)
    assert rounded(value + 1e-12) == rounded(value) != rounded(value + 1e-5)
