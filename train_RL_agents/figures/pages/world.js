// The world as pure functions (marinenav_env/stepping/world.py, physics/contact.py, rules/reward.py and rules/endings.py). A
// state is plain data: vessels, obstacles [x, y, radius], cores [x, y, circulation], weather
// { wind, direction, waves }, encounters, the control steps done, the state of the random numbers, and a factor
// of the measurement noise. Waves run where the wind blows to; commands are not late, and no
// detection is missed.
import * as actuators from "./actuators.js";
import * as dynamics from "./dynamics.js";
import * as encounters from "./encounters.js";
import * as perception from "./perception.js";
import * as shores from "./shores.js";

// Parameters of a vessel: its own where the configuration has a list with one for each.
function ofVessel(section, kind) {
  const lists = ["left_thrust_change", "right_thrust_change", "entries"];
  return Object.fromEntries(Object.entries(section).map(([name, value]) => {
    if (name === "actuators") return [name, ofVessel(value, kind)];
    return [name, Array.isArray(value) && !lists.includes(name) ? value[kind % value.length] : value];
  }));
}

// What is constant over an episode, from the configuration of a world and what the episode
// changes of it.
export function setting(config, episode = {}) {
  const all = { ...config, ...episode }, { max_objects: most } = all.sensor;
  const known = new Map();
  return {
    ...all,
    slots: Math.max(...[most].flat()),
    core_radius: all.scenario.core_radius,
    of(kind) {
      if (!known.has(kind)) {
        known.set(kind, { hull: ofVessel(all.vessel, kind), sensor: { ...ofVessel(all.sensor, kind), angles: all.von_mises } });
      }
      return known.get(kind);
    },
  };
}

const copy = (rows) => rows.map((row) => [...row]);

// A vessel of a kind in water with cores and shores, at rest unless it is told otherwise.
export function launch(k, kind, water, { start: [x, y], goal, heading, ...more }) {
  const { velocity: [wx, wy, r] = [0, 0, 0], thrust = [0, 0], angles = [0, 0], route = [] } = more;
  const [left, right] = thrust, [cx, cy] = shores.current(x, y, water, k.core_radius);
  return {
    x, y, theta: dynamics.wrap(heading), wx, wy, r, gx: wx + cx, gy: wy + cy, gr: r, left, right, kind,
    actuator: actuators.steadyState(thrust, k.of(kind).hull), angles: [...angles], goal: [...goal],
    start: [x, y], route: copy(route), waypoint: 0, grounded: false,
    active: true, present: true, collided: false, arrived: false,
  };
}

export function start(k, episode, seed) {
  const vessels = episode.start.map((place, i) => launch(k, i, episode, {
    start: place, goal: episode.goal[i], heading: episode.heading[i], velocity: episode.velocity[i],
    thrust: episode.thrust[i], angles: episode.thruster_angle[i], route: episode.route?.[i],
  }));
  return {
    vessels, obstacles: copy(episode.obstacles), cores: copy(episode.cores), shores: copy(episode.shores ?? []), steps: 0,
    random: seed >>> 0, noise: 1, weather: { wind: 0, direction: 0, waves: 0 },
    encounters: encounters.follow(k, [], vessels, episode.shores),
  };
}

// The segments of shore near each vessel.
const nearOf = ({ vessels, shores: all = [] }) => vessels.map(({ x, y }) => shores.nearest(x, y, all));

// What all vessels observe of a state, each with the rule that applies and its duties; and the random numbers'
// state afterwards. The same state gives the same measurements.
export function observe(k, state) {
  const { vessels, obstacles, noise, encounters: met = [] } = state, draws = perception.source(state.random);
  const hulls = vessels.map((vessel) => k.of(vessel.kind).hull);
  const known = perception.objects(vessels, obstacles, hulls), near = nearOf(state);
  const observations = vessels.map((vessel, i) => {
    const { sensor } = k.of(vessel.kind), hiding = sensor.sees_through_land ? [] : near[i];
    const seen = perception.observe(i, vessels, known, sensor, k.slots, noise, draws, hiding);
    if (k.scenario.shore_segments) Object.assign(seen, shores.observe(vessel, vessel.present ? near[i] : [], sensor.range));
    const rule = perception.rule(seen, hulls[i].radius, k.colregs);
    return { ...seen, rule, ...(k.sensor.duties && { duties: encounters.duties(k, met, vessels, i, seen.seen) }) };
  });
  return { observations, random: draws.state };
}

