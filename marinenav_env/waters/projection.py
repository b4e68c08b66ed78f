"""Local metres around a place: the plane that touches the ellipsoid of WGS84 there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from marinenav_env.waters.shapes import Floats

EQUATOR_RADIUS = 6378137.0
"""Semi-major axis of WGS84 (m)."""
ECCENTRICITY = (2.0 - 1.0 / 298.257223563) / 298.257223563
"""Square of the first eccentricity of WGS84."""
_NEAR = 0.5
"""Distance from the place (degrees of latitude) up to which the plane is used; what is farther only closes polygons."""


def _geocentric(points: Floats) -> Floats:
    """Return geocentric positions [..., 3] (m) of longitudes and latitudes [..., 2] (degrees) at sea level."""
    longitude, latitude = np.radians(points[..., 0]), np.radians(points[..., 1])
    radius = EQUATOR_RADIUS / np.sqrt(1.0 - ECCENTRICITY * np.sin(latitude) ** 2)
    across = radius * np.cos(latitude)
    height = (1.0 - ECCENTRICITY) * radius * np.sin(latitude)
    return np.stack([across * np.cos(longitude), across * np.sin(longitude), height], -1)


@dataclass(frozen=True)
class LocalPlane:
    """Plane of x north and y east (m) that touches the ellipsoid at a place; within 1 km it is true to 1 mm."""

    latitude: float
    """Latitude of the place (degrees)."""
    longitude: float
    """Longitude of the place (degrees)."""

    def radii(self) -> tuple[float, float]:
        """Return the metres to the north and to the east of one degree of latitude and of longitude."""
        sine, cosine = math.sin(math.radians(self.latitude)), math.cos(math.radians(self.latitude))
        normal = EQUATOR_RADIUS / math.sqrt(1.0 - ECCENTRICITY * sine**2)
        north = normal * (1.0 - ECCENTRICITY) / (1.0 - ECCENTRICITY * sine**2)
        return math.radians(north), math.radians(normal * cosine)

    def to_metres(self, points: Floats) -> Floats:
        """Return x north and y east [..., 2] (m) of longitudes and latitudes [..., 2] (degrees)."""
        place = np.array([self.longitude, self.latitude])
        offset = points - place
        offset[..., 0] = (offset[..., 0] + 180.0) % 360.0 - 180.0
        flat = offset[..., ::-1] * self.radii()
        latitude, longitude = math.radians(self.latitude), math.radians(self.longitude)
        north = [
            -math.sin(latitude) * math.cos(longitude),
            -math.sin(latitude) * math.sin(longitude),
            math.cos(latitude),
        ]
        axes = np.array([north, [-math.sin(longitude), math.cos(longitude), 0.0]])
        touching = (_geocentric(points) - _geocentric(place)) @ axes.T
        is_near = (np.abs(offset) * (math.cos(latitude), 1.0) <= _NEAR).all(-1) & (np.abs(offset[..., 0]) <= 90.0)
        return np.where(is_near[..., None], touching, flat)

    def to_degrees(self, points: Floats) -> Floats:
        """Return longitudes and latitudes [..., 2] (degrees) of points x north and y east [..., 2] (m) nearby."""
        north, east = self.radii()
        degrees = np.array([self.longitude, self.latitude]) + points[..., ::-1] / (east, north)
        for _ in range(12):
            degrees = degrees + (points - self.to_metres(degrees))[..., ::-1] / (east, north)
        return np.asarray(degrees)
