"""What TensorBoard is shown of an evaluation, in pictures made of real and of broken episodes."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.train_RL_agents.recorded import small_recording
from tests.train_RL_agents.tiny_runs import TIMES, evaluations, new_run, train
from train_RL_agents.evaluation.running.recording import concatenate
from train_RL_agents.figures.drawing import MAX_PANELS
from train_RL_agents.figures.snapshot import draw_tracks, first_index_per_level

PICTURE, FORESEEN, RETURNS = "eval/trajectories", "eval/return_quantiles", "eval/returns"


def tags(run):
    """Names of the images and of the histograms that a run wrote, and the accumulator."""
    events = EventAccumulator(str(run.path)).Reload()
    return set(events.Tags()["images"]), set(events.Tags()["histograms"]), events


def test_the_first_scenario_of_each_level_is_chosen():
    level = torch.tensor([0, 0, 2, 2, 2, 5])
    assert first_index_per_level(level).tolist() == [0, 2, 5]
    assert first_index_per_level(torch.arange(40)).tolist() == list(range(MAX_PANELS))


def test_picture_has_a_panel_for_every_episode():
    pytest.importorskip("matplotlib")
    recording = small_recording()
    pixels = draw_tracks(recording)
    assert (pixels.dtype, pixels.shape[2]) == (np.uint8, 3)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50
    twice = draw_tracks(concatenate([recording, recording]))
    assert twice.shape[1] == pixels.shape[1]
    assert twice.shape[0] > pixels.shape[0]


def test_a_world_gone_astray_is_not_drawn():
    pytest.importorskip("matplotlib")
    recording = small_recording()
    poses = recording.poses.clone()
    poses[1, 0, 0, 0] = torch.nan
    assert draw_tracks(replace(recording, poses=poses)) is None
    poses[1, 0, 0, 0] = 1e30  # far off the map is no reason not to
    assert draw_tracks(replace(recording, poses=poses)) is not None


def test_a_run_writes_tracks_and_quantiles_which_change_no_metric(tmp_path, tiny, monkeypatch):
    pytest.importorskip("matplotlib")
    words = ("agent_type=IQN", "draw_evaluations=true", "total_timesteps=80")
    drawn, plain = (new_run(tmp_path / name, *words) for name in ("drawn", "plain"))
    trainer = train(drawn)
    images, histograms, events = tags(drawn)
    assert images == {PICTURE}
    assert histograms == {FORESEEN, RETURNS}
    assert [event.step for event in events.Images(PICTURE)] == [80]
    (returns,) = events.Histograms(RETURNS)
    values = trainer.history.episodes[0].returns
    assert returns.histogram_value.num == len(values) == 3
    assert returns.histogram_value.max == pytest.approx(values.max().item())
    # Seven robots, with the quantiles that the agent acts by.
    assert events.Histograms(FORESEEN)[0].histogram_value.num == 7 * 32
    assert trainer.clock.seconds["evaluate"] > 0.0
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    train(plain)
    assert tags(plain)[0] == set()
    metrics = [{key: value for key, value in row.items() if key not in TIMES} for row in map(only, (drawn, plain))]
    assert metrics[0] == metrics[1]


def only(run):
    """The row of the only evaluation of a run."""
    (row,) = evaluations(run)
    return row
