"""marinenav bench, at sizes that take seconds."""

import json
from dataclasses import replace

import pytest
import torch

from marinenav_env import ConfigError, Level
from tests.train_RL_agents.test_cli import refused
from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.benchmark import MODES, PARTS, parts, rig
from train_RL_agents.benchmark import run as bench_run
from train_RL_agents.benchmark.options import Options, endless, lacking, on_level, sized, usable
from train_RL_agents.benchmark.parts import measured
from train_RL_agents.benchmark.rig import Rig, fill, shares
from train_RL_agents.benchmark.setting import _processor
from train_RL_agents.benchmark.summary import growth, sentence
from train_RL_agents.cli import main
from train_RL_agents.config.reading import from_dict

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("tiny")
QUICK = ["--seconds", "0.001", "--repeats", "2", "--robots", "2", "--obstacles", "1",
         "--envs", "2", "4", "--batch", "4", "8", "--replay", "20", "40"]  # fmt: skip


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(TINY))
    return path


def tiny(*overrides):
    return from_dict(TINY, overrides)


def test_command_measures_every_part_and_writes_it(tmp_path, config, capsys):
    out = tmp_path / "bench.json"
    argv = ["bench", "-C", str(config), *QUICK, "--modes", "eager", "captured",
            "--json", str(out), "trainer.train_freq=16"]  # fmt: skip
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert "captured left out: CUDA graphs need a CUDA device" in text
    assert all(f"{part}: {about[:20]}" in text for part, about in PARTS.items())
    assert "world, eager: from 2 to 4 environments" in text
    content = json.loads(out.read_text())
    rows = content["rows"]
    assert {row["part"] for row in rows} == set(PARTS)
    assert all(0 < row["lowest"] <= row["median"] <= row["highest"] for row in rows)
    assert [row["environments"] for row in rows if row["part"] == "world"] == [2, 4]
    assert [row["replay"] for row in rows if row["part"] == "growth"] == [20, 40]
    assert [row["batch"] for row in rows if row["part"] == "update"] == [4, 8]
    facts = content["setting"]
    assert (facts["robots"], facts["obstacles"], facts["agent"]) == ("2", "1", "DQN")
    assert facts["modes"] == "eager"
    assert {"processor", "instructions", "cores", "threads", "torch", "commit", "dtype"} <= set(
        facts
    )
    assert content["config"]["trainer"]["train_freq"] == 16
    assert [each["of"] for each in content["growth"]] == ["world", "replay"]


def test_what_was_measured_before_an_interruption_is_kept(tmp_path, config, monkeypatch):
    out, usual = tmp_path / "bench.json", bench_run.measured

    def cut_off(*arguments):
        for number, row in enumerate(usual(*arguments)):
            if number == 1:
                raise KeyboardInterrupt
            yield row

    monkeypatch.setattr(bench_run, "measured", cut_off)
    argv = ["bench", "-C", str(config), *QUICK, "--modes", "eager", "--parts", "update", "--json",
            str(out)]  # fmt: skip
    assert main(argv) != 0
    assert [row["batch"] for row in json.loads(out.read_text())["rows"]] == [4]


def test_the_world_and_the_loop_in_place():
    """As in captured mode on a GPU: the same steps, and one collector for all measurements."""
    found = Rig(endless(tiny()), "eager")
    collector, replay = found.collector, found.algorithm.replay
    collector.in_place = True
    world = found.world()
    assert world.run(3) > 0.0
    assert collector.env.env_steps == 3 * 8
    assert world.notes(1.0)["active robot-steps/s"] > 0
    assert int(replay.filled) == 0
    loop = found.loop()
    loop.run(loop.least)
    loop.run(loop.least)
    assert found.trainer.env_steps == 2 * loop.least * 8
    assert int(replay.filled) > 0
    found.close()


