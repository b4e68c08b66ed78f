// The policy: what it does for an observation, and what it expects of actions.
import * as tensors from "./tensors.js";

const { sizeOf } = tensors;

// Makes a function of inputs by name (plain arrays) to outputs by name (Float64Arrays, which the
// next call overwrites). What depends on weights alone is computed once, here.
function network(graph, weights) {
  const values = [], varying = [], steps = [];
  const inputs = graph.inputs.map(([name, shape]) => {
    const input = tensors.constant(shape, Array(sizeOf(shape)).fill(0));
    varying[values.length] = true;
    values.push(input);
    return [name, input];
  });
  for (const name of graph.weights) values.push(weights[name]);

  let varies = false;
  const resolve = (argument) => {
    if (Array.isArray(argument)) return argument.map(resolve);
    if (argument === null || typeof argument !== "object") return argument;
    if ("number" in argument) return Number(argument.number);
    varies ||= varying[argument.at] ?? false;
    return values[argument.at];
  };
  for (const [name, parameters] of graph.nodes) {
    varies = false;
    const found = tensors.OPERATORS[name](...parameters.map(resolve));
    for (const each of [found].flat()) {
      if (each.compute && varies) steps.push(each.compute);
      else each.compute?.();
      // Views of it later on need no computation of their own.
      delete each.compute;
    }
    varying[values.length] = varies;
    values.push(found);
  }
  const outputs = Object.entries(graph.outputs).map(([name, at]) => [name, values[at]]);
  return (given) => {
    for (const [name, input] of inputs) given[name] ? input.data.set(given[name]) : input.data.fill(0);
    for (const step of steps) step();
    return Object.fromEntries(outputs.map(([name, value]) => [name, value.data]));
  };
}

function unpack({ entries, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const numbers = new Float32Array(bytes.buffer);
  return Object.fromEntries(entries.map(([name, shape, offset]) =>
    [name, tensors.constant(shape, numbers.subarray(offset, offset + sizeOf(shape)))]));
}

// Makes a policy of what Python wrote (train_RL_agents/exporting/graph.py). An observation is
// { self_state, objects_state, objects_mask, objects_id, duties }, flat; risk is the share of the worst outcomes to
// act on, or null for what is configured. A recurrent policy takes its memory, too: that of its last
// decision, or none at the start.
export function load(packed) {
  const weights = unpack(packed.weights);
  const networks = Object.fromEntries(Object.entries(packed.graphs).map(([name, graph]) =>
    [name, network(graph, weights)]));
  const { act, act_at_risk: actAtRisk, returns } = networks;
  return {
    supportsRisk: Boolean(actAtRisk),
    knowsReturns: Boolean(returns),
    // { action: [index], or [left, right] in [-1, 1]; scores: of all actions, if there are some }
    act(observation, risk) {
      const atRisk = risk !== null && actAtRisk;
      const found = atRisk ? actAtRisk({ ...observation, risk: [risk] }) : act(observation);
      return { action: Array.from(found.action), scores: found.scores && Array.from(found.scores),
        memory: found.next_memory && Array.from(found.next_memory) };
    },
    // Rising quantiles of the return of an action, at even fractions; null if not known.
    returns(observation, action) {
      const found = returns?.({ ...observation, action });
      return found ? Array.from(found.quantiles) : null;
    },
  };
}
