"""Test the ROS node of a policy in a second simulator, over topics that delay and lose messages.

    python -m tools.sim_to_sim pretrained/ppo --json docs/results/sim_to_sim.json \\
        --figure docs/sim_to_sim.png

The simulator is the scalar oracle of the tests, which shares no code with the world in which policies are trained; with
`--equations otter` vessels move by the source's equations of the Otter in six degrees of freedom instead.
Every vessel has a node (train_RL_agents/boat), which alone controls its thrusters. Scenarios are those of
`marinenav evaluate POLICY --episodes N --seed S`. Results are written after every condition; a second call continues
with the next one. It needs the extras `export` and `plot`.
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

from marinenav_env import WorldConfig
from marinenav_env.scenarios.scenario_file import episodes_from_scenarios, scenario_text
from tests import ros_stand_in as ros_2
from tests.oracle import actuators as driven
from tests.oracle import otter
from tests.oracle.angles import to_body, to_world, wrap_pi
from tests.oracle.contact import touches
from tests.oracle.current import current_at
from tests.oracle.dynamics import control_step
from tests.oracle.episode import World
from tests.oracle.perception import reached, sightings
from tests.ros_stand_in import Link, Ros, stood_in
from train_RL_agents.boat import runtime
from train_RL_agents.evaluation.contenders import ActingOptions, find_contender, run_set
from train_RL_agents.evaluation.selection import choose_scenarios, default_schedule_and_world
from train_RL_agents.exporting.export import export
from train_RL_agents.figures import drawing
from train_RL_agents.results.statistics import wilson_interval

MEASUREMENT_INTERVAL = 5
"""Number of substeps between measurements."""
DECISION_INTERVAL = 10
"""Number of substeps between decisions of a node."""
DISTURBANCES: dict[str, tuple[float, ...]] = {
    "delay": (0.25, 0.5, 0.75),
    "loss": (0.25, 0.5),
    "delay, not extrapolated": (0.25, 0.5),
    "clock offset": (0.25, 0.5),
    "jitter": (0.25, 0.5),
}
"""Values of each disturbance, of which one is on at a time: times (s), or lost share of the messages."""


class OtterVessel:
    """Vessel that moves by the source's equations of the Otter, and that the current carries.

    Args:
        state: initial state in the form of the oracle: pose, velocities in water and over ground, thrusts.
    """

    def __init__(self, state: list[float]) -> None:
        self.boat = otter.Otter(False)
        x, y, theta, *water = state[:6]
        self.boat.eta[[0, 1, 5]] = x, y, theta
        self.boat.nu[[0, 1]], self.boat.nu[5] = to_body(theta, *water[:2]), water[2]
        self.boat.n[:] = self._shafts(state[9:])

    @staticmethod
    def _shafts(thrust: list[float]) -> list[float]:
        """Return the shaft speeds (rad/s) that give the left and right thrust (N)."""
        curves = [otter.AHEAD if side > 0.0 else otter.ASTERN for side in thrust]
        return [math.copysign(math.sqrt(abs(side) / k), side) for side, k in zip(thrust, curves, strict=True)]

    def step(self, thrust: list[float], current: tuple[float, float], dt: float) -> list[float]:
        """Move by a substep, and return the state in the form of the oracle.

        Args:
            thrust: left and right thrust (N).
            current: velocity of the water (m/s).
            dt: length of the substep (s).
        """
        before = self.boat.eta.copy()
        self.boat.eta[:2] += dt * current[0], dt * current[1]
        self.boat.step(self._shafts(thrust), dt)
        through_water = (self.boat.eta - before)[:2] / dt - current
        (x, y), theta, r = self.boat.eta[:2], self.boat.eta[5], self.boat.nu[5]
        water = [float(through_water[0]), float(through_water[1]), float(r)]
        return [
            float(x),
            float(y),
            float(theta),
            *water,
            water[0] + current[0],
            water[1] + current[1],
            water[2],
            *thrust,
        ]


class SimulatedEpisode:
    """Episode of the second simulator, with a ROS node for every vessel.

    Args:
        config: entry of a scenario file.
        module: module of the ROS node.
        folder: folder of the exported policy.
        disturbance: name and value of a disturbance in DISTURBANCES.
        seed: seed of measurements and messages.
        equations: "oracle", or "otter" for the source's equations of the Otter.
    """

    def __init__(
        self,
        config: Any,
        module: Any,
        folder: Path,
        disturbance: tuple[str, float],
        seed: int,
        equations: str = "oracle",
    ) -> None:
        self.world, self.rng = World(config), random.Random(seed)
        name, value = disturbance
        link = Link(**{name.partition(",")[0]: value} if name != "clock offset" else {})
        offset = value if name == "clock offset" else 0.0
        self.ros = Ros(link, random.Random(seed + 1))
        # Simulated time does not pass while a node computes, so the limit on its time must not apply.
        parameters = {"policy": str(folder), "extrapolate": name != "delay, not extrapolated", "max_seconds": 60.0}
        # Vessels move one substep at a time, as thrusts may arrive between substeps.
        self.vessels = [replace(member.vessel, substeps=1) for member in self.world.members]
        self.wanted = [list(robot.state[9:]) for robot in self.world.robots]
        self.actual = [self._steady(i) for i in range(len(self.world.robots))]
        self.otters = [OtterVessel(robot.state) for robot in self.world.robots] if equations == "otter" else []
        self.nodes = []
        for i, thrust in enumerate(self.wanted):
            self.nodes.append(ros_2.start(module, self.ros, f"{i}/", offset, **parameters))
            for side, topic, unit in self._topics(i):
                self.ros.subscriptions[f"{i}/{topic}"].append(
                    lambda message, thrust=thrust, side=side, unit=unit: thrust.__setitem__(side, unit * message.data)
                )

    def _topics(self, i: int) -> list[tuple[int, str, float]]:
        """Return side (0 left, 1 right), topic, and factor from the topic's value to N, of each command."""
        actuators = self.world.members[i].actuators
        if actuators is None or actuators.steering == "thrusters":
            return [(0, "left_thrust", 1.0), (1, "right_thrust", 1.0)]
        # The angle of the topic is anticlockwise.
        return [(0, "thrust", 1.0), (1, "angle", -self.vessels[i].max_thrust / actuators.angle_limit)]

    def _steady(self, i: int) -> list[float]:
        """Return the steady state of a vessel's actuators under its first setpoints; empty without actuators."""
        actuators, vessel, (left, right) = self.world.members[i].actuators, self.vessels[i], self.wanted[i]
        if actuators is None:
            return []
        shafts = [driven.shaft_command(vessel, actuators, side) for side in (left, right)]
        angle = right / vessel.max_thrust * actuators.angle_limit
        return shafts if actuators.steering == "thrusters" else [shafts[0], angle]

    def run(self, seconds: float) -> str:
        """Run the episode for at most some seconds, and return its ending: success, collision or timeout."""
        dt = self.world.members[0].vessel.dt
        for tick in range(round(seconds / dt)):
            self.ros.time = tick * dt
            if tick and tick % DECISION_INTERVAL == 0 and (ending := self._ending()):
                return ending
            active = [i for i, robot in enumerate(self.world.robots) if robot.active]
            if tick % MEASUREMENT_INTERVAL == 0:
                for i in active:
                    self._measure(i)
            self.ros.deliver()
            if tick % DECISION_INTERVAL == 0:
                for i in active:
                    self.nodes[i].timers[0][1]()
                self.ros.deliver()
            for i in active:
                self._move(i)
        return "timeout"

    def _ending(self) -> str:
        """Deactivate arrived vessels and return the ending of the episode, empty if it continues."""
        world, active = self.world, [r for r in self.world.robots if r.active]
        if any(touches(i, world.robots, world.obstacles) for i in range(len(world.robots))):
            return "collision"
        for robot in active:
            robot.active = not reached(robot, world.members[0].goal_radius)
        return "" if any(robot.active for robot in active) else "success"

    def _move(self, i: int) -> None:
        """Move a vessel by one substep with the last commanded thrust."""
        robot, vessel = self.world.robots[i], self.vessels[i]
        changes = [to - now for to, now in zip(self.wanted[i], robot.state[9:], strict=True)]
        rates = changes[0] / vessel.dt, changes[1] / vessel.dt
        actuators, cores, radius = self.world.members[i].actuators, self.world.cores, self.world.core_radius
        if self.otters:
            current = current_at(*robot.state[:2], cores, radius)
            robot.state = self.otters[i].step(self.wanted[i], current, vessel.dt)
        elif actuators is None:
            robot.state = control_step(robot.state, vessel, rates, cores, radius)
        else:
            robot.state, self.actual[i] = driven.control_step(
                robot.state, self.actual[i], vessel, actuators, rates, cores, radius
            )

    def _measure(self, i: int) -> None:
        """Publish odometry, tracks and goal of a vessel; east is y, north is x."""
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
        for sighting in sightings(i, self.world.robots, self.world.obstacles, self.world.members[i].sensor, noise):
            north, east = to_world(theta, *sighting[:2])
            v_north, v_east = to_world(theta, *sighting[2:4])
            rows.append((y + east, x + north, v_east, v_north, sighting[4]))
        self.ros.publish(f"{i}/tracks", ros_2.tracks(now, rows))
        self.ros.publish(f"{i}/goal", ros_2.goal(robot.goal[1], robot.goal[0]))


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return the command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("policy", help="run folder or policy file")
    add("--json", type=Path, required=True, help="results; existing ones are kept")
    add("--figure", type=Path, help="plot of the success over every disturbance")
    add("--episodes", type=int, default=17, help="episodes per level")
    add("--seed", type=int, default=777)
    add("--seconds", type=float, default=120.0, help="time limit of an episode (s), for the published control step")
    add("--undisturbed", action="store_true", help="only the first condition, in which nothing is disturbed")
    add("--equations", choices=("oracle", "otter"), default="oracle", help="equations of the vessels")
    return parser.parse_args(argv)


