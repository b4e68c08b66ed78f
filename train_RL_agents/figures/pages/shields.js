// Safety shield of one vessel (train_RL_agents/boat/shield.py), in float64.
import * as dynamics from "./dynamics.js";
import * as shores from "./shores.js";

// Manoeuvres by their commands; left and right: the lowest, the neutral and the highest command of a side.
function escapes({ manoeuvres }, left, right) {
  const pair = (levels) => levels && [left[levels[0]], right[levels[1]]];
  return manoeuvres.map(([first, second, steps]) => ({ first: pair(first), second: pair(second), steps }));
}

// The hull without the terms that the prediction leaves out.
const simplified = (hull) => ({
  ...hull, xUUU: 0, yVVV: 0, nRRR: 0, nUV: 0, cross_flow: 0,
  actuators: { ...hull.actuators, lag: 0, speed_exponent: 0.5, dead_band: 0, left_strength: 1, right_strength: 1 },
});

// By how much a manoeuvre misses the margin, which grows with time (m), after a control step of the command `begin` if
// there is one; of objects nearer than that, by how much they approach. What moves must keep clear for as long again
// if the vessel keeps its last velocity.
function shortfall({ own, objects, hull, seconds, settings }, { first, second, steps }, begin) {
  const delay = begin ? 1 : 0;
  let now = own, worst = 0;
  for (let step = 0; step < settings.horizon; step++) {
    const command = step < delay ? begin : step - delay < steps ? first : second;
    const most = hull.max_thrust_rate;
    const rates = command ? command.map((part) => part * most)
      : [now.left, now.right].map((thrust) => most * dynamics.limit(-thrust / (seconds * most)));
    const moved = dynamics.move(now, rates, hull, [0, 0, 0], () => [0, 0], seconds / settings.substeps, settings.substeps);
    now = { ...now, ...moved };
    const time = seconds * (step + 1), isLast = step + 1 === settings.horizon;
    for (const { segment, vx, vy, start, wanted, growth, weight } of objects) {
      const [x, y] = [now.x - time * vx, now.y - time * vy], allowed = Math.min(start, wanted + (step + 1) * growth);
      const later = [x + time * (now.wx - vx), y + time * (now.wy - vy)];
      const away = isLast && growth ? shores.offset(segment[0], segment[1], [x, y, ...later]) : shores.offset(x, y, segment);
      worst = Math.max(worst, weight * (allowed - Math.hypot(...away)));
    }
  }
  return worst;
}

// A command [left, right], in multiples of max_thrust_rate, after which an escape is left: the same one, or another.
// ratio: mean share of true radii in measured ones; sides: see escapes; settings: those of figures/demo.py.
export function guard(command, observation, hull, seconds, ratio, sides, settings) {
  const [, , wx, wy, r, left, right] = observation.self_state;
  const objects = observation.seen.map((_, slot) => {
    const [x, y, vx, vy, radius] = observation.objects_state.subarray(5 * slot, 5 * slot + 5);
    const wanted = radius / ratio + (1 + settings.margin) * hull.radius, growth = settings.growth * hull.radius;
    return { segment: [x, y, x, y], vx, vy, weight: 1, wanted, growth };
  });
  observation.shore_mask?.forEach((isShore, slot) => {
    const segment = observation.shore.subarray(shores.COLUMNS * slot, shores.COLUMNS * slot + 4);
    if (isShore) objects.push({ segment, vx: 0, vy: 0, weight: settings.landWeight, growth: 0, wanted: (1 + settings.margin) * hull.radius });
  });
  for (const object of objects) object.start = Math.hypot(...shores.offset(0, 0, object.segment));
  const own = { x: 0, y: 0, theta: 0, wx, wy, r, left, right, angles: [0, 0], actuator: [0, 0] };
  const scene = { own, objects, hull: simplified(hull), seconds, settings };
  const plans = escapes(settings, ...sides);
  const isSafe = (short) => short <= settings.tolerance;
  let least = Infinity; // without objects, every manoeuvre is safe
  for (const plan of plans) {
    least = Math.min(least, shortfall(scene, plan, command));
    if (isSafe(least)) return command;
  }
  const shorts = plans.map((plan) => shortfall(scene, plan)), anySafe = shorts.some(isSafe);
  if (least - Math.min(...shorts) <= settings.tolerance) return command;
  const change = ({ first }) => (first[0] - command[0]) ** 2 + (first[1] - command[1]) ** 2;
  const cost = plans.map((plan, i) => (!anySafe ? shorts[i] : isSafe(shorts[i]) ? change(plan) : Infinity));
  return plans[cost.indexOf(Math.min(...cost))].first;
}
