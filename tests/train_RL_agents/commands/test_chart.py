"""``marinenav chart`` writes the file of a window and a picture of it, and refuses the rest in one sentence."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from marinenav_env import read_scenarios
from marinenav_env.waters.charts import Chart, read_chart
from marinenav_env.waters.picture import draw_svg
from tests.marinenav_env.helpers import DATA
from tests.refusals import refusal
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main

PAGE = Path(__file__).parents[3] / "docs/waters.md"
MARINA = str(DATA / "waters/miami_marina_300.json")


def test_a_window_becomes_a_file_and_a_picture(tmp_path, capsys):
    out = tmp_path / "harbour.json"
    assert main(["chart", MARINA, "--segments", "32", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    chart = Chart.load(out)
    assert 20 < len(chart.shores) <= 32
    for words in ("300 x 300", f"{len(chart.shores)}", "81%", f"wrote {out} and {out.with_suffix('.svg')}"):
        assert words in printed
    assert ElementTree.parse(out.with_suffix(".svg")).getroot().tag.endswith("svg")


def test_options_choose_the_window_and_what_is_land(tmp_path):
    out = str(tmp_path / "x.json")
    options = ["--at", "25.7266,-80.2335", "--size", "120", "--layers", "lndare"]
    options += ["--draught", "1", "--tolerance", "0.5"]
    assert main(["chart", MARINA, *options, "--out", out]) == 0
    chart = Chart.load(out)
    assert (chart.width, chart.height) == (120.0, 120.0)
    assert len(chart.shores) < 16
    assert "LNDARE; depths up to 1 m are land" in chart.source


def test_what_no_world_can_use_is_said(tmp_path, capsys):
    """A shore without land, and a chart with more segments than worlds have room for."""
    out, content = tmp_path / "x.json", {"type": "MultiLineString", "coordinates": [[[10.0, 60.0], [10.01, 60.001]]]}
    (tmp_path / "pier.json").write_text(json.dumps(content))
    assert main(["chart", str(tmp_path / "pier.json"), "--out", str(out)]) == 0
    assert "there is no land: all lines have water on both sides" in capsys.readouterr().out
    content["coordinates"] = [[[10.0 + step, 60.0], [10.0 + step, 60.001]] for step in (1e-5 * n for n in range(140))]
    (tmp_path / "pier.json").write_text(json.dumps(content))
    assert main(["chart", str(tmp_path / "pier.json"), "--segments", "300", "--out", str(out)]) == 0
    assert "worlds have room for 256 segments: --segments 256" in capsys.readouterr().out
    assert "280: must be at most 256 (chart --segments)" in refusal(read_scenarios, out)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--at", "25.7"], "must be latitude,longitude such as 25.77,-80.18, not 25.7"),
        (["--size", "wide"], "argument --size"),
        (["--segments", "8"], "segments with an error of 3 m, more than 8"),
        (["--segments", "4.5"], "invalid int value"),
        (["--at", "25.9,-80.2"], "the window has no shore"),
        (["--out", "harbour.svg"], "must be a file that ends in .json"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.chdir(tmp_path)
    out = [] if "--out" in options else ["--out", "harbour.json"]
    assert words in refused(capsys, "chart", MARINA, *options, *out)
    assert list(tmp_path.iterdir()) == []


def test_a_chart_is_not_replaced_by_its_window(tmp_path, capsys):
    path = tmp_path / "harbour.json"
    path.write_bytes(Path(MARINA).read_bytes())
    assert "another file than those that are read" in refused(capsys, "chart", str(path), "--out", str(path))
    assert path.read_bytes() == Path(MARINA).read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_the_page_says_what_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(json|bash|python|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    harbour, file = (content for kind, content in blocks if kind == "json")
    Path("mine.geojson").write_text(harbour)
    Path("file.json").write_text(file)
    lines = [line.split()[1:] for kind, content in blocks if kind == "bash" for line in content.splitlines()]
    (line,) = [words for words in lines if "mine.geojson" in words]
    assert main(line) == 0
    written = Chart.load("mine.json")
    assert Chart.load("file.json").origin == pytest.approx(written.origin)
    Path("traffic.csv").write_text(next(content for kind, content in blocks if kind == "text"))
    names = {}
    for example in (content for kind, content in blocks if kind == "python"):
        exec(example, names)
    assert names["length"] > 80.0
    assert len(names["passages"].start) == 256
    assert Chart.load("mine.json").text() == written.text()
    assert len(names["tracks"]) == 2 and len(names["episodes"]) > 50
    assert names["episodes"][0].behaviour[-2:] == ["track", "track"]
    assert read_scenarios("traffic.json", strict=True) == names["episodes"]


@pytest.mark.slow
def test_the_page_trains_evaluates_and_plays_on_a_chart(tmp_path, monkeypatch, capsys):
    """Its lines are run as they are, on a small chart, with few episodes and a short training."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("marinenav_env.scenarios.reading.CHART_EPISODES", 2)
    assert main(["chart", MARINA, "--at", "25.7266,-80.2335", "--size", "120", "--out", "harbour.json"]) == 0
    (block,) = re.findall(r"## Train, evaluate and play on it\n\n```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    small = ["--total-timesteps", "64", "trainer.num_envs=4", "trainer.rollout_steps=8", "trainer.batch_size=32"]
    small += ["execution.compile=false", "world.max_steps=20", "eval_freq=64"]
    further = {"train": small, "latest": ["--episodes", "1"]}
    for line in block.replace("\\\n", " ").splitlines():
        _, command, *rest = shlex.split(line)
        more = further.get(command, []) + further.get(rest[0], [])
        assert main([command, *rest, *more]) == 0, line
    shown = capsys.readouterr().out
    assert shown.count("hours per grounding: ") == 2
    assert "harbour 12" in shown
    assert len(json.loads(next(Path("runs").glob("*/seed_0/eval_configs.json")).read_text())[0]["env"]["shores"]) > 5
    assert Path("replay.html").stat().st_size > 100_000


def test_the_picture_of_the_page_is_that_of_its_window():
    chart = read_chart(DATA / "waters/miami_channel_300.json", most_segments=256)
    assert draw_svg(chart) == PAGE.with_name("waters_channel.svg").read_text()


def test_no_torch_is_imported(tmp_path):
    code = "import sys; from train_RL_agents.commands import cli; print(cli.main(sys.argv[1:]), 'torch' in sys.modules)"
    line = [sys.executable, "-c", code, "chart", MARINA, "--out", str(tmp_path / "x.json")]
    done = subprocess.run(line, capture_output=True, text=True, cwd=PAGE.parents[1], check=True)
    assert done.stdout.splitlines()[-1] == "0 False"
    assert done.stderr == ""
