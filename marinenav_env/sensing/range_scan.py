"""Range scan: distances to the nearest disc or shore along beams, as a lidar measures them."""

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.physics.contact import Discs
from marinenav_env.physics.shores import ray_distance
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.sensing.entries import EntryKind, EntrySensor, Scene
from marinenav_env.state import Scenario, State

_ABSENT_COORDINATE = 1e12
"""Coordinate at which absent discs are placed so that no beam hits them, in radii of the disc."""


class RangeScan(EntrySensor):
    """Sensor of the entry ``scan`` [E, R, n]; SensorConfig sets the number of beams, their field of view and range.

    The beams divide the field of view evenly: each points along the middle of its sector, the first to port.
    """

    name = "scan"
    kind: EntryKind = "scan"
    meaning = "distance to the nearest hull along each beam, from port to starboard (m)"

    def shape(self, config: WorldConfig) -> tuple[int, ...]:
        """Return the shape of the scan of one robot, with one distance per beam."""
        return (config.sensor.scan_beams,)

    def scale(self, config: WorldConfig) -> tuple[float, ...]:
        """Return the range of the scan as the scale of its distances (m)."""
        return (config.sensor.scan_range,)

    def limits(self, config: WorldConfig) -> tuple[tuple[float, float], ...]:
        """Return 0 and the range of the scan as the limits of its distances (m)."""
        return ((0.0, config.sensor.scan_range),)

    def noise(self, shape: tuple[int, ...], source: RandomSource, dtype: torch.dtype) -> Tensor | None:
        """Draw standard normal numbers [E, R, n]."""
        return source.normal(shape, dtype)

    def observe(self, scene: Scene, noise: Tensor | None) -> Tensor:
        """Return the measured distances [E, R, n] (m); where nothing is hit, the range of the scan, without noise."""
        sensor, radius = scene.config.sensor, scene.parameters.vessel.detect_radius
        angles = beam_angles(sensor.scan_beams, sensor.scan_angle, radius.device)
        distance = cast_rays(scene.state, scene.scenario, radius, angles, sensor.scan_range)
        if scene.scenario.shores is not None:
            x, y, theta = env_last(scene.state.pose)
            beam = theta + angles.to(theta.dtype)[:, None, None]
            land = ray_distance(x, y, beam.cos(), beam.sin(), scene.scenario.shores)
            distance = torch.minimum(distance, env_first(land))
        measured = distance if noise is None else distance + sensor.scan_std * noise
        measured = measured.clamp(0.0, sensor.scan_range)
        return torch.where(distance < sensor.scan_range, measured, sensor.scan_range)


def beam_angles(beams: int, field_of_view: float, device: torch.device | None = None) -> Tensor:
    """Return the directions [n] from the bow of beams that divide a field of view evenly (rad), float64."""
    # Converting a list of Python numbers would make the CPU wait for the GPU.
    beam = torch.arange(beams, dtype=torch.float64, device=device)
    return field_of_view * ((beam + 0.5) / beams - 0.5)


def cast_rays(state: State, scenario: Scenario, radius: Tensor, angles: Tensor, max_distance: float) -> Tensor:
    """Return the distance (m) [E, R, n] from every robot's centre to the nearest disc along beams at angles [n] (rad).

    Discs are the obstacles and the other active robots; the distance is 0 within a disc, and ``max_distance`` where
    nothing nearer is hit.
    """
    # Robots are [R, E], discs [M, 1, R, E], beams [n, R, E]. The distances [M, n, R, E] are
    # reduced as they are computed, without being stored. Compiled code only does this while an
    # intermediate result reads at most four tensors, so lengths are in radii of the disc.
    theta = env_last(state.pose)[2]
    x, y, radii = _discs(state, scenario, radius)
    beam = angles.to(x.dtype)[:, None, None]
    cos, sin = torch.stack(((theta + beam).cos(), (theta + beam).sin()))
    ahead, aside = x * cos + y * sin, x * sin - y * cos
    chord = 1.0 - aside.square()
    half = chord.clamp_min(0.0).sqrt()
    hit = torch.minimum(chord, ahead + half) >= 0.0
    distance = torch.where(hit, radii * (ahead - half), max_distance)
    return env_first(distance.amin(0).clamp(0.0, max_distance))


def _discs(state: State, scenario: Scenario, radius: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return x and y of the discs from the robots in radii, and the radii (m); absent ones are far away."""
    (x, y, _), discs = env_last(state.pose), Discs.of(state, scenario, radius)
    radii, exists = discs.radius.clamp_min(1e-6), (discs.absent == 0.0) & discs.are_others(len(x))
    away_x, away_y = (torch.where(exists, away / radii, _ABSENT_COORDINATE) for away in (discs.x - x, discs.y - y))
    # Stacked, so that compiled code stores them instead of computing them for every beam.
    away_x, away_y = torch.stack((away_x, away_y))[:, :, None]
    return away_x, away_y, radii[:, None]
