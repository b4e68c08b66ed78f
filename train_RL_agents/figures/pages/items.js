// The things of a scene that can be moved, as items { kind, index }: what they are, and how to change
// them in a state.
import * as dynamics from "./dynamics.js";

export const NAMES = { vessel: "Vessel", goal: "Goal", obstacle: "Obstacle", vortex: "Vortex" };
// Their lists in a state.
export const LISTS = { vessel: "vessels", obstacle: "obstacles", vortex: "cores" };

export function all(session) {
  const { vessels, obstacles, cores } = session.now().state;
  const list = (kind, things) => things.map((_, index) => ({ kind, index }));
  return [...list("vessel", vessels), ...list("goal", vessels), ...list("obstacle", obstacles),
    ...list("vortex", cores)];
}

// What can be set of an item: label, step, how to read and to write it.
export function fieldsOf(session, { kind, index }) {
  const row = (state) => state[LISTS[kind]][index];
  const edge = () => 2 * Math.PI * session.k.core_radius;
  const place = (get) => [
    ["north (m)", 0.5, (s) => get(s)[0], (s, value) => { get(s)[0] = value; }],
    ["east (m)", 0.5, (s) => get(s)[1], (s, value) => { get(s)[1] = value; }],
  ];
  return {
    vessel: [
      ["north (m)", 0.5, (s) => s.vessels[index].x, (s, value) => { s.vessels[index].x = value; }],
      ["east (m)", 0.5, (s) => s.vessels[index].y, (s, value) => { s.vessels[index].y = value; }],
      ["heading (°)", 5, (s) => s.vessels[index].theta * 180 / Math.PI, (s, value) => {
        turnTo(s.vessels[index], value * Math.PI / 180);
      }],
    ],
    goal: place((s) => s.vessels[index].goal),
    obstacle: [...place(row), ["radius (m)", 0.5, (s) => row(s)[2],
      (s, value) => { row(s)[2] = Math.max(0.1, value); }]],
    vortex: [...place(row), ["edge speed (m/s), − is anticlockwise", 0.5,
      (s) => row(s)[2] / edge(), (s, value) => { row(s)[2] = value * edge(); }]],
  }[kind];
}

// Turn a vessel with its velocity.
export function turnTo(vessel, angle) {
  const by = angle - vessel.theta, cos = Math.cos(by), sin = Math.sin(by), { wx, wy } = vessel;
  Object.assign(vessel, {
    theta: dynamics.wrap(angle), wx: cos * wx - sin * wy, wy: sin * wx + cos * wy, r: 0, gr: 0,
  });
}

export function moveTo(state, { kind, index }, x, y) {
  if (kind === "vessel") Object.assign(state.vessels[index], { x, y });
  else if (kind === "goal") state.vessels[index].goal = [x, y];
  else state[LISTS[kind]][index].splice(0, 2, x, y);
}
