"""Stored entries of the benchmark that are made again."""

import json

from tests.train_RL_agents.entries import entry
from tools import make_entries
from tools.make_entries import CARD_HEADER, card_rows, reusable_suites, write_card
from train_RL_agents.evaluation import frozen
from train_RL_agents.evaluation.entry import BENCHMARK_VERSION


def stored(path, version=BENCHMARK_VERSION):
    content = json.loads(entry().to_json()) | {"benchmark": version}
    content["program"]["revision"] = "abc"
    path.write_text(json.dumps(content))
    return path


def test_results_are_kept_of_the_same_policy_and_scenarios(tmp_path):
    path = stored(tmp_path / "a.json")
    suites, source = reusable_suites(path, entry().policy)
    assert suites == {name: entry().suites[name] for name in ("currents", "rules", "imazu")}
    assert source == "currents, rules, imazu of revision abc, 2026-01-01"
    assert reusable_suites(path, entry().policy | {"sha256": "cd" * 32}) == ({}, "")
    assert reusable_suites(tmp_path / "none.json", entry().policy) == ({}, "")


def test_of_another_version_those_with_metrics_of_compliance_are_not_kept(tmp_path):
    assert reusable_suites(stored(tmp_path / "a.json", BENCHMARK_VERSION - 1), entry().policy)[0].keys() == {"currents"}


def test_one_command_writes_entry_page_and_card(tmp_path, monkeypatch):
    monkeypatch.setattr(frozen, "FROZEN_SUITES", {name: frozen.FROZEN_SUITES[name] for name in entry().suites})
    monkeypatch.setattr(frozen, "git_revision", lambda: ("def", ""))
    monkeypatch.setattr(frozen, "describe_policy", lambda *given: entry().policy)
    asked = []
    monkeypatch.setattr(
        make_entries,
        "run_suites",
        lambda contender, names, device: asked.append(names) or {name: entry().suites[name] for name in names},
    )
    folder = tmp_path / make_entries.ENTRIES_FOLDER
    folder.mkdir(parents=True)
    stored(folder / "straight.json", BENCHMARK_VERSION - 1)
    words = ["straight", "--root", str(tmp_path)]
    assert make_entries.main(words) == 0 and asked == [["rules", "imazu"]]
    content = json.loads((folder / "straight.json").read_text())
    assert content["program"]["kept"] == "currents of revision abc, 2026-01-01"
    assert [*content["suites"]] == ["currents", "rules", "imazu"]
    assert (tmp_path / make_entries.PAGE_PATH).read_text().startswith(f"# Benchmark {BENCHMARK_VERSION}\n")
    assert make_entries.main(words) == 0 and len(asked) == 1
    assert make_entries.main([*words, "--again"]) == 0 and asked[1] == ["currents", "rules", "imazu"]


def test_entries_that_are_not_current_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_entries, "make_entry", lambda *given: None)
    folder = tmp_path / make_entries.ENTRIES_FOLDER
    folder.mkdir(parents=True)
    stored(folder / "other.json", BENCHMARK_VERSION - 1)
    assert make_entries.main(["straight", "--root", str(tmp_path)]) == 1
    assert "other.json: benchmark=" in capsys.readouterr().err


def test_what_was_kept_before_is_named_once(tmp_path):
    path = tmp_path / "a.json"
    stored(path, BENCHMARK_VERSION)
    content = json.loads(path.read_text())
    content["program"]["kept"] = "currents of revision old, 2025-01-01"
    path.write_text(json.dumps(content))
    suites, source = reusable_suites(path, entry().policy)
    assert suites.keys() == {"currents", "rules", "imazu"}
    assert source == "rules, imazu of revision abc, 2026-01-01; currents of revision old, 2025-01-01"
    content["suites"]["currents"]["scenarios"] = "0" * 32
    path.write_text(json.dumps(content))
    assert reusable_suites(path, entry().policy)[1] == "rules, imazu of revision abc, 2026-01-01"


def test_the_table_of_a_card_is_replaced(tmp_path):
    card, end = tmp_path / "README.md", "\n\nLimits: many.\n"
    card.write_text(f"# Mine\n\n{CARD_HEADER}| old | 1 |\n| older | 2 |{end}")
    write_card(card, entry())
    assert card.read_text() == f"# Mine\n\n{CARD_HEADER}" + "\n".join(card_rows(entry())) + end
    assert "| `currents` | 4 | 0.500 (0.150 to 0.850) | 0.750 | 20.2 | 0.250 | - |" in card.read_text()
