"""ROS 2 node of the runtime: subscribes to odometry, tracked objects and a goal, and publishes commands.

    python -m boat.ros_node --ros-args -p policy:=FOLDER

starts it in a folder with this package; docs/boats.md describes its topics and parameters.
"""

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
"""Values of the field ``type`` of the ROS message shape_msgs/SolidPrimitive."""
UNSET_PARAMETER = math.nan
"""Default of a ROS parameter without a value; the value in ``contract.json``, exported with the policy, then counts."""


class PilotNode(Node):
    """ROS 2 node that keeps the latest odometry, tracks and goal, and publishes thrusts at every control step."""

    def __init__(self) -> None:
        super().__init__("marinenav_pilot")
        self._frame = str(self.declare_parameter("frame", "map").value)
        folder = str(self.declare_parameter("policy", ".").value)
        self._pilot = Pilot.load(folder, self._declare_settings())
        self._odometry: Odometry | None = None
        self._tracks: Tracks | None = None
        self._goal: tuple[float, float] | None = None
        self._last_warning = ""
        self.create_subscription(OdometryMessage, "odometry", self._on_odometry, 1)
        self.create_subscription(ObjectArray, "tracks", self._on_tracks, 1)
        self.create_subscription(PoseStamped, "goal", self._on_goal, 1)
        self._has_angle = self._pilot.steering != THRUSTERS
        topics = ("thrust", "angle") if self._has_angle else ("left_thrust", "right_thrust")
        self._command_publishers = [self.create_publisher(Float64, topic, 1) for topic in topics]
        self._status_publisher = self.create_publisher(String, "status", 1)
        self.create_timer(self._pilot.control_step, self._on_timer)

    def _declare_settings(self) -> Settings:
        """Declare every setting of the runtime as a ROS parameter of the same name, and return their values."""
        values: dict[str, Any] = {}
        for field in fields(Settings):
            default = UNSET_PARAMETER if field.default is None else field.default
            value = self.declare_parameter(field.name, default).value
            values[field.name] = None if value != value else value
        return Settings(**values)

    # Topics -------------------------------------------------------------------------------------

    def _on_odometry(self, message: Any) -> None:
        if not self._is_usable(message.header, self._odometry):
            return
        stamp, pose, twist = _to_seconds(message.header.stamp), message.pose.pose, message.twist.twist
        place, yaw, velocity = pose.position, yaw_from_quaternion(pose.orientation), twist.linear
        self._odometry = Odometry(stamp, place.x, place.y, yaw, velocity.x, velocity.y, twist.angular.z)

    def _on_tracks(self, message: Any) -> None:
        if not self._is_usable(message.header, self._tracks):
            return
        rows, numbers = [], []
        for track in message.objects:
            place, velocity = track.pose.position, track.twist.linear
            rows.append((place.x, place.y, velocity.x, velocity.y, enclosing_radius(track.shape)))
            numbers.append(int(track.id))
        self._tracks = Tracks(_to_seconds(message.header.stamp), np.reshape(rows, (-1, 5)), np.array(numbers, int))

    def _on_goal(self, message: Any) -> None:
        if self._is_in_frame(message.header):
            self._goal = message.pose.position.x, message.pose.position.y

    def _is_usable(self, header: Any, latest: Odometry | Tracks | None) -> bool:
        """Return whether a message is in the node's frame and newer than the latest one, as networks reorder messages.

        A latest message whose stamp is ahead of the clock is replaced by any message.
        """
        is_newer = latest is None or not _to_seconds(header.stamp) <= latest.stamp <= self._now()
        return is_newer and self._is_in_frame(header)

    def _now(self) -> float:
        return 1e-9 * float(self.get_clock().now().nanoseconds)

    def _is_in_frame(self, header: Any) -> bool:
        if header.frame_id != self._frame:
            self._warn_if_new(f"a message in the frame {header.frame_id!r}, not {self._frame!r}, is unused")
        return bool(header.frame_id == self._frame)

    # Decisions ----------------------------------------------------------------------------------

    def _on_timer(self) -> None:
        self._publish(self._pilot.command(self._now(), self._odometry, self._tracks, self._goal))

    def stop(self) -> None:
        """Publish a last command of zero thrust, and log how often the safety shield replaced a command."""
        pilot = self._pilot
        if pilot.settings.shield:
            self._warn_if_new(f"the shield replaced {pilot.shielded_count} of {pilot.command_count} commands")
        self._publish(Command(0.0, 0.0, "the node ends"))

    def _publish(self, command: Command) -> None:
        values = command.left_thrust, command.angle if self._has_angle else command.right_thrust
        for publisher, value in zip(self._command_publishers, values, strict=True):
            publisher.publish(Float64(data=value))
        steering = "steering, replaced by the shield" if command.is_shielded else "steering"
        self._status_publisher.publish(String(data=command.stop_reason or steering))
        self._warn_if_new(command.stop_reason and f"stopped: {command.stop_reason}")

    def _warn_if_new(self, sentence: str) -> None:
        """Log a sentence as a warning, unless it is empty or repeats the previous one."""
        if sentence and sentence != self._last_warning:
            self.get_logger().warning(sentence)
        self._last_warning = sentence


def _to_seconds(stamp: Any) -> float:
    return float(stamp.sec) + 1e-9 * float(stamp.nanosec)


def yaw_from_quaternion(orientation: Any) -> float:
    """Return the yaw (rad) of a geometry_msgs/Quaternion; NaN, which stops the boat, if it is not normalised."""
    x, y, z, w = orientation.x, orientation.y, orientation.z, orientation.w
    if not abs(math.hypot(x, y, z, w) - 1.0) < 0.01:
        return math.nan
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def enclosing_radius(shape: Any) -> float:
    """Return the radius (m) of the circle around a shape_msgs/SolidPrimitive seen from above; NaN for other shapes."""
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
