"""ROS 2 node of the runtime: subscribes to odometry, tracked objects and a goal, and publishes commands.

    python -m boat.ros_node --ros-args -p policy:=FOLDER

starts it in a folder with this package; docs/boats.md describes its topics and parameters.
"""

from __future__ import annotations

import math
import signal
from dataclasses import fields
from typing import Any

import numpy as np
import rclpy
from derived_object_msgs.msg import ObjectArray
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry as OdometryMessage
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Float64, String

from .runtime import THRUSTERS, Command, Odometry, Pilot, Settings, Tracks

BOX, SPHERE, CYLINDER = 1, 2, 3
"""Types of shape_msgs/SolidPrimitive."""
UNSET = math.nan
"""Default of a parameter whose value is then taken from the policy's contract."""


class PilotNode(Node):
    """Node that keeps the latest messages and publishes a command at every control step."""

    def __init__(self) -> None:
        super().__init__("marinenav_pilot")
        self._frame = str(self.declare_parameter("frame", "map").value)
        folder = str(self.declare_parameter("policy", ".").value)
        self._pilot = Pilot.load(folder, self._settings())
        self._odometry: Odometry | None = None
        self._tracks: Tracks | None = None
        self._goal: tuple[float, float] | None = None
        self._logged = ""
        self.create_subscription(OdometryMessage, "odometry", self._on_odometry, 1)
        self.create_subscription(ObjectArray, "tracks", self._on_tracks, 1)
        self.create_subscription(PoseStamped, "goal", self._on_goal, 1)
        self._has_angle = self._pilot.steering != THRUSTERS
        topics = ("thrust", "angle") if self._has_angle else ("left_thrust", "right_thrust")
        self._commands = [self.create_publisher(Float64, topic, 1) for topic in topics]
        self._status = self.create_publisher(String, "status", 1)
        self.create_timer(self._pilot.control_step, self._on_timer)

    def _settings(self) -> Settings:
        """Declare the settings of the runtime as parameters of the node, and return their values."""
        values: dict[str, Any] = {}
        for field in fields(Settings):
            default = UNSET if field.default is None else field.default
            value = self.declare_parameter(field.name, default).value
            values[field.name] = None if value != value else value
        return Settings(**values)

    # Topics -------------------------------------------------------------------------------------

    def _on_odometry(self, message: Any) -> None:
        stamp, orientation = _seconds(message.header.stamp), message.pose.pose.orientation
        if not self._usable(message.header, self._odometry):
            return
        position, twist = message.pose.pose.position, message.twist.twist
        self._odometry = Odometry(
            stamp,
            position.x,
            position.y,
            yaw_of(orientation),
            twist.linear.x,
            twist.linear.y,
            twist.angular.z,
        )

    def _on_tracks(self, message: Any) -> None:
        if not self._usable(message.header, self._tracks):
            return
        rows = [
            (
                track.pose.position.x,
                track.pose.position.y,
                track.twist.linear.x,
                track.twist.linear.y,
                radius_of(track.shape),
            )
            for track in message.objects
        ]
        self._tracks = Tracks(_seconds(message.header.stamp), np.reshape(rows, (-1, 5)))

    def _on_goal(self, message: Any) -> None:
        if self._in_frame(message.header):
            self._goal = message.pose.position.x, message.pose.position.y

    def _usable(self, header: Any, kept: Odometry | Tracks | None) -> bool:
        """Return whether a message is in the frame and newer than the kept one, as networks reorder messages.

        A kept message whose stamp is ahead of the clock is replaced by any message.
        """
        newer = kept is None or not _seconds(header.stamp) <= kept.stamp <= self._now()
        return newer and self._in_frame(header)

    def _now(self) -> float:
        return 1e-9 * float(self.get_clock().now().nanoseconds)

    def _in_frame(self, header: Any) -> bool:
        if header.frame_id != self._frame:
            self._log(f"a message in the frame {header.frame_id!r}, not {self._frame!r}, is unused")
        return bool(header.frame_id == self._frame)

    # Decisions ----------------------------------------------------------------------------------

    def _on_timer(self) -> None:
        self._send(self._pilot.command(self._now(), self._odometry, self._tracks, self._goal))

    def stop(self) -> None:
        """Publish a last command of zero thrust, and log how often the shield acted."""
        pilot = self._pilot
        if pilot.settings.shield:
            self._log(f"the shield replaced {pilot.shielded} of {pilot.commands} commands")
        self._send(Command(0.0, 0.0, "the node ends"))

    def _send(self, command: Command) -> None:
        values = command.left, command.angle if self._has_angle else command.right
        for publisher, value in zip(self._commands, values, strict=True):
            publisher.publish(Float64(data=value))
        steering = "steering, replaced by the shield" if command.shielded else "steering"
        self._status.publish(String(data=command.stopped or steering))
        self._log(command.stopped and f"stopped: {command.stopped}")

    def _log(self, sentence: str) -> None:
        """Log a warning unless it repeats the previous one."""
        if sentence and sentence != self._logged:
            self.get_logger().warning(sentence)
        self._logged = sentence


def _seconds(stamp: Any) -> float:
    return float(stamp.sec) + 1e-9 * float(stamp.nanosec)


def yaw_of(orientation: Any) -> float:
    """Return the yaw (rad) of a quaternion; NaN, which stops the pilot, if it is not normalised."""
    x, y, z, w = orientation.x, orientation.y, orientation.z, orientation.w
    if not abs(math.hypot(x, y, z, w) - 1.0) < 0.01:
        return math.nan
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def radius_of(shape: Any) -> float:
    """Return the radius (m) of the circle around a shape_msgs/SolidPrimitive; NaN for unsupported shapes."""
    sizes = list(shape.dimensions)
    if shape.type == BOX and len(sizes) == 3:
        return 0.5 * math.hypot(sizes[0], sizes[1])
    if shape.type == SPHERE and len(sizes) == 1:
        return float(sizes[0])
    if shape.type == CYLINDER and len(sizes) == 2:
        return float(sizes[1])
    return math.nan


def main() -> None:
    """Run the node until it is interrupted or terminated, and stop the thrusters at the end."""
    # rclpy's own signal handlers would shut the context down first, so that no stop could be published.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    node = PilotNode()
    try:
        rclpy.spin(node)
    except KeyboardInterrupt:
        pass
    finally:
        node.stop()
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
