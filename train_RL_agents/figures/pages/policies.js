// The policy: what it does for an observation, and what it expects of actions.
import * as tensors from "./tensors.js";

function unpack({ entries, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const numbers = new Float32Array(bytes.buffer), size = (shape) => shape.reduce((a, b) => a * b, 1);
  return Object.fromEntries(entries.map(([name, shape, offset]) =>
    [name, tensors.constant(shape, numbers.subarray(offset, offset + size(shape)))]));
}

// Makes a policy of what Python wrote (train_RL_agents/exporting/graph.py). An observation is
// { self_state, objects_state, objects_mask }, flat; risk is the share of the worst outcomes to
// act on, or null for what is configured.
export function load(packed) {
  const weights = unpack(packed.weights);
  const networks = Object.fromEntries(Object.entries(packed.graphs).map(([name, graph]) =>
    [name, tensors.network(graph, weights)]));
  const { act, act_at_risk: actAtRisk, returns } = networks;
  return {
    supportsRisk: Boolean(actAtRisk),
    knowsReturns: Boolean(returns),
    // { action: [index], or [left, right] in [-1, 1]; scores: of all actions, if there are some }
    act(observation, risk) {
      const atRisk = risk !== null && actAtRisk;
      const found = atRisk ? actAtRisk({ ...observation, risk: [risk] }) : act(observation);
      return { action: Array.from(found.action), scores: found.scores && Array.from(found.scores) };
    },
    // Of an action: rising quantiles of its return, at even fractions, and its mean return by each
    // critic where there are several; null if not known.
    returns(observation, action) {
      const found = returns?.({ ...observation, action });
      return found ? { quantiles: Array.from(found.quantiles),
        byCritic: found.means && Array.from(found.means) } : null;
    },
  };
}