// Whether each vessel touches an obstacle or another vessel, perceived or not.
function touching(k, { vessels, obstacles }) {
  const discs = [
    ...vessels.map(({ x, y, kind, present }) => ({ x, y, radius: k.of(kind).hull.radius, present })),
    ...obstacles.map(([x, y, radius]) => ({ x, y, radius, present: true })),
  ];
  return vessels.map((_, i) => discs.some((other, j) => {
    const own = discs[i], dx = other.x - own.x, dy = other.y - own.y;
    const reach = own.radius + other.radius;
    return i !== j && own.present && other.present && dx * dx + dy * dy <= reach * reach;
  }));
}

// Whether each vessel touches land, or has crossed a shore in a step.
function grounded(k, before, after) {
  return nearOf(after).map((near, i) => {
    const { x, y, kind, present } = after.vessels[i], { x: oldX, y: oldY } = before.vessels[i];
    const touches = near.some((segment) => Math.abs(shores.clearance(x, y, [segment])) <= k.of(kind).hull.radius);
    return Boolean(present) && (touches || shores.crossed(x, y, oldX, oldY, near));
  });
}

// A control step with thrust rates [left, right] (N/s) of each vessel. `random` is what observe
// left of the random numbers.
export function step(k, state, rates, random) {
  const paths = [], seconds = state.steps * k.dt * k.substeps;
  const moved = state.vessels.map((vessel, i) => {
    if (!vessel.active) return { ...vessel, present: false };
    const { hull } = k.of(vessel.kind);
    const outer = dynamics.weatherForce(vessel, state.weather, hull, k.weather.hull_height, k.spectrum, seconds);
    const share = shores.share(vessel.x, vessel.y, state.shores, k.core_radius);
    const flow = (x, y) => dynamics.current(x, y, state.cores, k.core_radius, share);
    const { path, ...motion } = dynamics.move(vessel, rates[i], hull, outer, flow, k.dt, k.substeps);
    paths[i] = path;
    return { ...vessel, ...motion, present: true };
  });
  const met = encounters.follow(k, state.encounters ?? [], moved, state.shores);
  const next = { ...state, vessels: moved, encounters: met, steps: state.steps + 1, random };
  moved.forEach((vessel) => {
    if (vessel.present) vessel.waypoint = shores.pass(vessel, Math.max(k.of(vessel.kind).hull.goal_distance, k.scenario.waypoint_radius));
  });
  const seen = observe(k, next), aground = grounded(k, state, next);
  const collided = touching(k, next).map((hit, i) => hit || aground[i]);
  const outcomes = state.vessels.map((before, i) => (before.active
    ? outcome(k, before, moved[i], collided[i], seen.observations[i].rule.phi) : null));
  outcomes.forEach((each, i) => {
    if (!each) return;
    moved[i].collided = each.collided;
    moved[i].grounded = aground[i];
    moved[i].arrived = each.arrived;
    moved[i].active = !each.collided && !each.arrived;
  });
  return { state: next, ...seen, outcomes, paths };
}

// The published reward by its terms, the energy spent, and whether the vessel has ended.
function outcome(k, before, after, collided, phi) {
  const { hull } = k.of(after.kind), distance = Math.hypot(after.goal[0] - after.x, after.goal[1] - after.y);
  const arrived = distance <= hull.goal_distance && !collided;
  const terms = {
    time: k.reward.timestep_penalty,
    progress: shores.wayToGoal(before) - shores.wayToGoal(after),
    rules: k.reward.COLREGs_penalty * phi,
    end: collided ? k.reward.collision_penalty : arrived ? k.reward.goal_reward : 0,
  };
  const propelling = Math.abs(after.left) + (actuators.isSteered(hull) ? 0 : Math.abs(after.right));
  const energy = hull.power_coefficient * propelling * (k.dt * k.substeps);
  const reward = terms.time + terms.progress + terms.rules + terms.end;
  return { collided, arrived, terms, reward, energy };
}

// Whether every vessel has ended, or the time is up.
export const isOver = (k, state) => state.steps >= k.max_steps || state.vessels.every((vessel) => !vessel.active);
