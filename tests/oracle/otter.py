"""The Otter in six degrees of freedom, from the equations of PythonVehicleSimulator (T. I. Fossen, MIT licence).

https://github.com/cybergalactic/PythonVehicleSimulator, vehicles/otter.py at 21cae21, and Fossen, Handbook of Marine
Craft Hydrodynamics and Motion Control, 2nd edition, 2021. Written out here as plain numpy: one vessel, one step. It
knows nothing of the simulator's vessel model. With ``planar`` only surge, sway and yaw move.
"""

import math

import numpy as np

GRAVITY, WATER, CROSS_FLOW_WATER = 9.81, 1025.0, 1026.0
HULL, PAYLOAD, LENGTH, BEAM = 55.0, 25.0, 2.0, 1.08
PONTOON, ARM, TOP_SPEED = 0.25, 0.395, 6 * 0.5144
DRAFT = (HULL + PAYLOAD) / WATER / (2 * 0.4 * PONTOON * LENGTH)
AHEAD, ASTERN = 0.02216 / 2, 0.01289 / 2
FASTEST, SLOWEST = math.sqrt(0.5 * 24.4 * GRAVITY / AHEAD), -math.sqrt(0.5 * 13.6 * GRAVITY / ASTERN)
LAG, TRIM = 1.0, 280.0
# Hoerner's coefficient of the drag across a section, over half the beam by the draft.
HOERNER = np.array(
    [
        (0.0109, 1.9661), (0.1766, 1.9657), (0.3530, 1.8976), (0.4519, 1.7872), (0.4728, 1.5837), (0.4929, 1.2786),
        (0.4933, 1.2108), (0.5585, 1.0836), (0.6464, 0.9986), (0.8336, 0.8796), (0.9880, 0.8284), (1.3081, 0.7599),
        (1.6392, 0.6914), (1.8600, 0.6571), (2.3129, 0.6307), (2.6000, 0.5962), (3.0088, 0.5868), (3.4508, 0.5859),
        (3.7379, 0.5599), (4.0031, 0.5593),
    ]
)  # fmt: skip


def cross(a):
    """Matrix of the cross product with a."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def moved_to(r):
    """Transformation of a velocity to a point at r."""
    transform = np.eye(6)
    transform[:3, 3:] = cross(r).T
    return transform


def cross_flow_coefficient(beam, draft):
    """Hoerner's coefficient of a section."""
    return float(np.interp(beam / (2 * draft), *HOERNER.T))


def cross_flow(sway, yaw_rate):
    """Sway force and yaw moment of the drag across 21 strips of one pontoon's section."""
    width = LENGTH / 20
    places = -LENGTH / 2 + width * np.arange(21)
    speed = sway + places * yaw_rate
    force = -0.5 * CROSS_FLOW_WATER * DRAFT * cross_flow_coefficient(PONTOON, DRAFT) * np.abs(speed) * speed * width
    return float(force.sum()), float((places * force).sum())


