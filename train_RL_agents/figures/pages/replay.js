// The replay page: time, keys, pointers and controls around recordings.
import * as cards from "./cards.js";
import * as charts from "./charts.js";
import * as clocks from "./clocks.js";
import * as dynamics from "./dynamics.js";
import { byId, fillTable, listen, shape, write } from "./elements.js";
import * as keys from "./keys.js";
import * as maps from "./maps.js";
import * as recordings from "./recordings.js";

const data = JSON.parse(byId("data").textContent);
if (typeof DecompressionStream === "undefined") {
  const refusal = "This browser cannot unpack the episodes; one of 2023 or later can.";
  write(byId("status"), refusal);
  throw new Error(refusal);
}
await recordings.inflate(data.sides);
const MARK_ROW_HEIGHT = 20, SLIDER_MARGIN = 8;
const state = { episode: 0, frame: 0, shown: null, naming: 0 };
const clock = clocks.make({ speed: 5, seconds: dt, draw, step: () => {
  state.frame += 1;
  if (state.frame >= frames() - 1) pause();
} });
const sides = data.sides.map(makeSide);
write(byId("near"), data.near);

function makeSide(given) {
  const element = byId("side").content.cloneNode(true).firstElementChild;
  byId("sides").append(element);
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  // Beside another side there is room for the table under the map alone.
  if (data.sides.length > 1) element.querySelector(".stage").append(part("fleet-card"));
  const session = recordings.make(given, data), canvas = element.querySelector("canvas");
  session.stale = () => { clock.stale = true; };
  const side = { part, session, canvas, map: null, cards: cards.make(element), charts: [] };
  for (let i = 0; i < 6; i++) side.charts.push(charts.make(part("charts"), "s", seek));
  side.session.open(0);
  side.map = maps.make(canvas, session, data);
  addPointer(side);
  return side;
}

const frames = () => Math.max(...sides.map(({ session }) => session.frames.length));
const vesselOf = ({ session }, frame = session.now()) => frame.state.vessels[session.chosen];

function dt() { return data.sides[0].episodes[state.episode].dt; }

// What is shown ---------------------------------------------------------------------------------

// Poses between this frame and the next while playing.
function poses({ session }) {
  const { state: now } = session.now(), next = session.frames[session.at + 1]?.state;
  return now.vessels.map(({ x, y, theta }, i) => {
    if (!next || !clock.share) return [x, y, theta];
    const to = next.vessels[i], turn = dynamics.wrapToPi(to.theta - theta);
    return [x + clock.share * (to.x - x), y + clock.share * (to.y - y), theta + clock.share * turn];
  });
}

function draw() {
  for (const side of sides) {
    const { session } = side;
    session.seek(state.frame);
    const following = byId("follow").checked && vesselOf(side);
    side.map.draw(session.now(), poses(side), session.at, null, { following });
  }
  if (state.shown !== state.frame) showFrame();
}

// Everything else that changes from frame to frame.
function showFrame() {
  state.shown = state.frame;
  byId("frame").value = state.frame;
  const last = frames() - 1;
  write(byId("clock"), `${(state.frame * dt()).toFixed(1)} of ${(last * dt()).toFixed(1)} s, ` +
    `step ${state.frame} of ${last}`);
  for (const side of sides) {
    if (vesselOf(side)) side.cards.show(side.session, side.session.now());
    side.charts.forEach((chart) => chart.at(state.frame));
    fillFleet(side);
  }
}

function show() {
  state.shown = null;
  draw();
}

function fillFleet({ part, session }) {
  const frame = session.now(), body = part("fleet");
  const rows = frame.state.vessels.map((vessel, index) => {
    const { rule } = frame.observations[index];
    const ended = vessel.collided ? "collided" : vessel.arrived ? "arrived" : "";
    const astern = cards.isAstern(vessel) ? "astern" : "active";
    const turn = `${rule.name}, ${Math.round(rule.phi * 180 / Math.PI)}°`;
    return [index + 1, Math.hypot(vessel.gx, vessel.gy).toFixed(2),
      Math.hypot(vessel.goal[0] - vessel.x, vessel.goal[1] - vessel.y).toFixed(1),
      Number.isFinite(vessel.gap) ? vessel.gap.toFixed(1) : "–",
      ended || (rule.name ? turn : astern)];
  });
  fillTable(body, rows, Array(5).fill("td"), (line, index) =>
    line.addEventListener("click", () => chooseVessel(index)));
  Array.from(body.rows).forEach((line, index) => line.classList.toggle("chosen", index === session.chosen));
}