def test_command_draws_rates_and_shares(tmp_path, config, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    for kind, start in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        plot = tmp_path / f"bench.{kind}"
        argv = ["bench", "-C", str(config), *QUICK, "--modes", "eager", "--parts", "sampling",
                "loop", "--plot", str(plot)]  # fmt: skip
        assert main(argv) == 0
        assert capsys.readouterr().out.splitlines()[-1] == str(plot)
        assert plot.read_bytes().startswith(start)


def test_the_loop_says_where_its_time_goes():
    options = Options(tiny(), parts=("loop",), seconds=0.001, repeats=1)
    (row,) = measured("loop", options, ["eager"])
    assert (row["environments"], row["batch"], row["unit"]) == (8, 8, "env-steps/s")
    notes = row["notes"]
    names = ("world", "policy", "update", "insertion", "sampling", "rest")
    assert sum(notes[f"share {name}"] for name in names) == pytest.approx(1.0)
    assert all(notes[f"share {name}"] > 0.0 for name in names)
    assert notes["updates/s"] == pytest.approx(row["median"] / 8, rel=0.01)
    within = sum(notes[f"share {name}"] for name in ("world", "policy", "update"))
    assert notes["share outside"] == pytest.approx(1.0 - within)


def test_the_policy_is_no_part_of_the_worlds_share():
    assert shares({}, 2.0)["share outside"] == shares({}, 2.0)["share rest"] == 1.0
    found = shares({"collect": 1.0, "policy": 0.25, "sample": 0.5, "save": 9.0}, 2.0)
    assert (found["share world"], found["share policy"]) == (0.375, 0.125)
    assert (found["share sampling"], found["share rest"]) == (0.25, 0.25)
    assert found["share outside"] == 0.5


@pytest.mark.parametrize("agent", ["AC-IQN", "Rainbow"])
def test_other_agents_are_measured(agent):
    config = tiny(f"agent_type={agent}", f"trainer.prioritized={str(agent == 'Rainbow').lower()}")
    options = Options(config, envs=(2,), batch=(4,), replay=(20,), seconds=0.001, repeats=1)
    for part in ("world", "update", "growth"):
        assert all(row["median"] > 0 for row in measured(part, options, ["eager"]))


def test_an_on_policy_agent_is_measured_but_for_replay(tmp_path, capsys):
    on_policy = {"num_envs": 4, "rollout_steps": 4, "epochs": 2, "batch_size": 8}
    config, out = tmp_path / "ppo.json", tmp_path / "bench.json"
    config.write_text(json.dumps(TINY | {"agent_type": "PPO", "trainer": on_policy}))
    argv = ["bench", "-C", str(config), *QUICK, "--modes", "eager", "--json", str(out)]
    assert main(argv) == 0
    text = capsys.readouterr().out
    for name in ("sampling", "growth with replay"):
        assert f"{name} left out: PPO learns on-policy, without replay" in text
    content = json.loads(out.read_text())
    assert "rollouts of 4 vector steps, 2 epochs" in content["setting"]["loop"]
    rows = content["rows"]
    units = {row["part"]: row["unit"] for row in rows}
    rates = dict.fromkeys(("world", "policy", "insertion", "collect", "loop"), "env-steps/s")
    assert units == rates | {"update": "rollouts/s"}
    updates = [row for row in rows if row["part"] == "update"]
    assert [row["batch"] for row in updates] == [4, 8]
    assert all(row["notes"]["updates/s"] > 1.9 * row["lowest"] for row in updates)
    (notes,) = (row["notes"] for row in rows if row["part"] == "loop")
    assert notes["updates/s"] > 0
    assert all(notes[f"share {name}"] > 0 for name in ("world", "policy", "update", "insertion"))


def test_what_an_agent_lacks():
    options = Options(tiny())
    assert lacking(options) == {}
    ppo = from_dict({key: value for key, value in TINY.items() if key != "trainer"}
                    | {"agent_type": "PPO"})  # fmt: skip
    assert list(lacking(replace(options, config=ppo))) == ["sampling", "growth with replay"]
    assert lacking(replace(options, config=ppo, parts=("world",))) == {}
    with pytest.raises(ConfigError, match="PPO learns on-policy, without replay"):
        lacking(replace(options, config=ppo, parts=("sampling",)))


def test_modes_of_one_size_take_turns_and_others_run_once(monkeypatch):
    made = []

    def record(config, mode):
        made.append((mode, config.trainer.num_envs))
        return Rig(config, "eager")

    monkeypatch.setattr(parts, "Rig", record)
    options = Options(tiny(), envs=(2, 4), batch=(2, 4), seconds=0.001, repeats=1)
    assert len(list(measured("world", options, ["eager", "compiled"]))) == 4
    assert made == [("eager", 2), ("compiled", 2), ("eager", 4), ("compiled", 4)]
    assert [row["mode"] for row in measured("sampling", options, ["eager", "compiled"])] == [
        "eager"
    ] * 2
    assert [mode for mode, _ in made[4:]] == ["eager"] * 2


def test_growth_measures_the_world_itself_unless_it_is_a_part():
    options = Options(tiny(), parts=("growth",), envs=(2,), replay=(20,), seconds=0.001, repeats=1)
    rows = list(measured("growth", options, ["eager"]))
    assert [("environments" in row, "replay" in row) for row in rows] == [(1, 0), (0, 1)]
    both = replace(options, parts=("world", "growth"))
    assert [row["replay"] for row in measured("growth", both, ["eager"])] == [20]


def test_sizes_keep_the_configuration_valid():
    config = sized(endless(on_level(tiny(), Level(5, 0, 4))), envs=1000, batch=7, replay=10)
    settings = config.trainer
    assert (settings.num_envs, settings.batch_size, settings.buffer_size) == (1000, 7, 5000)
    assert settings.learning_starts == 992
    assert config.training_schedule.num_robots == (5,)
    assert sum(config.eval_schedule.num_episodes) == 1


def test_fill_leaves_no_slot_empty(monkeypatch):
    monkeypatch.setattr(rig, "_CHUNK", 30)
    built = Rig(sized(endless(tiny()), replay=70), "eager")
    replay = built.algorithm.replay
    fill(replay, built.algorithm.example_row, 25)
    built.close()
    drawn = replay.sample()
    assert int(replay.filled) == 70
    assert 0 <= int(drawn["action"].min()) <= int(drawn["action"].max()) < 25
    assert drawn["observation", "objects_mask"].dtype == torch.bool


def test_modes_that_cannot_be_used():
    assert usable(("eager", "captured"), CPU) == {
        "eager": "", "captured": "CUDA graphs need a CUDA device",
    }  # fmt: skip
    assert usable(("captured",), torch.device("cuda")) == {"captured": ""}


def row(part, mode, median, **sizes):
    return {"part": part, "mode": mode, "median": median, "ms_per_step": 1e3 / median} | sizes


def test_growth_in_figures_and_words():
    rows = [
        row("world", "eager", 100.0, environments=10),
        row("world", "eager", 500.0, environments=100),
        row("collect", "eager", 1.0, environments=10),
        row("growth", "eager", 50.0, replay=100, batch=4),
        row("growth", "eager", 44.0, replay=10, batch=4),
        row("growth", "compiled", 50.0, replay=10),
        row("growth", "compiled", 40.0, replay=100),
    ]
    world, flat, steep = growth(rows)
    assert (world["per_environment"], world["gain"]) == ([10.0, 5.0], 5.0)
    assert (flat["replay"], flat["flat"]) == ([10, 100], True)
    assert (steep["slowest_to_fastest"], steep["flat"]) == (pytest.approx(1.25), False)
    assert sentence(flat).endswith("1.14 times the fastest: flat within 20%")
    assert "per environment 10 to 5 env-steps/s" in sentence(world).replace(".0", "")


def test_processor_is_read_from_its_description(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text(
        "model name\t: Fast One\nflags\t\t: fpu avx2 amx_bf16 avx512f\n\nmodel name: B\n"
    )
    assert _processor(file) == ("Fast One", ["avx2", "avx512f", "amx_bf16"])
    name, flags = _processor(tmp_path / "absent")
    assert name
    assert flags == []


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--parts", "wings"], "argument --parts: invalid choice: 'wings'"),
        (["--envs", "0"], "bench.envs=(0,): must be at least 1"),
        (["--seconds", "0"], "bench.seconds=0.0: must be above 0"),
        (["--modes", "captured"], "modes=('captured',): must be one that can be measured here"),
        (["--json", "absent/bench.json"], "absent/bench.json: cannot be written"),
        (["--plot", "bench.gif"], "plot='bench.gif': must be a file ending in .png or .pdf"),
        (["--plot", "absent/bench.pdf"], "plot='absent/bench.pdf': must be in a folder"),
        (["--agent", "X"], "agent_type='X': must be one of"),
        (["--robots", "0"], "level.num_robots=0: must be"),
        (["trainer.tow=1"], "trainer.tow='1': there is no such setting"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_sentence(capsys, argv, expected):
    if "--plot" in argv:
        pytest.importorskip("matplotlib", reason="needs the extra plot")
    assert refused(capsys, "bench", "--device", "cpu", *argv).startswith(expected)


def test_help_names_parts_and_modes(capsys):
    assert main(["bench", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name}" in text for name in (*PARTS, *MODES))
