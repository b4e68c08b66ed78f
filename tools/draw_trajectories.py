"""Draw the trajectories of a policy on one scenario of each level, to scale.

    python tools/draw_trajectories.py CHECKPOINT docs/trajectories.png --seed 7

Needs matplotlib: pip install -e '.[plot]'.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Polygon

from marinenav_env import GROUP, LEVELS, MarineNavEnv, WorldConfig
from train_RL_agents.checkpoint import load_policy
from train_RL_agents.evaluation import draw_scenarios
from train_RL_agents.policy_wrapper import PolicyWrapper

# Okabe and Ito's colours, told apart by colour-blind readers; line styles help in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
EVERY = 8
"""Control steps between two hulls."""


def hull(x: float, y: float, yaw: float, length: float = 5.0, width: float = 2.5) -> torch.Tensor:
    """Corners [5, 2] of a hull with a pointed bow, in the plot's frame (x up, y right)."""
    outline = torch.tensor([[0.5, 0.0], [0.2, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.2, -0.5]])
    forward, side = (outline * torch.tensor([length, width])).unbind(-1)
    along = x + forward * math.cos(yaw) - side * math.sin(yaw)
    across = y + forward * math.sin(yaw) + side * math.cos(yaw)
    return torch.stack((across, along), -1)


def record(checkpoint: Path, seed: int) -> tuple[torch.Tensor, torch.Tensor, MarineNavEnv]:
    """Poses [T, E, R, 3] and activity [T, E, R] of one episode a level."""
    loaded = load_policy(checkpoint)
    world = WorldConfig()
    scenarios = draw_scenarios(world, LEVELS, (1,) * len(LEVELS), seed)
    env = MarineNavEnv(world, scenarios=scenarios, continuous=loaded.agent.continuous, seed=seed)
    policy, step = PolicyWrapper(loaded.agent), env.reset()
    poses, active = [env.state.pose], [env.state.active]
    for _ in range(200):
        if not env.state.active.any():
            break
        step = env.step(policy(step)).get("next").exclude((GROUP, "reward"))
        poses.append(env.state.pose)
        active.append(env.state.active)
    return torch.stack(poses), torch.stack(active), env


def draw(
    axes: Axes, level: int, poses: torch.Tensor, active: torch.Tensor, env: MarineNavEnv
) -> None:
    """Draw one episode."""
    scenario = env.scenario[level]
    for centre, radius, there in zip(
        scenario.obstacle_position, scenario.obstacle_radius, scenario.obstacle_mask, strict=True
    ):
        if there:
            x, y = centre.tolist()
            axes.add_patch(Circle((y, x), radius.item(), facecolor="0.35", edgecolor="black"))
    for robot in range(int(scenario.robot_mask.sum())):
        colour, style = COLOURS[robot], STYLES[robot]
        last = int(active[:, level, robot].sum())
        track = poses[: last + 1, level, robot]
        axes.plot(track[:, 1], track[:, 0], color=colour, linestyle=style, linewidth=1.2)
        for x, y, yaw in track[::EVERY].tolist():
            axes.add_patch(
                Polygon(hull(x, y, yaw).numpy(), facecolor=colour, alpha=0.45, edgecolor=colour)
            )
        x, y = scenario.goal[robot].tolist()
        axes.plot(y, x, marker="*", markersize=11, color=colour, markeredgecolor="black")
    axes.set(xlim=(-5, 60), ylim=(-5, 60), aspect="equal", title=f"level {level + 1}")
    axes.set(xlabel="y, east (m)", ylabel="x, north (m)")
    axes.label_outer()


def main() -> None:
    """Draw all levels into one picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    mpl.use("Agg")
    poses, active, env = record(args.checkpoint, args.seed)
    figure, grid = pyplot.subplots(2, 3, figsize=(10, 7), layout="constrained")
    for level, axes in enumerate(grid.flat):
        draw(axes, level, poses, active, env)
    figure.suptitle("Hulls every 4 s to scale, goals as stars, obstacles in grey")
    figure.savefig(args.out, dpi=110)


if __name__ == "__main__":
    main()