// Charts of the chosen vessel; both sides have one scale.
function lines({ session }) {
  const over = (read) => session.frames.map((frame, at) => read(vesselOf({ session }, frame), frame, at));
  // Up to the end of the vessel.
  const known = (values) => values.slice(0, (values.findLastIndex((each) => each !== null)) + 1);
  const names = session.terms, sums = names.map(() => 0);
  const rewards = over((vessel, { outcomes }) => names.map((name, i) => {
    sums[i] += outcomes[session.chosen]?.terms[name] ?? 0;
    return sums[i];
  }));
  const all = rewards.map(cards.sum);
  const expected = session.frames.map(({ insights }) => insights[session.chosen]?.quantiles).filter(Boolean);
  return [
    ["speed ahead (m/s)", [{ name: "", values: over(({ gx, gy, theta }) => dynamics.toBody(theta, gx, gy)[0]) }]],
    ["distance (m)", [
      { name: "goal", values: over(({ x, y, goal }) => Math.hypot(goal[0] - x, goal[1] - y)) },
      { name: "nearest", values: known(over(({ gap }) => (Number.isFinite(gap) ? gap : null))) }]],
    ["thrust (N)", [{ name: "left", values: over(({ left }) => left) },
      { name: "right", values: over(({ right }) => right) }]],
    ["turn that a rule asks for (°)", [{ name: "", values: over((_, { observations }) =>
      observations[session.chosen].rule.phi * 180 / Math.PI) }]],
    ["reward sum", [{ name: "all", values: all },
      ...names.filter((name) => name !== "time").map((name) =>
        ({ name, values: rewards.map((values) => values[names.indexOf(name)]) }))]],
    ["return expected", expected.length ? [{ name: "mean", values: expected.map(cards.mean) },
      { name: "lowest", values: expected.map((each) => each[0]) },
      { name: "highest", values: expected.map((each) => each.at(-1)) }] : []],
  ];
}

function drawCharts() {
  const all = sides.map((side) => (vesselOf(side) ? lines(side) : []));
  sides.forEach((side, number) => side.charts.forEach((chart, i) => {
    const [name, own] = all[number][i] ?? ["", []];
    chart.show(own.length);
    if (!own.length) return;
    const values = all.flatMap((each) => (each[i]?.[1] ?? []).flatMap((line) => line.values))
      .filter((value) => value !== null);
    const low = values.reduce((a, b) => Math.min(a, b), 0);
    const high = values.reduce((a, b) => Math.max(a, b), low + 1);
    chart.draw(name, own, [low, high], frames() - 1, dt(), data.colours);
  }));
}

// Marks -----------------------------------------------------------------------------------------

// [frame, glyph, text] of a side, by frame.
function marksOf({ session }) {
  const found = [], first = (read) => session.frames.findIndex(read);
  session.frames[0].state.vessels.forEach((_, i) => {
    for (const [flag, glyph, text] of [["collided", "×", "collides"], ["arrived", "★", "arrives"]]) {
      const at = first((frame) => frame.state.vessels[i][flag]);
      if (at >= 0) found.push([at, glyph, `Vessel ${i + 1} ${text}`, i]);
    }
  });
  const { closest } = session.episode;
  if (closest) {
    found.push([closest[1], "▲", `Closest approach, ${closest[0].toFixed(1)} m, vessel ${closest[2] + 1}`,
      closest[2]]);
  }
  const bands = bandsOf({ session });
  for (const [from, , rule] of bands) {
    found.push([from, "", `${rule} applies to vessel ${session.chosen + 1}`, session.chosen]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}

// [first, last, rule] of the spans in which a rule applies to the chosen vessel.
function bandsOf({ session }) {
  const found = [];
  if (!vesselOf({ session })) return found;
  session.frames.forEach(({ observations }, at) => {
    const { name } = observations[session.chosen].rule, last = found.at(-1);
    if (!name) return;
    if (last && last[1] === at - 1 && last[2] === name) last[1] = at;
    else found.push([at, at, name]);
  });
  return found;
}

function drawMarks() {
  const strip = byId("marks"), width = strip.clientWidth, last = Math.max(1, frames() - 1);
  const across = (frame) => SLIDER_MARGIN + (width - 2 * SLIDER_MARGIN) * frame / last;
  const svg = shape("svg", { width, height: MARK_ROW_HEIGHT * sides.length, viewBox: `0 0 ${width} ${MARK_ROW_HEIGHT * sides.length}` });
  sides.forEach((side, row) => {
    const top = row * MARK_ROW_HEIGHT;
    for (const [from, to, rule] of bandsOf(side)) {
      const band = shape("rect", { class: "band", x: across(from), y: top + 2,
        width: Math.max(2, across(to + 1) - across(from)), height: MARK_ROW_HEIGHT - 4 });
      band.append(shape("title", {}, rule));
      svg.append(band);
    }
    for (const [at, glyph, text, vessel] of marksOf(side)) {
      if (!glyph) continue;
      const mark = shape("text", { x: across(at), y: top + 15, "text-anchor": "middle",
        stroke: data.colours[vessel % data.colours.length] }, glyph);
      mark.append(shape("title", {}, text));
      svg.append(mark);
    }
  });
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    seek(Math.round(last * (event.clientX - box.left - SLIDER_MARGIN) / (width - 2 * SLIDER_MARGIN)));
  });
  strip.replaceChildren(svg);
}

