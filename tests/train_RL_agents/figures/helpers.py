"""A small recording, folders of runs, and pages in which policies steer; their scripts, run by Node or in the page."""

import copy
import csv
import json
import re
import shutil
import subprocess
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.scenarios.episode import Episode
from marinenav_env.scenarios.scenario_file import parse_scenarios
from tests.marinenav_env.helpers import recordings
from tests.train_RL_agents.evaluation.helpers import EPISODES, episode, to_the_goal
from train_RL_agents.evaluation.judging.policies import returns_scale
from train_RL_agents.evaluation.running.recording import Recording, record
from train_RL_agents.exporting.graph import policy_graphs
from train_RL_agents.figures.demo import make_page
from train_RL_agents.figures.episode_view import EpisodeView
from train_RL_agents.figures.page import bundle_module
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.policy_wrapper import QUANTILES_KEY
from train_RL_agents.run.checkpoint import load_policy

HEAD_ON_PAIR = 1
"""Index of the episode in which the first two of three vessels meet head-on, and collide."""
CROSSING_PAIR = len(EPISODES) - 1
"""Index of the episode in which two vessels cross."""
PRETRAINED = Path(__file__).parents[3] / "pretrained"
TOLERANCE = 1e-9
FLAGS = ("mask", "colregs", "collision", "reach_goal", "deactivated")
NODE = shutil.which("node")
CHECKS = bundle_module(Path(__file__).with_name("demo_checks.js"))


def _with_core() -> Episode:
    """One vessel, an obstacle and a vortex."""
    plain = episode([(5, 5)], [(12, 5)], [0.0], [(20, 40, 1.5)])
    return Episode(**{**vars(plain), "cores": [[30.0, 20.0, 9.4]]})


def with_quantiles(step):
    acted = to_the_goal(step)
    mask = acted["robots", "mask"]
    return acted.set(QUANTILES_KEY, torch.linspace(-1.0, 2.0, 8).expand(*mask.shape, 8))


@cache
def small_recording(quantiles: bool = True) -> Recording:
    """The episodes of the tests of evaluation, and one with a current."""
    episodes = [*EPISODES, _with_core()]
    policy = with_quantiles if quantiles else to_the_goal
    groups = [f"group {index + 1}" for index in range(len(episodes))]
    _, recording = record(
        policy,
        episodes,
        WorldConfig(max_steps=30),
        name="To the goal",
        groups=groups,
        continuous=True,
        device=torch.device("cpu"),
    )
    return replace(recording, reward_scale=1.0)


def first_frames(view: EpisodeView, count: int) -> EpisodeView:
    """A view cut short."""
    cut = {
        item.name: getattr(view, item.name)[:count]
        for item in fields(view)
        if getattr(getattr(view, item.name), "shape", (0,))[0] == view.frames
    }
    return replace(view, **cut)


def in_turned_frame(point, origin, direction):
    """A point [2] in the frame at an origin whose x axis is a direction."""
    x, y = np.asarray(point) - origin
    cos, sin = np.asarray(direction) / np.hypot(*direction)
    return cos * x + sin * y, cos * y - sin * x


@cache
def pretrained(name):
    return load_policy(PRETRAINED / name)


@cache
def page_of(name):
    loaded = pretrained(name)
    risk = getattr(loaded.config.agent, "risk", None)
    return make_page(
        loaded.config.agent_type,
        loaded.config.world,
        policy_graphs(loaded.agent),
        loaded.agent.continuous,
        risk,
        returns_scale(loaded),
        loaded.agent.scores_are_returns,
    )


