"""What is said about an identified boat: coefficients, predictions, and the vessel file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from marinenav_env.vessels import FORMAT, PUBLISHED, UNITS, VERSION, VesselFile
from train_RL_agents.identification.fit import Fit, coefficient, predict
from train_RL_agents.identification.log import BoatLog

HORIZONS = (5.0, 20.0, 60.0)
"""Times over which the motion is predicted (s)."""
_SPACING = 15.0
"""Time between the beginnings of predictions (s)."""
_TELLING = {
    "xDotU": "full ahead from rest, and full astern from full speed",
    "lag": "steps of the command while the boat goes straight",
    **dict.fromkeys(("xU", "xUU", "xUUU"), "straight runs of 30 s at a quarter, half and full thrust"),
    **dict.fromkeys(("yDotV", "yV", "yVV", "cross_flow", "nUV"), "turning circles at full speed, to both sides"),
    **dict.fromkeys(("nR", "nRR"), "turns of 20 s at several rates, on the spot as well"),
    "nDotR": "a zig-zag of 20 degrees at half and full thrust",
}
PLAN = "\n".join(
    (
        "Ten minutes in calm water, with positions and yaw five times a second or more, commands when they are sent:",
        *(f"{number}. {text}" for number, text in enumerate(dict.fromkeys(_TELLING.values()), 1)),
        "Repeat them to both sides, and end with five minutes of other motion, by which predictions are judged.",
    )
)
"""Manoeuvres that a log should have."""


def held_out(log: BoatLog) -> float:
    """Return the time up to which a log is fitted; the rest judges the predictions (s)."""
    return max(0.75 * log.seconds, log.seconds - 180.0)


def lines(found: Fit, start: VesselFile, log: BoatLog) -> list[str]:
    """Return the report of a fit.

    Args:
        found: the fit.
        start: boat that it started from.
        log: the log.
    """
    usual = start.vessel
    rows = [f"{len(found.initial)} segments of 10 s, {found.iterations} iterations, from {start.name}"]
    for name, value, low, high in zip(found.names, found.value, found.low, found.high, strict=True):
        before = coefficient(usual, name)
        rows.append(f"{name}: {value:.4g} {UNITS[name]} (95% {low:.4g} to {high:.4g}; {start.name} has {before:.4g})")
    for name in found.unknown:
        rows.append(f"{name}: this log cannot tell it; it would after {_TELLING[name]}")
    begins = np.arange(held_out(log), log.seconds - HORIZONS[-1] + 1e-9, _SPACING)
    segments, predicted = predict(found, log, begins, HORIZONS[-1]) if len(begins) else (None, np.zeros((0, 0, 3)))
    if segments is None or not len(predicted):
        return [*rows, "prediction: the log is too short for one of 60 s that was not fitted"]
    apart = np.hypot(*(predicted - segments.pose)[..., :2].transpose(2, 0, 1))
    for horizon in HORIZONS:
        near = (segments.stamp <= horizon) & (segments.stamp > horizon - 2.0) & np.isfinite(apart)
        middle, most = np.quantile(apart[near], (0.5, 0.9))
        rows.append(
            f"prediction over {horizon:g} s, of {len(apart)} parts that were not fitted: off by {middle:.2f} m "
            f"(median; 90% within {most:.2f} m; with the noise of the measured positions)"
        )
    return rows


def vessel_content(found: Fit, start: VesselFile, name: str, log: str) -> str:
    """Return the content of the vessel file of a fit.

    Args:
        found: the fit.
        start: boat that it started from.
        name: name of the boat.
        log: name of the log.
    """
    numbers: dict[str, Any] = {}
    actuators: dict[str, Any] = {}
    fitted = dict(zip(found.names, zip(found.value, found.low, found.high, strict=True), strict=True))
    for key, value in start.settings.items():
        group, own = (actuators, key.removeprefix("actuators.")) if key.startswith("actuators.") else (numbers, key)
        if own == "name":
            continue
        entry: Any = {"value": value, "unit": UNITS.get(own), "source": f"as {start.name}"}
        if own in fitted:
            number, low, high = fitted[own]
            entry |= {"value": float(f"{number:.5g}"), "source": f"identified, 95% {low:.4g} to {high:.4g}"}
        group[own] = value if own == "steering" else entry
    content = {
        "format": FORMAT,
        "version": VERSION,
        "name": name if name != PUBLISHED else "mine",
        "about": f"identified from {log}, from {start.name}",
        "source": log,
        "licence": "",
        "approximated": [f"Coefficients that were not identified are those of {start.name}."],
        "vessel": numbers | {"actuators": actuators},
    }
    return json.dumps(content, indent=2) + "\n"
