"""The worked example of docs/boats.md: its commands, one after another, lead from a log to a node on board.

Runs are shorter than on the page. All suites take minutes and are tested elsewhere.
"""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from marinenav_env import read_vessel, scaled_world
from tests import ros_stand_in as ros_2
from tests.ros_stand_in import Ros, stood_in
from tests.train_RL_agents.identification.helpers import sail, text_of
from train_RL_agents.boat.runtime import BoatError, Pilot, Settings
from train_RL_agents.commands.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "boats.md"
SHORTER = {
    "train": "total_timesteps=2000 eval_freq=2000 trainer.num_envs=16 world.max_steps=20 "
    "eval_schedule.num_episodes=[1,1,1,1,1,1] --quiet execution.compile=false execution.device=cpu"
}


def commands():
    """The words of the page's commands, without comments."""
    block = PAGE.read_text().partition("### From a log to a boat")[2].partition("```bash\n")[2].partition("```")[0]
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def test_the_example_names_every_step():
    steps = [words[1] for words in commands() if words[0] == "marinenav"]
    assert steps == ["identify", "identify", "train", "evaluate", "evaluate", "export"]


@pytest.mark.slow
def test_the_commands_lead_from_a_log_to_a_node(tmp_path, monkeypatch, capsys):
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="needs the extra export")
    monkeypatch.chdir(tmp_path)
    rows, _ = sail("otter", seconds=200.0)
    Path("log.csv").write_text(text_of(rows))
    *words, node = commands()
    for _, step, *rest in words:
        if "all" in rest:
            continue
        short = [re.sub(r"^100$", "1", word) for word in rest] + shlex.split(SHORTER.get(step, ""))
        assert main([step, *short]) == 0, (step, capsys.readouterr().err)
    assert Path("plan.csv").exists() and Path("boat.html").exists()
    vessel, contract = read_vessel("boat.json"), json.loads(Path("boat_policy/contract.json").read_text())
    assert vessel.name == "boat" and vessel.xU == pytest.approx(read_vessel("otter").xU, rel=0.2)
    assert contract["boat"] == {"name": "boat", "steering": "thrusters"}
    assert contract["action"]["control_step"]["value"] == pytest.approx(scaled_world(vessel).dt * 10)
    steer("boat_policy", [word.split(":=") for word in node if ":=" in word])
    content = json.loads(Path("boat.json").read_text())
    content["vessel"]["m"] = 99.0
    Path("other.json").write_text(json.dumps(content))
    for other, sentence in (("otter", "for the boat boat, not for otter"), ("other.json", "m=80.0, not 99.0 as in")):
        with pytest.raises(BoatError, match=sentence):
            Pilot.load("boat_policy", Settings(boat=other))


def steer(folder, parameters):
    """Start the node as on the page, in the folder of the policy, and let it decide once."""
    assert dict(parameters) == {"policy": ".", "boat": "../boat.json"}
    sent = []
    with stood_in() as module:
        ros = Ros(time=7.0)
        node = ros_2.start(module, ros, policy=folder, boat="boat.json", max_seconds=60.0)
        ros.subscriptions["left_thrust"].append(lambda message: sent.append(message.data))
        ros.subscriptions["status"].append(lambda message: sent.append(message.data))
        ros.publish("odometry", ros_2.odometry(7.0, 1.0, 2.0, 0.5, 0.3, 0.0, 0.0))
        ros.publish("tracks", ros_2.tracks(7.0, [(9.0, 8.0, 0.5, -0.5, 1.5)]))
        ros.publish("goal", ros_2.goal(30.0, 40.0))
        ros.deliver()
        node.timers[0][1]()
        ros.deliver()
    assert sent[1] == "steering" and np.isfinite(sent[0])