// To the next mark, or with -1 the previous one; says what it is.
function toMark(way) {
  const all = sides.flatMap((side) => marksOf(side).map(([at, , text]) =>
    [at, sides.length > 1 ? `${side.session.side.policy}: ${text}` : text]));
  const beyond = all.map(([at]) => at).filter((at) => way * (at - state.frame) > 0);
  if (!beyond.length) return write(byId("status"), "There is no further mark.");
  const found = way > 0 ? Math.min(...beyond) : Math.max(...beyond);
  seek(found);
  const texts = all.filter(([at]) => at === found).map(([, text]) => text);
  return write(byId("status"), `${texts.join("; ")} (${(found * dt()).toFixed(1)} s).`);
}

// Choices ---------------------------------------------------------------------------------------

function seek(frame) {
  state.frame = Math.max(0, Math.min(frames() - 1, Math.round(frame) || 0));
  clock.share = 0;
  show();
  name();
}

// The address of the present moment. Browsers count how often it is written, so wait for a rest.
function name() {
  clearTimeout(state.naming);
  if (clock.playing) return;
  const vessel = Number(byId("vessel").value) + 1;
  const hash = `#episode=${state.episode + 1}&frame=${state.frame}&vessel=${vessel}`;
  state.naming = setTimeout(() => history.replaceState(null, "", hash), 200);
}

function followAddress() {
  const asked = new URLSearchParams(location.hash.slice(1)), number = (key) => Number(asked.get(key));
  const index = number("episode") - 1;
  if (!(index in data.sides[0].episodes)) return;
  if (clock.playing) pause();
  if (byId("episode").querySelector(`[value="${index}"]`)?.hidden) filter("");
  chooseEpisode(index);
  chooseVessel(Math.max(0, number("vessel") - 1) || 0);
  seek(number("frame"));
}

// Of two policies an episode is a failure if either has failed, and a near miss if either has one.
const kinds = {
  "": () => true,
  success: (index) => data.sides.every(({ episodes }) => episodes[index].outcome === "success"),
  failure: (index) => !kinds.success(index),
  near: (index) => data.sides.some(({ episodes }) => {
    const { outcome, closest } = episodes[index];
    return outcome !== "collision" && closest && closest[0] < data.near;
  }),
};

function filter(which) {
  byId("filter").value = which;
  const all = Array.from(byId("episode").options);
  for (const option of all) option.hidden = option.disabled = !kinds[which](Number(option.value));
  const first = all.find((option) => !option.hidden);
  if (first && all[state.episode].hidden) chooseEpisode(Number(first.value));
}

const options = (select, texts) => select.replaceChildren(...texts.map((text, index) => new Option(text, index)));

