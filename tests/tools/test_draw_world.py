"""The figures of the world, against the outlines and the sums that they show."""

import math
import sys

import numpy as np
import pytest
import torch

from marinenav_env import WorldConfig
from train_RL_agents.evaluation.contenders import ActingOptions, Contender, run_set
from train_RL_agents.evaluation.suites import make_scenario_set
from train_RL_agents.figures.episode_view import view_episode

pytest.importorskip("matplotlib")
from tools import draw_world


def test_turns_are_asked_for_within_the_zone_only():
    x, y = np.linspace(-12.0, 20.0, 33), np.linspace(-20.0, 12.0, 33)
    for course, low, high in ((math.pi, (0.0, -4.5), (17.0, 4.5)), (math.pi / 2, (-9.0, -17.0), (12.0, 0.0))):
        asked = np.argwhere(np.isfinite(draw_world.turn_map(course, x, y)))
        places = np.column_stack((x[asked[:, 0]], y[asked[:, 1]]))
        assert len(places) > 50
        assert (places >= np.array(low) - 1e-6).all()
        assert (places <= np.array(high) + 1e-6).all()
    assert np.isnan(draw_world.turn_map(0.0, x, y)).all()  # the same course


@pytest.mark.heavy
def test_terms_of_the_reward_are_all_but_the_rules():
    chosen, device = make_scenario_set("rules", WorldConfig(), episodes=1, seed=3), torch.device("cpu")
    _, recording = run_set(Contender("straight"), chosen, WorldConfig(), ActingOptions(), device, "straight")
    view, steps = view_episode(recording, 1), int(recording.active[:, 0, 0].sum())
    terms = draw_world.reward_terms(view, 0)
    rest = recording.reward[:steps, 0, 0].numpy() - sum(terms.values())
    assert rest == pytest.approx(-0.1 * recording.phi[:steps, 0, 0].numpy(), abs=1e-3)
    assert terms["end"][-1] == -5.0


@pytest.mark.heavy
def test_a_figure_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["draw_world", str(tmp_path / "new"), "--only", "colregs"])
    assert draw_world.main() == 0
    assert (tmp_path / "new" / "world_colregs.png").stat().st_size > 10_000
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "argv", ["draw_world", str(tmp_path / "file"), "--only", "colregs"])
    assert draw_world.main() == 2
    assert capsys.readouterr().err.startswith("draw_world: error: ")
