"""Identification of a boat from a log, its vessel file, and texts on what the log determines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marinenav_env.support.validation import require
from marinenav_env.vessels import (
    HYDRODYNAMIC_COEFFICIENTS,
    PUBLISHED_VESSEL,
    UNITS_BY_SETTING,
    VESSEL_FILE_FORMAT,
    VESSEL_FILE_VERSION,
    VesselFile,
    read_vessel_file,
)
from train_RL_agents.identification.coefficients import choose_coefficients, has_symmetric_mass
from train_RL_agents.identification.fit import HORIZONS, Estimate, Fit, Prediction, Verdict, fit, predict
from train_RL_agents.identification.log import BoatLog, read_log
from train_RL_agents.utils.table import Column, Table

HELD_OUT_SHARE = 0.25
"""Share of the log, at its end, that is held out from the fit."""
_MAX_ERROR, _MAX_ERROR_SHARE = 1.0, 0.25
"""Error of the last predictions above which a boat is refused (m), if it is also such a share of the path."""


@dataclass(frozen=True)
class Identification:
    """Result of the identification of a boat: its log with the name of the file, the preset and the fit."""

    log: BoatLog
    log_name: str
    preset: VesselFile
    fit: Fit
    prediction: Prediction
    """Predictions of the fitted boat over the part that was not fitted."""
    preset_prediction: Prediction
    """Predictions of the preset over the same part."""


def identify(
    path: Path,
    vessel: str = PUBLISHED_VESSEL,
    frame: str = "ned",
    extra: Sequence[str] = (),
    kept: Sequence[str] = (),
    report: Callable[[str], None] = lambda _: None,
) -> Identification:
    """Fit the coefficients of a boat to a log, predict the end of the log, and return the results.

    The log is a CSV file as read_log describes. The fit starts from the preset ``vessel``, a name or a file;
    coefficients named ``extra`` are fitted beside the usual ones, those ``kept`` keep the preset's values. The callback
    ``report`` receives sentences on the progress.
    """
    preset = read_vessel_file(vessel)
    boat = preset.vessel
    log = read_log(path, boat, frame)
    for note in log.notes:
        report(note)
    begin = log.duration * (1.0 - HELD_OUT_SHARE)
    coefficients = choose_coefficients(boat, log.is_in_newtons, extra, kept)
    result = fit(log, boat, coefficients, begin, report)
    fitted, usual = [item.value for item in result.estimates], [item.preset for item in coefficients]
    prediction = predict(log, boat, coefficients, fitted, result.nuisance[0], begin)
    before = predict(log, boat, coefficients, usual, result.nuisance[0], begin)
    return Identification(log, path.name, preset, result, prediction, before)


# Files ------------------------------------------------------------------------------------------


def vessel_text(result: Identification, name: str) -> str:
    """Return the content of the vessel file of an identified boat."""
    preset, numbers = result.preset, dict[str, Any]()
    estimates = {item.coefficient.name: item for item in result.fit.estimates}
    if "yDotR" in estimates and has_symmetric_mass(preset.vessel):
        estimates["nDotV"] = estimates["yDotR"]
    keys = [f"actuators.{key}" if hasattr(preset.vessel.actuators, key) else key for key in estimates]
    for key, value in (preset.settings | {key: 0.0 for key in keys if key not in preset.settings}).items():
        section, _, field_name = key.rpartition(".")
        entry = _setting_entry(field_name, value, estimates.get(field_name))
        if key != "name" and entry is not None:
            (numbers.setdefault(section, {}) if section else numbers)[field_name] = entry
    about = "marinenav identify. Numbers without an interval are those of the preset."
    log_name = "".join(letter if letter.isprintable() else "?" for letter in result.log_name)
    content = {
        "format": VESSEL_FILE_FORMAT,
        "version": VESSEL_FILE_VERSION,
        "name": name,
        "about": f"identified from {log_name}, of {result.log.duration:.0f} s, from {preset.name}",
        "source": " ".join((about, *summary_lines(result))),
        "licence": "",
        "approximated": [*preset.approximated],
        "vessel": numbers,
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _setting_entry(name: str, value: Any, estimate: Estimate | None) -> Any:
    """Return a setting of the vessel file: a text, a dict of ``value``, ``unit`` and ``source``, or None without it."""
    if isinstance(value, str):
        return value
    is_kept = estimate is None or estimate.verdict == Verdict.PRESET_KEPT
    if is_kept and name in HYDRODYNAMIC_COEFFICIENTS and value == 0.0:
        return None
    unit = {"unit": UNITS_BY_SETTING[name]} if name in UNITS_BY_SETTING else {}
    if estimate is None:
        return {"value": value} | unit
    low, high, fitted = (float(f"{number:.5g}") for number in (estimate.low, estimate.high, estimate.value))
    doubt = "" if estimate.verdict == Verdict.DETERMINED else f"; {estimate.verdict}"
    interval = f"95% interval {low:g} to {high:g}{doubt}"
    source = "the preset's: the log does not determine it" if is_kept else interval
    return {"value": fitted} | unit | {"source": source}


# Text -------------------------------------------------------------------------------------------


def summary_lines(result: Identification) -> list[str]:
    """Return sentences on misfit, on the errors of predictions at each horizon, and on horizons not reached."""
    misfit = "What the model leaves is not noise: the boat moves otherwise, so that intervals may miss."
    lines = [misfit] * any(item.verdict == Verdict.UNCERTAIN for item in result.fit.estimates)
    for error, before in zip(result.prediction.errors, result.preset_prediction.errors, strict=True):
        share = f" ({100.0 * error.position / error.path:.1f}% of the path)" if error.path > 0.0 else ""
        preset = f"; of the preset {before.position:.2f} m" if math.isfinite(before.position) else ""
        lines.append(
            f"Prediction over {error.seconds:g} s of the part of the log that was not fitted: "
            f"{error.position:.2f} m{share}, {error.yaw:.1f} degrees{preset}."
        )
    reached = {item.seconds for item in result.prediction.errors}
    missing = " and ".join(f"{horizon:g}" for horizon in HORIZONS if horizon not in reached)
    few = f"The part that was not fitted is too short, or has too many gaps, for predictions over {missing} s."
    return lines + [few] * bool(missing)


def nuisance_line(fitted: Fit) -> str:
    """Return a sentence on the current and the offset of the yaw."""
    (north, east, yaw_offset), (*widths, yaw_width) = fitted.nuisance
    return (
        f"Current: {north:.3f} m/s to the north, {east:.3f} m/s to the east, to {max(widths):.3f} m/s; "
        f"the yaw is {math.degrees(yaw_offset):.1f} degrees off, to {math.degrees(yaw_width):.1f}."
    )


def check_predictions(result: Identification) -> None:
    """Raise a ConfigError if the predictions over the longest horizon are far off."""
    for error in result.prediction.errors[-1:]:
        share = error.position / max(error.path, 1e-9)
        off = f"off by {error.position:.1f} m, {share:.0%} of the path, after {error.seconds:g} s"
        allowed = f"off by less than {_MAX_ERROR_SHARE:.0%} of the path; --force writes the boat nevertheless"
        require(error.position <= _MAX_ERROR or share <= _MAX_ERROR_SHARE, "predictions", off, allowed)


def coefficient_table(fitted: Fit) -> Table:
    """Return the table of the coefficients with presets, values, 95% intervals and verdicts."""
    value, verdict = Column("value", "value, 95% interval", ".4g", ("low", "high")), Column("verdict", "the log")
    columns = Column("name", "coefficient"), Column("unit"), Column("preset", format=".4g"), value, verdict
    rows = [vars(item.coefficient) | vars(item) for item in fitted.estimates]
    return Table(columns, [row | {"unit": UNITS_BY_SETTING[row["name"]]} for row in rows])
