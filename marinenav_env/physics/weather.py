"""Forces of wind and waves on the hull, and delayed commands.

Wind after Fossen, Handbook of Marine Craft (2nd ed. 2021), ch. 10.1: the pressure of the wind
relative to the vessel on its frontal and lateral area, with the coefficients of a hull that is
symmetric fore and aft. Waves: long-crested deep-water waves of six frequencies of the
Bretschneider (ITTC) spectrum, and the Froude-Krylov force of their pressure on a slender hull
(Newman, Marine Hydrodynamics, 1977, ch. 6; Faltinsen, Sea Loads on Ships and Offshore Structures,
1990, ch. 3): mass times the acceleration of the water, averaged over length and width of the hull.
Second-order drift, diffraction, heave, roll and pitch are left out.

Forces are computed at the beginning of a control step and stay constant during the step, like the thrust.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from marinenav_env.config import MAX_DELAY, WeatherConfig
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import State, Vessel, Weather

GRAVITATIONAL_ACCELERATION, AIR_DENSITY = 9.81, 1.225
"""Acceleration of gravity (m/s^2) and density of the air (kg/m^3)."""
SURGE_WIND_COEFFICIENT, SWAY_WIND_COEFFICIENT, YAW_WIND_COEFFICIENT = 0.7, 0.8, 0.1
"""Dimensionless wind coefficients of surge, sway and yaw, each from the middle of the range that Fossen gives."""
WAVE_FREQUENCY_RATIOS = (0.7, 0.85, 1.0, 1.2, 1.5, 1.9)
"""Ratios of the wave frequencies to the peak frequency of the spectrum (1)."""


def _wave_amplitude_ratios() -> tuple[float, ...]:
    """Return the ratios of the wave amplitudes to the significant height; their squares sum to 1 / 8."""
    middles = [0.5 * (low + high) for low, high in pairwise(WAVE_FREQUENCY_RATIOS)]
    widths = [high - low for low, high in pairwise([WAVE_FREQUENCY_RATIOS[0], *middles, WAVE_FREQUENCY_RATIOS[-1]])]
    energy = [
        ratio**-5 * math.exp(-1.25 * ratio**-4) * width
        for ratio, width in zip(WAVE_FREQUENCY_RATIOS, widths, strict=True)
    ]
    return tuple(math.sqrt(share / sum(energy) / 8.0) for share in energy)


WAVE_AMPLITUDE_RATIOS = _wave_amplitude_ratios()
"""Ratios of the wave amplitudes of the frequencies to the significant height (1)."""


def build_weather(configs: Sequence[WeatherConfig], device: torch.device, dtype: torch.dtype) -> Weather | None:
    """Convert weather configurations to tensors, batch [len(configs)]; return None if all are calm."""
    if all(config.is_calm for config in configs):
        return None

    def tensor(name: str, dtype: torch.dtype = dtype) -> Tensor:
        return torch.tensor([getattr(config, name) for config in configs], device=device, dtype=dtype)

    numbers = "wind_speed", "wind_direction", "wave_height", "wave_period", "wave_direction", "hull_height", "missed"
    phases = [
        torch.rand(len(WAVE_FREQUENCY_RATIOS), generator=torch.Generator().manual_seed(config.wave_seed))
        for config in configs
    ]
    return make_weather(
        **{name: tensor(name) for name in numbers},
        phase_share=torch.stack(phases).to(device, dtype),
        delay=tensor("delay", torch.int64),
    )


def make_weather(
    *,
    wind_speed: Tensor,
    wind_direction: Tensor,
    wave_height: Tensor,
    wave_period: Tensor,
    wave_direction: Tensor,
    phase_share: Tensor,
    hull_height: Tensor,
    delay: Tensor,
    missed: Tensor,
) -> Weather:
    """Return Weather [P] from fields of WeatherConfig as tensors [P].

    ``phase_share`` [P, W] in [0, 1) gives the phases of the waves, as shares of a full turn.
    """
    direction = torch.stack((wind_direction.cos(), wind_direction.sin()), -1)
    peak = 2.0 * math.pi / wave_period
    return Weather(
        wind=wind_speed[:, None] * direction,
        wave_direction=wave_direction,
        # Python numbers, since a tensor of them would be copied from the host, which a CUDA graph cannot do.
        wave_frequency=torch.stack([peak * ratio for ratio in WAVE_FREQUENCY_RATIOS], -1),
        wave_amplitude=torch.stack([wave_height * share for share in WAVE_AMPLITUDE_RATIOS], -1),
        wave_phase=2.0 * math.pi * phase_share,
        hull_height=hull_height,
        delay=delay,
        missed=missed,
        batch_size=[len(delay)],
    )


def wind_force(ground: Tensor, heading: Tensor, vessel: Vessel, weather: Weather) -> tuple[Tensor, Tensor, Tensor]:
    """Return surge and sway force (N) and yaw moment (N m) of the wind on every hull, all [E, R].

    ``ground`` [E, R, 2] is the velocity over ground (m/s, world frame), ``heading`` [E, R] the yaw (rad).
    """
    x, y = (weather.wind[:, None] - ground).unbind(-1)
    cos, sin = heading.cos(), heading.sin()
    along, across = cos * x + sin * y, cos * y - sin * x
    speed = torch.sqrt(along.square() + across.square())
    pressure = 0.5 * AIR_DENSITY * weather.hull_height[:, None]
    return (
        SURGE_WIND_COEFFICIENT * pressure * vessel.width * speed * along,
        SWAY_WIND_COEFFICIENT * pressure * vessel.length * speed * across,
        # c_N sin(2 gamma) of the angle of attack gamma: the bow turns away from the wind.
        -2.0 * YAW_WIND_COEFFICIENT * pressure * vessel.length.square() * along * across,
    )


def wave_force(pose: Tensor, seconds: Tensor, vessel: Vessel, weather: Weather) -> tuple[Tensor, Tensor, Tensor]:
    """Return surge and sway force (N) and yaw moment (N m) of the waves on every hull, all [E, R].

    ``pose`` [E, R, 3] is x, y (m), yaw (rad); ``seconds`` [E] is the time since the start of the episode (s).
    """
    x, y, heading = pose[..., None].unbind(-2)
    direction, frequency = weather.wave_direction[:, None, None], weather.wave_frequency[:, None]
    number = frequency.square() / GRAVITATIONAL_ACCELERATION
    phase = (
        number * (direction.cos() * x + direction.sin() * y)
        - frequency * seconds[:, None, None]
        + weather.wave_phase[:, None]
    )
    ahead = direction - heading
    half = 0.5 * vessel.length[..., None] * number * ahead.cos()
    across = torch.sinc(0.5 * vessel.width[..., None] * number * ahead.sin() / math.pi)
    pull = vessel.m[..., None] * weather.wave_amplitude[:, None] * frequency.square() * across
    force = pull * torch.sinc(half / math.pi) * phase.sin()
    # The lever arm of a force that varies along the hull is half the length times a spherical Bessel function.
    small = half.abs() < 0.01
    away = torch.where(small, 1.0, half)
    bessel = torch.where(small, half / 3.0, (away.sin() - away * away.cos()) / away.square())
    moment = pull * phase.cos() * ahead.sin() * 0.5 * vessel.length[..., None] * bessel
    return (force * ahead.cos()).sum(-1), (force * ahead.sin()).sum(-1), moment.sum(-1)


def weather_force(state: State, vessel: Vessel, weather: Weather, step: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return surge and sway force (N) and yaw moment (N m) of wind and waves; ``step``: control step (s)."""
    wind = wind_force(state.velocity_ground[..., :2], state.pose[..., 2], vessel, weather)
    waves = wave_force(state.pose, step * state.steps, vessel, weather)
    return wind[0] + waves[0], wind[1] + waves[1], wind[2] + waves[2]


def delay_commands(rates: Tensor, pending: Tensor, delay: Tensor) -> tuple[Tensor, Tensor]:
    """Return the commands [E, R, 2] that take effect now, and the pending ones [E, R, MAX_DELAY, 2] of the next step.

    ``rates`` are commanded now, ``pending`` earlier, the latest first (N/s); ``delay`` [E or 1] is at most MAX_DELAY.
    """
    now = env_last(rates)[:, None]
    queue = torch.cat((now, env_last(pending)), 1)
    index = delay.view(1, 1, 1, -1).expand_as(now)
    # The results always have the layout for which the code was compiled.
    return env_first(queue.gather(1, index)[:, 0]), env_first(queue[:, :MAX_DELAY].contiguous())
