"""A range scan: distances to the nearest hull along beams, as a lidar measures them."""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.sensing.entries import EntrySensor, Kind, Scene
from marinenav_env.state import Scenario, State

_NOWHERE = 1e12
"""Coordinates of what is not there, in radii."""


class RangeScan(EntrySensor):
    """The entry ``scan`` [E, R, n]; SensorConfig says how many beams, how wide and how far.

    The beams share the field evenly: each points along the middle of its sector, the first to port.
    """

    name = "scan"
    kind: Kind = "scan"
    meaning = "distance to the nearest hull along each beam, from port to starboard (m)"

    def shape(self, config: WorldConfig) -> tuple[int, ...]:
        """One distance a beam."""
        return (config.sensor.scan_beams,)

    def scale(self, config: WorldConfig) -> tuple[float, ...]:
        """The longest distance."""
        return (config.sensor.scan_range,)

    def limits(self, config: WorldConfig) -> tuple[tuple[float, float], ...]:
        """Up to the longest distance."""
        return ((0.0, config.sensor.scan_range),)

    def noise(self, shape: tuple[int, ...], source: RandomSource, dtype: torch.dtype) -> Tensor | None:
        """[E, R, n] standard normal."""
        return source.normal(shape, dtype)

    def observe(self, scene: Scene, noise: Tensor | None) -> Tensor:
        """[E, R, n] measured distances; the longest one, without noise, where nothing is hit."""
        sensor, radius = scene.config.sensor, scene.parameters.vessel.radius
        angles = beam_angles(sensor.scan_beams, sensor.scan_angle, radius.device)
        distance = cast_rays(scene.state, scene.scenario, radius, angles, sensor.scan_range)
        measured = distance if noise is None else distance + sensor.scan_std * noise
        measured = measured.clamp(0.0, sensor.scan_range)
        return torch.where(distance < sensor.scan_range, measured, sensor.scan_range)


def beam_angles(beams: int, field: float, device: torch.device | None = None) -> Tensor:
    """Direction of each beam from the bow, clockwise (rad).

    Args:
        beams: n.
        field: total angle, centred on the bow (rad).
        device: where the directions are made.

    Returns:
        [n] float64.
    """
    # Not from a list of Python numbers, which a GPU would wait for.
    beam = torch.arange(beams, dtype=torch.float64, device=device)
    return field * ((beam + 0.5) / beams - 0.5)


def cast_rays(state: State, scenario: Scenario, radius: Tensor, angles: Tensor, longest: float) -> Tensor:
    """Distance from every robot's centre to the nearest disc along beams.

    Discs are the obstacles and the other active robots, with their true radii.

    Args:
        state: batch [E].
        scenario: batch [E].
        radius: [E or 1, R or 1] of the robots (m).
        angles: [n] direction of each beam from the bow (rad).
        longest: what is returned where nothing nearer is hit (m).

    Returns:
        [E, R, n] (m); 0 within a disc.
    """
    # [R, E] of a robot, [M, 1, R, E] of a disc, [n, R, E] of a beam. The distances [M, n, R, E] are
    # reduced as they are computed, without being stored, which compiled code only does while an
    # intermediate result reads at most four tensors: hence lengths in radii of the disc.
    theta = env_last(state.pose)[2]
    x, y, radii = _discs(state, scenario, radius)
    beam = angles.to(x.dtype)[:, None, None]
    cos, sin = torch.stack(((theta + beam).cos(), (theta + beam).sin()))
    ahead, aside = x * cos + y * sin, x * sin - y * cos
    chord = 1.0 - aside.square()
    half = chord.clamp_min(0.0).sqrt()
    hit = torch.minimum(chord, ahead + half) >= 0.0
    distance = torch.where(hit, radii * (ahead - half), longest)
    return env_first(distance.amin(0).clamp(0.0, longest))


def _discs(state: State, scenario: Scenario, radius: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Position of each disc relative to each robot in radii, and the radii (m), [M, 1, R, E].

    What is not there, the robot itself included, is too far away to be hit.
    """
    x, y, _ = env_last(state.pose)
    obstacle_x, obstacle_y = env_last(scenario.obstacle_position)
    there = torch.cat((env_last(state.active), env_last(scenario.obstacle_mask)))[:, None]
    radii = torch.cat((env_last(radius).expand_as(x), env_last(scenario.obstacle_radius)))[:, None]
    radii = radii.clamp_min(1e-6)
    index = torch.arange(radii.shape[0], device=x.device)[:, None, None]
    there = there & (index != index[: x.shape[0], 0])
    away_x, away_y = (
        torch.where(there, (torch.cat(pair)[:, None] - pair[0]) / radii, _NOWHERE)
        for pair in ((x, obstacle_x), (y, obstacle_y))
    )
    # Stacked, so that compiled code stores them.
    away_x, away_y = torch.stack((away_x, away_y))[:, :, None]
    return away_x, away_y, radii[:, None]
