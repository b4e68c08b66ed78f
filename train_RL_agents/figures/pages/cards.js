// The cards beside the map: the vessel's numbers, the rule, the decision and the return.
import * as actuators from "./actuators.js";
import * as dynamics from "./dynamics.js";

const degrees = (angle) => Math.round(angle * 180 / Math.PI);
const course = (angle) => String(degrees(dynamics.wrap(angle)) % 360).padStart(3, "0") + "°";
const signed = (value, digits) => (value.toFixed(digits) < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
const fixed = (value, digits) => signed(value, digits).replace("+", "");
export const sum = (values) => values.reduce((a, b) => a + b, 0);
export const mean = (values) => sum(values) / values.length;
const SVG = "http://www.w3.org/2000/svg";

// Writes only what has changed, so that screen readers and layout are left in peace.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A list of names and values, whose elements are made once.
function list(element, rows) {
  if (element.children.length !== 2 * rows.length) {
    element.replaceChildren(...rows.flatMap(() => [document.createElement("dt"), document.createElement("dd")]));
  }
  rows.flat().forEach((text, i) => write(element.children[i], text));
}

// The angle of a steered vessel that a setpoint or its rate stands for, in degrees clockwise.
const angleOf = (setpoint, hull) => setpoint / hull.max_thrust * hull.actuators.angle_limit * 180 / Math.PI;

function numbers(part, session, frame) {
  const now = frame.state.vessels[session.chosen], { hull } = session.k.of(now.kind);
  const steered = actuators.isSteered(hull), rows = [
    [isAstern(now) ? "astern" : "speed", `${Math.hypot(now.gx, now.gy).toFixed(2)} m/s`],
    ["heading", course(now.theta)],
    ["to goal", `${Math.hypot(now.goal[0] - now.x, now.goal[1] - now.y).toFixed(1)} m`],
    ["position", `${now.x.toFixed(1)}, ${now.y.toFixed(1)} m`],
    [steered ? "thrust" : "left", `${fixed(now.left, 0)} N`],
    steered ? ["angle", `${fixed(angleOf(now.right, hull), 0)}°`] : ["right", `${fixed(now.right, 0)} N`],
  ];
  if (now.gap !== undefined) rows.push(["nearest", gap(now.gap)]);
  list(part("numbers"), rows);
}

export const isAstern = (vessel) => vessel.gx * Math.cos(vessel.theta) + vessel.gy * Math.sin(vessel.theta) < -0.05;
export const gap = (value) => (Number.isFinite(value) ? `${value.toFixed(1)} m` : "–");

// Write rows of texts into a table, whose lines are made once, with cells of these kinds; made(line, index) completes one.
export function fillTable(body, rows, kinds, made) {
  if (body.rows.length !== rows.length) {
    body.replaceChildren(...rows.map((_, index) => {
      const line = document.createElement("tr");
      line.append(...kinds.map((kind) => document.createElement(kind)));
      made(line, index);
      return line;
    }));
  }
  rows.forEach((texts, i) => texts.forEach((text, j) => write(body.rows[i].cells[j], String(text))));
}

// The reward of the last step by its terms, and their sums so far.
function reward(part, session, frame) {
  const shown = session.frames.slice(0, session.frames.indexOf(frame) + 1);
  const of = ({ outcomes }) => outcomes?.[session.chosen]?.terms, terms = of(frame);
  const rows = session.terms.map((name) => [name, terms?.[name],
    shown.reduce((sum, each) => sum + (of(each)?.[name] ?? 0), 0)]);
  rows.push(rows.reduce(([name, step, sum], row) => [name, step + row[1], sum + row[2]], ["all", 0, 0]));
  const texts = rows.map(([name, step, sum]) => [name, terms ? signed(step, 2) : "–", signed(sum, 1)]);
  fillTable(part("reward"), texts, ["th", "td", "td"], ({ cells: [name] }) => { name.scope = "row"; });
}

function ruleText(session, frame) {
  const now = frame.state.vessels[session.chosen], seen = frame.observations[session.chosen];
  const name = `Vessel ${session.chosen + 1}`;
  if (now.collided) return `${name} has collided.`;
  if (now.arrived) return `${name} has arrived.`;
  const { rule } = seen;
  if (!rule.name) return "No rule asks for a turn.";
  const other = seen.seen[rule.slot] + 1, asked = Math.atan2(now.gy, now.gx) + rule.phi;
  const what = rule.name === "head-on" ? `Head-on with vessel ${other}` : `Vessel ${other} crosses from starboard`;
  return `${what}: turn ${degrees(rule.phi)}° to starboard, to course ${course(asked)}.`;
}

// What the vessel is to those that it meets, as the rules of the sea see it.
function encounterText(session, frame) {
  const met = frame.state.encounters?.filter(({ own }) => own === session.chosen) ?? [];
  return met.map(({ other, role, phase }) => `Encounter with vessel ${other + 1}: ${role}, ${phase}.`).join(" ");
}

const PAIRS = "of each change of the left (rows) and right thrust (columns), N/s";
const SUM = "a discounted sum of rewards, 1 for each metre nearer to the goal";
// What the scores of a policy mean; "" where it is not known which of the two they are.
const MEANINGS = {
  returns: `Return expected ${PAIRS}: ${SUM}.`,
  logits: `Logit ${PAIRS}: its log probability while training, but for a constant.`,
  "": `Return expected ${PAIRS}: ${SUM}; of PPO and A2C, logits.`,
};

const sorted = (values) => [...new Set(values)].sort((a, b) => a - b);

export function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// The cards in an element: { show }.
export function make(root) {
  const part = (name) => root.querySelector(`[data-part="${name}"]`);

  // Scores ---------------------------------------------------------------------------------------

  // Rows from the largest change of the left thrust down, columns from the smallest of the right.
  function layOut(pairs) {
    const lefts = sorted(pairs.map(([left]) => left)).reverse();
    const rights = sorted(pairs.map(([, right]) => right)), table = part("scores");
    const cell = (kind, text, scope) => {
      const element = document.createElement(kind);
      element.textContent = typeof text === "number" ? fixed(text, 0) : text;
      if (scope) element.scope = scope;
      return element;
    };
    const head = document.createElement("tr");
    head.append(cell("td", ""), ...rights.map((right) => cell("th", right, "col")));
    head.firstChild.className = "corner";
    table.tHead.replaceChildren(head);
    const places = new Map();
    table.tBodies[0].replaceChildren(...lefts.map((left) => {
      const row = document.createElement("tr");
      row.append(cell("th", left, "row"), ...rights.map((right) => {
        const found = cell("td", "");
        found.append(document.createElement("span"));
        places.set(pairs.findIndex(([a, b]) => a === left && b === right), found);
        return found;
      }));
      return row;
    }));
    return { places, lefts, rights, key: JSON.stringify(pairs) };
  }

  const dot = document.createElement("span");
  dot.className = "dot";
  let grid = { key: "" };

  function scores(session, insight) {
    part("scores").classList.toggle("empty", !insight);
    if (!insight) {
      write(part("decision"), "None: its voyage has ended.");
      for (const cell of grid.places?.values() ?? []) mark(cell, "", 0, false);
      write(part("low"), "");
      write(part("high"), "");
      moveDot(null);
      return;
    }
    if (insight.pairs && grid.key !== JSON.stringify(insight.pairs)) grid = layOut(insight.pairs);
    write(part("meaning"), MEANINGS[session.scoresAre]);
    const [left, right] = insight.rates.map((rate) => signed(rate, 0));
    const helm = session.helm === null ? "" : "You have the helm. The policy would: ";
    const { hull } = session.k.of(session.now().state.vessels[session.chosen].kind);
    const change = actuators.isSteered(hull)
      ? `thrust ${left} N/s, angle ${signed(angleOf(insight.rates[1], hull), 0)}°/s` : `left ${left}, right ${right} N/s`;
    const count = session.shield && session.shieldCount();
    const shield = count ? `; the shield replaced ${count.replaced} of ${count.steps} commands` : "";
    write(part("decision"), `${helm}${change}${shield}`);
    const values = insight.scores ?? [], low = Math.min(...values), high = Math.max(...values), share = (value) =>
      Math.max(0, Math.min(1, (value - low) / Math.max(high - low, 1e-9)));
    part("scores").hidden = !grid.places;
    grid.places?.forEach((cell, index) => {
      const value = values[index];
      const heat = value === undefined ? 0 : share(value);
      mark(cell, value === undefined ? "" : fixed(value, 2), heat, index === insight.index);
    });
    write(part("low"), values.length ? fixed(low, 2) : "");
    write(part("high"), values.length ? fixed(high, 2) : "");
    moveDot(insight.index < 0 ? insight.rates : null);
  }

  function mark(cell, text, heat, chosen) {
    write(cell.firstChild, text);
    cell.style.setProperty("--heat", heat.toFixed(2));
    cell.classList.toggle("chosen", chosen);
  }

  // A continuous action as a dot between the discrete ones.
  function moveDot(rates) {
    if (!rates || !grid.places) return dot.remove();
    const cells = [...grid.places.values()], first = cells[0], last = cells.at(-1);
    if (dot.parentElement !== first) first.append(dot);
    const share = (value, list) => (value - list[0]) / (list.at(-1) - list[0]);
    const width = last.offsetLeft - first.offsetLeft, height = last.offsetTop - first.offsetTop;
    dot.style.left = `${first.offsetWidth / 2 + width * share(rates[1], grid.rights)}px`;
    dot.style.top = `${first.offsetHeight / 2 + height * share(rates[0], grid.lefts)}px`;
    return undefined;
  }

  // Returns --------------------------------------------------------------------------------------

  const extent = { low: Infinity, high: -Infinity };

  function returns(session, insight) {
    part("return-card").hidden = !session.policy.knowsReturns;
    const values = insight?.quantiles;
    if (!values) {
      part("returns").replaceChildren();
      write(part("return-text"), "");
      return;
    }
    extent.low = Math.min(extent.low, ...values);
    extent.high = Math.max(extent.high, ...values);
    const { low, high } = extent, span = Math.max(high - low, 1e-6), count = values.length;
    const middle = mean(values);
    const across = (value) => 34 + 256 * (value - low) / span;
    const down = (share) => 96 - 88 * share;
    const points = values.map((value, i) => [across(value), down((i + 0.5) / count)]
      .map((place) => place.toFixed(1)).join());
    part("returns").replaceChildren(
      shape("path", { class: "axis", d: "M34 6V96H292" }),
      shape("text", { x: 29, y: 12, "text-anchor": "end" }, "100%"),
      shape("text", { x: 29, y: 98, "text-anchor": "end" }, "0%"),
      shape("text", { x: 34, y: 110 }, fixed(low, 1)),
      shape("text", { x: 292, y: 110, "text-anchor": "end" }, fixed(high, 1)),
      shape("text", { x: 163, y: 110, "text-anchor": "middle" }, "return"),
      shape("line", { class: "mean", x1: across(middle), x2: across(middle), y1: 6, y2: 96 }),
      shape("polyline", { class: "curve", points: points.join(" ") }),
    );
    const [worst, best] = [values[0], values.at(-1)].map((value) => fixed(value, 2));
    write(part("return-text"), `share of outcomes below; mean (dashed) ${fixed(middle, 2)}, from ${worst} to ${best}`);
  }

  // All of them, for a frame of a session.
  function show(session, frame) {
    const insight = session.insight(frame);
    numbers(part, session, frame);
    reward(part, session, frame);
    write(part("rule"), ruleText(session, frame));
    write(part("encounters"), encounterText(session, frame));
    scores(session, insight);
    returns(session, insight);
  }

  return { show };
}
