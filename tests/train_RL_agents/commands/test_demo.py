"""marinenav demo: the page that it writes, and what it refuses."""

import webbrowser

import pytest

from tests.train_RL_agents.exporting.helpers import write_policy
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """Addresses that a browser has been sent to; the present folder is empty."""
    monkeypatch.chdir(tmp_path)
    found = []
    monkeypatch.setattr(webbrowser, "open", found.append)
    monkeypatch.setenv("DISPLAY", ":0")
    return found


def test_page_is_written_and_opened(opened, tmp_path, capsys):
    write_policy(tmp_path / "policy.pt", "DQN")
    assert main(["demo", "policy.pt", "--out", "page.html"]) == 0
    assert capsys.readouterr().out == "page.html\n"
    assert "DQN after 12,345 env-steps" in (tmp_path / "page.html").read_text()
    assert opened == [(tmp_path / "page.html").as_uri()]


def test_shipped_policy_by_default_and_nothing_opened(opened, tmp_path):
    assert main(["demo", "--no-open"]) == 0
    assert "AC-IQN after" in (tmp_path / "demo.html").read_text() and opened == []


def test_no_browser_where_there_is_no_display(opened, tmp_path, monkeypatch):
    write_policy(tmp_path / "policy.pt", "DQN")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert main(["demo", "policy.pt"]) == 0
    assert opened == []


def test_refusals_are_one_sentence(opened, tmp_path, capsys):
    write_policy(tmp_path / "scan.pt", "DQN", **{"world.sensor.scan_beams": 8})
    said = refused(capsys, "demo", "scan.pt")
    assert said == "scan.pt='scan': must be a policy that observes its own state, objects, duties and shores only"
    assert "neither a checkpoint nor a policy that is shipped" in refused(capsys, "demo", "nowhere")
    assert opened == []
