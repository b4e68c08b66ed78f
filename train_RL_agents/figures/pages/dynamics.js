"use strict";
// Motion of a vessel (marinenav_env/dynamics.py and current.py), in float64.
const dynamics = (() => {
  const TURN = 2 * Math.PI;

  // To [0, 2 pi).
  function wrap(angle) {
    let wrapped = angle - TURN * Math.floor(angle / TURN);
    if (wrapped < 0) wrapped += TURN;
    return wrapped < TURN ? wrapped : 0;
  }

  // To [-pi, pi).
  const wrapToPi = (angle) => wrap(angle + Math.PI) - Math.PI;

  // Velocity of the water; cores are [x, y, circulation], positive for clockwise.
  function current(x, y, cores, radius) {
    let along = 0, across = 0;
    for (const [coreX, coreY, circulation] of cores) {
      const dx = coreX - x, dy = coreY - y;
      const strength = circulation / (TURN * Math.max(dx * dx + dy * dy, radius * radius));
      along -= dy * strength;
      across += dx * strength;
    }
    return [along, across];
  }

  // Body-frame acceleration; k holds the parameters, tau forces and moment.
  function acceleration(u, v, ur, vr, r, tau, k) {
    const absV = Math.abs(vr), absR = Math.abs(r);
    const surge = k.m * r * v - (k.yDotV * vr + k.yDotR * r) * r +
      (k.xU + k.xUU * Math.abs(ur)) * ur + tau[0];
    const sway = -k.m * r * u + k.xDotU * ur * r + (k.yV + k.yVV * absV + k.yRV * absR) * vr +
      (k.yR + k.yVR * absV + k.yRR * absR) * r + tau[1];
    const yaw = (k.yDotV * vr + k.yDotR * r) * ur - k.xDotU * ur * vr +
      (k.nV + k.nVV * absV + k.nRV * absR) * vr + (k.nR + k.nVR * absV + k.nRR * absR) * r + tau[2];
    const m22 = k.m - k.yDotV, m23 = -k.yDotR, m32 = -k.nDotV, m33 = k.Izz - k.nDotR;
    const determinant = m22 * m33 - m23 * m32;
    return [surge / (k.m - k.xDotU), (m33 * sway - m23 * yaw) / determinant,
      (m22 * yaw - m32 * sway) / determinant];
  }

  function forces(left, right, [leftAngle, rightAngle], k) {
    const leftAlong = left * Math.cos(leftAngle), rightAlong = right * Math.cos(rightAngle);
    const sway = left * Math.sin(leftAngle) + right * Math.sin(rightAngle);
    return [leftAlong + rightAlong, sway,
      0.5 * k.width * (leftAlong - rightAlong) - 0.5 * k.length * sway];
  }

  // A control step: what changes of the vessel, and its path [x, y, yaw] after each substep.
  function move(vessel, rates, k, cores, coreRadius, dt, substeps) {
    const clip = (thrust) => Math.min(Math.max(thrust, k.min_thrust), k.max_thrust);
    const left = clip(vessel.left + dt * substeps * rates[0]);
    const right = clip(vessel.right + dt * substeps * rates[1]);
    const tau = forces(left, right, vessel.angles, k), path = [];
    let { x, y, theta, wx, wy, r } = vessel, gx = 0, gy = 0, gr = 0;
    for (let substep = 0; substep < substeps; substep++) {
      const [cx, cy] = current(x, y, cores, coreRadius);
      [gx, gy, gr] = [wx + cx, wy + cy, r];
      [x, y, theta] = [x + dt * gx, y + dt * gy, theta + dt * r];
      const cos = Math.cos(theta), sin = Math.sin(theta);
      const u = cos * gx + sin * gy, v = cos * gy - sin * gx;
      let ur = cos * wx + sin * wy, vr = cos * wy - sin * wx;
      const [du, dv, dr] = acceleration(u, v, ur, vr, r, tau, k);
      [ur, vr, r] = [ur + dt * du, vr + dt * dv, r + dt * dr];
      [wx, wy] = [cos * ur - sin * vr, sin * ur + cos * vr];
      path.push([x, y, theta]);
    }
    return { x, y, theta: wrap(theta), wx, wy, r, gx, gy, gr, left, right, path };
  }

  return { wrap, wrapToPi, current, move };
})();
