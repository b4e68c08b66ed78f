"""One writer of a run at a time."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import ROOT, only_run, programs
from train_RL_agents.run import lock
from train_RL_agents.run.run_folder import LOCK_FILE

HOLD = """
import sys, time
from pathlib import Path
from train_RL_agents.run import lock
held = lock.acquire(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def begin():
    with programs("train_RL_agents", end=subprocess.Popen.kill) as start:
        yield start


@pytest.fixture
def hold():
    """Starts processes that hold a lock."""
    started = []

    def held(path):
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield held
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_the_lock_of_a_process_ends_with_it(tmp_path, hold):
    path = tmp_path / LOCK_FILE
    other = hold(path)
    with pytest.raises(ConfigError) as caught:
        lock.acquire_lock(path)
    assert str(caught.value) == (
        f"{tmp_path}: process {other.pid} on {socket.gethostname()} is training this run; wait until it ends"
    )
    other.send_signal(signal.SIGKILL)
    other.wait()
    file = lock.acquire_lock(path)
    assert path.read_text() == f"{os.getpid()} {socket.gethostname()}\n"
    lock.release_lock(file)


@pytest.mark.parametrize(
    ("content", "held"),
    [
        ("", False),
        ("{alive} {here}", True),
        ("{dead} {here}", False),
        ("{alive} elsewhere", True),
        ("nonsense", False),
    ],
)
@pytest.mark.parametrize("module", [None, "without locks"])
def test_without_locks_the_file_says_who_writes(tmp_path, monkeypatch, module, content, held):
    def none(*arguments):
        raise OSError(37, "No locks available")

    if module is None:
        monkeypatch.setattr(lock, "fcntl", None)
    else:
        monkeypatch.setattr(lock.fcntl, "lockf", none)
    ended = subprocess.Popen(["true"])
    ended.wait()
    path = tmp_path / LOCK_FILE
    path.write_text(content.format(alive=os.getppid(), dead=ended.pid, here=socket.gethostname()))
    if held:
        with pytest.raises(ConfigError, match=f"or delete {path} if it has$"):
            lock.acquire_lock(path)
        return
    file = lock.acquire_lock(path)
    assert path.read_text().startswith(str(os.getpid()))
    lock.release_lock(file)
    assert path.read_text() == ""


@pytest.mark.slow
def test_a_second_resume_is_refused_and_the_first_goes_on(tmp_path, command, begin):
    first = begin(*command, "total_timesteps=1000000000", "eval_freq=80")
    until = time.monotonic() + 60.0
    while not list(tmp_path.glob("runs/*/seed_0/checkpoints/training_state.pt")):
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    run = only_run(tmp_path)
    second = begin("train", "--resume", str(run.path), "--no-bar", "total_timesteps=1000000000")
    _, errors = second.communicate(timeout=60)
    host = socket.gethostname()
    said = f"process {first.pid} on {host} is training this run; wait until it ends"
    assert (second.returncode, errors) == (2, f"marinenav: error: {run.path}: {said}\n")
    assert first.poll() is None
    first.kill()
    first.wait()
    run.begin()
    run.release()
