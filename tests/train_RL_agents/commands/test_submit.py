"""marinenav submit: entries, certificates and tables."""

import json

import pytest

from tests.train_RL_agents.entries import entry
from tests.train_RL_agents.test_cli import refused
from train_RL_agents.cli import main
from train_RL_agents.evaluation import frozen


@pytest.fixture(autouse=True)
def few(monkeypatch, tmp_path):
    """The benchmark of a few suites."""
    monkeypatch.setattr(frozen, "FROZEN_SUITES", {name: frozen.FROZEN_SUITES[name] for name in entry().suites})
    monkeypatch.chdir(tmp_path)


def test_a_policy_is_run_and_gets_entry_and_page(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(frozen, "FROZEN_SUITES", {"rules": frozen.FROZEN_SUITES["rules"]})
    words = ["submit", "straight", "--episodes", "1"]
    assert main([*words, "--out", "a.json", "--certificate", "a.html"]) == 0
    assert capsys.readouterr().out.startswith("rules: 4 episodes, success 0.")
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["policy"]["agent"] == "straight" and content["suites"].keys() == {"rules"}
    assert main(["submit", "a.json", "--certificate", "b.html"]) == 0
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()
    sentence = refused(capsys, "submit", "--table", ".")
    assert "a.json: scenarios of rules=" in sentence and "benchmark 4" in sentence


def test_an_entry_may_have_the_suite_long(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(frozen, "FROZEN_SUITES", {})
    assert main(["submit", "straight", "--episodes", "1", "--long", "--out", "a.json"]) == 0
    assert capsys.readouterr().out.startswith("long: 6 episodes, success ")
    assert json.loads((tmp_path / "a.json").read_text())["suites"].keys() == {"long"}


def test_a_folder_of_entries_makes_a_table(tmp_path, capsys):
    for name, outcome in (("one", "sscs"), ("two", "sscc")):
        (tmp_path / f"{name}.json").write_text(entry(outcome).to_json())
    assert main(["submit", "--table", ".", "--out", "table.md"]) == 0
    shown, table = capsys.readouterr().out, (tmp_path / "table.md").read_text()
    assert "\nimazu: 1 to 2 tied; smallest difference" in shown
    assert "-0.250 [" in shown and "\n## currents\n" in table and "than the best:" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "either a POLICY or --table DIR is needed"),
        (["apf"], "--out FILE or --certificate FILE is needed"),
        (["apf", "--table", ".", "--out", "x"], "either a POLICY or --table DIR"),
        (["--table", ".", "--certificate", "x"], "not allowed with --table"),
        (["--table", "."], "must be a folder with entries"),
        (["none.json", "--certificate", "x"], "cannot be read as an entry"),
    ],
)
def test_what_cannot_be_done_is_refused(words, sentence, capsys):
    assert sentence in refused(capsys, "submit", *words)
