"""The ROS 2 node, with a stand-in for ROS."""

import math
import signal
from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import pytest

from tests import ros_stand_in as ros_2
from tests.ros_stand_in import Ros, stood_in
from train_RL_agents.boat.runtime import Command, Settings


class Pilot:
    """In place of the runtime; keeps what it was given."""

    control_step, steering = 0.5, "thrusters"
    instances: ClassVar = []
    """All of a test."""

    def __init__(self, folder, settings):
        self.folder, self.settings, self.calls = folder, settings, []
        self.answer = Command(100.0, -50.0)
        self.instances.append(self)

    def command(self, *given):
        self.calls.append(given)
        return self.answer


@pytest.fixture
def module(monkeypatch):
    with stood_in() as node:
        monkeypatch.setattr(node.Pilot, "load", Pilot)
        monkeypatch.setattr(Pilot, "instances", [])
        yield node


def boat(module, **parameters):
    """A node, and the messages that it has sent by topic."""
    ros, sent = Ros(time=7.0), {}
    node = ros_2.start(module, ros, **parameters)
    for topic in ("left_thrust", "right_thrust", "thrust", "angle", "status"):
        sent[topic] = []
        ros.subscriptions[topic].append(lambda each, to=sent[topic]: to.append(each.data))
    return ros, node, sent


def tick(ros, node):
    ros.deliver()
    ((period, callback),) = node.timers
    assert period == 0.5
    callback()
    ros.deliver()
    return Pilot.instances[-1].calls[-1]


def test_messages_reach_the_pilot_in_its_own_types(module):
    ros, node, sent = boat(module)
    assert tick(ros, node) == (7.0, None, None, None)
    ros.publish("odometry", ros_2.odometry(6.9, 1.0, 2.0, -2.5, 0.3, -0.1, 0.05))
    ros.publish("tracks", ros_2.tracks(6.8, [(9.0, 8.0, 0.5, -0.5, 1.5)]))
    ros.publish("goal", ros_2.goal(30.0, 40.0))
    now, own, tracks, goal = tick(ros, node)
    assert (now, goal) == (7.0, (30.0, 40.0))
    expected = (6.9, 1.0, 2.0, -2.5, 0.3, -0.1, 0.05)
    assert tuple(vars(own).values()) == pytest.approx(expected)
    assert tracks.stamp == pytest.approx(6.8)
    assert tracks.objects.tolist() == [[9.0, 8.0, 0.5, -0.5, 1.5]] and tracks.ids.tolist() == [41]
    assert (sent["left_thrust"], sent["right_thrust"]) == ([100.0] * 2, [-50.0] * 2)
    assert sent["status"] == ["steering"] * 2
    ros.publish("tracks", ros_2.tracks(7.0, []))
    assert tick(ros, node)[2].objects.shape == (0, 5)


def test_older_messages_and_other_frames_are_unused(module):
    ros, node, _ = boat(module, frame="odom")
    for stamp, x, frame in ((6.9, 1.0, "odom"), (6.5, 2.0, "odom"), (7.0, 3.0, "map")):
        ros.publish("odometry", ros_2.odometry(stamp, x, 0.0, 0.0, 0.0, 0.0, 0.0, frame))
    ros.publish("goal", ros_2.goal(1.0, 2.0))
    _, own, _, goal = tick(ros, node)
    assert own.x == 1.0
    assert goal is None
    assert node.logged[0] == "a message in the frame 'map', not 'odom', is unused"
    # A stamp far ahead of the clock must not shut out what follows.
    for stamp in (99.0, 7.1):
        ros.publish("odometry", ros_2.odometry(stamp, stamp, 0.0, 0.0, 0.0, 0.0, 0.0, "odom"))
    assert tick(ros, node)[1].x == 7.1


def test_a_stop_is_published_and_said_once(module):
    ros, node, sent = boat(module)
    tick(ros, node)
    Pilot.instances[0].answer = Command(0.0, 0.0, "the clock is not finite")
    tick(ros, node)
    tick(ros, node)
    assert sent["left_thrust"] == [100.0, 0.0, 0.0]
    assert sent["status"] == ["steering"] + ["the clock is not finite"] * 2
    assert node.logged == ["stopped: the clock is not finite"]


