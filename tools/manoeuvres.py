"""Sail standard manoeuvres with every vessel of the package, and print the table of their metrics for docs/boats.md.

    python -m tools.manoeuvres          print the table
    python -m tools.manoeuvres --write  replace the table in docs/boats.md

The tracks come from the world's own step. For the Otter, the same manoeuvres are also sailed by the equations of its
source in six degrees of freedom (tests/oracle/otter.py).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from marinenav_env import WorldConfig
from marinenav_env.config import VesselConfig
from marinenav_env.physics.actuators import move_vessels, steady_actuator_state
from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.scenarios.scenario import blank_scenarios
from marinenav_env.stepping.world import initial_state
from marinenav_env.vessels import PUBLISHED_VESSEL, read_vessel, vessel_files
from tests.oracle import otter
from train_RL_agents.results.table import Table

PAGE = Path(__file__).parent.parent / "docs" / "boats.md"
BEGIN, END = "<!-- manoeuvres -->", "<!-- end of manoeuvres -->"
DT, SUBSTEPS, RUN_UP, SECONDS = 0.02, 5, 60.0, 90.0
"""Substep (s), substeps per step, time at full thrust ahead before a manoeuvre (s), and time of the manoeuvre (s)."""
ZIGZAG = math.radians(20.0)
"""Change of heading at which the zig-zag turns back (rad)."""
NAMES = ("stop", "turn", "zig-zag")
NAUTICAL = 0.5144
PUBLISHED_SPEEDS = {"otter": 6 * NAUTICAL}
"""Top speeds that the sources of vessels state (m/s)."""
Track = np.ndarray[Any, Any]
"""Rows of x, y (m), heading (rad, not wrapped), surge speed (m/s), one for each step of the manoeuvre."""


def setpoints(vessel: VesselConfig, manoeuvre: str, side: int) -> tuple[float, float]:
    """Return the setpoints of a manoeuvre (N); ``side`` 1 turns to starboard, -1 to port.

    The boat stops with full thrust astern. It turns with full thrust ahead on one side and none on the other, or with
    full thrust at the largest angle.
    """
    most: Any = vessel.max_thrust
    low: Any = vessel.min_thrust
    is_steered = vessel.actuators.steering != "thrusters"
    if manoeuvre == "ahead":
        return (most, 0.0 if is_steered else most)
    if manoeuvre == "stop":
        return (low, 0.0 if is_steered else low)
    if is_steered:  # a positive angle turns to port
        return (most, -side * most)
    return (most, 0.0) if side > 0 else (0.0, most)


def sail(vessels: Sequence[VesselConfig]) -> list[dict[str, Track]]:
    """Return the tracks of every vessel by manoeuvre, all from full speed ahead."""
    count = len(NAMES)
    parameters, _ = build_parameters(
        [WorldConfig(vessel=k) for k in vessels], count, torch.device("cpu"), torch.float64
    )
    scenario = blank_scenarios(len(vessels), count, 0, 0, torch.device("cpu"), torch.float64)
    scenario.robot_mask[:] = True
    state = initial_state(scenario, parameters.rules.core_radius)
    if parameters.extras is not None:
        state.actuator = steady_actuator_state(scenario.thrust, scenario, parameters.vessel, parameters.extras)
    turned, side, rows = torch.zeros(len(vessels), count, dtype=torch.float64), np.ones(len(vessels), int), []
    step = DT * SUBSTEPS
    begin = round(RUN_UP / step)
    for number in range(begin + round(SECONDS / step)):
        for index, heading in enumerate(turned[:, 2].tolist()):
            side[index] = _next_side(int(side[index]), heading)
        wanted = [
            [
                setpoints(k, name if number >= begin else "ahead", int(turn) if name == "zig-zag" else 1)
                for name in NAMES
            ]
            for k, turn in zip(vessels, side, strict=True)
        ]
        rates = (torch.tensor(wanted, dtype=torch.float64) - state.thrust) / step
        before = state.pose[..., 2]
        moved = move_vessels(state, rates, scenario, parameters, DT, SUBSTEPS)
        state.pose, state.velocity_water, state.velocity_ground, state.thrust, state.actuator = moved
        turned = turned + wrap_to_pi(state.pose[..., 2] - before)
        cos, sin = state.pose[..., 2].cos(), state.pose[..., 2].sin()
        surge = cos * state.velocity_water[..., 0] + sin * state.velocity_water[..., 1]
        if number >= begin - 1:
            rows.append(torch.cat((state.pose[..., :2], turned[..., None], surge[..., None]), -1))
    tracks = torch.stack(rows, 2).numpy()
    return [{name: tracks[index, place] for place, name in enumerate(NAMES)} for index in range(len(vessels))]


def _next_side(side: int, heading: float) -> int:
    """Return the side that a zig-zag turns to at a heading (rad)."""
    return -side if side * heading >= ZIGZAG else side


def sail_source(name: str) -> Track:
    """Return the track of the Otter in a manoeuvre, by the equations of its source."""
    vessel, side, rows = otter.Otter(planar=False), 1, []
    for number in range(round((RUN_UP + SECONDS) / DT)):
        is_over = number * DT >= RUN_UP
        side = _next_side(side, float(vessel.eta[5])) if name == "zig-zag" else 1
        shafts = (otter.FASTEST, otter.FASTEST)
        if is_over:
            shafts = {"stop": (otter.SLOWEST,) * 2}.get(name, (otter.FASTEST, 0.0)[::side])
        vessel.step(shafts, DT)
        if number * DT >= RUN_UP - DT and number % SUBSTEPS == SUBSTEPS - 1:
            rows.append([*vessel.eta[:2], vessel.eta[5], vessel.nu[0]])
    return np.array(rows)


def metrics(tracks: dict[str, Track]) -> dict[str, float]:
    """Return the metrics of the manoeuvres by name (m/s, m, s, degrees)."""
    stop, turn, zigzag = (tracks[name] for name in NAMES)
    last = int(np.argmax(stop[:, 3] <= 0.0)) or len(stop) - 1
    half = int(np.argmax(turn[:, 2] >= math.pi))
    rate = (turn[-1, 2] - turn[-101, 2]) / (100 * DT * SUBSTEPS)
    speed = np.hypot(*np.diff(turn[-101:, :2], axis=0).T).sum() / (100 * DT * SUBSTEPS)
    first = zigzag[: int(np.argmax(zigzag[:, 2] < 0.0)) or len(zigzag), 2]
    return {
        "top speed": float(stop[0, 3]),
        "stopping distance": float(np.hypot(*(stop[last, :2] - stop[0, :2]))),
        "stopping time": last * DT * SUBSTEPS,
        "tactical diameter": abs(float(turn[half, 1] - turn[0, 1])) if half else math.nan,
        "steady diameter": float(2.0 * speed / rate),
        "overshoot": math.degrees(float(first.max()) - ZIGZAG),
    }


def table() -> str:
    """Return the table of the metrics of all vessels, with a row for the Otter's source, as Markdown."""
    names = (PUBLISHED_VESSEL, *vessel_files())
    vessels = [read_vessel(name) for name in names]
    rows: list[dict[str, Any]] = []
    for name, vessel, tracks in zip(names, vessels, sail(vessels), strict=True):
        rows.append(_row(f"`{name}`", vessel, metrics(tracks), PUBLISHED_SPEEDS.get(name)))
        if name == "otter":
            sailed = {manoeuvre: sail_source(manoeuvre) for manoeuvre in NAMES}
            rows.append(_row("its source", vessel, metrics(sailed), None))
    return Table.of(rows).markdown()


def _row(name: str, vessel: VesselConfig, metrics: dict[str, float], stated: float | None) -> dict[str, Any]:
    def meters(key: str) -> str:
        value = metrics[key]
        return "none" if math.isnan(value) else f"{value:.2f} m ({value / float(vessel.length):.1f} L)"  # type: ignore[arg-type]

    return {
        "boat": name,
        "length": f"{vessel.length:g} m",
        "top speed": f"{metrics['top speed']:.2f} m/s" + (f" (stated: {stated:.2f})" if stated else ""),
        "stopping distance": f"{meters('stopping distance')} in {metrics['stopping time']:.1f} s",
        "tactical diameter": meters("tactical diameter"),
        "steady turning circle": meters("steady diameter"),
        "first overshoot, 20/20": f"{metrics['overshoot']:.1f} degrees",
    }


def main() -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the table in docs/boats.md")
    made = table()
    if parser.parse_args().write:
        text = PAGE.read_text()
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{made.strip()}\n\n{END}{rest.split(END)[1]}")
    else:
        print(made)


if __name__ == "__main__":
    main()
