"""Vessel files, metrics and pages of identified boats."""

import json
from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import ConfigError, read_vessel, scaled_world
from marinenav_env.vessels import vessel_files
from tests.train_RL_agents.identification.helpers import identification
from train_RL_agents.figures.identification import make_page
from train_RL_agents.identification.fit import MAX_AUTOCORRELATION, HorizonError, autocorrelation
from train_RL_agents.identification.report import check_predictions, summary_lines, vessel_text


@pytest.mark.parametrize("name", ["published", *vessel_files()])
@pytest.mark.parametrize("is_in_newtons", [True, False])
def test_a_written_boat_is_read_with_the_fitted_numbers(name, is_in_newtons, tmp_path):
    result = identification(name, is_in_newtons)
    file = tmp_path / "mine.json"
    file.write_text(vessel_text(result, "mine"))
    vessel, preset = read_vessel(file), read_vessel(name)
    for item in result.fit.estimates:
        coefficient = item.coefficient.name
        holder = vessel.actuators if hasattr(vessel.actuators, coefficient) else vessel
        assert getattr(holder, coefficient) == pytest.approx(item.value, rel=1e-4), coefficient
    for setting in ("m", "length", "Izz", "single_rotation", "radius", "goal_distance"):
        assert getattr(vessel, setting) == getattr(preset, setting), setting
    assert (
        vessel.actuators.steering == preset.actuators.steering and vessel.actuators.spacing == preset.actuators.spacing
    )
    assert scaled_world(vessel).vessel.name == "mine"
    content = json.loads(file.read_text())
    assert "Prediction over 20 s" in content["source"]


def test_a_boat_that_was_identified_twice_has_the_predictions_of_the_second_log(tmp_path):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(vessel_text(identification("otter"), "first"))
    second.write_text(vessel_text(identification(str(first)), "second"))
    assert second.read_text().count("Prediction over 20 s") == 1


def test_a_dead_side_stays_dead(tmp_path):
    preset, mine = tmp_path / "preset.json", tmp_path / "mine.json"
    content = json.loads(vessel_files()["otter"].read_text()) | {"name": "lame"}
    content["vessel"]["actuators"] |= {"left_limit": 0.0, "left_strength": 0.0}
    preset.write_text(json.dumps(content))
    mine.write_text(vessel_text(identification(str(preset)), "mine"))
    written, read = read_vessel(mine).actuators, read_vessel(preset).actuators
    assert (written.left_limit, written.left_strength) == (read.left_limit, read.left_strength) == (0.0, 0.0)


def test_horizons_that_the_log_is_too_short_for_are_named():
    assert summary_lines(identification("otter"))[-1] == (
        "The part that was not fitted is too short, or has too many gaps, for predictions over 60 s."
    )


def test_a_boat_that_predicts_badly_is_refused():
    result = identification("otter")
    check_predictions(result)
    errors = (HorizonError(20.0, 13.6, 40.0, 20.0),)
    bad = replace(result, prediction=replace(result.prediction, errors=errors))
    with pytest.raises(ConfigError, match=r"predictions='off by 13.6 m, 68% of the path, after 20 s': must be off by"):
        check_predictions(bad)


def test_residuals_that_resemble_their_neighbours_are_not_noise():
    noise = np.random.default_rng(0).normal(size=(20, 100, 3))
    drift = 0.5 * noise + np.sin(np.arange(100) / 8.0)[:, None]
    assert autocorrelation(noise) < MAX_AUTOCORRELATION < autocorrelation(drift)


def test_pages_escape_names_and_show_tracks():
    page = make_page(identification("otter"), "my <boat>")
    assert "my &lt;boat&gt;" in page and "<boat>" not in page and "<lost>" not in page
    assert page.count("<figure>") == 3 and "0.20 m" in page and "nan" not in page.lower().replace("finance", "")
    assert "gaps, for predictions over 5 and 20 and 60 s" in make_page(identification("otter", predicted=False), "b")
