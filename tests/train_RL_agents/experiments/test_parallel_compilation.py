"""Compilation by copies of the process of a run."""

import multiprocessing
import sys

import pytest
import torch

from marinenav_env.runtime.kept_code import KeptFunction
from tests.train_RL_agents.tiny_runs import differences, new_run, results
from train_RL_agents.experiments.run import Run, run_to_the_end
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.utils import threads

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or torch.__version__ < "2.15", reason="nothing is compiled by copies"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="a process that has used a GPU is not copied"),
]


def train_on_two_cores(path, fails, compiled):
    """Train a run, with copies that fail if so asked; send a 1 for each function that this process compiled."""
    threads.cpu_cores, threads.num_idle_cores, make = lambda: [0, 1], lambda: 2, KeptFunction.make
    threads.processor_times = lambda: (0.0, 0.0)  # other programs change no number of threads, and so no last bits

    def note(function, arguments):
        if multiprocessing.current_process().name == "run":
            compiled.put(1)
        return None if fails and multiprocessing.current_process().name != "run" else make(function, arguments)

    KeptFunction.make = note
    run_to_the_end(Run("a", RunFolder.open(path), {"quiet": True}))


@pytest.mark.parametrize("agent", ["PPO", "AC-IQN"])
def test_copies_generate_the_code_that_the_process_itself_does(tmp_path, monkeypatch, agent):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    words = (f"agent_type={agent}", "execution.compile=true", "execution.threads=0", "total_timesteps=80")
    runs, number, code = [], [], []
    for fails in (False, True):
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / f"cache{fails}"))
        runs.append(new_run(tmp_path / f"run{fails}", *words))
        spawn = multiprocessing.get_context("spawn")
        compiled = spawn.SimpleQueue()
        process = spawn.Process(target=train_on_two_cores, args=(runs[-1].path, fails, compiled), name="run")
        process.start()
        process.join()
        assert process.exitcode == 0
        number.append(0)
        while not compiled.empty():
            number[-1] += compiled.get()
        code.append({path.name for path in (tmp_path / f"cache{fails}").rglob("*.main.cpp")})
    assert number == [0, 3] and code[0] == code[1]
    assert differences(*map(results, runs)) == []
