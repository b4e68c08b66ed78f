// Land that is drawn on the map, and scenario files (marinenav_env/scenarios/scenario_file.py).
import { crossed } from "./shores.js";

export const MAX_SEGMENTS = 256;
export const MAX_WAYPOINTS = 7;
const round = (value) => Math.round(100 * value) / 100;

// Segments around a line that was drawn, with land on their left and corners a distance apart or more; none where it
// crosses itself or encloses nothing.
export function landIn(line, apart) {
  const ring = [], isNear = ([x, y], [a, b]) => Math.hypot(x - a, y - b) < apart;
  for (const place of line) if (!ring.length || !isNear(place, ring.at(-1))) ring.push(place.map(round));
  while (ring.length > 1 && isNear(ring[0], ring.at(-1))) ring.pop();
  const next = (i) => ring[(i + 1) % ring.length];
  if (ring.reduce((sum, [x, y], i) => sum + x * next(i)[1] - y * next(i)[0], 0) > 0) ring.reverse();
  const segments = ring.map((place, i) => [...place, ...next(i)]);
  return ring.length < 3 || segments.some((each) => crossed(...each, segments)) ? [] : segments;
}

// The content of a scenario file that starts from a state; what the page does not change is that of a template, a file's
// episode of one vessel.
export function fileOf(template, { vessels, obstacles, cores, shores = [] }, { width, height }) {
  const forEach = (value) => {
    if (Array.isArray(value)) return vessels.map(() => value[0]);
    if (typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, forEach(part)]));
  };
  const of = (read) => vessels.map(read), routes = of(({ route = [], waypoint = 0 }) => route.slice(waypoint));
  const robots = {
    ...forEach(template.robots), start: of(({ x, y }) => [x, y]), goal: of(({ goal }) => goal),
    init_theta: of(({ theta }) => theta), init_velocity_r: of(({ wx, wy, r }) => [wx, wy, r]),
    init_left_pos: of(({ angles }) => angles[0]), init_right_pos: of(({ angles }) => angles[1]),
    init_left_thrust: of(({ left }) => left), init_right_thrust: of(({ right }) => right),
    ...(routes.some((route) => route.length) && { route: routes }),
  };
  const positions = (discs) => discs.map(([x, y]) => [x, y]), env = {
    ...template.env, num_robots: vessels.length, width, height,
    obstacles: { positions: positions(obstacles), r: obstacles.map((disc) => disc[2]) },
    cores: { positions: positions(cores), clockwise: cores.map((core) => core[2] > 0),
      Gamma: cores.map((core) => Math.abs(core[2])) },
    ...(shores.length && { shores }),
  };
  return [{ env, robots }];
}

// The episode of a scenario file, the first if there are several; of a chart, the present one with its shores.
export function episodeOf(content, present, settings) {
  if (content.chart) {
    const { width, height, shores } = content.chart;
    const [{ env, robots }] = present;
    return episodeOf([{ env: { ...env, width, height, shores }, robots: { ...robots, route: [] } }], present, settings);
  }
  const [entry] = [content].flat(), { env, robots } = entry.config ?? entry;
  const { obstacles, cores, width, height, shores = [] } = env, { start, goal, route = [] } = robots;
  const sides = (name) => start.map((_, i) => ["left", "right"].map((side) => robots[`init_${side}_${name}`][i]));
  const discs = ({ positions }, sizes) => positions.map(([x, y], i) => [x, y, sizes[i]]);
  const episode = {
    start, goal, heading: robots.init_theta, velocity: robots.init_velocity_r, thruster_angle: sides("pos"),
    thrust: sides("thrust"), obstacles: discs(obstacles, obstacles.r), shores, route,
    cores: discs(cores, cores.Gamma.map((gamma, i) => (cores.clockwise[i] ? gamma : -gamma))),
  };
  const numbers = [width, height, ...Object.values(episode).flat(3)];
  if (!numbers.every(Number.isFinite) || !start.length) throw new TypeError("no scenario file");
  return { ...episode, scenario: { ...settings, width, height } };
}
