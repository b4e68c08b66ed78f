"""Tests are collected on a machine that has nothing but what the project requires, and pytest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COLLECT = """
import re, sys
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest

def normal(name):
    return re.sub("[-_.]+", "-", name).lower()

def required(names):
    found, left = set(), [*names]
    while left:
        name = normal(left.pop())
        if name in found:
            continue
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            continue
        found.add(name)
        left += [re.match("[A-Za-z0-9._-]+", line)[0] for line in lines if "extra ==" not in line]
    return found

kept = required(["marinenav", "pytest"])
assert "torch" in kept and "hypothesis" not in kept
modules = packages_distributions().items()
absent = {name for name, owners in modules if not kept & set(map(normal, owners))}
absent -= {"_virtualenv", "_distutils_hack", "pkg_resources", "setuptools"}

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: (
    None if name.partition(".")[0] in absent else find(name, *rest)
)
sys.exit(pytest.main(["-q", "-m", "gpu", "--collect-only", "--assert=plain", "-p", "no:cacheprovider"]))
"""


@pytest.mark.slow
def test_gpu_tests_are_collected_without_extras():
    done = subprocess.run(
        [sys.executable, "-c", COLLECT],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "tests/train_RL_agents/learning/test_graph_collector.py" in done.stdout
