"""Without a compiler, or with a cache that cannot be used, a run goes on."""

import json
import os
import subprocess
import sys

import pytest
import torch

from tests.train_RL_agents.tiny_runs import ROOT, TINY
from train_RL_agents.utils.compiling import compile_problem, compiled_or_not


@pytest.mark.parametrize("error", [ValueError("x"), torch.OutOfMemoryError("x"), OSError(28, "x")])
def test_other_errors_pass(error):
    def attempt(compiled):
        raise error

    assert compile_problem(error) == ""
    with pytest.raises(type(error)):
        compiled_or_not(attempt, lambda line: pytest.fail(line))


def test_what_fails_to_compile_is_done_once_more_without():
    said, tried = [], []

    def attempt(compiled):
        tried.append(compiled)
        if compiled:
            raise torch._dynamo.exc.TorchDynamoException("no pass\nfor this")
        return "done"

    assert compiled_or_not(attempt, said.append) == "done"
    assert tried == [True, False]
    assert said == ["without generated code, which is slower: the compiler failed (no pass)"]


TRAIN = """
import sys
from tests.train_RL_agents.tiny_runs import small_pool
from train_RL_agents.cli import main
with small_pool():
    sys.exit(main(sys.argv[1:]))
"""


def damage(folder):
    """Cut off every library."""
    found = list(folder.rglob("*.so"))
    assert found
    for file in found:
        file.write_bytes(b"")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["compiler", "cache", "damage"])
def test_a_run_goes_on_without_generated_code(tmp_path, what):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY | {"compile": True, "total_timesteps": 80}))
    cache = tmp_path / "cache"
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}

    def train(name, **more):
        words = ["train", "-C", str(config), "--no-bar", f"save_dir={tmp_path / name}"]
        # An unusable cache must be seen before torch is imported, as by the command itself.
        program = ["-m", "train_RL_agents"] if what == "cache" else ["-c", TRAIN]
        return subprocess.run(
            [sys.executable, *program, *words], cwd=ROOT, capture_output=True, text=True,
            env=os.environ | variables | more,
        )  # fmt: skip

    more = {}
    if what == "compiler":
        more = {"CXX": "no-such-compiler", "PATH": str(tmp_path)}
    elif what == "cache":
        cache.touch()
    else:
        assert train("first").returncode == 0
        damage(cache)
    done = train("runs", **more)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("without generated")]
    assert "Traceback" not in done.stderr
    (log,) = (tmp_path / "runs").glob("*/seed_0/run.log")
    if what == "cache":  # compiled, with another one
        assert lines == []
        assert "cannot be written" in done.stderr
    else:
        (line,) = lines
        expected = {"compiler": "there is no C++ compiler", "damage": "is damaged; delete it"}
        assert expected[what] in line
        assert line in log.read_text()
    (state,) = (tmp_path / "runs").glob("*/seed_0/checkpoints/training_state.pt")
    assert torch.load(state)["env_steps"] == 80
