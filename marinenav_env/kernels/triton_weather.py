"""Weather in Triton: physics.weather for the robot of each lane, and missed detections.

Arguments are those of kernels.triton_kernel. ``given.weather`` has rows of ``width`` numbers:
height of hulls, delay, probability of a miss, direction of the waves, wind x and y, then frequency,
amplitude and phase of each wave.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment, misc"

from __future__ import annotations

import triton
import triton.language as tl

from marinenav_env.config import MOST_DELAY
from marinenav_env.kernels.triton_math import length, load, store, turned, uniform, words
from marinenav_env.physics import weather

_DELAY = tl.constexpr(1)
_CHANCE = tl.constexpr(2)
_WAVES = tl.constexpr(6)
"""Rows of the delay, of the probability of a miss, and of the first wave."""
_COUNT = tl.constexpr(len(weather.RATIOS))
_MOST_DELAY = tl.constexpr(MOST_DELAY)
_GRAVITY, _AIR = tl.constexpr(weather.GRAVITY), tl.constexpr(weather.AIR)
_SURGE, _SWAY, _YAW = (
    tl.constexpr(weather.SURGE),
    tl.constexpr(weather.SWAY),
    tl.constexpr(weather.YAW),
)
_MISSED = tl.constexpr(7)
"""Kind and purpose of the noise, see philox.RandomSource: uniform, for missed detections."""


@triton.jit
def delayed(rates, given, made, place, width):
    """weather.delayed: the commands that take effect now; those that still have to are stored."""
    here, _robot, _e, own, each, _mine, at = place
    delay = tl.load(given.weather + _DELAY * width + at).to(tl.int32)
    late = delay > 0
    effective = ()
    for side in tl.static_range(2):
        start = own + side * _MOST_DELAY * each
        before = tl.load(given.pending + start + (delay - 1) * each, mask=late, other=0.0)
        effective = effective + (tl.where(late, before, rates[side]),)
        queue = (rates[side],) + load(given.pending, start, each, _MOST_DELAY - 1)
        store(made.new_pending, start, each, here, queue)
    return effective


@triton.jit
def _wind_force(x, y, pressure, long, wide):
    """weather.wind_force of a wind relative to the vessel (m/s, body frame)."""
    speed = length(x, y)
    return (
        _SURGE * pressure * wide * speed * x,
        _SWAY * pressure * long * speed * y,
        -2.0 * _YAW * pressure * long * long * x * y,
    )


@triton.jit
def _sinc(x):
    """Sine of a number over the number."""
    return tl.where(x == 0.0, 1.0, tl.sin(x) / tl.where(x == 0.0, 1.0, x))


@triton.jit
def _wave_force(along, seconds, cos, sin, mass, long, wide, given, at, width):
    """weather.wave_force.

    ``along`` is the position in the direction of the waves (m); ``cos`` and ``sin`` are of that
    direction from the bow.
    """
    surge, sway, yaw = tl.zeros_like(along), tl.zeros_like(along), tl.zeros_like(along)
    for i in range(_COUNT):
        row = given.weather + (_WAVES + i) * width + at
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
def weather_force(seconds, mass, given, numbers, place, width):
    """weather.weather_force at the beginning of the step."""
    _here, _robot, _e, own, each, mine, at = place
    hull_height, _delay, _chance, direction, wind_x, wind_y = load(given.weather, at, width, 6)
    x, y, heading = load(given.pose, own, each, 3)
    ground = load(given.velocity_ground, own, each, 2)
    long, wide = tl.load(numbers.length + mine), tl.load(numbers.width + mine)
    wind = turned(wind_x - ground[0], wind_y - ground[1], tl.cos(heading), tl.sin(heading))
    wind = _wind_force(wind[0], wind[1], 0.5 * _AIR * hull_height, long, wide)
    along, ahead = tl.cos(direction) * x + tl.sin(direction) * y, direction - heading
    waves = _wave_force(along, seconds, tl.cos(ahead), tl.sin(ahead), mass, long, wide, given, at, width)
    return wind[0] + waves[0], wind[1] + waves[1], wind[2] + waves[2]


@triton.jit
def chance_of_a_miss(given, at, width):
    """Probability that a robot does not detect an object."""
    return tl.load(given.weather + _CHANCE * width + at)


@triton.jit
def missed(number, robot, chance, given, e, R, M):
    """Whether a robot misses an object: World.draw_noise, whose numbers are [M, R] in a row.

    A call of Philox gives one number to each of four equal parts of the row.
    """
    calls, position = (M * R + 3) // 4, number * R + robot
    source = given.seed, given.environment, given.step, e
    a, b, c, d = words(source, position % calls, _MISSED)
    part = position // calls
    word = tl.where(part == 0, a, tl.where(part == 1, b, tl.where(part == 2, c, d)))
    return uniform(word) < chance
