"""The 3-DOF manoeuvring model (Fossen, Handbook of Marine Craft, ch. 6.5) of one vessel."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .angles import to_body, to_world, wrap_two_pi
from .current import Core, current_at

# x, y, theta, v_w (x, y, yaw rate), v_g (x, y, yaw rate), left thrust, right thrust
State = list[float]
Vector = list[float]
Matrix = list[list[float]]


@dataclass(frozen=True)
class VesselParams:
    """One vessel; the defaults are those of the world specification, section Vessel."""

    dt: float = 0.05
    substeps: int = 10
    length: float = 5.0
    width: float = 2.5
    m: float = 400.0
    Izz: float = 450.0
    xDotU: float = 20.0
    yDotV: float = 0.0
    yDotR: float = 0.0
    nDotV: float = 0.0
    nDotR: float = -980.0
    xU: float = -100.0
    xUU: float = -150.0
    yV: float = -100.0
    yVV: float = -150.0
    yR: float = 0.0
    yRV: float = 0.0
    yVR: float = 0.0
    yRR: float = 0.0
    nR: float = -980.0
    nRR: float = -950.0
    nV: float = 0.0
    nVV: float = 0.0
    nRV: float = 0.0
    nVR: float = 0.0
    left_angle: float = 0.0
    right_angle: float = 0.0
    min_thrust: float = -500.0
    max_thrust: float = 1000.0


def product(matrix: Matrix, vector: Sequence[float]) -> Vector:
    """Matrix times vector."""
    return [sum(row[j] * vector[j] for j in range(3)) for row in matrix]


def total(*matrices: Matrix) -> Matrix:
    """Sum of 3x3 matrices."""
    return [[sum(matrix[i][j] for matrix in matrices) for j in range(3)] for i in range(3)]


def determinant(a: Matrix) -> float:
    """Determinant of a 3x3 matrix."""
    return (
        a[0][0] * (a[1][1] * a[2][2] - a[1][2] * a[2][1])
        - a[0][1] * (a[1][0] * a[2][2] - a[1][2] * a[2][0])
        + a[0][2] * (a[1][0] * a[2][1] - a[1][1] * a[2][0])
    )


def solve(matrix: Matrix, vector: Sequence[float]) -> Vector:
    """matrix^-1 vector by Cramer's rule: three columns replaced one after another."""
    answer = []
    for column in range(3):
        replaced = [list(row) for row in matrix]
        for row in range(3):
            replaced[row][column] = vector[row]
        answer.append(determinant(replaced) / determinant(matrix))
    return answer


def mass_matrix(p: VesselParams) -> Matrix:
    """M: rigid body and added mass (Fossen, ch. 6.5)."""
    return [[p.m - p.xDotU, 0.0, 0.0], [0.0, p.m - p.yDotV, -p.yDotR], [0.0, -p.nDotV, p.Izz - p.nDotR]]


def rigid_body_coriolis(p: VesselParams, r: float) -> Matrix:
    """CRB: Coriolis and centripetal terms of the rigid body (Fossen, ch. 6.5)."""
    return [[0.0, -p.m * r, 0.0], [p.m * r, 0.0, 0.0], [0.0, 0.0, 0.0]]


def added_mass_coriolis(p: VesselParams, u_r: float, v_r: float, r: float) -> Matrix:
    """CA: Coriolis and centripetal terms of the added mass (Fossen, ch. 6.5)."""
    sway = p.yDotV * v_r + p.yDotR * r
    surge = p.xDotU * u_r
    return [[0.0, 0.0, sway], [0.0, 0.0, -surge], [-sway, surge, 0.0]]


def linear_damping(p: VesselParams) -> Matrix:
    """D: linear damping (Fossen, ch. 6.5)."""
    return [[-p.xU, 0.0, 0.0], [0.0, -p.yV, -p.yR], [0.0, -p.nV, -p.nR]]


