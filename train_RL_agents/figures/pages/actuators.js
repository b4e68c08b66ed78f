// Propellers with a curve, lag and dead band, an azimuth thruster, a rudder, and further hull terms
// (marinenav_env/physics/actuators.py), in float64. A vessel's left and right are setpoints (N); the right one of a
// steered vessel stands for an angle. Its actuator is [shaft speed, shaft speed or angle (rad)].
const WATER_DENSITY = 1025, MIN_THRUST = 1e-30;
export const isSteered = (hull) => hull.actuators.steering !== "thrusters";

// The setpoints within their limits.
export function limitSetpoints(left, right, hull) {
  const clip = (value, low, high) => Math.min(Math.max(value, low), high), k = hull.actuators;
  const within = (value, share) => clip(value, share * hull.min_thrust, share * hull.max_thrust);
  return [within(left, k.left_limit),
    isSteered(hull) ? clip(right, -hull.max_thrust, hull.max_thrust) : within(right, k.right_limit)];
}

// The state of the actuators that setpoints ask for.
export function steadyState([left, right], hull) {
  const k = hull.actuators;
  const shaft = (setpoint) => {
    const most = Math.max(setpoint < 0 ? -hull.min_thrust : hull.max_thrust, MIN_THRUST);
    const speed = (Math.abs(setpoint) / most) ** k.speed_exponent * Math.sign(setpoint);
    return Math.abs(speed) < k.dead_band ? 0 : speed;
  };
  const angle = right / Math.max(hull.max_thrust, MIN_THRUST) * k.angle_limit;
  return [shaft(left), isSteered(hull) ? angle : shaft(right)];
}

// The state of the actuators a substep later.
export function advance(actual, wanted, hull, dt) {
  const k = hull.actuators, reached = 1 - Math.exp(-dt / k.lag), turned = dt * k.angle_rate;
  const lagged = actual.map((value, side) => value + (wanted[side] - value) * reached);
  if (isSteered(hull)) lagged[1] = actual[1] + Math.min(Math.max(wanted[1] - actual[1], -turned), turned);
  return lagged;
}

// Sway force and yaw moment of the flow across the hull.
function crossFlow(sway, r, drag, length) {
  const half = 0.5 * length, cube = half ** 3;
  if (Math.abs(sway) < half * Math.abs(r)) {
    const spin = Math.abs(r) * r, q = sway / (half * r);
    return [-drag * 2 * cube * spin * q * (1 + q * q / 3), -drag * cube * half * spin * (0.5 + q * q * (1 - q * q / 6))];
  }
  return [-drag * Math.sign(sway) * (2 * half * sway * sway + 2 / 3 * cube * r * r),
    -drag * 4 / 3 * cube * Math.abs(sway) * r];
}

// Forces [surge, sway] of one thruster that turns or has a rudder, and its moment.
function steeredForces(thrust, angle, ur, hull) {
  const k = hull.actuators, position = k.position || -0.5 * hull.length;
  const cos = Math.cos(angle), sin = Math.sin(angle);
  if (k.steering === "azimuth") return [thrust * cos, thrust * sin, position * thrust * sin];
  const slipstream = k.propeller_diameter
    ? 8 * Math.max(thrust, 0) / (Math.PI * WATER_DENSITY * k.propeller_diameter ** 2) : 0;
  const lift = k.rudder_lift * (ur * Math.abs(ur) + slipstream) * sin;
  return [thrust - lift * sin, lift * cos, position * lift * cos];
}

function twoThrusterForces(left, right, [leftAngle, rightAngle], hull) {
  const leftAlong = left * Math.cos(leftAngle), rightAlong = right * Math.cos(rightAngle);
  const sway = left * Math.sin(leftAngle) + right * Math.sin(rightAngle);
  const spacing = hull.actuators.spacing || hull.width;
  return [leftAlong + rightAlong, sway, 0.5 * spacing * (leftAlong - rightAlong) - 0.5 * hull.length * sway];
}

// Forces and moment of the actuators and of the hull terms, in a substep of dt.
export function forces(actual, angles, ur, vr, r, hull, dt) {
  const k = hull.actuators;
  const push = (speed, strength) =>
    strength * (speed < 0 ? -hull.min_thrust : hull.max_thrust) * speed * Math.abs(speed);
  const left = push(actual[0], k.left_strength);
  const [surge, sway, yaw] = isSteered(hull) ? steeredForces(left, actual[1] + angles[0], ur, hull)
    : twoThrusterForces(left, push(actual[1], k.right_strength), angles, hull);
  const [across, turning] = crossFlow(vr, r, hull.cross_flow, hull.cross_flow_length || hull.length);
  // The force that cancels the turn of the velocity into the frame of the new heading.
  const cos = Math.cos(dt * r), sin = Math.sin(dt * r), share = hull.single_rotation / dt;
  const alongTurn = share * (ur * cos - vr * sin - ur), acrossTurn = share * (ur * sin + vr * cos - vr);
  return [
    surge + hull.xUUU * ur ** 3 + (hull.m - hull.xDotU) * alongTurn,
    sway + hull.yVVV * vr ** 3 + across + (hull.m - hull.yDotV) * acrossTurn,
    yaw + hull.nRRR * r ** 3 + hull.nUV * ur * vr + turning - hull.nDotV * acrossTurn,
  ];
}