@pytest.mark.parametrize("steering", ["azimuth", "rudder"])
def test_one_thruster_has_a_thrust_and_an_angle(module, monkeypatch, steering):
    monkeypatch.setattr(Pilot, "steering", steering)
    ros, node, sent = boat(module)
    Pilot.instances[0].answer = Command(100.0, 0.0, angle=-0.3)
    tick(ros, node)
    node.stop()
    ros.deliver()
    assert (sent["thrust"], sent["angle"]) == ([100.0, 0.0], [-0.3, 0.0])
    assert not sent["left_thrust"] and not sent["right_thrust"]


def test_what_the_shield_does_is_published_and_logged(module):
    ros, node, sent = boat(module, shield=True)
    (pilot,) = Pilot.instances
    pilot.answer = Command(100.0, -50.0, is_shielded=True)
    pilot.command_count, pilot.shielded_count = 7, 3
    tick(ros, node)
    assert sent["status"] == ["steering, replaced by the shield"] and node.logged == []
    node.stop()
    assert node.logged == ["the shield replaced 3 of 7 commands", "stopped: the node ends"]


def test_parameters_are_the_settings(module):
    given = {"policy": "here", "risk": 0.5, "max_age": 2.0, "extrapolate": False}
    _, node, _ = boat(module, **given)
    (pilot,) = Pilot.instances
    assert pilot.folder == "here"
    assert pilot.settings == Settings(risk=0.5, max_age=2.0, extrapolate=False)
    assert math.isnan(node.declared["max_thrust"])
    boat(module)
    assert Pilot.instances[1].settings == Settings()


def test_yaw_and_radius_of_messages(module):
    for yaw in (-3.0, 0.0, 0.4, 2.9):
        assert module.yaw_from_quaternion(ros_2.quaternion(yaw)) == pytest.approx(yaw)
    assert math.isnan(module.yaw_from_quaternion(SimpleNamespace(x=0.0, y=0.0, z=0.0, w=0.0)))
    shapes = [(1, [5.0, 2.5, 1.0]), (2, [3.0]), (3, [1.0, 4.0]), (1, []), (4, [1.0, 2.0])]
    radii = [module.enclosing_radius(SimpleNamespace(type=kind, dimensions=sizes)) for kind, sizes in shapes]
    assert radii[:3] == pytest.approx([0.5 * math.hypot(5.0, 2.5), 3.0, 4.0])
    assert all(math.isnan(radius) for radius in radii[3:])


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_main_runs_the_node_until_it_ends_and_stops_the_thrusters(module, monkeypatch, error):
    ros, done, handled = Ros(time=7.0), [], {}
    for topic in ("left_thrust", "right_thrust", "status"):
        ros.subscriptions[topic].append(lambda each: done.append(each.data))

    def spin(node):
        tick(ros, node)
        raise error

    def end(*_):
        ros.deliver()
        done.append("destroyed")

    ros_2.Node.place = ros, "", {}, 0.0
    monkeypatch.setattr(module.PilotNode, "destroy_node", end, raising=False)
    monkeypatch.setattr(module.signal, "signal", handled.__setitem__)
    begin = lambda **given: done.append(given["signal_handler_options"])  # noqa: E731
    shut = lambda: done.append("shutdown")  # noqa: E731
    for name, call in {"init": begin, "spin": spin, "try_shutdown": shut}.items():
        monkeypatch.setattr(module.rclpy, name, call, raising=False)
    with nullcontext() if error is KeyboardInterrupt else pytest.raises(error):
        module.main()
    steering, stopped = [100.0, -50.0, "steering"], [0.0, 0.0, "the node ends"]
    assert done == ["no handlers", *steering, *stopped, "destroyed", "shutdown"]
    with pytest.raises(KeyboardInterrupt):
        handled[signal.SIGTERM](signal.SIGTERM, None)
