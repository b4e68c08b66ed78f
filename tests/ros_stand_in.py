"""What the node on board uses of ROS 2, without ROS: topics, timers, parameters and clocks.

Messages may arrive late, in another order or not at all, and a node's clock may be off.
"""

import heapq
import importlib
import math
import random
import sys
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

MESSAGES = {
    "derived_object_msgs": ("ObjectArray",),
    "geometry_msgs": ("PoseStamped",),
    "nav_msgs": ("Odometry",),
    "std_msgs": ("Float64", "String"),
}
NODE = "train_RL_agents.boat.ros_node"


@dataclass
class Link:
    """How messages travel."""

    delay: float = 0.0
    """Of every message (s)."""
    jitter: float = 0.0
    """Largest further delay, uniform (s)."""
    loss: float = 0.0
    """Share of messages that never arrive."""


@dataclass
class Ros:
    """All topics."""

    link: Link = field(default_factory=Link)
    rng: random.Random = field(default_factory=random.Random)
    time: float = 0.0

    def __post_init__(self):
        self.subscriptions, self.queue, self.count = defaultdict(list), [], 0

    def publish(self, topic, message):
        if self.rng.random() < self.link.loss:
            return
        due = self.time + self.link.delay + self.link.jitter * self.rng.random()
        self.count += 1
        heapq.heappush(self.queue, (due, self.count, topic, message))

    def deliver(self):
        """Hand out what has arrived by now."""
        while self.queue and self.queue[0][0] <= self.time + 1e-9:
            _, _, topic, message = heapq.heappop(self.queue)
            for callback in self.subscriptions[topic]:
                callback(message)


class Node:
    """The part of rclpy.node.Node; ``start`` says where it runs."""

    place = None

    def __init__(self, name):
        self.ros, self.prefix, self.given, self.offset = Node.place
        self.timers, self.declared, self.logged = [], {}, []

    def declare_parameter(self, name, value):
        self.declared[name] = self.given.get(name, value)
        return SimpleNamespace(value=self.declared[name])

    def create_subscription(self, kind, topic, callback, depth):
        self.ros.subscriptions[self.prefix + topic].append(callback)

    def create_publisher(self, kind, topic, depth):
        return SimpleNamespace(publish=lambda each: self.ros.publish(self.prefix + topic, each))

    def create_timer(self, period, callback):
        self.timers.append((period, callback))

    def get_clock(self):
        now = SimpleNamespace(nanoseconds=round(1e9 * (self.ros.time + self.offset)))
        return SimpleNamespace(now=lambda: now)

    def get_logger(self):
        return SimpleNamespace(warning=self.logged.append)


@contextmanager
def stood_in():
    """The module of the node, imported with this instead of ROS."""
    modules = {name: ModuleType(name) for name in ("rclpy", "rclpy.node", "rclpy.signals")}
    modules["rclpy.node"].Node = Node
    modules["rclpy.signals"].SignalHandlerOptions = SimpleNamespace(NO="no handlers")
    for package, names in MESSAGES.items():
        modules[package], modules[f"{package}.msg"] = ModuleType(package), ModuleType(f"{package}.msg")
        for name in names:
            setattr(modules[f"{package}.msg"], name, type(name, (SimpleNamespace,), {}))
    before = {name: sys.modules.get(name) for name in (*modules, NODE)}
    sys.modules.update(modules)
    try:
        yield importlib.import_module(NODE)
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def start(module, ros, prefix="", offset=0.0, **parameters):
    """A node of a module, whose clock is off by an offset (s)."""
    Node.place = ros, prefix, parameters, offset
    return module.PilotNode()


def header(stamp, frame="map"):
    nanoseconds = round(1e9 * stamp)
    seconds, rest = divmod(nanoseconds, 10**9)
    return SimpleNamespace(stamp=SimpleNamespace(sec=seconds, nanosec=rest), frame_id=frame)


def vector(x=0.0, y=0.0, z=0.0):
    return SimpleNamespace(x=x, y=y, z=z)


def quaternion(yaw):
    return SimpleNamespace(x=0.0, y=0.0, z=math.sin(0.5 * yaw), w=math.cos(0.5 * yaw))


def odometry(stamp, x, y, yaw, forward, port, yaw_rate, frame="map"):
    pose = SimpleNamespace(position=vector(x, y), orientation=quaternion(yaw))
    twist = SimpleNamespace(linear=vector(forward, port), angular=vector(z=yaw_rate))
    return SimpleNamespace(
        header=header(stamp, frame), pose=SimpleNamespace(pose=pose), twist=SimpleNamespace(twist=twist)
    )


def tracks(stamp, rows, frame="map"):
    """Rows of x, y, velocity x, y and radius, as spheres, numbered from 41."""
    objects = [
        SimpleNamespace(
            id=number,
            pose=SimpleNamespace(position=vector(x, y)),
            twist=SimpleNamespace(linear=vector(vx, vy)),
            shape=SimpleNamespace(type=2, dimensions=[radius]),
        )
        for number, (x, y, vx, vy, radius) in enumerate(rows, 41)
    ]
    return SimpleNamespace(header=header(stamp, frame), objects=objects)


def goal(x, y, frame="map"):
    return SimpleNamespace(header=header(0.0, frame), pose=SimpleNamespace(position=vector(x, y)))
