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
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.scenarios.scenario_file import stack_episodes
from marinenav_env.state import Scenario
from tests.train_RL_agents.fake_gpu import Loop, fake_gpu
from tests.train_RL_agents.tiny_runs import begin_in_graphs, new_run, small_pool
from tools.hashing import content, digest, rounded, tensors
from train_RL_agents.agents import AGENTS
from train_RL_agents.evaluation.contenders import ActingOptions, Contender, run_set
from train_RL_agents.evaluation.frozen import FROZEN, SEED, hash_of
from train_RL_agents.evaluation.suites import Part, make_set
from train_RL_agents.run.checkpoint import load_policy

ROOT = Path(__file__).parents[1]
STEPS = 60_000
SETTINGS = (
    f"total_timesteps={STEPS}",
    f"eval_freq={STEPS // 2}",
    "execution.device=cpu",
    "execution.threads=1",
    "seed=3",
    "draw_evaluations=false",
    "monitor=false",
    "eval_schedule.num_episodes=2,2,2,2,2,2",
)
OF_ALGORITHM = {
    "off-policy": ("trainer.learning_starts=10000",),
    "on-policy": ("trainer.num_envs=64", "trainer.rollout_steps=32", "trainer.batch_size=1024"),
}
"""Further settings by algorithm of the agents."""
ONE_PER_ALGORITHM = ("AC-IQN", "PPO")
TIMES = ("train_time", "wall_time")
_IN_PLACE = ("total_timesteps=16000", "eval_freq=8000")

Line = tuple[str, dict[str, str | float]]


# Training ---------------------------------------------------------------------------------------


def hashes(run: Path) -> dict[str, str | float]:
    """Return hashes of the weights, the evaluations and the replay buffer of a finished run.

    Args:
        run: run folder.
    """
    folder = run / "checkpoints"
    manifest = json.loads((folder / "manifest.json").read_text())
    policy = torch.load(folder / manifest["latest"], weights_only=True)
    state = torch.load(folder / "training_state.pt", weights_only=True)
    with (run / "evaluations.csv").open() as stream:
        rows = [sorted(value for name, value in row.items() if name not in TIMES) for row in csv.DictReader(stream)]
    result: dict[str, str | float] = {
        "weights": digest(map(content, tensors(policy["weights"]))),
        "evaluations": digest(json.dumps(row).encode() for row in rows),
    }
    if "replay" in state:
        replay = (tensor for tensor in tensors(state["replay"]) if tensor.numel() > 1)
        result["memory"] = digest(map(content, replay))
    return result


def train(agent: str, *overrides: str) -> dict[str, str | float]:
    """Train an agent in a new process, and return hashes of the run."""
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
            *SETTINGS,
            *OF_ALGORITHM[AGENTS[agent].algorithm],
            *overrides,
            f"save_dir={folder}",
        ]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        return hashes(next(Path(folder).glob("*/seed_*")))


def eager(agents: Sequence[str]) -> Iterator[Line]:
    """Train agents without compilation, and yield hashes of the runs."""
    for agent in agents:
        yield agent, train(agent, "execution.compile=false")


def compiled(agents: Sequence[str]) -> Iterator[Line]:
    """Train one agent per algorithm with compilation, and yield hashes of the runs."""
    for agent in _one_per_algorithm(agents):
        yield f"{agent} compiled", train(agent, "execution.compile=true")


def gpu(agents: Sequence[str]) -> Iterator[Line]:
    """Run the steps that a GPU captures: in place on the CPU for their values, then on the fake GPU.

    The fake GPU has no values: its line has the number of operators of a vector step with its insertion and of one
    iteration of updates, and an error is raised if a value is read on the host.
    """
    for agent in _one_per_algorithm(agents):
        with tempfile.TemporaryDirectory() as folder, small_pool():
            run = new_run(Path(folder), f"agent_type={agent}", *_IN_PLACE)
            trainer = begin_in_graphs(run)
            trainer.train()
            yield f"{agent} in place", hashes(run.path)
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
            shapes = (f"{tensor.dtype} {list(tensor.shape)}".encode() for tensor in tensors(weights))
            yield f"{agent} on a faked GPU", {"shapes": digest(shapes), **counts}


def _one_per_algorithm(agents: Sequence[str]) -> list[str]:
    """Return the agents, among the given ones, that represent their algorithm."""
    return [agent for agent in agents if agent in ONE_PER_ALGORITHM]


# Scenarios and policies -------------------------------------------------------------------------


def suites(_: Sequence[str]) -> Iterator[Line]:
    """Draw the suites of the benchmark, and yield their published hashes and hashes of their values."""
    for name, frozen in FROZEN.items():
        suite = make_set(name, WorldConfig(), frozen.episodes, SEED)
        values = [tensor for part in suite.parts for tensor in scenario_tensors(part) if tensor.any()]
        yield (
            f"suite {name}",
            {
                "published": hash_of(suite)[:12],
                "exact": digest(map(content, values)),
                "rounded": digest(map(rounded, values)),
            },
        )


def scenario_tensors(part: Part) -> Iterator[torch.Tensor]:
    """Yield all tensors of scenarios and of their worlds.

    Args:
        part: part of a suite.
    """
    options = torch.device("cpu"), torch.float64
    if isinstance(part.scenarios, Scenario):
        scenario, robots = part.scenarios, part.scenarios.robot_mask.shape[-1]
        parameters, quantiles = build_parameters([part.world], robots, *options)
    else:
        scenario, parameters, quantiles = stack_episodes(part.scenarios, *options)
    yield quantiles
    for batch in (scenario, parameters):
        yield from batch.to_tensordict().values(include_nested=True, leaves_only=True)


def policies(_: Sequence[str]) -> Iterator[Line]:
    """Evaluate every shipped policy on the fixed 60 scenarios, and yield hashes of the results.

    ``outcome`` contains only flags and numbers of steps, which the order of a sum does not change.
    """
    for path in sorted((ROOT / "pretrained").glob("*/*.pt")):
        loaded = load_policy(path)
        world = loaded.config.world
        suite = make_set("paper", world)
        outcomes, _ = run_set(Contender.of(loaded), suite, world, ActingOptions(), torch.device("cpu"))
        # Times are sums of whole steps over robots.
        steps = (outcomes.time * outcomes.robots / (world.dt * world.substeps)).round()
        flags = (outcomes.level, outcomes.success, outcomes.collision, outcomes.robots_arrived, steps)
        report = outcomes.report()
        yield (
            f"policy {path.parent.name}/{path.stem}",
            {
                "exact": digest(map(content, tensors(outcomes.state_dict()))),
                "outcome": digest(map(content, flags)),
                "successes": int(outcomes.success.sum()),
                "collisions": int(outcomes.collision.sum()),
                "seconds": round(report["avg_time"] or 0.0, 3),
                "energy": round(report["avg_energy"] or 0, 2),
                "return": round(report["avg_return"], 4),
            },
        )


PARTS: dict[str, Callable[[Sequence[str]], Iterator[Line]]] = {
    "suites": suites,
    "policies": policies,
    "gpu": gpu,
    "eager": eager,
    "compiled": compiled,
}
"""Parts by name, the fastest first."""
