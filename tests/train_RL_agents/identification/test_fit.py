"""Identification of boats from logs that implementations of others sail."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import read_vessel
from marinenav_env.vessels import read_vessel_file
from tests.train_RL_agents.identification.helpers import Otter, log_of, sail, simple_rows, text_of, with_coefficients
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main
from train_RL_agents.identification.coefficients import choose_coefficients, coefficient_value
from train_RL_agents.identification.fit import Verdict, fit, predict
from train_RL_agents.identification.log import read_log
from train_RL_agents.identification.shooting import prediction_windows

TRUTH = read_vessel("otter")


def wrong(vessel, seed=1):
    """A vessel whose coefficients are wrong by up to 60%."""
    generator = np.random.default_rng(seed)
    names = [item.name for item in choose_coefficients(vessel, True) if item.name not in ("right_strength", "yDotR")]
    return with_coefficients(
        vessel, {name: coefficient_value(vessel, name) * generator.uniform(0.6, 1.6) for name in names}
    )


def distance(prediction, horizon, truth, times):
    """Root mean squared distance of predictions from the true track after some time, and the mean path."""
    errors, paths = [], []
    for start, track in zip(prediction.start_times, prediction.poses, strict=True):
        place = round(horizon / 0.1)
        if start + horizon > times[-1] or place >= len(track):
            continue
        real = [np.interp(start + horizon, times, truth[:, axis]) for axis in range(2)]
        errors.append(np.hypot(*(track[place, :2] - real)))
        paths.append(np.linalg.norm(np.diff(track[: place + 1, :2], axis=0), axis=1).sum())
    return math.sqrt(np.mean(np.square(errors))), float(np.mean(paths))


def identified(name, folder, seed, vessel, **how):
    rows, truth = sail(name, seed=seed, **how)
    file = folder / "log.csv"
    file.write_text(text_of(rows))
    log = read_log(file, vessel)
    coefficients = choose_coefficients(vessel, True)
    result = fit(log, vessel, coefficients, 0.75 * log.duration)
    values = [item.value for item in result.estimates]
    prediction = predict(log, vessel, coefficients, values, result.nuisance[0], 0.75 * log.duration)
    return result, distance(prediction, 60.0, truth, rows[:, 0] - rows[0, 0])


def inside(result, truth):
    """Whether the true coefficients are in their intervals, by name, of those that were fitted."""
    return {
        item.coefficient.name: item.low <= coefficient_value(truth, item.coefficient.name) <= item.high
        for item in result.estimates
        if item.verdict != Verdict.PRESET_KEPT
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seeds"), [("otter", range(5)), ("published", [0])])
def test_a_boat_is_identified_from_wrong_coefficients(name, seeds, tmp_path):
    """Nine of ten true coefficients are inside their intervals, and predictions over 60 s are right."""
    truth, held = read_vessel(name), []
    for seed in seeds:
        result, (error, path) = identified(name, tmp_path, seed, wrong(truth, seed if name == "otter" else 1))
        held += inside(result, truth).values()
        assert error < max(0.5, 0.02 * path), seed
        values = {item.coefficient.name: item.value for item in result.estimates}
        assert values["xU"] + values["xUU"] == pytest.approx(truth.xU + truth.xUU, rel=0.1)
        assert result.noise[0] == pytest.approx(0.1, rel=0.15)
    assert np.mean(held) >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"late": 0.15}, {"rate": 60.0}], ids=["late commands", "slow thrust"])
def test_no_coefficient_is_told_when_the_boat_is_not_the_model(how, tmp_path):
    """Intervals may miss then: those of five of nine coefficients do with slow thrust."""
    result, _ = identified("otter", tmp_path, 0, wrong(TRUTH, 0), **how)
    assert Verdict.DETERMINED not in {item.verdict for item in result.estimates}


@pytest.mark.slow
def test_a_constant_offset_of_the_yaw_is_estimated(tmp_path):
    result, (error, path) = identified("otter", tmp_path, 0, wrong(TRUTH, 0), offset=15.0)
    assert math.degrees(result.nuisance[0, 2]) == pytest.approx(15.0, abs=1.0)
    assert error < max(0.5, 0.02 * path)
    assert sum(inside(result, TRUTH).values()) >= 9


@pytest.mark.heavy
def test_the_command_writes_a_boat_that_worlds_read(tmp_path, capsys, monkeypatch):
    # Longer segments and predictions, and the world's five substeps, take a minute; the slow tests have them.
    monkeypatch.setattr("train_RL_agents.identification.fit.SEGMENT_SECONDS", (5.0,))
    monkeypatch.setattr("train_RL_agents.identification.fit.HORIZONS", (5.0, 10.0))
    monkeypatch.setattr("train_RL_agents.identification.simulation.scaled_settings", lambda vessel: {"dt": 0.2})
    rows, _ = sail("otter", seconds=240.0, seed=3)
    rows[:, 1:3] /= np.where(rows[:, 1:3] < 0.0, -TRUTH.min_thrust, TRUTH.max_thrust)
    log, boat, page = (tmp_path / name for name in ("log.csv", "mine.json", "mine.html"))
    log.write_text(text_of(rows, "time,left_command,right_command,x,y,yaw"))
    words = ["identify", str(log), "--vessel", "otter", "--out", str(boat), "--page", str(page)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "Prediction over 5 s" in printed and "Prediction over 10 s" in printed
    vessel = read_vessel(boat)
    assert vessel.name == "mine" and vessel.m == 80.0 and vessel.actuators.spacing == 0.79
    assert vessel.xU == pytest.approx(TRUTH.xU, rel=0.1) and vessel.max_thrust == pytest.approx(
        TRUTH.max_thrust, rel=0.1
    )
    assert "95% interval" in boat.read_text() and read_vessel_file(boat).approximated
    errors = [float(text) for text in re.findall(r"Prediction over 10 s .*: ([\d.]+) m", printed)]
    assert len(errors) == 1 and errors[0] < 0.5
    html = page.read_text()
    assert html.count("<figure>") == 8 and "http" not in html.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_what_a_log_of_straight_runs_cannot_tell_is_kept_at_the_presets_value(tmp_path):
    generator, boat, rows = np.random.default_rng(0), Otter(), []
    for step in range(round(120.0 / boat.dt)):
        time = step * boat.dt
        # Straight but for a swing in the beginning.
        thrust = (
            (60.0, 40.0) if time < 10.0 else (40.0, 60.0) if time < 20.0 else (80.0 if time // 10 % 2 else 30.0,) * 2
        )
        if step % 10 == 0:
            rows.append([time, *thrust, *boat.pose + generator.normal(size=3) * (0.1, 0.1, 0.02)])
        boat.step(thrust)
    file = tmp_path / "log.csv"
    file.write_text(text_of(np.array(rows)))
    preset = wrong(TRUTH)
    result = fit(read_log(file, TRUTH), preset, choose_coefficients(preset, True), 120.0)
    verdicts = {item.coefficient.name: item.verdict for item in result.estimates}
    assert verdicts["xU"] == verdicts["lag"] == Verdict.DETERMINED
    # The swing tells some of the others.
    assert {verdicts[name] for name in ("yV", "yDotR", "xUU")} == {Verdict.PRESET_KEPT}
    assert all(inside(result, TRUTH).values())
    for item in result.estimates:
        if item.verdict == Verdict.PRESET_KEPT:
            assert item.value == item.coefficient.preset


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("identify", "either a LOG or --plan is needed"),
        ("identify log.csv --plan", "either a LOG or --plan is needed"),
        ("identify log.csv", "--out FILE is needed"),
        ("identify none.csv --out b.json", "none.csv: cannot be read as a log"),
        ("identify log.csv --out b.json --vessel none", "world.vessel='none': must be a JSON file or one of"),
        ("identify log.csv --out b.json --vessel otter --fit drag", "coefficient='drag': must be one of"),
        ("identify log.csv --out published.json --vessel otter", "--out='published': must be a name other than publ"),
        ("identify log.csv --out b.json --vessel otter --name=", "--name='': must be a name other than published"),
        ("identify log.csv --out log.csv --vessel otter", "log.csv is the log: name another file"),
    ],
)
def test_words_that_do_not_fit_are_refused(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text(text_of(simple_rows()))
    assert sentence in refused(capsys, *words.split())
    assert (tmp_path / "log.csv").read_text().startswith("time")


def test_a_boat_of_several_robots_is_refused():
    with pytest.raises(ValueError, match="identify fits one boat"):
        coefficient_value(replace(TRUTH, xU=(-1.0, -2.0)), "xU")


def windows(log):
    return [tuple(window) for window in prediction_windows(log, 30.0, (5.0, 20.0)).tolist()]


def test_predictions_end_where_the_commands_are_not_known():
    whole = [(start, min(start + 20.0, 100.0)) for start in np.arange(30.0, 96.0, 5.0)]
    assert windows(log_of(seconds=100.1)) == whole
    # A prediction also starts 20 s after the actuators have settled, and not within the gap.
    assert windows(log_of(lambda time: not 51.0 < time < 60.0, seconds=100.1)) == [
        *((start, min(start + 20.0, 51.0)) for start in (30.0, 35.0, 40.0, 45.0)),
        *((start, 100.0) for start in (85.0, 90.0, 95.0)),
    ]


def test_predictions_start_where_poses_are_known(monkeypatch):
    starts = [start for start, _ in windows(log_of(has_pose=lambda time: not 51.0 < time < 60.0, seconds=100.1))]
    assert starts == [30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 75.0, 80.0, 85.0, 90.0, 95.0]
    # One that starts there is compared with nothing if no pose follows.
    monkeypatch.setattr("train_RL_agents.identification.simulation.scaled_settings", lambda vessel: {"dt": 0.1})
    monkeypatch.setattr("train_RL_agents.identification.fit.HORIZONS", (5.0,))
    log, (first, *_) = log_of(has_pose=lambda time: time < 88.5, seconds=120.0), choose_coefficients(TRUTH, True)
    found = predict(log, TRUTH, [first], [first.preset], (0.0, 0.0, 0.0), 90.0)
    assert found.start_times.tolist() == [90.0] and found.errors == ()
