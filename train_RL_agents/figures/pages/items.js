// The things of a scene that can be moved, as items { kind, index }: what and where they are, and how to
// change them in a state.
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

export function placeOf({ vessels, ...lists }, { kind, index }) {
  if (kind === "vessel") return [vessels[index].x, vessels[index].y];
  return kind === "goal" ? vessels[index].goal : lists[LISTS[kind]][index];
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
