"""Triton versions of the functions of physics.weather and of missed detections; each lane computes one robot.

For arguments with the same names see kernels.triton_kernel. ``inputs.weather`` has rows of ``width`` numbers:
height of hulls, delay, probability of a missed detection, direction of the waves, wind x and y, then frequencies,
amplitudes and phases of the waves.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment, misc"

from __future__ import annotations

import triton
import triton.language as tl

from marinenav_env.config import MAX_DELAY
from marinenav_env.kernels.triton_math import length, load_vector, philox_words, store_vector, to_body_frame, uniform
from marinenav_env.physics import weather

_DELAY = tl.constexpr(1)
_CHANCE = tl.constexpr(2)
_WAVES = tl.constexpr(6)
"""Rows of ``inputs.weather``: delay, probability of a missed detection, and frequency of the first wave."""
_COUNT = tl.constexpr(len(weather.WAVE_FREQUENCY_RATIOS))
_MOST_DELAY = tl.constexpr(MAX_DELAY)
_GRAVITY, _AIR = tl.constexpr(weather.GRAVITATIONAL_ACCELERATION), tl.constexpr(weather.AIR_DENSITY)
_SURGE, _SWAY, _YAW = (
    tl.constexpr(weather.SURGE_WIND_COEFFICIENT),
    tl.constexpr(weather.SWAY_WIND_COEFFICIENT),
    tl.constexpr(weather.YAW_WIND_COEFFICIENT),
)
_MISSED = tl.constexpr(7)
"""Philox stream of the uniform numbers for missed detections: 4 * purpose + kind, see philox.RandomSource."""


@triton.jit
def delayed(rates, inputs, result, place, width):
    """Return the commands that take effect now (N/s) and store the pending ones, like weather.delay_commands."""
    valid, _robot, _e, offset, stride, _parameter, column = place
    delay = tl.load(inputs.weather + _DELAY * width + column).to(tl.int32)
    is_delayed = delay > 0
    effective = ()
    for side in tl.static_range(2):
        start = offset + side * _MOST_DELAY * stride
        before = tl.load(inputs.pending + start + (delay - 1) * stride, mask=is_delayed, other=0.0)
        effective = effective + (tl.where(is_delayed, before, rates[side]),)
        queue = (rates[side],) + load_vector(inputs.pending, start, stride, _MOST_DELAY - 1)
        store_vector(result.new_pending, start, stride, valid, queue)
    return effective


@triton.jit
def _wind_force(x, y, pressure, long, wide):
    """Return surge, sway force and yaw moment of a relative wind x, y (m/s, body frame), like weather.wind_force."""
    speed = length(x, y)
    return (
        _SURGE * pressure * wide * speed * x,
        _SWAY * pressure * long * speed * y,
        -2.0 * _YAW * pressure * long * long * x * y,
    )


@triton.jit
def _sinc(x):
    """Return sin(x) / x, and 1 for x = 0."""
    return tl.where(x == 0.0, 1.0, tl.sin(x) / tl.where(x == 0.0, 1.0, x))


@triton.jit
def _wave_force(along, seconds, cos, sin, mass, long, wide, inputs, column, width):
    """Return surge force, sway force (N) and yaw moment (N m) of the waves, like weather.wave_force.

    ``along`` is the position along the direction of the waves (m); ``cos`` and ``sin`` are those of
    the direction of the waves relative to the bow.
    """
    surge, sway, yaw = tl.zeros_like(along), tl.zeros_like(along), tl.zeros_like(along)
    for i in range(_COUNT):
        row = inputs.weather + (_WAVES + i) * width + column
        frequency = tl.load(row)
        number = frequency * frequency / _GRAVITY
        phase = number * along - frequency * seconds + tl.load(row + 2 * _COUNT * width)
        half = 0.5 * long * number * cos
        amplitude = tl.load(row + _COUNT * width)
        pull = mass * amplitude * frequency * frequency * _sinc(0.5 * wide * number * sin)
        force = pull * _sinc(half) * tl.sin(phase)
        small = tl.abs(half) < 0.01
        away = tl.where(small, 1.0, half)
        bessel = (tl.sin(away) - away * tl.cos(away)) / (away * away)
        bessel = tl.where(small, half / 3.0, bessel)
        surge += force * cos
        sway += force * sin
        yaw += pull * tl.cos(phase) * sin * 0.5 * long * bessel
    return surge, sway, yaw


@triton.jit
def weather_force(seconds, mass, inputs, numbers, place, width):
    """Return surge force, sway force (N) and yaw moment (N m) of wind and waves, like weather.weather_force."""
    _valid, _robot, _e, offset, stride, parameter, column = place
    hull_height, _delay, _chance, direction, wind_x, wind_y = load_vector(inputs.weather, column, width, 6)
    x, y, heading = load_vector(inputs.pose, offset, stride, 3)
    ground = load_vector(inputs.velocity_ground, offset, stride, 2)
    long, wide = tl.load(numbers.length + parameter), tl.load(numbers.width + parameter)
    wind = to_body_frame(wind_x - ground[0], wind_y - ground[1], tl.cos(heading), tl.sin(heading))
    wind = _wind_force(wind[0], wind[1], 0.5 * _AIR * hull_height, long, wide)
    along, ahead = tl.cos(direction) * x + tl.sin(direction) * y, direction - heading
    waves = _wave_force(along, seconds, tl.cos(ahead), tl.sin(ahead), mass, long, wide, inputs, column, width)
    return wind[0] + waves[0], wind[1] + waves[1], wind[2] + waves[2]


@triton.jit
def miss_probability(inputs, column, width):
    """Return the probability that a robot does not detect an object."""
    return tl.load(inputs.weather + _CHANCE * width + column)


@triton.jit
def is_missed(number, robot, chance, inputs, e, R, M):
    """Return whether a robot fails to detect an object, from the numbers [M, R] of World.draw_noise.

    Each Philox call yields four numbers, one for each quarter of the flattened array.
    """
    calls, position = (M * R + 3) // 4, number * R + robot
    source = inputs.seed, inputs.environment, inputs.step, e
    a, b, c, d = philox_words(source, position % calls, _MISSED)
    part = position // calls
    word = tl.where(part == 0, a, tl.where(part == 1, b, tl.where(part == 2, c, d)))
    return uniform(word) < chance
