"""Sampling of parameters that vary between the scenarios of a level: vessels, sensors, weather and faults."""

import math
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import MAX_DELAY, MODERATE_WEATHER, WorldConfig
from marinenav_env.levels import Level
from marinenav_env.physics.actuators import num_full_thrusters, steady_setpoint
from marinenav_env.physics.weather import WAVE_FREQUENCY_RATIOS, make_weather
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.draws import FAULTS, VESSELS, WEATHER, CounterDraws, Draws
from marinenav_env.scenarios.encounter_sampler import SAME_SPEED_SHARE
from marinenav_env.scenarios.parameters import build_extras
from marinenav_env.scenarios.reset import select_environments
from marinenav_env.state import ActuatorParameters, Parameters, Weather

MASS_FIELDS = ("m", "Izz")
"""Parameters of a vessel that are multiplied by one drawn factor: mass and moment of inertia."""
THRUST_LIMIT_FIELDS = ("min_thrust", "max_thrust")
"""Parameters of a vessel that are multiplied by another drawn factor: the limits of its thrust."""
SLOW_THRUST_FACTOR = 0.12
"""Factor on the largest forward thrust of a slow vessel."""
MAX_WAVE_DEVIATION = math.radians(30.0)
"""Largest angle between the directions of wind and waves (rad)."""


class ParameterSampler:
    """Sampler of parameters of scenarios, without host reads: those of the world (``shared``), varied by level."""

    def __init__(self, shared: Parameters, levels: tuple[Level, ...], robots: int) -> None:
        self._shared, self._robots = shared, robots
        self._stormy = any(level.weather for level in levels)
        self._faulty = any(level.thruster_fault for level in levels)
        self.has_variation = (
            self._stormy
            or self._faulty
            or any(level.noise != 1.0 or level.vessel_spread != 1.0 for level in levels)
            or any(level.slow_vessel or level.overtaken or level.speed_reserve for level in levels)
        )
        """True if parameters of any level differ from those of the world."""
        self.max_vessel_factor = max(level.vessel_spread for level in levels)
        """Largest factor on the mass or thrust of a vessel at any level."""
        like: Any = {"dtype": shared.vessel.m.dtype, "device": shared.vessel.m.device}
        self._noise = torch.tensor([level.noise for level in levels], **like)
        self._faults = torch.tensor([level.thruster_fault for level in levels], **like)
        self._weather = torch.tensor([level.weather for level in levels], **like)
        self._thrust = torch.ones(len(levels), robots, **like)
        for number, level in enumerate(levels):
            if level.slow_vessel or level.overtaken:
                self._thrust[number, 0 if level.overtaken else 1] = SLOW_THRUST_FACTOR
        self._reserve = torch.tensor([level.speed_reserve for level in levels], **like)
        self._spread = torch.tensor([math.log(level.vessel_spread) for level in levels], **like)

    def sample(self, level: Tensor, velocity: Tensor, source: RandomSource) -> Parameters:
        """Draw the parameters of one scenario per index of a level in ``level`` [P], with initial velocities [P, R, 3].

        Factors on mass and thrust are uniform on a logarithmic scale.
        """
        draws = CounterDraws(source, self._noise.dtype)
        chance = draws.uniform(VESSELS, (2,), (self._robots,))
        factors = torch.exp(self._spread[level][:, None] * (2.0 * chance - 1.0))
        drawn = self._shared[torch.zeros_like(level)]
        for names, factor in zip((MASS_FIELDS, THRUST_LIMIT_FIELDS), factors, strict=True):
            for name in names:
                drawn.vessel.set(name, drawn.vessel.get(name) * factor)
        drawn.vessel.max_thrust = drawn.vessel.max_thrust * self._thrust[level]
        drawn.vessel.max_thrust = self._limit_speeds(level, velocity, drawn)
        for name in ("pos_std", "vel_std"):
            drawn.sensor.set(name, drawn.sensor.get(name) * self._noise[level][:, None])
        if self._faulty:
            drawn.extras = self._sample_faults(level, draws, drawn.extras)
        if self._stormy:
            drawn.weather = self._sample_weather(level, draws, drawn.weather)
        return drawn

    def _limit_speeds(self, level: Tensor, velocity: Tensor, drawn: Parameters) -> Tensor:
        """Return the largest thrust [P, R] (N), less for vessels slower than the first if the level has a reserve."""
        reserve, speed = self._reserve[level][:, None], torch.linalg.vector_norm(velocity[..., :2], dim=-1)
        is_slower = (reserve > 0.0) & (speed > 0.0) & (speed < SAME_SPEED_SHARE * speed[:, :1])
        needed = steady_setpoint(reserve[..., None] * velocity, drawn.vessel, drawn.extras).sum(-1)
        limit = needed / num_full_thrusters(drawn.extras)
        largest = drawn.vessel.max_thrust
        return torch.where(is_slower, torch.minimum(largest, limit), largest)

    def _sample_faults(self, level: Tensor, draws: Draws, shared: ActuatorParameters | None) -> ActuatorParameters:
        """Return the actuators of scenarios, batch [P], with one weak thruster, left or right, for some robots."""
        if shared is None:
            like: Any = {"dtype": self._faults.dtype, "device": self._faults.device}
            shared = build_extras([WorldConfig()], self._robots, **like)[torch.zeros_like(level)]
            vessel = self._shared.vessel
            shared.spacing = vessel.width.expand(len(level), -1)
            shared.position = -0.5 * vessel.length.expand(len(level), -1)
        chance, side, strength = draws.uniform(FAULTS, (3,), (self._robots,))
        is_weak, is_left = chance < self._faults[level][:, None], side < 0.5
        # The only thruster of a steered vessel is the left one.
        is_left = is_left | (shared.steering > 0)
        drawn = shared.clone()
        drawn.left_strength = shared.left_strength * torch.where(is_weak & is_left, strength, 1.0)
        drawn.right_strength = shared.right_strength * torch.where(is_weak & ~is_left, strength, 1.0)
        return drawn

    def _sample_weather(self, level: Tensor, draws: Draws, shared: Weather | None) -> Weather:
        """Draw the weather of scenarios, batch [P]; levels without weather have that of the world, ``shared``."""
        strength = self._weather[level]
        chance = draws.uniform(WEATHER, (6 + len(WAVE_FREQUENCY_RATIOS),), ())
        most, towards = MODERATE_WEATHER, 2.0 * math.pi * chance[0]
        largest = torch.floor(strength * most.delay + 0.5).clamp_max(MAX_DELAY)
        drawn = make_weather(
            wind_speed=strength * most.wind_speed * chance[1],
            wind_direction=towards,
            wave_height=strength * most.wave_height * chance[2],
            wave_period=torch.full_like(strength, most.wave_period),
            # Waves run roughly in the direction of the wind.
            wave_direction=towards + MAX_WAVE_DEVIATION * (2.0 * chance[3] - 1.0),
            phase_share=chance[6:].T,
            hull_height=torch.full_like(strength, most.hull_height),
            delay=torch.floor(chance[4] * (largest + 1.0)).clamp_max(MAX_DELAY).to(torch.int64),
            missed=(strength * most.missed * chance[5]).clamp_max(1.0),
        )
        if shared is None:
            return drawn
        return select_environments(strength > 0.0, drawn, shared)
