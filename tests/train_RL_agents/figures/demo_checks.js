// What the tests of the demo page run, in Node or in the page itself.
import * as drafts from "../../../train_RL_agents/figures/pages/drafts.js";
import * as perception from "../../../train_RL_agents/figures/pages/perception.js";
import * as policies from "../../../train_RL_agents/figures/pages/policies.js";
import * as sessions from "../../../train_RL_agents/figures/pages/sessions.js";
import * as shields from "../../../train_RL_agents/figures/pages/shields.js";
import * as world from "../../../train_RL_agents/figures/pages/world.js";

globalThis.checks = {
  // Recorded episodes steered as recorded: the largest difference of each quantity.
  replayed(episodes) {
    const worst = {};
    const compare = (name, found, recorded) => {
      const [a, b] = [found, recorded].map((each) => [each].flat(9).map(Number));
      if (a.length !== b.length) throw new Error(`${name}: ${a.length} numbers, not ${b.length}`);
      a.forEach((value, i) => { worst[name] = Math.max(worst[name] ?? 0, Math.abs(value - b[i])); });
    };
    for (const { config, episode, rates, recorded } of episodes) {
      const k = world.setting(config, episode);
      let now = { state: { ...world.start(k, episode, 1) } };
      Object.assign(now, world.observe(k, now.state));
      for (let t = 0; ; t++) {
        const { state, observations, outcomes } = now, { vessels } = state;
        compare("state", vessels.map((v) =>
          [v.x, v.y, v.theta, v.wx, v.wy, v.r, v.gx, v.gy, v.gr, v.left, v.right]), recorded.state[t]);
        compare("self_obs", observations.map((o) => Array.from(o.self_state)), recorded.self_obs[t]);
        compare("objects", observations.map((o) => Array.from(o.objects_state)), recorded.objects[t]);
        compare("mask", observations.map((o) => Array.from(o.objects_mask)), recorded.mask[t]);
        compare("colregs", observations.map((o) => o.rule.name !== ""), recorded.colregs[t]);
        compare("phi", observations.map((o) => o.rule.phi), recorded.phi[t]);
        if (t > 0) {
          compare("reward", outcomes.map((o) => o?.reward ?? 0), recorded.reward[t - 1]);
          compare("energy", outcomes.map((o) => o?.energy ?? 0), recorded.energy[t - 1]);
          compare("collision", vessels.map((v) => v.collided), recorded.collision[t - 1]);
          compare("reach_goal", vessels.map((v) => v.arrived), recorded.reach_goal[t - 1]);
          compare("deactivated", vessels.map((v) => !v.active), recorded.deactivated[t - 1]);
        }
        if (t === rates.length) break;
        now = world.step(k, state, rates[t], now.random);
      }
    }
    return worst;
  },

  // What a policy does for observations [{ name: numbers }], at risk levels or as configured.
  acted({ policy, observations, risks, actions }) {
    const loaded = policies.load(policy);
    return observations.map((observation, i) => ({
      ...loaded.act(observation, risks ? risks[i] : null),
      quantiles: actions && loaded.returns(observation, [actions[i]].flat()),
    }));
  },

  // A voyage of a session without noise, or its first steps: the poses of every frame.
  sailed({ data, scenario, weather, steps }) {
    const session = sessions.make(data);
    session.open(scenario);
    session.edit((state) => { state.noise = 0; Object.assign(state.weather, weather); });
    while (session.at < (steps ?? Infinity) && session.advance());
    return session.frames.map(({ state }) => state.vessels.map(({ x, y, theta }) => [x, y, theta]));
  },

  // Vessels driven with thrust rates: what moves of every step, and the energy spent in it.
  driven({ config, episode, rates }) {
    const k = world.setting(config, episode), frames = [];
    let state = { ...world.start(k, episode, 1), noise: 0 }, outcomes = null;
    for (const now of [null, ...rates]) {
      if (now) ({ state, outcomes } = world.step(k, state, now, state.random));
      frames.push(state.vessels.map((v, i) =>
        [v.x, v.y, v.theta, v.wx, v.wy, v.r, v.left, v.right, ...v.actuator, outcomes?.[i]?.energy ?? 0]));
    }
    return frames;
  },

  // The same of several scenes: the duties that vessels observe, and [own, other, phase, role] of their encounters.
  met(scenes) {
    return scenes.map(({ config, episode, rates }) => {
      const k = world.setting(config, episode), first = { ...world.start(k, episode, 1), noise: 0 };
      const frames = [{ state: first, ...world.observe(k, first) }];
      for (const now of rates) frames.push(world.step(k, frames.at(-1).state, now, 0));
      return frames.map(({ state, observations }) => ({
        duties: observations.map(({ duties }) => Array.from(duties)),
        encounters: state.encounters.map(({ own, other, phase, role }) => [own, other, phase, role]),
      }));
    });
  },

  // Commands behind the shield, without noise.
  guarded({ scenes, hull, seconds, shield }) {
    const sides = [[-1, 0, 1], [-1, 0, 1]];
    return scenes.map(({ command, self_state, objects, seen, shore = [], shore_mask }) => shields.guard(command, {
      self_state, objects_state: Float64Array.from(objects.flat()), seen, shore: Float64Array.from(shore.flat()), shore_mask,
    }, hull, seconds, 1, sides, shield));
  },

  // Vessels at places [x, y, theta, speed] with measured radii, the numbers of whose actions are given:
  // what they observe, and the thrust rates behind the shield of a session.
  guardedInSession({ data, scenario, scenes, actions }) {
    const session = sessions.make(data, { act: () => ({ action: [0] }) });
    session.open(scenario);
    session.shield = true;
    const { hull } = session.k.of(0);
    const pairs = hull.left_thrust_change.flatMap((left) => hull.right_thrust_change.map((right) => [left, right]));
    return scenes.map((places, scene) => {
      session.edit((state) => places.forEach(([x, y, theta, speed], i) => Object.assign(state.vessels[i],
        { x, y, theta, wx: speed * Math.cos(theta), wy: speed * Math.sin(theta), r: 0, left: 200, right: 200 })));
      const frame = session.now();
      frame.shielded = [];
      return places.map((_, i) => {
        const { self_state, objects_state, objects_mask } = frame.observations[i];
        const [state, objects, mask] = [self_state, objects_state, objects_mask].map((row) => Array.from(row));
        return { state, objects, mask, rates: session.guarded(frame, i, pairs[actions[scene][i]]) };
      });
    });
  },

  // Two vessels that meet head-on, 14 m apart, under full thrust, with and without the shield: the
  // first thrust of the first one, and how many commands were replaced.
  shielded({ data, scenario }) {
    const policy = { act: () => ({ action: data.continuous ? [1, 1] : [24] }) };
    return [false, true].map((on) => {
      const session = sessions.make(data, policy);
      session.open(scenario);
      session.edit((state) => {
        state.noise = 0;
        state.vessels.splice(2);
        state.obstacles.splice(0);
        state.cores.splice(0);
        state.vessels.forEach((vessel, i) => Object.assign(vessel, {
          x: 30, y: 21 + 14 * i, theta: Math.PI * (0.5 + i), wx: 0, wy: 2 - 4 * i, gx: 0, gy: 2 - 4 * i,
          r: 0, left: 400, right: 400, goal: [30, 60 - 60 * i],
        }));
      });
      session.shield = on;
      session.advance();
      const first = session.now().state.vessels[0], count = session.shieldCount();
      return { thrust: [first.left, first.right], ...count };
    });
  },

  // What vessels observe and do in waters with shores, in every frame of episodes steered by rates.
  harboured(scenes) {
    return scenes.map(({ config, episode, rates }) => {
      const k = world.setting(config, episode);
      let now = { state: world.start(k, episode, 1), outcomes: [] };
      Object.assign(now, world.observe(k, now.state));
      const frame = () => ({
        shore: now.observations.map((o) => Array.from(o.shore)),
        shore_mask: now.observations.map((o) => Array.from(o.shore_mask)),
        objects_mask: now.observations.map((o) => Array.from(o.objects_mask)),
        self_state: now.observations.map((o) => Array.from(o.self_state)),
        grounded: now.state.vessels.map((v) => Number(v.grounded)),
        reward: now.outcomes.map((o) => o?.reward ?? 0),
      });
      return [frame(), ...rates.map((each) => {
        now = world.step(k, now.state, each, now.random);
        return frame();
      })];
    });
  },

  // What the page saves of an episode with land and a route that were drawn, and the state that it opens of that.
  drafted({ config, episode, file, line, route }) {
    const k = world.setting(config, episode), state = world.start(k, episode, 1);
    state.shores = drafts.landIn(line, 1);
    state.vessels[0].route = route;
    const content = drafts.fileOf(file, state, k.scenario);
    const opened = drafts.episodeOf(content, content, config.scenario);
    const again = world.start(world.setting(config, opened), opened, 1);
    const onChart = drafts.episodeOf({ chart: { width: 80, height: 90, shores: [[1, 2, 3, 4]] } }, content, {});
    return { content, state, again, onChart, crossing: drafts.landIn([[0, 0], [9, 9], [0, 9], [9, 0]], 1) };
  },

  // Who has collided after a step without thrust.
  collided({ config, episode }) {
    const k = world.setting(config, episode), state = world.start(k, episode, 1);
    const rates = state.vessels.map(() => [0, 0]);
    return world.step(k, state, rates, state.random).state.vessels.map((each) => each.collided);
  },

  // Measurements of an object of radius 1 at (10, 0) from the origin.
  measured({ config, noise, count }) {
    const k = world.setting(config), draws = perception.source(1), { hull, sensor } = k.of(0);
    const vessels = [{ x: 0, y: 0, theta: 0, gx: 0, gy: 0, gr: 0, goal: [5, 5], left: 0, right: 0, present: true }];
    const known = perception.objects(vessels, [[10, 0, 1]], [hull]);
    return Array.from({ length: count }, () => Array.from(perception.observe(
      0, vessels, known, sensor, k.slots, noise, draws).objects_state.subarray(0, 5)));
  },
};
