"""What a benchmark prints and keeps."""

import json

import pytest

from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.config.reading import from_dict
from train_RL_agents.experiments import benchmark_report as report
from train_RL_agents.experiments.benchmark_report import BenchmarkOptions, print_rates, run_benchmark


def row(**other):
    numbers = {"median": 12345.6, "lowest": 98.76, "highest": 20000.0, "ms_per_step": 1.234, "compile_seconds": 4.56}
    return {"part": "loop", "unit": "env-steps/s", **numbers, "shares": {}} | other


def test_one_table_has_rates_with_three_digits_and_shares_follow(capsys):
    shares = {"collect": 0.5, "rest": 0.125}
    print_rates([row(part="update", batch=512), row(environments=256, batch=512, shares=shares)])
    text = capsys.readouterr().out.rstrip()
    for word in ("12,346", "98.8 to 20,000", "1.23", "4.6", "512", "loop: collect 50.0%"):
        assert word in text
    assert text.count("compile") == 1 and text.endswith("rest 12.5%")


def test_what_was_measured_before_an_interruption_is_kept(tmp_path, monkeypatch, capsys):
    rows = iter([row(part="update", batch=4)])

    def cut_off(*arguments):
        try:
            return next(rows)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(report, "measure_size", cut_off)
    out = tmp_path / "bench.json"
    with pytest.raises(KeyboardInterrupt):
        run_benchmark(BenchmarkOptions(from_dict(TINY), parts=("update",), batch=(4, 8)), out)
    assert [item["batch"] for item in json.loads(out.read_text())["rows"]] == [4]
    assert "12,346" in capsys.readouterr().out
