"""Tests of the rules for fast tests."""

import subprocess
import sys
from multiprocessing import get_context

import pytest
import torch

from tests.conftest import HEAVY, HEAVY_PATHS, ROOT


def square(number):
    return number * number


@pytest.mark.parametrize(
    ("what", "act"),
    [
        ("start a process", lambda: subprocess.run([sys.executable, "-c", ""])),
        ("start a process", lambda: get_context("spawn").Process(target=print).start()),
        ("compile", lambda: torch.compile(square)),
        ("compile", lambda: torch.nn.Identity().compile()),
    ],
)
def test_fast_tests_fail_when_they_do_what_takes_long(what, act):
    with pytest.raises(pytest.fail.Exception, match=f"a fast test must not {what}"):
        act()


def test_a_fast_test_is_known_by_its_marker(request):
    assert request.node.get_closest_marker("fast")


def test_heavy_modules_exist_and_none_is_named_twice():
    found = [path for pattern in HEAVY for path in ROOT.glob(pattern)]
    assert [pattern for pattern in HEAVY if not any(ROOT.glob(pattern))] == []
    assert len(set(found)) == len(found)
    assert [path for path in found if not HEAVY_PATHS.isdisjoint(path.parents)] == []
