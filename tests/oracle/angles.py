"""Frames and angles of the world specification."""

import math

TWO_PI = 2.0 * math.pi


def wrap_two_pi(angle: float) -> float:
    """Wrap to [0, 2 pi), the convention of the yaw angle."""
    wrapped = math.fmod(angle, TWO_PI)
    if wrapped < 0.0:
        wrapped += TWO_PI
    # A tiny negative angle rounds up to 2 pi itself, which the half-open interval excludes.
    return 0.0 if wrapped >= TWO_PI else wrapped


def wrap_pi(angle: float) -> float:
    """Wrap to [-pi, pi), the convention of angle differences."""
    return wrap_two_pi(angle + math.pi) - math.pi


def to_world(theta: float, x: float, y: float) -> tuple[float, float]:
    """Turn a body vector into the world frame: R(theta) = [[cos, -sin], [sin, cos]]."""
    cos, sin = math.cos(theta), math.sin(theta)
    return cos * x - sin * y, sin * x + cos * y


def to_body(theta: float, x: float, y: float) -> tuple[float, float]:
    """Turn a world vector into the body frame: the transpose of R(theta)."""
    cos, sin = math.cos(theta), math.sin(theta)
    return cos * x + sin * y, -sin * x + cos * y
