"""The script that compares hashes of what the program computes."""

import json

import pytest
import torch

from tools import guard
from tools.hashing import iterate_tensors, rounded_bytes, tensor_bytes, unordered_hash

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


@pytest.mark.parametrize(
    ("changes", "status", "printed"),
    [
        ({"memory": "b3"}, 1, "weights a1  memory b3 DIFFERS  successes 60"),
        ({"memory": None}, 1, "memory IS GONE"),
        ({"successes": 59}, 0, "successes 59 (was 60)"),
    ],
)
def test_another_or_a_missing_hash_is_a_difference_and_another_metric_is_not(
    file, parts, capsys, changes, status, printed
):
    for name, value in changes.items():
        parts[name] = value
        if value is None:
            del parts[name]
    assert compared(file) == status
    assert printed in capsys.readouterr().out


def test_names_and_order_do_not_change_a_hash():
    one, other = torch.ones(2), torch.zeros(3)
    named = unordered_hash(map(tensor_bytes, iterate_tensors({"a": one, "b": [{"c": other}]})))
    assert named == unordered_hash(map(tensor_bytes, iterate_tensors((other, one))))
    assert named != unordered_hash(map(tensor_bytes, iterate_tensors((other, one + 1e-6))))


def test_a_shape_or_a_type_changes_a_hash():
    ones = torch.ones(2, 3)
    hashes = {unordered_hash([tensor_bytes(each)]) for each in (ones, ones.T, ones.double(), ones.view(6))}
    assert len(hashes) == 4


def test_the_last_bits_do_not_change_a_rounded_hash():
    value = torch.tensor([1.25], dtype=torch.float64)
    assert rounded_bytes(value + 1e-12) == rounded_bytes(value) != rounded_bytes(value + 1e-5)
