"""Pages in which policies steer, and what their scripts must compute as Python does."""

import copy
import json
import re
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import torch

from marinenav_env import WorldConfig
from marinenav_env.scenarios.scenario_file import parse_scenarios
from tests.marinenav_env.helpers import recordings
from train_RL_agents.evaluation.judging.policies import returns_scale
from train_RL_agents.exporting.graph import policy_graphs
from train_RL_agents.figures.demo import make_page
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.run.checkpoint import load_policy

PRETRAINED = Path(__file__).parents[3] / "pretrained"
AGENTS = ("ac_iqn", "iqn", "ddpg", "dqn", "sac", "rainbow", "ppo", "a2c")
TOLERANCE = 1e-9
FLAGS = ("mask", "colregs", "collision", "reach_goal", "deactivated")


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
