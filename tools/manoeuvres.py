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
BEGIN_MARK = "<!-- manoeuvres -->"
"""Line of the page before the table."""
END_MARK = "<!-- end of manoeuvres -->"
"""Line of the page after the table."""
SUBSTEP = 0.02
"""Length of a substep (s)."""
SUBSTEPS_PER_STEP = 5
RUN_UP_TIME = 60.0
"""Time at full thrust ahead before a manoeuvre (s)."""
MANOEUVRE_TIME = 90.0
"""Time of a manoeuvre (s)."""
ZIGZAG_HEADING = math.radians(20.0)
"""Change of heading at which the zig-zag turns back (rad)."""
MANOEUVRES = ("stop", "turn", "zig-zag")
"""Names of the manoeuvres."""
KNOT = 0.5144
"""A knot in m/s."""
PUBLISHED_SPEEDS = {"otter": 6 * KNOT}
"""Top speeds that the sources of vessels state (m/s)."""
Track = np.ndarray[Any, Any]
"""Rows of x, y (m), heading (rad, not wrapped), surge speed (m/s), one for each step of the manoeuvre."""


def thrust_setpoints(vessel: VesselConfig, manoeuvre: str, side: int) -> tuple[float, float]:
    """Return the left and right setpoint (N) of a manoeuvre or of "ahead"; ``side`` 1 turns to starboard, -1 to port.

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


def simulate(vessels: Sequence[VesselConfig]) -> list[dict[str, Track]]:
    """Simulate all manoeuvres of every vessel from full speed ahead, and return each vessel's tracks by manoeuvre."""
    count = len(MANOEUVRES)
    parameters, _ = build_parameters(
        [WorldConfig(vessel=k) for k in vessels], count, torch.device("cpu"), torch.float64
    )
    scenario = blank_scenarios(len(vessels), count, 0, 0, torch.device("cpu"), torch.float64)
    scenario.robot_mask[:] = True
    state = initial_state(scenario, parameters.rules.core_radius)
    if parameters.extras is not None:
        state.actuator = steady_actuator_state(scenario.thrust, scenario, parameters.vessel, parameters.extras)
    turned, side, rows = torch.zeros(len(vessels), count, dtype=torch.float64), np.ones(len(vessels), int), []
    step = SUBSTEP * SUBSTEPS_PER_STEP
    begin = round(RUN_UP_TIME / step)
    for number in range(begin + round(MANOEUVRE_TIME / step)):
        for index, heading in enumerate(turned[:, 2].tolist()):
            side[index] = _next_side(int(side[index]), heading)
        wanted = [
            [
                thrust_setpoints(k, name if number >= begin else "ahead", int(turn) if name == "zig-zag" else 1)
                for name in MANOEUVRES
            ]
            for k, turn in zip(vessels, side, strict=True)
        ]
        rates = (torch.tensor(wanted, dtype=torch.float64) - state.thrust) / step
        before = state.pose[..., 2]
        moved = move_vessels(state, rates, scenario, parameters, SUBSTEP, SUBSTEPS_PER_STEP)
        state.pose, state.velocity_water, state.velocity_ground, state.thrust, state.actuator = moved
        turned = turned + wrap_to_pi(state.pose[..., 2] - before)
        cos, sin = state.pose[..., 2].cos(), state.pose[..., 2].sin()
        surge = cos * state.velocity_water[..., 0] + sin * state.velocity_water[..., 1]
        if number >= begin - 1:
            rows.append(torch.cat((state.pose[..., :2], turned[..., None], surge[..., None]), -1))
    tracks = torch.stack(rows, 2).numpy()
    return [{name: tracks[index, place] for place, name in enumerate(MANOEUVRES)} for index in range(len(vessels))]


def _next_side(side: int, heading: float) -> int:
    """Return the side to which a zig-zag turns (1 starboard, -1 port), given the last side and the heading (rad)."""
    return -side if side * heading >= ZIGZAG_HEADING else side


