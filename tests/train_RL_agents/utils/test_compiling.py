"""Without a compiler, or with a cache that cannot be used, a run goes on."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from torch._inductor.runtime.compile_tasks import _reload_python_module

from marinenav_env.support.validation import replace_settings
from tests.train_RL_agents.tiny_runs import ROOT, TINY, new_run, train
from train_RL_agents.run.checkpoint import NOT_EVALUATED_NOTE, STATE_FILE, load_policy
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer
from train_RL_agents.utils.compiling import call_with_compile_fallback, compile_problem


def test_what_fails_to_compile_is_done_once_more_without():
    said, tried = [], []

    def attempt(compiled):
        tried.append(compiled)
        if compiled:
            raise torch._dynamo.exc.TorchDynamoException("no pass\nfor this")
        return "done"

    assert call_with_compile_fallback(attempt, said.append) == "done"
    assert tried == [True, False]
    assert said == ["without generated code, which is slower: the compiler failed (no pass)"]


def test_generated_code_that_is_no_python_is_damage(tmp_path, monkeypatch):
    monkeypatch.setattr("train_RL_agents.utils.compiling.compiler_problem", str)
    (tmp_path / "code.py").write_text("def call(")
    with pytest.raises(RuntimeError) as caught:
        _reload_python_module("key", str(tmp_path / "code.py"))
    assert compile_problem(caught.value).endswith("is damaged; delete it")


def test_ctrl_c_while_compiling_keeps_the_last_state(tmp_path, surroundings, capsys):
    run = new_run(tmp_path)
    trainer = TorchRLTrainer(run, bar=False)
    trainer.config = replace_settings(trainer.config, {"execution.compile": True})
    enter, seen = trainer.clock.phase, []

    @contextlib.contextmanager
    def phase(name):
        with enter(name):
            seen.append(name)
            if seen.count("collect") == 1 and trainer.clock.is_compiling:
                signal.raise_signal(signal.SIGINT)
            yield

    trainer.clock.phase = phase
    trainer.train()
    assert trainer.stopped
    assert not (run.checkpoints / STATE_FILE).exists()
    hint = f"go on with: marinenav train --resume {run.path}"
    assert (
        f"stopped while compiling: the state of 0 env-steps is kept, nothing since; {hint}" in capsys.readouterr().out
    )
    assert load_policy(run.path).metrics == {"note": NOT_EVALUATED_NOTE}
    assert train(RunFolder.open(run.path)).env_steps == 160


TRAIN = """
import sys
from tests.train_RL_agents.tiny_runs import small_pool
from train_RL_agents.commands.cli import main
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
    own = {"execution": {"device": "cpu", "threads": 1}, "total_timesteps": 80}
    config.write_text(json.dumps(TINY | own))
    cache = tmp_path / "cache"
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}

    def train(name, **more):
        words = ["train", "-C", str(config), "--no-bar", f"save_dir={tmp_path / name}"]
        # An unusable cache must be seen before torch is imported, as by the command itself.
        program = ["-m", "train_RL_agents"] if what == "cache" else ["-c", TRAIN]
        return subprocess.run(
            [sys.executable, *program, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env=os.environ | variables | more,
        )

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