def nonlinear_damping(p: VesselParams, u_r: float, v_r: float, r: float) -> Matrix:
    """Dn: quadratic damping (Fossen, ch. 6.5)."""
    u_r, v_r, r = abs(u_r), abs(v_r), abs(r)
    return [
        [-p.xUU * u_r, 0.0, 0.0],
        [0.0, -(p.yVV * v_r + p.yRV * r), -(p.yVR * v_r + p.yRR * r)],
        [0.0, -(p.nVV * v_r + p.nRV * r), -(p.nVR * v_r + p.nRR * r)],
    ]


def thrust_force(p: VesselParams, left: float, right: float) -> Vector:
    """tau: surge force, sway force and yaw moment of the two thrusters."""
    left_x, left_y = left * math.cos(p.left_angle), left * math.sin(p.left_angle)
    right_x, right_y = right * math.cos(p.right_angle), right * math.sin(p.right_angle)
    yaw = p.width / 2.0 * (left_x - right_x) - p.length / 2.0 * (left_y + right_y)
    return [left_x + right_x, left_y + right_y, yaw]


def acceleration(
    params: VesselParams,
    relative_velocity: Sequence[float],
    ground_velocity: Sequence[float],
    thrust: Sequence[float],
    force: Sequence[float] = (0.0, 0.0, 0.0),
) -> Vector:
    """Body acceleration of one substep; force is that of wind and waves.

    relative_velocity is (u_r, v_r, r) through the water, ground_velocity (u, v, r) over ground,
    both in the body frame; thrust is (left, right).
    """
    u_r, v_r, _ = relative_velocity
    r = ground_velocity[2]
    rigid = product(rigid_body_coriolis(params, r), ground_velocity)
    hydrodynamic = product(
        total(added_mass_coriolis(params, u_r, v_r, r), linear_damping(params), nonlinear_damping(params, u_r, v_r, r)),
        [u_r, v_r, r],
    )
    tau = [a + b for a, b in zip(thrust_force(params, thrust[0], thrust[1]), force, strict=True)]
    return solve(mass_matrix(params), [tau[i] - rigid[i] - hydrodynamic[i] for i in range(3)])


def clip(value: float, low: float, high: float) -> float:
    """Clip to [low, high]."""
    return min(max(value, low), high)


def control_step(
    state: Sequence[float],
    params: VesselParams,
    command_rates: tuple[float, float],
    cores: Sequence[Core],
    core_radius: float,
    force: Sequence[float] = (0.0, 0.0, 0.0),
) -> State:
    """One control step; command_rates are the thrust rates (left, right) in N/s.

    force is the surge force, sway force and yaw moment of wind and waves, held over the step.

    The order within a substep is that of the world specification, so v_g is one substep old at
    the end.
    """
    x, y, theta, vw_x, vw_y, vw_r, vg_x, vg_y, vg_r, left, right = state
    p = params
    step_time = p.dt * p.substeps
    for substep in range(p.substeps):
        current_x, current_y = current_at(x, y, cores, core_radius)
        vg_x, vg_y, vg_r = vw_x + current_x, vw_y + current_y, vw_r
        x, y, theta = x + p.dt * vg_x, y + p.dt * vg_y, wrap_two_pi(theta + p.dt * vg_r)
        if substep == 0:
            left = clip(left + step_time * command_rates[0], p.min_thrust, p.max_thrust)
            right = clip(right + step_time * command_rates[1], p.min_thrust, p.max_thrust)
        u_r, v_r = to_body(theta, vw_x, vw_y)
        u, v = to_body(theta, vg_x, vg_y)
        acc = acceleration(p, (u_r, v_r, vw_r), (u, v, vg_r), (left, right), force)
        vw_x, vw_y = to_world(theta, u_r + p.dt * acc[0], v_r + p.dt * acc[1])
        vw_r = vw_r + p.dt * acc[2]
    return [x, y, theta, vw_x, vw_y, vw_r, vg_x, vg_y, vg_r, left, right]
