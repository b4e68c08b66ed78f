"""A benchmark that is interrupted."""

import json

import pytest

from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.config.reading import from_dict
from train_RL_agents.speed import run
from train_RL_agents.speed.options import BenchmarkOptions


@pytest.mark.usefixtures("tiny")
def test_what_was_measured_before_an_interruption_is_kept(tmp_path, monkeypatch):
    out, usual = tmp_path / "bench.json", run.measure_part

    def cut_off(*arguments):
        for number, row in enumerate(usual(*arguments)):
            if number == 1:
                raise KeyboardInterrupt
            yield row

    monkeypatch.setattr(run, "measure_part", cut_off)
    options = BenchmarkOptions(
        from_dict(TINY), parts=("update",), modes=("eager",), batch=(4, 8), seconds=0.001, repeats=1
    )
    with pytest.raises(KeyboardInterrupt):
        run.run_benchmark(options, out)
    assert [row["batch"] for row in json.loads(out.read_text())["rows"]] == [4]