class Otter:
    """The vessel at rest; eta is (x, y, z, roll, pitch, yaw), nu its velocities, n the shaft speeds (rad/s)."""

    def __init__(self, planar):
        self.planar = planar
        self.eta, self.nu, self.n, self.trim = np.zeros(6), np.zeros(6), np.zeros(2), 0.0
        total, payload_at = HULL + PAYLOAD, np.array([0.0, 0.0, -0.35])
        centre = (HULL * np.array([0.2, 0.0, -0.2]) + PAYLOAD * payload_at) / total
        radii = np.array([0.4 * BEAM, 0.25 * LENGTH, 0.25 * LENGTH])
        self.inertia = HULL * np.diag(radii**2) - HULL * cross(centre) @ cross(centre)
        self.inertia -= PAYLOAD * cross(payload_at) @ cross(payload_at)
        self.to_centre, self.total = moved_to(centre), total
        rigid = np.zeros((6, 6))
        rigid[:3, :3], rigid[3:, 3:] = total * np.eye(3), self.inertia
        self.added = np.diag([0.1 * HULL, 1.5 * HULL, HULL, *(np.array([0.2, 0.8, 1.7]) * np.diag(self.inertia))])
        self.mass = self.to_centre.T @ rigid @ self.to_centre + self.added
        self.stiffness = self._stiffness(centre)
        heave, roll, pitch = (math.sqrt(self.natural[i] / self.mass[i + 2, i + 2]) for i in range(3))
        diagonal = np.diag(self.mass)
        self.damping = np.diag(
            [
                24.4 * GRAVITY / TOP_SPEED,
                0.0,
                2 * 0.3 * heave * diagonal[2],
                2 * 0.2 * roll * diagonal[3],
                2 * 0.4 * pitch * diagonal[4],
                diagonal[5] / 1.0,
            ]
        )

    def _stiffness(self, centre):
        """Hydrostatic stiffness about the origin."""
        volume, coefficient = self.total / WATER, 0.75
        area = coefficient * LENGTH * PONTOON
        across = 2 / 12 * LENGTH * PONTOON**3 * 6 * coefficient**3 / ((1 + coefficient) * (1 + 2 * coefficient))
        across += 2 * area * ARM**2
        along = 0.8 * 2 / 12 * PONTOON * LENGTH**3
        buoyancy = (5 * DRAFT / 2 - 0.5 * volume / (LENGTH * PONTOON)) / 3
        height = buoyancy - (DRAFT - centre[2])
        self.natural = [
            WATER * GRAVITY * 2 * area,
            WATER * GRAVITY * volume * (height + across / volume),
            WATER * GRAVITY * volume * (height + along / volume),
        ]
        floating = np.diag([0.0, 0.0, *self.natural, 0.0])
        to_flotation = moved_to(np.array([-0.2, 0.0, 0.0]))
        return to_flotation.T @ floating @ to_flotation

    def _coriolis(self):
        """Coriolis and centripetal matrix; the moment of Munk in yaw is neglected, as in the source."""
        rigid, rotation = np.zeros((6, 6)), self.nu[3:]
        rigid[:3, :3], rigid[3:, 3:] = self.total * cross(rotation), -cross(self.inertia @ rotation)
        added, momentum = np.zeros((6, 6)), self.added @ self.nu
        added[:3, 3:], added[3:, :3], added[3:, 3:] = -cross(momentum[:3]), -cross(momentum[:3]), -cross(momentum[3:])
        added[5, :2] = 0.0
        return self.to_centre.T @ rigid @ self.to_centre + added

    def step(self, wanted, dt):
        """Move by one Euler step with the commanded shaft speeds (rad/s)."""
        n = np.clip(self.n, SLOWEST, FASTEST)
        thrust = np.where(n > 0.0, AHEAD, ASTERN) * n * np.abs(n)
        force = np.array([thrust.sum(), 0.0, 0.0, 0.0, 0.0, ARM * (thrust[0] - thrust[1])])
        force -= self.damping @ self.nu
        force[5] -= 10 * self.damping[5, 5] * abs(self.nu[5]) * self.nu[5]
        force += np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0]) * cross_flow(self.nu[1], self.nu[5])[0]
        force[5] += cross_flow(self.nu[1], self.nu[5])[1]
        force -= self._coriolis() @ self.nu + self.stiffness @ self.eta
        force[4] -= self.trim
        axes = [0, 1, 5] if self.planar else [0, 1, 2, 3, 4, 5]
        rate = np.zeros(6)
        rate[axes] = np.linalg.solve(self.mass[np.ix_(axes, axes)], force[axes])
        self.eta = self.eta + dt * self._to_world(self.nu)
        self.nu = self.nu + dt * rate
        self.n = n + dt * (np.asarray(wanted) - n) / LAG
        if not self.planar:
            self.trim += dt * (TRIM - self.trim) / 5.0

    def _to_world(self, nu):
        """Rates of position and angles of body velocities."""
        roll, pitch, yaw = self.eta[3:]
        cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (math.cos, math.sin))
        rotation = np.array(
            [
                [cy * cp, -sy * cr + cy * sp * sr, sy * sr + cy * cr * sp],
                [sy * cp, cy * cr + sr * sp * sy, -cy * sr + sp * sy * cr],
                [-sp, cp * sr, cp * cr],
            ]
        )
        angles = np.array([[1.0, sr * sp / cp, cr * sp / cp], [0.0, cr, -sr], [0.0, sr / cp, cr / cp]])
        return np.concatenate((rotation @ nu[:3], angles @ nu[3:]))
