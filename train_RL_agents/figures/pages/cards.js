// The cards beside the map: the vessel's numbers, the rule, the decision and the return.
import * as actuators from "./actuators.js";
import * as charts from "./charts.js";
import * as dynamics from "./dynamics.js";
import { fillTable, write } from "./elements.js";

const degrees = (angle) => Math.round(angle * 180 / Math.PI);
const course = (angle) => String(degrees(dynamics.wrap(angle)) % 360).padStart(3, "0") + "°";
const signed = (value, digits) => (value.toFixed(digits) < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
const fixed = (value, digits) => signed(value, digits).replace("+", "");
export const sum = (values) => values.reduce((a, b) => a + b, 0);
export const mean = (values) => sum(values) / values.length;

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

export const isAstern = ({ theta, gx, gy }) => dynamics.toBody(theta, gx, gy)[0] < -0.05;
export const gap = (value) => (Number.isFinite(value) ? `${value.toFixed(1)} m` : "–");

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

function decisionText(session, { rates }) {
  const [left, right] = rates.map((rate) => signed(rate, 0));
  const helm = session.helm === null ? "" : "You have the helm. The policy would: ";
  const { hull } = session.k.of(session.now().state.vessels[session.chosen].kind);
  const change = actuators.isSteered(hull)
    ? `thrust ${left} N/s, angle ${signed(angleOf(rates[1], hull), 0)}°/s` : `left ${left}, right ${right} N/s`;
  const count = session.shield && session.shieldCount();
  const shield = count ? `; the shield replaced ${count.replaced} of ${count.steps} commands` : "";
  return `${helm}${change}${shield}`;
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

// The cards in an element: { show }.
export function make(root) {
  const part = (name) => root.querySelector(`[data-part="${name}"]`);

  // Scores ---------------------------------------------------------------------------------------

  // Rows from the largest change of the left thrust down, columns from the smallest of the right.
  function layOut(pairs) {
    const lefts = sorted(pairs.map(([left]) => left)).reverse(), rights = sorted(pairs.map(([, right]) => right));
    const { tHead: head, tBodies: [body] } = part("scores"), places = new Map(), text = (rate) => fixed(rate, 0);
    head.replaceChildren();
    body.replaceChildren();
    fillTable(head, [["", ...rights.map(text)]], ["td", ...rights.map(() => "th")], ({ cells: [corner, ...names] }) => {
      corner.className = "corner";
      names.forEach((each) => { each.scope = "col"; });
    });
    fillTable(body, lefts.map((left) => [text(left)]), ["th", ...rights.map(() => "td")], ({ cells: [name, ...found] }, row) => {
      name.scope = "row";
      found.forEach((cell, column) => {
        cell.append(document.createElement("span"));
        places.set(pairs.findIndex(([left, right]) => left === lefts[row] && right === rights[column]), cell);
      });
    });
    return { places, lefts, rights, key: JSON.stringify(pairs) };
  }

  const dot = document.createElement("span");
  dot.className = "dot";
  let grid = { key: "" };

  function scores(session, insight) {
    if (insight?.pairs && grid.key !== JSON.stringify(insight.pairs)) grid = layOut(insight.pairs);
    write(part("meaning"), MEANINGS[session.scoresAre]);
    write(part("decision"), insight ? decisionText(session, insight) : "None: its voyage has ended.");
    const values = insight?.scores ?? [], low = Math.min(...values), high = Math.max(...values), share = (value) =>
      Math.max(0, Math.min(1, (value - low) / Math.max(high - low, 1e-9)));
    part("scores").hidden = !grid.places;
    grid.places?.forEach((cell, index) => {
      const value = values[index];
      const heat = value === undefined ? 0 : share(value);
      mark(cell, value === undefined ? "" : fixed(value, 2), heat, index === insight?.index);
    });
    write(part("low"), values.length ? fixed(low, 2) : "");
    write(part("high"), values.length ? fixed(high, 2) : "");
    moveDot(insight?.index < 0 ? insight.rates : null);
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

  const extent = { low: Infinity, high: -Infinity }, chart = charts.make(part("returns"), "%");

  function returns(session, insight) {
    part("return-card").hidden = !session.policy.knowsReturns;
    const values = insight?.quantiles;
    chart.show(Boolean(values));
    write(part("return-text"), "");
    if (!values) return;
    extent.low = Math.min(extent.low, ...values);
    extent.high = Math.max(extent.high, ...values);
    const middle = mean(values), level = { name: "mean", values: values.map(() => middle) };
    const lines = [{ name: "quantiles", values }, level];
    const range = [extent.low, Math.max(extent.high, extent.low + 1e-6)];
    const name = "return over the share of outcomes below (%)", share = 100 / values.length;
    chart.draw(name, lines, range, values.length - 1, share, ["var(--focus)", "var(--accent)"], share / 2);
    const [worst, best] = [values[0], values.at(-1)].map((value) => fixed(value, 2));
    write(part("return-text"), `mean ${fixed(middle, 2)}, from ${worst} to ${best}`);
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
