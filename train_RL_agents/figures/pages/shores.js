// Shores (marinenav_env/physics/shores.py, physics/routes.py, physics/current.py, sensing/shores.py): segments [x, y, end x, end y]
// with land on their left, routes as waypoints of which the last is the goal.
import * as dynamics from "./dynamics.js";

const SLOTS = 8, SAME_DISTANCE = 1e-3, SHORTEST = 1e-12, FADE_RADII = 10;
export const COLUMNS = 7;

// From a place to the nearest point of a segment.
export function offset(x, y, [ax, ay, bx, by]) {
  const ux = bx - ax, uy = by - ay, square = Math.max(ux * ux + uy * uy, SHORTEST);
  const share = Math.min(1, Math.max(0, ((x - ax) * ux + (y - ay) * uy) / square));
  return [ax + share * ux - x, ay + share * uy - y];
}

const distance = (x, y, segment) => Math.hypot(...offset(x, y, segment));

// The distance of a place to the nearest shore, negative on land.
export function clearance(x, y, shores) {
  const away = shores.map((segment) => distance(x, y, segment)), least = Math.min(...away);
  let low = 0, high = 0;
  shores.forEach(([ax, ay, bx, by], i) => {
    if (away[i] > least + SAME_DISTANCE) return;
    const ux = bx - ax, uy = by - ay;
    const side = (uy * (x - ax) - ux * (y - ay)) / Math.max(Math.hypot(ux, uy), 1e-6);
    low = Math.min(low, side);
    high = Math.max(high, side);
  });
  return low + high > SAME_DISTANCE * least ? -least : least;
}

// The share of a current that land leaves at a place, and the velocity of the water there.
export const share = (x, y, shores, radius) => Math.min(1, Math.max(0, clearance(x, y, shores) / (FADE_RADII * radius)));
export const current = (x, y, { cores, shores = [] }, radius) => dynamics.current(x, y, cores, radius, share(x, y, shores, radius));

export function nearest(x, y, shores) {
  return shores.map((segment) => ({ segment, away: distance(x, y, segment) }))
    .sort((a, b) => a.away - b.away).slice(0, SLOTS).map(({ segment }) => segment);
}

// Whether one of the segments lies on the way from one place to another.
export function crossed(x, y, toX, toY, segments) {
  const side = (px, py, [ax, ay, bx, by]) => (by - ay) * (px - ax) - (bx - ax) * (py - ay);
  return segments.some((segment) => {
    const [ax, ay, bx, by] = segment, way = [x, y, toX, toY];
    return side(x, y, segment) * side(toX, toY, segment) < 0 && side(ax, ay, way) * side(bx, by, way) < 0;
  });
}

// The part of a segment within the range of a vessel, seen from there.
function cut({ x, y }, [ax, ay, bx, by], range) {
  const ux = bx - ax, uy = by - ay, square = Math.max(ux * ux + uy * uy, SHORTEST), dx = ax - x, dy = ay - y;
  const middle = -(dx * ux + dy * uy) / square;
  const away = (dx + middle * ux) ** 2 + (dy + middle * uy) ** 2;
  const half = Math.sqrt(Math.max(range * range - away, 0) / square);
  return [middle - half, middle + half].map((share) => {
    const kept = Math.min(1, Math.max(0, share));
    return [dx + kept * ux, dy + kept * uy];
  });
}

// The entries of a vessel, whose nearest segments these are.
export function observe(vessel, near, range) {
  const shore = new Float64Array(SLOTS * COLUMNS), mask = new Float64Array(SLOTS);
  near.forEach((segment, slot) => {
    const place = offset(vessel.x, vessel.y, segment), away = Math.hypot(...place);
    if (away > range) return;
    const seen = [...cut(vessel, segment, range), place].flatMap(([x, y]) => dynamics.toBody(vessel.theta, x, y));
    shore.set([...seen, away], slot * COLUMNS);
    mask[slot] = 1;
  });
  return { shore, shore_mask: mask };
}

// The waypoint that a vessel steers for: its goal without a route.
export const target = ({ goal, route = [], waypoint = 0 }) => route[waypoint] ?? goal;

// The length of the way over the remaining waypoints to the goal.
export function wayToGoal(vessel) {
  const places = [...(vessel.route ?? []).slice(vessel.waypoint), vessel.goal];
  let [x, y] = [vessel.x, vessel.y], length = 0;
  for (const [toX, toY] of places) {
    length += Math.hypot(toX - x, toY - y);
    [x, y] = [toX, toY];
  }
  return length;
}

// The number of the waypoint after a step: passed within a radius and half of its leg, or when it is abeam.
export function pass({ x, y, start, route = [], waypoint = 0 }, radius) {
  if (waypoint >= route.length) return waypoint;
  const [toX, toY] = route[waypoint], [fromX, fromY] = waypoint ? route[waypoint - 1] : start;
  const isAbeam = (toX - x) * (toX - fromX) + (toY - y) * (toY - fromY) <= 0;
  const reach = Math.min(radius, 0.5 * Math.hypot(toX - fromX, toY - fromY));
  return waypoint + (isAbeam || Math.hypot(toX - x, toY - y) <= reach ? 1 : 0);
}
