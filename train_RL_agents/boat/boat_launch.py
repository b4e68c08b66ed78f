"""ROS 2 launch file of the node: ``ros2 launch DIR/boat/boat_launch.py``; ``marinenav export`` writes DIR."""

from pathlib import Path
from typing import Any

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.substitutions import LaunchConfiguration

ROOT = Path(__file__).resolve().parents[1]
REMAPPED = {
    "odometry": "/odometry/filtered",
    "tracks": "/tracks",
    "goal": "/goal_pose",
    "left_thrust": "/thrusters/left/thrust",
    "right_thrust": "/thrusters/right/thrust",
    "thrust": "/thrusters/main/thrust",
    "angle": "/thrusters/main/angle",
}
"""Default topic of the boat for each topic of the node; each topic of the node is a launch argument."""


def generate_launch_description() -> LaunchDescription:
    """Return the launch description of the node; launch arguments are the policy's folder, the frame and the topics."""
    arguments = [
        DeclareLaunchArgument("policy", default_value=str(ROOT)),
        DeclareLaunchArgument("frame", default_value="map"),
    ]
    command: list[Any] = ["python3", "-m", f"{Path(__file__).parent.name}.ros_node", "--ros-args"]
    for name in ("policy", "frame"):
        command += ["-p", [f"{name}:=", LaunchConfiguration(name)]]
    for topic, default in REMAPPED.items():
        arguments.append(DeclareLaunchArgument(topic, default_value=default))
        command += ["-r", [f"{topic}:=", LaunchConfiguration(topic)]]
    return LaunchDescription([*arguments, ExecuteProcess(cmd=command, cwd=str(ROOT))])
