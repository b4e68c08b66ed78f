"""Print the speed of the scenario `navigation` of VMAS with random actions; bench_vmas.py runs this script.

It runs in a Python environment with VMAS, and imports nothing from this project.
"""

import json
import sys
import time
from contextlib import redirect_stdout
from importlib.metadata import version


def main(size: int, agents: int, threads: int, device: str, seconds: float) -> None:
    """Step the scenario for some time, and print env-steps per second and versions as JSON.

    Args:
        size: number of environments.
        agents: number of agents.
        threads: number of CPU threads.
        device: device of torch.
        seconds: length of the run (s).
    """
    versions = {"vmas": version("vmas")}
    with redirect_stdout(sys.stderr):
        import torch
        import vmas

        torch.set_num_threads(threads)
        env = vmas.make_env(
            "navigation", num_envs=size, device=device, continuous_actions=True, n_agents=agents, seed=0
        )
        env.reset()

    def run(steps: int) -> float:
        """Make a number of vector steps, and return their time (s)."""
        began = time.perf_counter()
        for _ in range(steps):
            env.step([torch.rand(size, 2, device=device) * 2.0 - 1.0 for _ in env.agents])
        if device != "cpu":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    run(3)  # warm up
    steps = max(3, round(3 * seconds / run(3)))
    rate = size * steps / run(steps)
    print(json.dumps(versions | {"torch of vmas": torch.__version__, "rate": rate}))


if __name__ == "__main__":
    _, envs, vessels, cores, where, length = sys.argv
    main(int(envs), int(vessels), int(cores), where, float(length))
