"""marinenav play: what it writes, and what it refuses."""

import pytest

from marinenav_env import write_scenarios
from tests.train_RL_agents.evaluation.helpers import EPISODES
from tests.train_RL_agents.exporting.helpers import write_policy
from tests.train_RL_agents.figures.helpers import small_recording
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main
from train_RL_agents.evaluation.running.recording import save

pytest.importorskip("matplotlib")
pytest.importorskip("imageio_ffmpeg")
SMALL = {"execution.device": "cpu", "world.max_steps": 3, "eval_schedule.num_episodes": [1] * 6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two policies, a recording and a scenario file."""
    path = tmp_path_factory.mktemp("play")
    write_policy(path / "policy.pt", "IQN", **SMALL)
    write_policy(path / "other.pt", "DQN", **SMALL)
    save(small_recording(), path / "recording.npz")
    save(small_recording(False), path / "plain.npz")
    write_scenarios(path / "scenarios.json", EPISODES[:2])
    (path / "text.npz").write_text("not a recording")
    return path


@pytest.fixture
def played(folder, tmp_path, monkeypatch, capsys):
    """Plays in an empty folder; the files that it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = main(["play", *(word.format(folder) for word in words)])
        output = capsys.readouterr()
        assert (status, output.err) == (0, "")
        paths = [tmp_path / line for line in output.out.splitlines()]
        assert all(path.stat().st_size > 0 for path in paths)
        return paths

    return run


def test_film_of_a_level(played):
    paths = played("{}/policy.pt", "--levels", "2", "--vessel", "4", "--out", "films")
    assert [path.name for path in paths] == ["iqn_episode_1_vessel_4.mp4"]
    assert {path.parent.name for path in paths} == {"films"}


def test_stills_of_an_episode_of_a_scenario_file(played):
    paths = played("{}/policy.pt", "--scenario", "{}/scenarios.json", "--episode", "2", "--frames", "0", "3")
    assert [path.name for path in paths] == [f"iqn_episode_2_vessel_1_frame_{frame:04}.png" for frame in (0, 3)]


def test_overview_of_all_levels(played):
    assert [path.name for path in played("{}/policy.pt", "--overview", "all.png")] == ["all.png"]


def test_page_of_two_policies(played):
    (page,) = played("{}/policy.pt", "{}/other.pt", "--html", "page.html")
    text = page.read_text()
    assert "IQN after 12,345 env-steps" in text
    assert "DQN after 12,345 env-steps" in text
    assert text.count('"title": ') == 12


def test_page_of_a_baseline_on_a_suite(played):
    (page,) = played("straight", "--suite", "currents", "--episodes", "1", "--html", "page.html")
    assert '"policy": "straight"' in page.read_text()


def test_page_of_two_recordings(played):
    (page,) = played("--recording", "{}/recording.npz", "{}/plain.npz", "--html", "page.html")
    assert page.read_text().count('"title": ') == 16


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("{}/nowhere", "nowhere: there is no such run folder or policy file"),
        ("--recording {}/nowhere.npz", "No such file or directory"),
        ("--recording {}/text.npz", "damaged, or not a recording"),
        ("{}/policy.pt --scenario {}/text.npz", "cannot be read as a scenario file"),
        ("--recording {}/recording.npz --episode 9", "--episode=9: must be from 1 to 8"),
        ("--recording {}/recording.npz --vessel 3", "--vessel=3: must be from 1 to 2"),
        ("--recording {}/recording.npz --frames 500", "--frames=500: must be from 0 to"),
        ("--recording {}/recording.npz --overview a.nonsense", "must be a file that ends in"),
        ("--recording {}/recording.npz {}/plain.npz", "at most 1, not 2; --html shows two"),
        ("{}/policy.pt --speed 0", "--speed: must be from 0.1 to 100"),
        ("{}/policy.pt --html a.html --frames 1", "not allowed with argument"),
        ("", "either a POLICY is needed"),
    ],
)
def test_refusals_are_one_sentence(folder, tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(capsys, "play", *(each.format(folder) for each in words.split()))
    assert list(tmp_path.iterdir()) == []


def test_more_episodes_than_a_page_shows(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("train_RL_agents.figures.replay_page.MAX_EPISODES", 7)
    said = refused(capsys, "play", "--recording", f"{folder}/recording.npz", "--html", "a.html")
    assert "--html='8 episodes': must be at most 7; --episode shows one" in said
    assert not list(tmp_path.iterdir())
    assert main(["play", "--recording", f"{folder}/recording.npz", "--html", "a.html", "--episode", "8"]) == 0


def test_missing_ffmpeg_is_said_before_the_work(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, "play", "--recording", f"{folder}/recording.npz")
    assert said.startswith("ffmpeg, which writes videos, was not found")
    assert list(tmp_path.iterdir()) == []
