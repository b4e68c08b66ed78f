"""One writer of a run at a time, and what run.log holds."""

import gc
import logging
import re
import shutil
import subprocess
import sys
import warnings

import pytest

from marinenav_env import ConfigError
from tests.refusals import refusal
from tests.train_RL_agents.tiny_runs import ROOT, at, begin, new_run, only_run, programs, wait_for_state
from train_RL_agents.run.run_writer import LOG_FILE, RunLog, acquire_lock

pytestmark = pytest.mark.usefixtures("surroundings")

HOLD = """
import sys, time
from filelock import FileLock
held = FileLock(f"{sys.argv[1]}/run.lock").acquire()
print("held", flush=True)
time.sleep(600)
"""


def lines(run):
    """Without the times."""
    found = (run.path / LOG_FILE).read_text().splitlines()
    assert all(re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d  ", line) for line in found)
    return [line[21:] for line in found]


def test_it_has_what_the_terminal_showed(tmp_path, capsys):
    run = new_run(tmp_path)
    run.writer.heading = ["first"]
    from train_RL_agents.torchrl_trainer import TorchRLTrainer

    TorchRLTrainer(run).train()
    shown = capsys.readouterr().out.splitlines()
    assert lines(run) == ["first", *shown]
    assert f"finished: {run.path}" in lines(run)


def test_it_is_written_in_a_quiet_run_too_and_goes_on_with_a_resume(ended):
    count = len(lines(ended))
    assert count >= 4
    begin(ended).train()
    assert lines(ended)[count].startswith("updates: ")


def test_it_has_warnings_and_the_error_that_ended_the_run(tmp_path, recwarn, caplog):
    run = new_run(tmp_path)
    trainer = begin(run)

    def fail():
        warnings.warn("take care", UserWarning, stacklevel=2)
        logging.getLogger("torch").warning("%s is slow", "it")
        raise ConfigError("the disk\nis full")

    at(trainer, 40, fail)
    usual = warnings.showwarning
    with pytest.raises(ConfigError):
        trainer.train()
    assert lines(run)[-1] == "ended by ConfigError: the disk is full"
    assert "warning: it is slow" in lines(run)
    assert warnings.showwarning is usual


def test_warnings_are_added(tmp_path):
    log = RunLog(tmp_path / LOG_FILE)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with log.watching():
            warnings.warn("take care", UserWarning, stacklevel=1)
    assert (tmp_path / LOG_FILE).read_text().endswith("  warning: take care\n")


def test_a_log_that_cannot_be_written_ends_no_run(tmp_path):
    (tmp_path / "run").mkdir()
    log = RunLog(tmp_path / "run" / LOG_FILE)
    shutil.rmtree(tmp_path / "run")
    log.add("lost")
    assert not (tmp_path / "run").exists()


def test_a_run_that_nobody_closes_holds_no_file(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RunLog(tmp_path / LOG_FILE).add("first")
        gc.collect()
    assert not [w for w in caught if LOG_FILE in str(w.message)]
    assert (tmp_path / LOG_FILE).read_text().endswith("  first\n")


def test_a_refused_resume_says_why(ended):
    (ended.checkpoints / "training_state.pt").write_bytes(b"damaged")
    with pytest.raises(ConfigError):
        begin(ended)
    assert f"damaged, or not a checkpoint of this program; load_model={ended.path} starts a new" in lines(ended)[-1]


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
    with programs("train_RL_agents", end=subprocess.Popen.kill) as start:
        first = start(*command, "total_timesteps=1000000000", "eval_freq=80")
        wait_for_state(first, tmp_path)
        run = only_run(tmp_path)
        second = start("train", "--resume", str(run.path), "--no-bar", "total_timesteps=1000000000")
        _, errors = second.communicate(timeout=60)
        said = "another process uses it; wait until it ends"
        assert (second.returncode, errors) == (2, f"marinenav: error: {run.path}: {said}\n")
        assert first.poll() is None
        first.kill()
        first.wait()
    run.writer.begin()
    run.writer.release()
