"""Triton functions for angles, vectors (as tuples of numbers) and random numbers."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment"

from __future__ import annotations

import math

import triton
import triton.language as tl

PI = tl.constexpr(math.pi)
TURN = tl.constexpr(2.0 * math.pi)
"""A full turn (rad)."""


@triton.jit
def wrap_to_two_pi(angle):
    """Wrap angles to [0, 2 pi), like dynamics.wrap_to_two_pi."""
    wrapped = angle - TURN * tl.floor(angle / TURN)
    wrapped = tl.where(wrapped < 0.0, wrapped + TURN, wrapped)
    return tl.where(wrapped < TURN, wrapped, 0.0)


@triton.jit
def wrap_to_pi(angle):
    """Wrap angles to [-pi, pi), like dynamics.wrap_to_pi."""
    return wrap_to_two_pi(angle + PI) - PI


@triton.jit
def atan2(y, x):
    """Return the angle of (x, y) in [-pi, pi], to within 3e-7; Triton's interpreter lacks libdevice's atan2.

    The arc tangent on [0, 1] is approximated by an odd polynomial; the other octants follow from symmetry.
    """
    high, wide = tl.abs(y), tl.abs(x)
    longer = tl.maximum(high, wide)
    t = tl.minimum(high, wide) / tl.where(longer > 0.0, longer, 1.0)
    s = t * t
    p = 2.78569828e-3
    p = p * s - 1.58660226e-2
    p = p * s + 4.24722321e-2
    p = p * s - 7.49753043e-2
    p = p * s + 1.06448799e-1
    p = p * s - 1.42070308e-1
    p = p * s + 1.99934542e-1
    p = p * s - 3.33331466e-1
    angle = p * s * t + t
    angle = tl.where(high > wide, 0.5 * PI - angle, angle)
    angle = tl.where(x < 0.0, PI - angle, angle)
    return tl.where(y < 0.0, -angle, angle)


@triton.jit
def asin(x):
    """Return the angle in [-pi/2, pi/2] whose sine is x, from atan2."""
    return atan2(x, tl.sqrt((1.0 - x) * (1.0 + x)))


@triton.jit
def load_vector(pointer, offset, stride, count: tl.constexpr):
    """Load a vector of ``count`` numbers that are ``stride`` apart in memory, as a tuple."""
    values = ()
    for i in tl.static_range(count):
        values = values + (tl.load(pointer + offset + i * stride),)
    return values


@triton.jit
def store_vector(pointer, offset, stride, valid, values):
    """Store a vector (a tuple of numbers) ``stride`` apart in memory, where ``valid`` is true."""
    for i in tl.static_range(len(values)):
        tl.store(pointer + offset + i * stride, values[i], mask=valid)


@triton.jit
def where_vector(mask, new, old):
    """Return the vector ``new`` where the mask is true and ``old`` elsewhere, like ``tl.where`` for numbers."""
    values = ()
    for i in tl.static_range(len(new)):
        values = values + (tl.where(mask, new[i], old[i]),)
    return values


@triton.jit
def length(x, y):
    """Return the Euclidean length of a vector (x, y)."""
    return tl.sqrt(x * x + y * y)


@triton.jit
def to_body_frame(x, y, cos, sin):
    """Convert a vector from the world frame to the body frame, from the cosine and sine of the yaw."""
    return cos * x + sin * y, cos * y - sin * x


@triton.jit
def philox_words(source, number, use):
    """Draw four words of a stream, like philox.RandomSource.words; ``source`` ends with the lane's environment."""
    seed, environment, step, e = source
    return tl.philox_impl(
        number.to(tl.uint32),
        tl.load(environment + e).to(tl.uint32),
        tl.load(step + e).to(tl.uint32),
        tl.full(number.shape, use, tl.uint32),
        tl.load(seed).to(tl.uint32),
        tl.load(seed + 1).to(tl.uint32),
        10,
    )


@triton.jit
def uniform(word):
    """Convert random 32-bit words to float32 numbers uniform on [0, 1): the upper 24 bits over 2 ** 24."""
    return (word >> 8).to(tl.float32) * 2.0**-24


@triton.jit
def normal(first, second):
    """Convert two words to two standard normal numbers, like philox.normal."""
    far = tl.sqrt(-2.0 * tl.log(uniform(first) + 2.0**-24))
    angle = TURN * uniform(second)
    return far * tl.cos(angle), far * tl.sin(angle)
