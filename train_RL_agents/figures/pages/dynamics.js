// Motion of a vessel (marinenav_env/physics/dynamics.py, physics/current.py and physics/weather.py), in float64.
import * as actuators from "./actuators.js";

const FULL_TURN = 2 * Math.PI, GRAVITY = 9.81, AIR_DENSITY = 1.225;
// Coefficients of the wind's forces and moment.
const WIND_SURGE = 0.7, WIND_SWAY = 0.8, WIND_YAW = 0.1;

// To [-1, 1], as commands are.
export const limit = (value) => Math.max(-1, Math.min(1, value));

// To [0, 2 pi).
export function wrap(angle) {
  let wrapped = angle - FULL_TURN * Math.floor(angle / FULL_TURN);
  if (wrapped < 0) wrapped += FULL_TURN;
  return wrapped < FULL_TURN ? wrapped : 0;
}

// To [-pi, pi).
export const wrapToPi = (angle) => wrap(angle + Math.PI) - Math.PI;

// A vector in the frame of a body with that heading: ahead, and to starboard.
export function toBody(heading, x, y) {
  const cos = Math.cos(heading), sin = Math.sin(heading);
  return [cos * x + sin * y, cos * y - sin * x];
}

// Velocity of the water, of which land leaves a share; cores are [x, y, circulation], positive for clockwise.
export function current(x, y, cores, radius, share) {
  let along = 0, across = 0;
  for (const [coreX, coreY, circulation] of cores) {
    const dx = coreX - x, dy = coreY - y;
    const strength = share * circulation / (FULL_TURN * Math.max(dx * dx + dy * dy, radius * radius));
    along -= dy * strength;
    across += dx * strength;
  }
  return [along, across];
}

// Body-frame acceleration; k holds the parameters, tau forces and moment.
function acceleration(u, v, ur, vr, r, tau, k) {
  const absV = Math.abs(vr), absR = Math.abs(r);
  const surge = k.m * r * v - (k.yDotV * vr + k.yDotR * r) * r + (k.xU + k.xUU * Math.abs(ur)) * ur + tau[0];
  const sway = -k.m * r * u + k.xDotU * ur * r + (k.yV + k.yVV * absV + k.yRV * absR) * vr +
    (k.yR + k.yVR * absV + k.yRR * absR) * r + tau[1];
  const yaw = (k.yDotV * vr + k.yDotR * r) * ur - k.xDotU * ur * vr +
    (k.nV + k.nVV * absV + k.nRV * absR) * vr + (k.nR + k.nVR * absV + k.nRR * absR) * r + tau[2];
  const m22 = k.m - k.yDotV, m23 = -k.yDotR, m32 = -k.nDotV, m33 = k.Izz - k.nDotR;
  const determinant = m22 * m33 - m23 * m32;
  return [surge / (k.m - k.xDotU), (m33 * sway - m23 * yaw) / determinant, (m22 * yaw - m32 * sway) / determinant];
}

function wind({ theta, gx, gy }, { wind: speed, direction }, k, height) {
  const x = speed * Math.cos(direction) - gx, y = speed * Math.sin(direction) - gy;
  const [along, across] = toBody(theta, x, y), pressure = 0.5 * AIR_DENSITY * height, relative = Math.hypot(along, across);
  return [WIND_SURGE * pressure * k.width * relative * along,
    WIND_SWAY * pressure * k.length * relative * across,
    -2 * WIND_YAW * pressure * k.length * k.length * along * across];
}

const sinc = (x) => (x ? Math.sin(x) / x : 1);

// The phase is that at the vessel's centre; half, half that between stern and bow.
function waves({ x, y, theta }, { waves: height, direction }, k, spectrum, seconds) {
  const ahead = direction - theta, total = [0, 0, 0];
  spectrum.frequency.forEach((frequency, i) => {
    const square = frequency * frequency, number = square / GRAVITY;
    const phase = number * (Math.cos(direction) * x + Math.sin(direction) * y) -
      frequency * seconds + spectrum.phase[i];
    const half = 0.5 * k.length * number * Math.cos(ahead);
    const pull = k.m * height * spectrum.amplitude[i] * square *
      sinc(0.5 * k.width * number * Math.sin(ahead));
    const bessel = Math.abs(half) < 0.01 ? half / 3 : (Math.sin(half) - half * Math.cos(half)) / (half * half);
    total[0] += pull * sinc(half) * Math.sin(phase) * Math.cos(ahead);
    total[1] += pull * sinc(half) * Math.sin(phase) * Math.sin(ahead);
    total[2] += pull * Math.cos(phase) * Math.sin(ahead) * 0.5 * k.length * bessel;
  });
  return total;
}

// Force and moment [surge, sway, yaw] of weather: { wind (m/s), direction (rad), waves: height (m) }.
export function weatherForce(vessel, weather, k, height, spectrum, seconds) {
  if (!weather.wind && !weather.waves) return [0, 0, 0];
  const swell = waves(vessel, weather, k, spectrum, seconds);
  return wind(vessel, weather, k, height).map((force, axis) => force + swell[axis]);
}

// A control step in the flow of the water, with a force from outside: what changes, and the path [x, y, yaw] by substep.
export function move(vessel, rates, k, outer, flow, dt, substeps) {
  const [left, right] = actuators.limitSetpoints(
    vessel.left + dt * substeps * rates[0], vessel.right + dt * substeps * rates[1], k);
  const target = actuators.steadyState([left, right], k), path = [];
  let { x, y, theta, wx, wy, r, actuator } = vessel, gx = 0, gy = 0, gr = 0;
  for (let substep = 0; substep < substeps; substep++) {
    const [cx, cy] = flow(x, y);
    [gx, gy, gr] = [wx + cx, wy + cy, r];
    [x, y, theta] = [x + dt * gx, y + dt * gy, theta + dt * r];
    const cos = Math.cos(theta), sin = Math.sin(theta);
    const u = cos * gx + sin * gy, v = cos * gy - sin * gx;
    let ur = cos * wx + sin * wy, vr = cos * wy - sin * wx;
    actuator = actuators.advance(actuator, target, k, dt);
    const tau = actuators.forces(actuator, vessel.angles, ur, vr, r, k, dt).map((force, axis) => force + outer[axis]);
    const [du, dv, dr] = acceleration(u, v, ur, vr, r, tau, k);
    [ur, vr, r] = [ur + dt * du, vr + dt * dv, r + dt * dr];
    [wx, wy] = [cos * ur - sin * vr, sin * ur + cos * vr];
    path.push([x, y, theta]);
  }
  return { x, y, theta: wrap(theta), wx, wy, r, gx, gy, gr, left, right, actuator, path };
}