def data_in(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def in_javascript(observed):
    """Observations [B] as one dictionary of plain numbers for each."""
    rows = {name: each.double().flatten(1).tolist() for name, each in observed.items()}
    return [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]


def agree(check, agent, observed):
    """Assert that actions, scores and returns are Python's, as configured and at risk levels."""
    exact = copy.deepcopy(agent).cpu().double().eval()
    if agent.memory_size:
        blank = torch.zeros(len(observed["self_state"]), agent.memory_size, dtype=torch.float64)
        first = {**observed, MEMORY: blank}
        observed = {**observed, MEMORY: exact.remember(first, exact.outputs(first)).flip(0)}  # of other observations
    count, seen = len(observed["self_state"]), in_javascript(observed)
    levels = torch.rand(count, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    policy = policy_graphs(agent)
    for risk in (None, levels) if agent.supports_risk else (None,):
        with torch.no_grad():
            outputs = exact.outputs(observed, risk)
            action, scores = exact.select(outputs), exact.scores(outputs)
            quantiles = exact.return_quantiles(observed, action)
            memory = exact.remember(observed, outputs) if agent.memory_size else None
        found = check(
            "acted",
            {
                "policy": policy,
                "observations": seen,
                "actions": action.tolist(),
                "risks": None if risk is None else risk.tolist(),
            },
        )
        expected = action.double().reshape(count, -1)
        assert close([each["action"] for each in found], expected) <= TOLERANCE
        for name, numbers in (("scores", scores), ("quantiles", quantiles), ("memory", memory)):
            if numbers is None:
                assert all(each.get(name) is None for each in found)
            else:
                assert close([each[name] for each in found], numbers) <= TOLERANCE


def close(found, expected):
    found = np.array(found)
    assert found.shape == expected.shape
    return np.abs(found - expected.numpy()).max()


@cache
def recorded_episodes():
    """Recorded episodes with the rates of their actions."""
    found = []
    for entry, arrays in recordings().values():
        (episode,) = parse_scenarios([entry])
        robots, action = entry["config"]["robots"], arrays["action"]
        left, right = (np.array(robots[f"{side}_thrust_change"][0]) for side in ("left", "right"))
        if entry["continuous"]:
            rates = action.clip(-1.0, 1.0) * WorldConfig().vessel.max_thrust_rate
        else:
            rates = np.stack((left[action // len(right)], right[action % len(right)]), -1)
        found.append(
            {
                "config": asdict(episode.world),
                "episode": asdict(episode),
                "rates": rates.tolist(),
                "recorded": {name: each.tolist() for name, each in arrays.items()},
            }
        )
    return found


def recordings_agree(check):
    worst = check("replayed", recorded_episodes())
    assert {worst.pop(name) for name in FLAGS} == {0}
    assert set(worst) == {"state", "self_obs", "objects", "phi", "reward", "energy"}
    assert max(worst.values()) <= TOLERANCE, worst


def in_node(name, argument):
    """Call one of the checks in Node."""
    if NODE is None:
        pytest.skip("needs node")
    call = f"checks.{name}(JSON.parse(require('fs').readFileSync(0)))"
    source = f"{CHECKS}\nprocess.stdout.write(JSON.stringify({call}))"
    done = subprocess.run([NODE, "-e", source], input=json.dumps(argument), text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def unreached(page, least):
    """The controls of a page that Tab does not reach, or that do not show it; there are at least so
    many controls."""
    page.evaluate("document.activeElement.blur()")
    controls = page.evaluate("""() => Array.from(
      document.querySelectorAll('button, select, input, summary, canvas[tabindex]')).filter(
      (each) => !each.disabled && each.checkVisibility()).map((each, number) => {
        each.dataset.number = number;
        return each.outerHTML.slice(0, 80);
      })""")
    assert len(controls) >= least
    reached = set()
    for _ in range(len(controls) + 2):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("""() => {
          const now = document.activeElement, seen = getComputedStyle(now).outlineStyle === "solid";
          return seen ? now.dataset.number ?? "" : "";
        }""")
        )
    return [each for number, each in enumerate(controls) if str(number) not in reached]


def make_folder(path, agent="DQN", success=((0, 1), (1, 1)), steps=(100, 200), **arrays):
    """A run folder with evaluations alone."""
    path.mkdir(parents=True)
    shape = np.shape(success)
    given = {"rewards": np.ones(shape), "times": np.full(shape, 20.0), **arrays}
    np.savez(path / "evaluations.npz", timesteps=steps, successes=success, **given)
    levels = [{"num_episodes": 1}, {"num_episodes": shape[1] - 1}]
    # Folders of the original project, here those of agents but DQN, have columns.
    columns = {"levels": levels} if agent == "DQN" else {"num_episodes": [1, shape[1] - 1]}
    schedule = {"eval_schedule": columns}
    (path / "trial_config.json").write_text(json.dumps({"agent_type": agent, **schedule}))
    with (path / "evaluations.csv").open("w") as file:
        table = csv.DictWriter(file, ["env_steps", "wall_time"])
        table.writeheader()
        table.writerows({"env_steps": n, "wall_time": 0.6 * n} for n in steps)
    return path