function chooseEpisode(index) {
  state.episode = index;
  sides.forEach(({ session, map, part }) => {
    session.open(index);
    map.unzoom();
    write(part("title"), `${session.side.policy}: ${session.episode.title}`);
  });
  // Both sides show the same part of the world.
  const extent = maps.extentOf(sides.flatMap(({ session }) => session.frames.map(({ state: each }) => each)));
  sides.forEach(({ session }) => { session.extent = extent; });
  const most = Math.max(...sides.map(({ session }) => session.frames[0].state.vessels.length));
  options(byId("vessel"), Array.from({ length: most }, (_, vessel) => `${vessel + 1}`));
  byId("episode").value = index;
  byId("frame").max = frames() - 1;
  state.frame = 0;
  write(byId("status"), "");
  chooseVessel(Math.min(sides[0].session.chosen, most - 1));
}

function chooseVessel(index) {
  if (!byId("vessel").options[index]) return;
  byId("vessel").value = index;
  sides.forEach(({ session }) => { session.chosen = index; });
  drawCharts();
  drawMarks();
  show();
  name();
}

function zoom(by) {
  sides.forEach(({ map }) => (by ? map.zoom(by) : map.unzoom()));
  draw();
}

// Time ------------------------------------------------------------------------------------------

function play() {
  if (clock.playing) return;
  if (state.frame >= frames() - 1) state.frame = 0;
  clock.start();
  show();
}

function pause() {
  clock.stop();
  show();
  name();
}

const toggle = () => (clock.playing ? pause() : play());

// Pointers --------------------------------------------------------------------------------------

function addPointer(side) {
  const { canvas, map } = side;
  let drag = null;
  canvas.addEventListener("pointerdown", ({ offsetX: x, offsetY: y }) => { drag = { x, y, moved: 0 }; });
  canvas.addEventListener("pointermove", ({ offsetX: x, offsetY: y, buttons, pointerType }) => {
    if (drag && buttons && pointerType === "mouse") {
      map.pan(x - drag.x, y - drag.y);
      drag = { x, y, moved: drag.moved + Math.hypot(x - drag.x, y - drag.y) };
      draw();
    }
  });
  canvas.addEventListener("pointerup", ({ offsetX: x, offsetY: y }) => {
    const hit = drag?.moved < 4 && map.hit(x, y, null, poses(side));
    if (hit && ["vessel", "goal"].includes(hit.kind)) chooseVessel(hit.index);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => { drag = null; });
}

// Controls --------------------------------------------------------------------------------------

listen("play", "click", toggle);
listen("previous", "click", () => toMark(-1));
listen("next", "click", () => toMark(1));
listen("in", "click", () => zoom(keys.ZOOM_FACTOR));
listen("out", "click", () => zoom(1 / keys.ZOOM_FACTOR));
listen("frame", "input", ({ target }) => seek(Number(target.value)));
listen("episode", "change", ({ target }) => chooseEpisode(Number(target.value)));
listen("filter", "change", ({ target }) => filter(target.value));
listen("vessel", "change", ({ target }) => chooseVessel(Number(target.value)));
listen("follow", "change", show);

keys.listen({ toggle, seek, choose: chooseVessel, zoom }, [
  ["← and →", "one control step back, on",
    { ArrowLeft: () => seek(state.frame - 1), ArrowRight: () => seek(state.frame + 1) }, true],
  ["P, N", "previous, next mark of the timeline", { p: () => toMark(-1), n: () => toMark(1) }, true],
]);

function refit() {
  drawCharts();
  drawMarks();
  show();
}

window.addEventListener("hashchange", followAddress);

// For scripts: numbers of episodes and vessels from 1, of frames and sides from 0.
window.replay = {
  seek, play, pause, frames, sessions: sides.map(({ session }) => session),
  frame: () => state.frame,
  playing: () => clock.playing,
  episode: (number) => chooseEpisode(number - 1),
  vessel: (number) => chooseVessel(number - 1),
  marks: (side = 0) => marksOf(sides[side]),
};

document.body.classList.toggle("two", sides.length > 1);
options(byId("episode"), data.sides[0].episodes.map(({ title }, index) =>
  title + data.sides.slice(1).map(({ episodes }) => ` / ${episodes[index].outcome}`).join("")));
for (const option of byId("filter").options) {
  const count = data.sides[0].episodes.filter((_, index) => kinds[option.value](index)).length;
  option.textContent += ` (${count})`;
  option.disabled = count === 0;
}
chooseEpisode(0);
followAddress();
new ResizeObserver(refit).observe(byId("sides"));