def count_endings(endings: list[str]) -> dict[str, Any]:
    """Return the number of episodes, of each ending, and the 95% interval of the success rate, by name."""
    counts = {name: endings.count(name) for name in ("success", "collision", "timeout")}
    low, high = wilson_interval(counts["success"], len(endings))
    return {"episodes": len(endings), **counts, "success_low": low, "success_high": high}


def draw_success(results: dict[str, Any], path: Path) -> None:
    """Draw the success rate, with its interval, over the values of every disturbance, into an image file.

    Args:
        results: results of count_endings by condition, as in the JSON file.
        path: path of the image.
    """
    figure = drawing.new_figure(9.0, 3.5, "constrained")
    panels = figure.subplots(1, 4, sharey=True)
    labels = {
        "delay": "delay (s)",
        "jitter": "jitter, up to (s)",
        "loss": "share of messages lost",
        "clock offset": "clock ahead by (s)",
    }
    for panel, (name, axis) in zip(panels, labels.items(), strict=True):
        for key, colour in zip((name, f"{name}, not extrapolated"), drawing.VESSEL_COLOURS, strict=False):
            if key not in DISTURBANCES:
                continue
            values = sorted((0.0, *DISTURBANCES[key]))
            cells = [results[f"{key} {value:g}" if value else "off"] for value in values]
            mean = [cell["success"] / cell["episodes"] for cell in cells]
            label = "as measured" if "," in key else "moved on to the present"
            panel.plot(values, mean, "o-", color=colour, label=label)
            panel.fill_between(
                values,
                [cell["success_low"] for cell in cells],
                [cell["success_high"] for cell in cells],
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
    """Run the missing conditions and draw the figure."""
    args = parse_arguments(argv)
    contender, cpu = find_contender(args.policy, "best", torch.device("cpu")), torch.device("cpu")
    schedule, world = default_schedule_and_world([contender])
    scenario_set, _ = choose_scenarios(world, schedule, {"episodes": args.episodes, "seed": args.seed})
    results = json.loads(args.json.read_text()) if args.json.exists() else {}
    if "evaluate" not in results:
        report = run_set(contender, scenario_set, world, ActingOptions(), cpu)[0].report()
        results["evaluate"] = {
            "policy": args.policy,
            "seed": args.seed,
            "episodes": report["episodes"],
            "success": round(report["success_rate"] * report["episodes"]),
            "success_low": report["success_low"],
            "success_high": report["success_high"],
        }
    entries = json.loads(scenario_text(episodes_from_scenarios(scenario_set.parts[0].scenarios, world)))
    # All nodes share one session of the policy.
    runtime.load_network = cache(runtime.load_network)
    sweeps = [("delay", 0.0)]
    if not args.undisturbed:
        sweeps += [(name, value) for name, values in DISTURBANCES.items() for value in values]
    seconds = args.seconds * world.dt / WorldConfig().dt
    with tempfile.TemporaryDirectory() as folder, stood_in() as module:
        export(contender.trained, Path(folder), ["onnx"])
        for name, value in sweeps:
            key = f"{name} {value:g}" if value else "off"
            key = key if args.equations == "oracle" else f"{key}, {args.equations}"
            if key not in results:
                endings = [
                    SimulatedEpisode(entry, module, Path(folder), (name, value), n, args.equations).run(seconds)
                    for n, entry in enumerate(entries)
                ]
                results[key] = count_endings(endings)
                args.json.write_text(json.dumps(results, indent=1) + "\n")
            print(key, results[key], flush=True)
    if args.figure:
        draw_success(results, args.figure)


if __name__ == "__main__":
    main()
