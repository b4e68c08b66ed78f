"""Several commands at the same time."""

import os
import signal
import sys
import threading

import pytest

from train_RL_agents.utils.jobs import run_together, shares

PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
open(sys.argv[1], "w").close()
time.sleep(600)
"""


def ends(status):
    return [sys.executable, "-c", f"raise SystemExit({status})"]


@pytest.mark.parametrize(("statuses", "status"), [((0, 0), 0), ((0, 2, 3), 2)])
def test_the_first_failure_is_the_status(statuses, status):
    assert run_together([ends(each) for each in statuses]) == status


def test_a_job_that_is_killed_is_told(capfd):
    kill = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    assert run_together([ends(0), kill]) == 9
    assert capfd.readouterr().err == "marinenav: job 1 was ended by signal 9\n"


def test_a_request_to_stop_is_passed_on(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]

    def stop():
        while not all(each.exists() for each in paths):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    assert run_together([[sys.executable, "-c", PROGRAM, str(each)] for each in paths]) == 130


def test_cores_and_gpus_are_shared(monkeypatch):
    monkeypatch.setattr("train_RL_agents.utils.jobs.cpu_cores", lambda: 5)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    assert shares(3) == [
        {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": each} for each in ("4", "6", "4")
    ]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert shares(2) == [{"OMP_NUM_THREADS": "2"}] * 2
