"""One writer of a run at a time."""

import subprocess
import sys
import time

import pytest

from tests.train_RL_agents.helpers import refusal
from tests.train_RL_agents.tiny_runs import ROOT, only_run, programs
from train_RL_agents.run.lock import acquire_lock

HOLD = """
import sys, time
from filelock import FileLock
held = FileLock(f"{sys.argv[1]}/run.lock").acquire()
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.heavy
def test_the_lock_of_a_process_ends_with_it(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        message = refusal(acquire_lock, tmp_path, "run.lock")
        other.kill()
    assert message == f"{tmp_path}: another process uses it; wait until it ends"
    acquire_lock(tmp_path, "run.lock").release()


def test_objects_of_one_process_share_a_lock(tmp_path):
    first, second = (acquire_lock(tmp_path, "run.lock") for _ in range(2))
    first.release()
    assert second.is_locked
    second.release()
    assert not second.is_locked


@pytest.mark.slow
def test_a_second_resume_is_refused_and_the_first_goes_on(tmp_path, command):
    with programs("train_RL_agents", end=subprocess.Popen.kill) as begin:
        first = begin(*command, "total_timesteps=1000000000", "eval_freq=80")
        until = time.monotonic() + 60.0
        while not list(tmp_path.glob("runs/*/seed_0/checkpoints/training_state.pt")):
            assert first.poll() is None, first.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        run = only_run(tmp_path)
        second = begin("train", "--resume", str(run.path), "--no-bar", "total_timesteps=1000000000")
        _, errors = second.communicate(timeout=60)
        said = "another process uses it; wait until it ends"
        assert (second.returncode, errors) == (2, f"marinenav: error: {run.path}: {said}\n")
        assert first.poll() is None
        first.kill()
        first.wait()
    run.writer.begin()
    run.writer.release()
