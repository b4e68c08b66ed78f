"""Parts that tools/guard.py compares; a part yields lines, each a name with hashes (text) and other values (numbers).

A changed number is printed, but does not count as a difference.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from marinenav_env import WorldConfig
from marinenav_env.scenarios.episode import stack_episodes
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.state import Scenario
from tests.train_RL_agents.fake_gpu import Loop, fake_gpu
from tests.train_RL_agents.tiny_runs import begin_in_graphs, new_run, small_pool
from tools.hashing import iterate_tensors, rounded_bytes, tensor_bytes, unordered_hash
from train_RL_agents.agents import AGENTS
from train_RL_agents.evaluation.judging.policies import ActingOptions, EvaluatedPolicy, run_set
from train_RL_agents.evaluation.suites.frozen import FROZEN_SEED, FROZEN_SUITES, scenario_hash
from train_RL_agents.evaluation.suites.sets import Part
from train_RL_agents.evaluation.suites.suites import make_scenario_set
from train_RL_agents.run.checkpoint import load_policy

ROOT = Path(__file__).parents[1]
TOTAL_ENV_STEPS = 60_000
"""Length of every training (env-steps)."""
TRAINING_SETTINGS = (
    f"total_timesteps={TOTAL_ENV_STEPS}",
    f"eval_freq={TOTAL_ENV_STEPS // 2}",
    "execution.device=cpu",
    "execution.threads=1",
    "seed=3",
    "monitor=false",
    "eval_schedule.num_episodes=2,2,2,2,2,2",
)
"""Settings of every training."""
ALGORITHM_SETTINGS = {
    "off-policy": ("trainer.learning_starts=10000",),
    "on-policy": ("trainer.num_envs=64", "trainer.rollout_steps=32", "trainer.batch_size=1024"),
}
"""Further settings of a training by algorithm."""
REPRESENTATIVE_AGENTS = ("AC-IQN", "PPO")
"""One agent of each algorithm."""
TIME_COLUMNS = ("train_time", "wall_time")
"""Columns of evaluations.csv that differ between equal runs."""
_IN_PLACE_SETTINGS = ("total_timesteps=16000", "eval_freq=8000")
"""Settings of the training in place, which is shorter."""

Line = tuple[str, dict[str, str | float]]
"""Name of a line, and its hashes (text) and other values (numbers) by name."""


# Training ---------------------------------------------------------------------------------------


def run_hashes(run: Path) -> dict[str, str | float]:
    """Return hashes of the ``weights``, the ``evaluations`` and, if there is one, the replay (``memory``) of a run.

    Args:
        run: folder of a finished run.
    """
    folder = run / "checkpoints"
    manifest = json.loads((folder / "manifest.json").read_text())
    policy = torch.load(folder / manifest["latest"], weights_only=True)
    state = torch.load(folder / "training_state.pt", weights_only=True)
    with (run / "evaluations.csv").open() as stream:
        rows = [
            sorted(value for name, value in row.items() if name not in TIME_COLUMNS) for row in csv.DictReader(stream)
        ]
    result: dict[str, str | float] = {
        "weights": unordered_hash(map(tensor_bytes, iterate_tensors(policy["weights"]))),
        "evaluations": unordered_hash(json.dumps(row).encode() for row in rows),
    }
    if "replay" in state:
        replay = (tensor for tensor in iterate_tensors(state["replay"]) if tensor.numel() > 1)
        result["memory"] = unordered_hash(map(tensor_bytes, replay))
    return result


def train_and_hash(agent: str, *overrides: str) -> dict[str, str | float]:
    """Train an agent in a new process with some overrides of settings, and return the hashes of the run."""
    config = ROOT / "configs" / f"{agent.lower().replace('-', '_')}.json"
    selection = ["-C", str(config)] if config.is_file() else [f"agent_type={agent}"]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "train_RL_agents",
            "train",
            "--quiet",
            *selection,
            *TRAINING_SETTINGS,
            *ALGORITHM_SETTINGS[AGENTS[agent].algorithm],
            *overrides,
            f"save_dir={folder}",
        ]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        return run_hashes(next(Path(folder).glob("*/seed_*")))


def eager_lines(agents: Sequence[str]) -> Iterator[Line]:
    """Train agents without compilation, and yield hashes of the runs."""
    for agent in agents:
        yield agent, train_and_hash(agent, "execution.compile=false")


def compiled_lines(agents: Sequence[str]) -> Iterator[Line]:
    """Train one agent per algorithm with compilation, and yield hashes of the runs."""
    for agent in _representatives(agents):
        yield f"{agent} compiled", train_and_hash(agent, "execution.compile=true")


def gpu_lines(agents: Sequence[str]) -> Iterator[Line]:
    """Run the steps that a GPU captures: in place on the CPU for their values, then on the fake GPU.

    The fake GPU has no values: its line has the number of operators of a vector step with its insertion and of one
    iteration of updates, and an error is raised if a value is read on the host.
    """
    for agent in _representatives(agents):
        with tempfile.TemporaryDirectory() as folder, small_pool():
            run = new_run(Path(folder), f"agent_type={agent}", *_IN_PLACE_SETTINGS)
            trainer = begin_in_graphs(run)
            trainer.train()
            yield f"{agent} in place", run_hashes(run.path)
        with small_pool(1000), fake_gpu() as mode, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
            loop = Loop(mode, agent, "execution.capture=true")
            counts = {}
            for name, call in (("collect", loop.collect), ("learn", loop.learn)):
                operators: list[str] = []
                with mode.counting(operators):
                    call()
                counts[f"operators of {name}"] = float(len(operators))
            weights = loop.algorithm.learner.agent.state_dict()
            shapes = (f"{tensor.dtype} {list(tensor.shape)}".encode() for tensor in iterate_tensors(weights))
            yield f"{agent} on a faked GPU", {"shapes": unordered_hash(shapes), **counts}


def _representatives(agents: Sequence[str]) -> list[str]:
    """Return those of the given agents that are in REPRESENTATIVE_AGENTS."""
    return [agent for agent in agents if agent in REPRESENTATIVE_AGENTS]


# Scenarios and policies -------------------------------------------------------------------------


def suite_lines(_: Sequence[str]) -> Iterator[Line]:
    """Draw the suites of the benchmark, and yield their published hashes and hashes of their values."""
    for name, frozen in FROZEN_SUITES.items():
        suite = make_scenario_set(name, WorldConfig(), frozen.episodes, FROZEN_SEED)
        values = [tensor for part in suite.parts for tensor in scenario_tensors(part) if tensor.any()]
        yield (
            f"suite {name}",
            {
                "published": scenario_hash(suite)[:12],
                "exact": unordered_hash(map(tensor_bytes, values)),
                "rounded": unordered_hash(map(rounded_bytes, values)),
            },
        )


def scenario_tensors(part: Part) -> Iterator[torch.Tensor]:
    """Yield all tensors of the scenarios of a part of a suite, and of the parameters of their worlds."""
    options = torch.device("cpu"), torch.float64
    if isinstance(part.scenarios, Scenario):
        scenario, robots = part.scenarios, part.scenarios.robot_mask.shape[-1]
        parameters, quantiles = build_parameters([part.world], robots, *options)
    else:
        scenario, parameters, quantiles = stack_episodes(part.scenarios, *options)
    yield quantiles
    for batch in (scenario, parameters):
        yield from batch.to_tensordict().values(include_nested=True, leaves_only=True)


def policy_lines(_: Sequence[str]) -> Iterator[Line]:
    """Evaluate every shipped policy on the fixed 60 scenarios, and yield hashes of the results.

    ``outcome`` contains only flags and numbers of steps, which the order of a sum does not change.
    """
    for path in sorted((ROOT / "pretrained").glob("*/*.pt")):
        loaded = load_policy(path)
        world = loaded.config.world
        suite = make_scenario_set("paper", world)
        outcomes, _ = run_set(EvaluatedPolicy.from_loaded(loaded), suite, world, ActingOptions(), torch.device("cpu"))
        # Times are sums of whole steps over robots.
        steps = (outcomes.time * outcomes.robots / world.control_step).round()
        flags = (outcomes.level, outcomes.success, outcomes.collision, outcomes.robots_arrived, steps)
        report = outcomes.report()
        yield (
            f"policy {path.parent.name}/{path.stem}",
            {
                "exact": unordered_hash(map(tensor_bytes, iterate_tensors(outcomes.state_dict()))),
                "outcome": unordered_hash(map(tensor_bytes, flags)),
                "successes": int(outcomes.success.sum()),
                "collisions": int(outcomes.collision.sum()),
                "seconds": round(report["avg_time"] or 0.0, 3),
                "energy": round(report["avg_energy"] or 0, 2),
                "return": round(report["avg_return"], 4),
            },
        )


PARTS: dict[str, Callable[[Sequence[str]], Iterator[Line]]] = {
    "suites": suite_lines,
    "policies": policy_lines,
    "gpu": gpu_lines,
    "eager": eager_lines,
    "compiled": compiled_lines,
}
"""Functions from names of agents to lines, by name of the part, the fastest first."""
