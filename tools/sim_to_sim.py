"""Let the node on board steer in a second world, over topics that delay and lose messages.

    python -m tools.sim_to_sim pretrained/ppo --json docs/results/sim_to_sim.json \\
        --figure docs/sim_to_sim.png

The world is the scalar oracle of the tests, which shares no code with the one in which policies
are trained. Each vessel has a node (train_RL_agents/boat) of its own, and nothing else reaches its
thrusters. Scenarios are those of `marinenav evaluate POLICY --episodes N --seed S`. Results are
written after every condition; a second call goes on with the next. It needs the extras `export`
and `plot`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from marinenav_env.scenarios.scenario_file import episodes_of, scenario_text
from tests import ros_stand_in as ros_2
from tests.oracle.angles import to_body, to_world, wrap_pi
from tests.oracle.contact import touches
from tests.oracle.dynamics import control_step
from tests.oracle.episode import World
from tests.oracle.perception import reached, sightings
from tests.ros_stand_in import Link, Ros, stood_in
from train_RL_agents.boat import runtime
from train_RL_agents.evaluation.contenders import ActingOptions, find, run_set
from train_RL_agents.evaluation.selection import choose_set, defaults
from train_RL_agents.exporting.export import export
from train_RL_agents.figures import drawing
from train_RL_agents.results.statistics import wilson_interval

SENSED, DECIDED = 5, 10
"""Substeps between two measurements, and between two decisions."""
SWEEPS: dict[str, tuple[float, ...]] = {
    "delay": (0.25, 0.5, 0.75),
    "loss": (0.25, 0.5),
    "delay, not extrapolated": (0.25, 0.5),
    "clock offset": (0.25, 0.5),
    "jitter": (0.25, 0.5),
}
"""Values of each disturbance; the others are off. Seconds, and a share of the messages."""


class Fleet:
    """One episode.

    Args:
        config: of a scenario file.
        module: that has the node.
        folder: the exported policy.
        disturbance: name and value of SWEEPS.
        seed: of measurements and messages.
    """

    def __init__(self, config: Any, module: Any, folder: Path, disturbance: tuple[str, float], seed: int) -> None:
        self.world, self.rng = World(config), random.Random(seed)
        name, value = disturbance
        link = Link(**{name.partition(",")[0]: value} if name != "clock offset" else {})
        offset = value if name == "clock offset" else 0.0
        self.ros = Ros(link, random.Random(seed + 1))
        # Time stands still while a node decides, however busy this machine is.
        given = {"policy": str(folder), "extrapolate": name != "delay, not extrapolated", "max_seconds": 60.0}
        # One substep at a time: thrusts may arrive in between.
        self.vessels = [replace(member.vessel, substeps=1) for member in self.world.members]
        self.wanted = [list(robot.state[9:]) for robot in self.world.robots]
        self.nodes = []
        for i, wanted in enumerate(self.wanted):
            self.nodes.append(ros_2.start(module, self.ros, f"{i}/", offset, **given))
            for side, topic in enumerate(("left_thrust", "right_thrust")):
                self.ros.subscriptions[f"{i}/{topic}"].append(
                    lambda each, to=wanted, at=side: to.__setitem__(at, each.data)
                )

    def run(self, seconds: float) -> str:
        """How it ends: success, collision or timeout."""
        dt = self.world.members[0].vessel.dt
        for tick in range(round(seconds / dt)):
            self.ros.time = tick * dt
            if tick and tick % DECIDED == 0 and (ending := self._ending()):
                return ending
            active = [i for i, robot in enumerate(self.world.robots) if robot.active]
            if tick % SENSED == 0:
                for i in active:
                    self._measure(i)
            self.ros.deliver()
            if tick % DECIDED == 0:
                for i in active:
                    self.nodes[i].timers[0][1]()
                self.ros.deliver()
            for i in active:
                self._move(i)
        return "timeout"

    def _ending(self) -> str:
        """What ends the episode now; vessels that have arrived leave it."""
        world, active = self.world, [r for r in self.world.robots if r.active]
        if any(touches(i, world.robots, world.obstacles) for i in range(len(world.robots))):
            return "collision"
        for robot in active:
            robot.active = not reached(robot, world.members[0].goal_radius)
        return "" if any(robot.active for robot in active) else "success"

    def _move(self, i: int) -> None:
        """One substep, with the thrusts that were asked for last."""
        robot, vessel = self.world.robots[i], self.vessels[i]
        changes = [to - now for to, now in zip(self.wanted[i], robot.state[9:], strict=True)]
        rates = changes[0] / vessel.dt, changes[1] / vessel.dt
        robot.state = control_step(robot.state, vessel, rates, self.world.cores, self.world.core_radius)

    def _measure(self, i: int) -> None:
        """Publish odometry, tracks and the goal of a vessel: east is y, north is x."""
        robot, now = self.world.robots[i], self.ros.time
        x, y, theta = robot.state[:3]
        forward, starboard = to_body(theta, *robot.state[6:8])
        self.ros.publish(
            f"{i}/odometry", ros_2.odometry(now, y, x, 0.5 * math.pi - theta, forward, -starboard, -robot.state[8])
        )
        count = len(self.world.obstacles) + len(self.world.robots)
        gauss, kappa = self.rng.gauss, self.world.members[i].sensor.r_kappa
        noise = [
            (*(gauss(0.0, 1.0) for _ in range(4)), wrap_pi(self.rng.vonmisesvariate(0.0, kappa))) for _ in range(count)
        ]
        rows = []
        for each in sightings(i, self.world.robots, self.world.obstacles, self.world.members[i].sensor, noise):
            north, east = to_world(theta, *each[:2])
            v_north, v_east = to_world(theta, *each[2:4])
            rows.append((y + east, x + north, v_east, v_north, each[4]))
        self.ros.publish(f"{i}/tracks", ros_2.tracks(now, rows))
        self.ros.publish(f"{i}/goal", ros_2.goal(robot.goal[1], robot.goal[0]))


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("policy", help="run folder or policy file")
    add("--json", type=Path, required=True, help="results; those there are kept")
    add("--figure", type=Path, help="how success falls")
    add("--episodes", type=int, default=17, help="a level")
    add("--seed", type=int, default=777)
    add("--seconds", type=float, default=120.0, help="longest episode of the second world")
    return parser.parse_args(argv)


def outcome(endings: list[str]) -> dict[str, Any]:
    """Shares of the endings, and the 95% interval of success."""
    counts = {name: endings.count(name) for name in ("success", "collision", "timeout")}
    low, high = wilson_interval(counts["success"], len(endings))
    return {"episodes": len(endings), **counts, "success_low": low, "success_high": high}


def draw(results: dict[str, Any], path: Path) -> None:
    """Success over each disturbance, with its interval."""
    figure = drawing.new_figure(9.0, 3.5, "constrained")
    panels = figure.subplots(1, 4, sharey=True)
    labels = {
        "delay": "delay (s)",
        "jitter": "jitter, up to (s)",
        "loss": "share of messages lost",
        "clock offset": "clock ahead by (s)",
    }
    for panel, (name, axis) in zip(panels, labels.items(), strict=True):
        for key, colour in zip((name, f"{name}, not extrapolated"), drawing.COLOURS, strict=False):
            if key not in SWEEPS:
                continue
            values = sorted((0.0, *SWEEPS[key]))
            cells = [results[f"{key} {value:g}" if value else "off"] for value in values]
            mean = [each["success"] / each["episodes"] for each in cells]
            label = "as measured" if "," in key else "moved on to the present"
            panel.plot(values, mean, "o-", color=colour, label=label)
            panel.fill_between(
                values,
                [each["success_low"] for each in cells],
                [each["success_high"] for each in cells],
                color=colour,
                alpha=0.15,
                linewidth=0.0,
            )
        panel.set_xlabel(axis)
        panel.set_ylim(0.0, 1.02)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("success")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    """Run what is missing, and draw."""
    args = parse(argv)
    found, cpu = find(args.policy, "best", torch.device("cpu")), torch.device("cpu")
    schedule, world = defaults([found])
    chosen, _ = choose_set(world, schedule, {"episodes": args.episodes, "seed": args.seed})
    results = json.loads(args.json.read_text()) if args.json.exists() else {}
    if "evaluate" not in results:
        report = run_set(found, chosen, world, ActingOptions(), cpu)[0].report()
        results["evaluate"] = {
            "policy": args.policy,
            "seed": args.seed,
            "episodes": report["episodes"],
            "success": round(report["success_rate"] * report["episodes"]),
            "success_low": report["success_low"],
            "success_high": report["success_high"],
        }
    entries = json.loads(scenario_text(episodes_of(chosen.parts[0].scenarios, world)))
    # Fleets of one policy share its session.
    runtime.load_network = cache(runtime.load_network)
    sweeps = [("delay", 0.0), *((name, each) for name, values in SWEEPS.items() for each in values)]
    with tempfile.TemporaryDirectory() as folder, stood_in() as module:
        export(found.trained, Path(folder), ["onnx"])
        for name, value in sweeps:
            key = f"{name} {value:g}" if value else "off"
            if key not in results:
                endings = [
                    Fleet(entry, module, Path(folder), (name, value), n).run(args.seconds)
                    for n, entry in enumerate(entries)
                ]
                results[key] = outcome(endings)
                args.json.write_text(json.dumps(results, indent=1) + "\n")
            print(key, results[key], flush=True)
    if args.figure:
        draw(results, args.figure)


if __name__ == "__main__":
    main()