def simulate_source(name: str) -> Track:
    """Simulate a manoeuvre of the Otter by the equations of its source, and return the track."""
    vessel, side, rows = otter.Otter(planar=False), 1, []
    for number in range(round((RUN_UP_TIME + MANOEUVRE_TIME) / SUBSTEP)):
        is_over = number * SUBSTEP >= RUN_UP_TIME
        side = _next_side(side, float(vessel.eta[5])) if name == "zig-zag" else 1
        shafts = (otter.FASTEST, otter.FASTEST)
        if is_over:
            shafts = {"stop": (otter.SLOWEST,) * 2}.get(name, (otter.FASTEST, 0.0)[::side])
        vessel.step(shafts, SUBSTEP)
        if number * SUBSTEP >= RUN_UP_TIME - SUBSTEP and number % SUBSTEPS_PER_STEP == SUBSTEPS_PER_STEP - 1:
            rows.append([*vessel.eta[:2], vessel.eta[5], vessel.nu[0]])
    return np.array(rows)


def manoeuvre_metrics(tracks: dict[str, Track]) -> dict[str, float]:
    """Return the metrics of a vessel's manoeuvres, from its tracks by manoeuvre.

    These are ``top speed`` (m/s), ``stopping distance`` (m) and ``stopping time`` (s), ``tactical diameter`` and
    ``steady diameter`` of the turn (m), and ``overshoot`` of the zig-zag (degrees).
    """
    stop, turn, zigzag = (tracks[name] for name in MANOEUVRES)
    last = int(np.argmax(stop[:, 3] <= 0.0)) or len(stop) - 1
    half = int(np.argmax(turn[:, 2] >= math.pi))
    rate = (turn[-1, 2] - turn[-101, 2]) / (100 * SUBSTEP * SUBSTEPS_PER_STEP)
    speed = np.hypot(*np.diff(turn[-101:, :2], axis=0).T).sum() / (100 * SUBSTEP * SUBSTEPS_PER_STEP)
    first = zigzag[: int(np.argmax(zigzag[:, 2] < 0.0)) or len(zigzag), 2]
    return {
        "top speed": float(stop[0, 3]),
        "stopping distance": float(np.hypot(*(stop[last, :2] - stop[0, :2]))),
        "stopping time": last * SUBSTEP * SUBSTEPS_PER_STEP,
        "tactical diameter": abs(float(turn[half, 1] - turn[0, 1])) if half else math.nan,
        "steady diameter": float(2.0 * speed / rate),
        "overshoot": math.degrees(float(first.max()) - ZIGZAG_HEADING),
    }


def metrics_table() -> str:
    """Return the table of the metrics of all vessels, with a row for the Otter's source, as Markdown."""
    names = (PUBLISHED_VESSEL, *vessel_files())
    vessels = [read_vessel(name) for name in names]
    rows: list[dict[str, Any]] = []
    for name, vessel, tracks in zip(names, vessels, simulate(vessels), strict=True):
        rows.append(_table_row(f"`{name}`", vessel, manoeuvre_metrics(tracks), PUBLISHED_SPEEDS.get(name)))
        if name == "otter":
            sailed = {manoeuvre: simulate_source(manoeuvre) for manoeuvre in MANOEUVRES}
            rows.append(_table_row("its source", vessel, manoeuvre_metrics(sailed), None))
    return Table.from_rows(rows).markdown()


def _table_row(name: str, vessel: VesselConfig, metrics: dict[str, float], stated: float | None) -> dict[str, Any]:
    """Return a vessel\'s row of the table: texts of its metrics, with the stated top speed (m/s) if there is one."""

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
    made = metrics_table()
    if parser.parse_args().write:
        text = PAGE.read_text()
        before, rest = text.split(BEGIN_MARK)
        PAGE.write_text(f"{before}{BEGIN_MARK}\n\n{made.strip()}\n\n{END_MARK}{rest.split(END_MARK)[1]}")
    else:
        print(made)


if __name__ == "__main__":
    main()
