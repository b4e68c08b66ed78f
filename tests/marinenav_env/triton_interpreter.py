"""Triton's interpreter, in a process of its own: triton reads whether to use it when imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def interpreted(module):
    """What a module prints as JSON when it is run, by name, with the interpreter."""
    pytest.importorskip("triton")
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", module], cwd=ROOT, env=environment, capture_output=True, text=True)
    if "only 0-dimensional arrays can be converted" in done.stderr:
        pytest.skip("the interpreter of this triton needs an older numpy")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
