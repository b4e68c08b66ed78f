// A recording as a session that maps and cards can show: frames of the chosen episode.
import * as dynamics from "./dynamics.js";
import { PHASES, ROLES } from "./encounters.js";

const NON_FINITE_CODE = 2 ** 31 - 1;
// Largest thrust (N) of two fixed thrusters.
const PUBLISHED_STEERING = [1000, 0, 0];

// Decompress the data of all episodes.
export const inflate = (sides) => Promise.all(sides.flatMap(({ episodes }) => episodes.map(async (episode) => {
  const bytes = Uint8Array.from(atob(episode.data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  episode.data = new Uint8Array(await new Response(stream).arrayBuffer());
})));

// Arrays by name, from differences between frames (figures/replay_page.py); made when an episode is
// first shown: long evaluations would take a while.
function unpack({ frames, vessels, arrays, data }) {
  let begin = 0;
  return Object.fromEntries(arrays.map(([name, entries, steps]) => {
    const series = vessels * entries, count = frames * series, values = new Float32Array(count);
    const byte = (number, place) => data[begin + number * count + place] << (8 * number);
    for (let one = 0, place = 0; one < series; one++) {
      for (let frame = 0, sum = 0; frame < frames; frame++, place++) {
        sum = (sum + (byte(0, place) | byte(1, place) | byte(2, place) | byte(3, place))) | 0;
        values[frame * series + one] = sum === NON_FINITE_CODE ? Infinity : sum / steps;
      }
    }
    begin += 4 * count;
    return [name, values];
  }));
}

// A hull as the world has it; recordings of earlier versions do not say how it is steered.
function hullOf({ hulls, steering }, vessel) {
  const [length, width] = hulls[vessel], [maxThrust, angleLimit, position] = steering?.[vessel] ?? PUBLISHED_STEERING;
  return { length, width, max_thrust: maxThrust, actuators: {
    steering: angleLimit ? "azimuth" : "thrusters", angle_limit: angleLimit, position } };
}

// The frames of an episode; names are those of rules and of terms of the reward.
function framesOf(episode, names) {
  const arrays = unpack(episode), { vessels: count, slots, obstacles, cores, goals } = episode;
  const row = (name, frame, vessel) => {
    const width = arrays[name].length / (episode.frames * count);
    return arrays[name].subarray((frame * count + vessel) * width, (frame * count + vessel + 1) * width);
  };
  const one = (name, frame, vessel) => row(name, frame, vessel)[0];
  const each = (make) => Array.from({ length: count }, (_, vessel) => make(vessel));

  function vesselAt(frame, vessel) {
    const [x, y, theta] = row("poses", frame, vessel), [gx, gy] = row("velocities", frame, vessel);
    const [left, right] = row("thrust", frame, vessel), hull = hullOf(episode, vessel);
    const actuator = [0, right / hull.max_thrust * hull.actuators.angle_limit];
    return {
      x, y, theta, gx, gy, left, right, actuator, goal: goals[vessel], kind: vessel,
      route: episode.routes?.[vessel], waypoint: arrays.waypoint ? one("waypoint", frame, vessel) : 0, start: Array.from(row("poses", 0, vessel)).slice(0, 2),
      gap: one("gap", frame, vessel), active: Boolean(one("active", frame, vessel)),
      collided: Boolean(one("collided", frame, vessel)), grounded: Boolean(arrays.grounded && one("grounded", frame, vessel)),
      arrived: Boolean(one("arrived", frame, vessel)),
    };
  }

  // What a vessel observes, in its body frame; in each slot is the vessel, or counted after them
  // the obstacle, that is nearest to the measured place.
  function observed(frame, vessel, all) {
    const { x, y, theta } = all[vessel], objects = Float64Array.from(row("objects", frame, vessel));
    const places = [...all.map((each) => [each.x, each.y]), ...obstacles], seen = [];
    row("seen", frame, vessel).forEach((there, slot) => {
      if (!there) return;
      const [px, py, vx, vy] = objects.subarray(5 * slot);
      const away = places.map(([a, b], index) => (index === vessel ? Infinity : Math.hypot(a - px, b - py)));
      seen.push(away.indexOf(Math.min(...away)));
      objects.set([...dynamics.toBody(theta, px - x, py - y), ...dynamics.toBody(theta, vx, vy)], 5 * slot);
    });
    const rule = names.rules[one("rule", frame, vessel)];
    return { objects_state: objects, seen, rule: {
      name: rule === names.rules[0] ? "" : rule, slot: one("rule_object", frame, vessel),
      phi: one("turn", frame, vessel) } };
  }

  // What each vessel is to each other, as the rules of the sea see it.
  function encountersOf(frame) {
    return each((own) => each((other) => ({
      own, other, phase: PHASES[row("phase", frame, own)[other]], role: ROLES[row("role", frame, own)[other]],
    }))).flat().filter(({ phase }) => phase !== PHASES[0]);
  }

  function outcomeOf(frame, vessel) {
    if (!frame || !one("active", frame - 1, vessel)) return null;
    const values = Array.from(row("terms", frame, vessel));
    const terms = Object.fromEntries(episode.term_names.map((name, i) => [name, values[i]]));
    return { terms, reward: values.reduce((all, value) => all + value, 0) };
  }

  function insightOf(frame, vessel) {
    if (frame === episode.frames - 1 || !one("active", frame, vessel)) return null;
    const rates = Array.from(row("rates", frame, vessel)), { commands: pairs } = episode;
    const read = (name) => (arrays[name] ? Array.from(row(name, frame, vessel)) : null);
    const isTaken = (pair) => pair.every((rate, i) => Math.abs(rate - rates[i]) < 0.1);
    const index = pairs?.findIndex(isTaken) ?? -1;
    return { rates, pairs, scores: read("scores"), quantiles: read("quantiles"), index };
  }

  return Array.from({ length: episode.frames }, (_, frame) => {
    const vessels = each((vessel) => vesselAt(frame, vessel));
    return {
      state: { vessels, obstacles, cores, shores: episode.shores ?? [], steps: frame, encounters: encountersOf(frame) },
      observations: each((vessel) => observed(frame, vessel, vessels)),
      outcomes: each((vessel) => outcomeOf(frame, vessel)),
      insights: each((vessel) => insightOf(frame, vessel)),
    };
  });
}

// side: { policy, episodes, zones, ... } as Python wrote it.
export function make(side, names) {
  const session = {
    side, frames: [], at: 0, chosen: 0, helm: null, zones: side.zones, episode: null, k: null,
    policy: { knowsReturns: false }, terms: [], scoresAre: "",
  };

  function open(index) {
    const episode = session.episode = side.episodes[index], [width, height] = episode.map;
    episode.unpacked ??= framesOf(episode, names);
    const kind = (vessel) => ({ hull: hullOf(episode, vessel), sensor: { range: episode.ranges[vessel] } });
    session.frames = episode.unpacked;
    session.terms = episode.term_names;
    session.k = { scenario: { width, height }, core_radius: episode.core_radius, of: kind };
    session.policy.knowsReturns = episode.arrays.some(([name]) => name === "quantiles");
    seek(0);
  }

  function seek(at) {
    session.at = Math.max(0, Math.min(session.frames.length - 1, at));
  }

  const now = () => session.frames[session.at];
  const insight = (frame) => frame.insights[session.chosen];
  return Object.assign(session, { open, seek, now, insight });
}
