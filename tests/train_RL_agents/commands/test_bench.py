"""marinenav bench, at sizes that take seconds."""

import json

import pytest

from tests.train_RL_agents.test_cli import refused
from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.cli import main
from train_RL_agents.speed import MODES, PARTS

pytestmark = pytest.mark.usefixtures("tiny")
QUICK = [
    "--seconds",
    "0.001",
    "--repeats",
    "2",
    "--robots",
    "2",
    "--obstacles",
    "1",
    "--envs",
    "2",
    "4",
    "--batch",
    "4",
    "8",
    "--replay",
    "20",
    "40",
]
ROOMY = TINY | {"world": TINY["world"] | {"scenario": {}}}
"""TINY on the published map, on which the benchmark's level has room."""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(ROOMY))
    return path


def test_command_measures_every_part_and_writes_it(tmp_path, config, capsys):
    out = tmp_path / "bench.json"
    argv = [
        "bench",
        "-C",
        str(config),
        *QUICK,
        "--modes",
        "eager",
        "captured",
        "--json",
        str(out),
        "trainer.train_freq=16",
    ]
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
    assert {"processor", "instructions", "cores", "threads", "torch", "commit", "dtype"} <= set(facts)
    assert content["config"]["trainer"]["train_freq"] == 16
    assert [each["of"] for each in content["growth"]] == ["world", "replay"]


def test_command_draws_rates_and_shares(tmp_path, config, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    for kind, start in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        plot = tmp_path / f"bench.{kind}"
        argv = [
            "bench",
            "-C",
            str(config),
            *QUICK,
            "--modes",
            "eager",
            "--parts",
            "sampling",
            "loop",
            "--plot",
            str(plot),
        ]
        assert main(argv) == 0
        assert capsys.readouterr().out.splitlines()[-1] == str(plot)
        assert plot.read_bytes().startswith(start)


@pytest.mark.slow
def test_an_on_policy_agent_is_measured_but_for_replay(tmp_path, capsys):
    on_policy = {"num_envs": 4, "rollout_steps": 4, "epochs": 2, "batch_size": 8}
    config, out = tmp_path / "ppo.json", tmp_path / "bench.json"
    config.write_text(json.dumps(ROOMY | {"agent_type": "PPO", "trainer": on_policy}))
    argv = ["bench", "-C", str(config), *QUICK, "--modes", "eager", "--json", str(out)]
    assert main(argv) == 0
    text = capsys.readouterr().out
    for name in ("sampling", "growth with replay"):
        assert f"{name} left out: PPO learns on-policy, without replay" in text
    content = json.loads(out.read_text())
    assert "rollout_steps=4, epochs=2" in content["setting"]["loop"]
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


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--parts", "wings"], "argument --parts: invalid choice: 'wings'"),
        (["--envs", "0"], "bench.envs=[0]: must be at least 1"),
        (["--seconds", "0"], "bench.seconds=0.0: must be above 0"),
        (["--modes", "captured"], "modes=('captured',): must be one that can be measured here"),
        (["--json", "absent/bench.json"], "absent/bench.json: cannot be written"),
        (["--plot", "bench.gif"], "plot='bench.gif': must be a file ending in .png or .pdf"),
        (["--plot", "absent/bench.pdf"], "absent/bench.pdf: cannot be written"),
        (["--agent", "X"], "agent_type='X': must be one of"),
        (["--robots", "0"], "level.num_robots=0: must be"),
        (["trainer.tow=1"], "trainer.tow='1': there is no such setting"),
        (["env.name=gymnasium:CartPole-v1"], "env.name='gymnasium:CartPole-v1': must be marinenav for benchmarks"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(capsys, argv, expected):
    if "--plot" in argv:
        pytest.importorskip("matplotlib", reason="needs the extra plot")
    assert refused(capsys, "bench", "--device", "cpu", *argv).startswith(expected)


def test_help_names_parts_and_modes(capsys):
    assert main(["bench", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name}" in text for name in (*PARTS, *MODES))
