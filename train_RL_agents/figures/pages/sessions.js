// A session: the states so far, who steers, and what the policy thinks of the present one. It knows
// nothing of the page.
import * as actuators from "./actuators.js";
import * as dynamics from "./dynamics.js";
import * as encounters from "./encounters.js";
import * as policies from "./policies.js";
import * as shields from "./shields.js";
import { clearance, current } from "./shores.js";
import * as world from "./world.js";

// Distance from all else beyond which the place for a new item no longer counts as better (m).
const CENTRE_CLEARANCE = 8;

// data: { config, scenarios, policy } as Python wrote them; policy: as another session has it.
export function make(data, policy = policies.load(data.policy)) {
  const session = {
    policy, scenarios: data.scenarios, scenario: 0, k: null, frames: [], at: 0, chosen: 0,
    risk: null, helm: null, command: [0, 0], shield: false, zones: data.zones, scoresAre: data.scores,
    terms: ["progress", "rules", "time", "end"],
  };
  const now = () => session.frames[session.at];

  function open(scenario) {
    const { episode } = data.scenarios[scenario], k = world.setting(data.config, episode);
    const first = world.start(k, episode, scenario + 1);
    const { noise, weather } = session.frames.length ? now().state : first, state = { ...first, noise, weather };
    Object.assign(session, { scenario, k, frames: [{ state, ...world.observe(k, state) }], at: 0, helm: null });
    choose(session.chosen);
  }

  function choose(vessel) {
    const count = now().state.vessels.length;
    session.chosen = Math.max(0, Math.min(vessel, count - 1));
    if (session.helm !== null) session.helm = session.chosen;
  }

  // Decisions ----------------------------------------------------------------------------------

  // What the policy would do as each vessel, whether it steers or not; null for those that have ended.
  function decisions(frame = now()) {
    if (!frame.decisions || frame.risk !== session.risk) {
      frame.risk = session.risk;
      frame.insight = null;
      frame.decisions = frame.observations.map((observation, i) =>
        (frame.state.vessels[i].active
          ? policy.act({ ...observation, memory: frame.memories?.[i] }, session.risk) : null));
    }
    return frame.decisions;
  }

  // All pairs of thrust rates that a discrete policy chooses from (N/s), left-major.
  function pairs(vessel) {
    const { hull } = session.k.of(vessel.kind);
    return hull.left_thrust_change.flatMap((left) => hull.right_thrust_change.map((right) => [left, right]));
  }

  function ratesOf(vessel, action) {
    const most = session.k.of(vessel.kind).hull.max_thrust_rate;
    return data.continuous ? action.map((part) => dynamics.limit(part) * most) : pairs(vessel)[action[0]];
  }

  // The thrust rates of a decision behind the shield, if it is on (N/s); noted in the frame.
  function guarded(frame, i, rates) {
    const vessel = frame.state.vessels[i], { hull, sensor } = session.k.of(vessel.kind);
    if (!session.shield || actuators.isSteered(hull)) return rates;
    const most = hull.max_thrust_rate, command = rates.map((rate) => rate / most);
    const spread = (1 - sensor.r_mean_ratio) * Math.min(frame.state.noise, 1);
    const sides = [hull.left_thrust_change, hull.right_thrust_change].map((rates) => {
      const side = rates.map((rate) => rate / most);
      const neutral = side.reduce((a, b) => (Math.abs(b) < Math.abs(a) ? b : a));
      return data.continuous ? [-1, 0, 1] : [Math.min(...side), neutral, Math.max(...side)];
    });
    const seconds = session.k.dt * session.k.substeps;
    const observed = frame.observations[i];
    const safe = shields.guard(command, observed, hull, seconds, 1 - spread, sides, data.shield);
    frame.shielded[i] = safe !== command;
    return frame.shielded[i] ? safe.map((part) => part * most) : rates;
  }

  // Commands of the policy up to the present step, and those of them that the shield replaced.
  function shieldCount() {
    const flags = session.frames.slice(0, session.at).flatMap(({ shielded }) => shielded ?? []);
    return { steps: flags.length, replaced: flags.filter(Boolean).length };
  }

  // What can be said about the decision of the chosen vessel: { rates, scores, quantiles }, in
  // rewards as they are, not as scaled for training.
  function insight(frame = now()) {
    const decision = decisions(frame)[session.chosen], vessel = frame.state.vessels[session.chosen];
    if (!decision) return null;
    if (frame.insight?.chosen === session.chosen) return frame.insight;
    const observation = frame.observations[session.chosen];
    const expected = policy.returns(observation, decision.action);
    const all = pairs(vessel), most = session.k.of(vessel.kind).hull.max_thrust_rate;
    let { scores } = decision;
    if (!scores && policy.knowsReturns) {
      const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
      scores = all.map((rates) => mean(policy.returns(observation, rates.map((rate) => dynamics.limit(rate / most)))));
    }
    const unscaled = (values) => values?.map((value) => value / data.scale);
    frame.insight = {
      chosen: session.chosen, rates: ratesOf(vessel, decision.action), pairs: all,
      scores: unscaled(scores), quantiles: unscaled(expected),
      index: data.continuous ? -1 : decision.action[0],
    };
    return frame.insight;
  }

  // Time ---------------------------------------------------------------------------------------

  function advance() {
    const frame = now(), { vessels } = frame.state;
    if (isOver()) return false;
    frame.shielded = [];
    const rates = decisions(frame).map((decision, i) => {
      if (!decision) return [0, 0];
      const { hull } = session.k.of(vessels[i].kind);
      if (i === session.helm) return session.command.map((part) => part * hull.max_thrust_rate);
      frame.shielded[i] = false;
      return guarded(frame, i, ratesOf(vessels[i], decision.action));
    });
    const next = world.step(session.k, frame.state, rates, frame.random);
    next.memories = decisions(frame).map((decision) => decision?.memory);
    session.frames.splice(session.at + 1, Infinity, next);
    session.at += 1;
    return true;
  }

  const isOver = () => world.isOver(session.k, now().state);

  function seek(at) {
    session.at = Math.max(0, Math.min(session.frames.length - 1, at));
    choose(session.chosen);
  }

  // Change the present state; what came after it is forgotten. Where things have been moved,
  // the water that vessels drift with is another, and new encounters begin.
  function edit(change, moved = true) {
    const state = structuredClone(now().state);
    change(state);
    for (const vessel of moved ? state.vessels : []) {
      const [cx, cy] = current(vessel.x, vessel.y, state, session.k.core_radius);
      if (vessel.active) Object.assign(vessel, { present: true, gx: vessel.wx + cx, gy: vessel.wy + cy });
    }
    if (moved) state.encounters = encounters.follow(session.k, [], state.vessels, state.shores);
    const { memories } = now(), frame = { state, memories, ...world.observe(session.k, state), edited: true };
    session.frames.splice(session.at, Infinity, frame);
    choose(session.chosen);
  }

  // A place on the water near the middle with room around it.
  function freePlace(state) {
    const { width, height } = session.k.scenario, taken = [
      ...state.vessels.map(({ x, y }) => [x, y]), ...state.obstacles, ...state.cores];
    let best = [width / 2, height / 2], room = -1;
    for (let x = 6; x < width; x += 4) {
      for (let y = 6; y < height; y += 4) {
        const gap = Math.min(CENTRE_CLEARANCE, clearance(x, y, state.shores), ...taken.map(([a, b]) => Math.hypot(a - x, b - y)));
        const middle = -0.01 * Math.hypot(x - width / 2, y - height / 2);
        if (gap + middle > room) [best, room] = [[x, y], gap + middle];
      }
    }
    return best;
  }

  const adding = {
    vessel(state, [x, y]) {
      const goal = [session.k.scenario.width - x, session.k.scenario.height - y];
      const heading = Math.atan2(goal[1] - y, goal[0] - x);
      state.vessels.push(world.launch(session.k, 0, state, { start: [x, y], goal, heading }));
    },
    obstacle: (state, place) => state.obstacles.push([...place, 1]),
    vortex: (state, place) => state.cores.push([...place, 2 * Math.PI * session.k.core_radius * 3]),
  };

  const add = (kind) => edit((state) => adding[kind](state, freePlace(state)));

  open(data.first);
  return Object.assign(session, {
    now, open, choose, decisions, insight, advance, isOver, seek, edit, add,
    guarded, shieldCount,
  });
}
