"""The launch file, with a stand-in for ROS's launch package."""

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

FILE = "train_RL_agents.boat.boat_launch"


def test_launch_starts_the_node_with_its_topics(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def kind(name):
        return lambda *given, **named: SimpleNamespace(kind=name, given=given, named=named)

    modules = {
        "launch": {"LaunchDescription": kind("description")},
        "launch.actions": {"DeclareLaunchArgument": kind("argument"), "ExecuteProcess": kind("process")},
        "launch.substitutions": {
            "LaunchConfiguration": lambda name: f"<{name}>",
            "PathJoinSubstitution": lambda parts: str(Path(*parts)),
        },
    }
    for name, content in modules.items():
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        vars(sys.modules[name]).update(content)
    module = importlib.import_module(FILE)
    monkeypatch.delitem(sys.modules, FILE)
    (described,) = module.generate_launch_description().given
    process = described[-1].named
    root = Path(module.__file__).parents[1]
    assert (root / process["cmd"][2].replace(".", "/")).with_suffix(".py").exists()
    assert process["cwd"] == str(root)
    arguments = {each.given[0] for each in described[:-1]}
    topics = {"odometry", "tracks", "goal", "left_thrust", "right_thrust", "thrust", "angle"}
    assert arguments == {"policy", "frame"} | topics
    used = {word[0].removesuffix(":="): word[1] for word in process["cmd"] if isinstance(word, list)}
    # A relative folder is one in the folder in which ros2 is started, not in that of the node.
    assert used.pop("policy") == f"{tmp_path}/<policy>"
    assert used == {name: f"<{name}>" for name in arguments - {"policy"}}
