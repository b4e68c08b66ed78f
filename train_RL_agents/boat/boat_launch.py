"""ROS 2 launch file of the node: ``ros2 launch DIR/boat/boat_launch.py``; ``marinenav export`` writes DIR."""

from pathlib import Path
from typing import Any

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution

POLICY_FOLDER = Path(__file__).resolve().parents[1]
DEFAULT_TOPICS = {
    "odometry": "/odometry/filtered",
    "tracks": "/tracks",
    "goal": "/goal_pose",
    "left_thrust": "/thrusters/left/thrust",
    "right_thrust": "/thrusters/right/thrust",
    "thrust": "/thrusters/main/thrust",
    "angle": "/thrusters/main/angle",
}
"""Default name on the boat of each topic, by its name in the node, which is also the name of a launch argument."""


def generate_launch_description() -> LaunchDescription:
    """Return the launch description that starts the node; arguments are the policy's folder, the frame and topics."""
    arguments = [
        DeclareLaunchArgument("policy", default_value=str(POLICY_FOLDER)),
        DeclareLaunchArgument("frame", default_value="map"),
    ]
    command: list[Any] = ["python3", "-m", f"{Path(__file__).parent.name}.ros_node", "--ros-args"]
    # The node runs in POLICY_FOLDER, but a relative folder is one in the folder in which ros2 was started.
    policy = PathJoinSubstitution([str(Path.cwd()), LaunchConfiguration("policy")])
    command += ["-p", ["policy:=", policy], "-p", ["frame:=", LaunchConfiguration("frame")]]
    for topic, default in DEFAULT_TOPICS.items():
        arguments.append(DeclareLaunchArgument(topic, default_value=default))
        command += ["-r", [f"{topic}:=", LaunchConfiguration(topic)]]
    return LaunchDescription([*arguments, ExecuteProcess(cmd=command, cwd=str(POLICY_FOLDER))])
