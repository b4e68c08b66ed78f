"""The examples of docs/interfaces.md work as they stand."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "interfaces.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NEEDED = {"sb3.py": "stable_baselines3", "sb3_batch.py": "stable_baselines3", "benchmarl_mappo.py": "benchmarl"}


def name(example):
    """What the first line calls it."""
    return re.match(r"# (\w+\.py)\n", example)[1] if example.startswith("# ") else ""


def run(code, folder):
    environment = {"MPLBACKEND": "agg", "PYTHONPATH": ":".join([str(ROOT), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("example", [*filter(name, EXAMPLES)], ids=name)
def test_other_libraries_train(example, tmp_path):
    needed = NEEDED.get(name(example), "torch")
    # Not importorskip: BenchMARL can be imported after interfaces.benchmarl_task only.
    if find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    printed = run(example, tmp_path)
    if name(example) == "torchrl_mappo.py":
        rewards = re.findall(r"reward (-?\d+\.\d+), loss", printed)
        assert len(rewards) == 2


@pytest.mark.slow
def test_short_examples_run(tmp_path):
    pytest.importorskip("pettingzoo", reason="needs the extra pettingzoo")
    (tmp_path / "pretrained").symlink_to(ROOT / "pretrained")
    short = "".join(each for each in EXAMPLES if not name(each))
    assert short.count("\nenv = ") + short.count("\nenvs = ") == 4
    run(short, tmp_path)
