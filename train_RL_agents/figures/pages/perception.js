// What a vessel sees, and what the rules of the sea ask of it (marinenav_env/sensing/perception.py and
// rules/colregs.py), in float64.
import * as dynamics from "./dynamics.js";
import * as shores from "./shores.js";

// Random numbers -------------------------------------------------------------------------------

// A source that goes on from a whole number, its state (mulberry32).
export function source(state) {
  const draws = { state };
  draws.uniform = () => {
    draws.state = (draws.state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(draws.state ^ (draws.state >>> 15), draws.state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  draws.normal = () => Math.sqrt(-2 * Math.log(1 - draws.uniform())) * Math.cos(2 * Math.PI * draws.uniform());
  return draws;
}

// A quantile of a distribution, of which values at even steps of [0, 1] are given.
function quantileAt(values, quantile) {
  const place = quantile * (values.length - 1), low = Math.floor(place);
  return values[low] + (place - low) * (values[low + 1] - values[low]);
}

// Observation ----------------------------------------------------------------------------------

// All that there is to see: { x, y, vx, vy, radius, there }, vessels first.
export function objects(vessels, obstacles, hulls) {
  return [
    ...vessels.map((vessel, i) => ({
      x: vessel.x, y: vessel.y, vx: vessel.gx, vy: vessel.gy, there: vessel.present,
      radius: hulls[i].detect_radius,
    })),
    ...obstacles.map(([x, y, radius]) => ({ x, y, vx: 0, vy: 0, there: true, radius })),
  ];
}

function ownState(vessel) {
  const { x, y, theta, gx, gy, gr, left, right } = vessel, [toX, toY] = shores.target(vessel);
  return [...dynamics.toBody(theta, toX - x, toY - y), ...dynamics.toBody(theta, gx, gy), gr, left, right];
}

// One object as a vessel measures it, in its body frame.
function measured(object, vessel, sensor, noise, draws) {
  const position = sensor.pos_std * noise, velocity = sensor.vel_std * noise;
  // More noise does not make measured radii more wrong than they are in training.
  const spread = (1 - sensor.r_mean_ratio) * Math.min(noise, 1);
  const [nx, ny, nvx, nvy] = noise ? Array.from({ length: 4 }, draws.normal) : [0, 0, 0, 0];
  const turn = spread ? quantileAt(sensor.angles, draws.uniform()) : 0;
  const dx = object.x - vessel.x + position * nx, dy = object.y - vessel.y + position * ny;
  const vx = object.vx + velocity * nvx, vy = object.vy + velocity * nvy;
  const radius = object.radius * (1 - spread + spread * (turn / Math.PI));
  return [...dynamics.toBody(vessel.theta, dx, dy), ...dynamics.toBody(vessel.theta, vx, vy), radius];
}

// What vessel i observes: flat entries, and which object is in which slot. Segments of land hide what is behind them.
export function observe(i, vessels, known, sensor, slots, noise, draws, land = []) {
  const vessel = vessels[i], found = [];
  const observation = {
    self_state: new Float64Array(7), objects_state: new Float64Array(5 * slots),
    objects_mask: new Float64Array(slots), objects_id: new Float64Array(slots), seen: [],
  };
  if (!vessel.present) return observation;
  known.forEach((object, number) => {
    if (number === i) return;
    const each = measured(object, vessel, sensor, noise, draws);
    const distance = Math.sqrt(each[0] * each[0] + each[1] * each[1]);
    if (!object.there || distance > sensor.range + each[4]) return;
    if (shores.crossed(vessel.x, vessel.y, object.x, object.y, land)) return;
    if (Math.abs(Math.atan2(each[1], each[0])) > 0.5 * sensor.angle) return;
    found.push({ each, number, gap: distance - each[4] });
  });
  found.sort((a, b) => a.gap - b.gap || a.number - b.number);
  observation.self_state.set(ownState(vessel));
  found.slice(0, Math.min(slots, sensor.max_objects)).forEach(({ each, number }, slot) => {
    observation.objects_state.set(each, 5 * slot);
    observation.objects_mask[slot] = 1;
    observation.seen.push(number);
    observation.objects_id[slot] = number + 1;
  });
  return observation;
}

// Rules of the sea -----------------------------------------------------------------------------

// The rule that the first object falls under, if any: its name, the object's slot, and the turn
// to starboard phi that is asked for.
export function rule(observation, ownRadius, zones) {
  const [, , u, v] = observation.self_state, ownSpeed = Math.sqrt(u * u + v * v);
  for (let slot = 0; slot < observation.seen.length; slot++) {
    const object = observation.objects_state.subarray(5 * slot, 5 * slot + 5);
    const name = zone(object, u, v, ownSpeed, zones);
    const phi = name && requiredTurn(object, u, v, ownRadius, zones);
    if (phi > 0) return { name, slot, phi };
  }
  return { name: "", slot: -1, phi: 0 };
}

// The zone of the object that the own vessel is in: "crossing", "head-on" or none.
function zone([px, py, vx, vy], u, v, ownSpeed, k) {
  const speed = Math.sqrt(vx * vx + vy * vy);
  if (ownSpeed < k.min_speed || speed < k.min_speed) return "";
  const cos = vx / Math.max(speed, 1e-6), sin = vy / Math.max(speed, 1e-6);
  const x = -(cos * px + sin * py), y = -(cos * py - sin * px);
  const psi = Math.atan2(cos * v - sin * u, cos * u + sin * v);
  const within = (value, [low, high]) => value >= low && value <= high;
  const cut = y - k.crossing_corner_y > -k.crossing_corner_slope * (x - k.crossing_x[1]);
  if (within(x, k.crossing_x) && within(y, k.crossing_y) && !cut &&
      within(psi, k.crossing_heading)) return "crossing";
  if (within(x, k.head_on_x) && Math.abs(y) <= k.head_on_half_width &&
      Math.abs(psi) > k.head_on_heading) return "head-on";
  return "";
}

// To the tangent to the object's disc, with room for the own hull; 0 if inside of the disc.
function requiredTurn([px, py, , , radius], u, v, ownRadius, k) {
  const pass = radius + k.clearance, distance = Math.sqrt(px * px + py * py);
  if (distance < pass) return 0;
  const safe = Math.max(distance, 1e-6), tangent = Math.sqrt(Math.max(safe * safe - pass * pass, 0));
  const desired = Math.atan2(py, px) + Math.asin(Math.min(Math.max(pass / safe, -1), 1)) +
    Math.atan2(ownRadius, tangent);
  return dynamics.wrapToPi(desired - Math.atan2(v, u));
}
