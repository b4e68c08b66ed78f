"""marinenav bench, at sizes that take seconds."""

import json

import pytest

from tests.train_RL_agents.tiny_runs import TINY, refused
from train_RL_agents.commands.cli import main
from train_RL_agents.experiments.benchmark_parts import PARTS

pytestmark = pytest.mark.usefixtures("surroundings")
QUICK = ["--seconds", "0.001", "--repeats", "2", "--envs", "2", "4", "--batch", "4", "8", "execution.compile=false"]


def bench(folder, content, *words):
    config, out = folder / "tiny.json", folder / "bench.json"
    config.write_text(json.dumps(content))
    assert main(["bench", "-C", str(config), *QUICK, "--json", str(out), *words]) == 0
    return json.loads(out.read_text())


def test_command_measures_every_part_and_writes_it(tmp_path, capsys):
    content = bench(tmp_path, TINY, "trainer.train_freq=16")
    text = capsys.readouterr().out
    assert all(part in text for part in PARTS) and text.count("env-steps/s  ") >= 5
    rows = content["rows"]
    assert list(dict.fromkeys(row["part"] for row in rows)) == list(PARTS)
    assert all(0 < row["lowest"] <= row["median"] <= row["highest"] for row in rows)
    assert [row["environments"] for row in rows if row["part"] == "world"] == [2, 4]
    assert [row["batch"] for row in rows if row["part"] == "update"] == [4, 8]
    assert {"processor", "cores", "threads", "torch", "commit"} <= set(content["setting"])
    assert content["setting"]["agent"] == "DQN" and not content["setting"]["compiled"]
    assert content["config"]["trainer"]["train_freq"] == 16


@pytest.mark.slow
def test_an_on_policy_agent_is_measured_but_for_replay(tmp_path, capsys):
    on_policy = {"num_envs": 4, "rollout_steps": 4, "epochs": 2, "batch_size": 8}
    rows = bench(tmp_path, TINY | {"agent_type": "PPO", "trainer": on_policy})["rows"]
    assert "replay left out: PPO learns on-policy, without replay" in capsys.readouterr().out
    units = {row["part"]: row["unit"] for row in rows}
    assert units == dict.fromkeys(("world", "policy", "loop"), "env-steps/s") | {"update": "rollouts/s"}
    updates = [row for row in rows if row["part"] == "update"]
    assert [row["batch"] for row in updates] == [4, 8]
    assert all(row["shares"]["update"] > 0.0 for row in updates)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--parts", "wings"], "argument --parts: invalid choice: 'wings'"),
        (["--envs", "0"], "bench.envs=[0]: must be at least 1"),
        (["--seconds", "0"], "bench.seconds=0.0: must be above 0"),
        (["--agent", "X"], "agent_type='X': must be one of"),
        (["trainer.tow=1"], "trainer.tow='1': there is no such setting"),
        (["env.name=gymnasium:CartPole-v1"], "env.name='gymnasium:CartPole-v1': must be marinenav for benchmarks"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(capsys, argv, expected):
    assert refused(capsys, "bench", "--device", "cpu", *argv).startswith(expected)
