// The page: time, keys, pointers and controls.
import * as cards from "./cards.js";
import * as clocks from "./clocks.js";
import { byId, listen, write } from "./elements.js";
import * as helms from "./helms.js";
import * as items from "./items.js";
import * as keys from "./keys.js";
import * as maps from "./maps.js";
import * as pens from "./pens.js";
import * as sessions from "./sessions.js";
import * as settings from "./settings.js";

const data = JSON.parse(byId("data").textContent);
const session = sessions.make(data), map = maps.make(byId("map"), session, data);
const shown = cards.make(document);
// What a key moves (m) and turns by (rad).
const MOVE_DISTANCE = 0.5, TURN_ANGLE = Math.PI / 36;
// Shortest time between updates of the cards while playing (ms).
const CARD_INTERVAL = 90;
const stepTime = () => session.k.dt * session.k.substeps;
const clock = clocks.make({ speed: 2, seconds: stepTime, draw, step: () => { if (!advance()) finish(); } });
const worldCard = settings.make(session, data, changed), helm = helms.make(session);
let item = { kind: "vessel", index: 0 }, dragged = null, shownFrame = null, nextCards = 0;
session.stale = refresh;
const pen = pens.make(session, data, { say, change, opened: () => { setUp(); open(data.scenarios.length - 1); } });

// What is shown ---------------------------------------------------------------------------------

// While playing, the last step is still being shown: the frame is the one that it began with.
const unfolding = () => clock.playing && !clock.held && session.at > 0;
const shownAt = () => session.at - (unfolding() ? 1 : 0);

function poses() {
  const { state, paths } = session.now();
  return state.vessels.map((vessel, i) => {
    const path = unfolding() && paths?.[i];
    if (!path) return [vessel.x, vessel.y, vessel.theta];
    const before = session.frames[session.at - 1].state.vessels[i];
    const place = clock.share * path.length, low = Math.min(Math.floor(place), path.length - 1);
    const from = low ? path[low - 1] : [before.x, before.y, before.theta], to = path[low];
    return from.map((value, axis) => value + (place - low) * (to[axis] - value));
  });
}

function draw() {
  const at = shownAt(), frame = session.frames[at];
  const following = byId("follow").checked;
  map.draw(frame, poses(), at, item, { following, still: clock.held, line: pen.line });
  const seconds = (at + (unfolding() ? clock.share : 0)) * stepTime();
  write(byId("clock"), `${seconds.toFixed(1)} s, step ${frame.state.steps}`);
  const same = shownFrame?.frame === frame && shownFrame.chosen === session.chosen;
  // In fast motion the cards leave frames out: what they show takes longer than the step itself.
  if (!same && (!clock.playing || clock.last >= nextCards)) showFrame(frame, at);
}

function showFrame(frame, at) {
  shownFrame = { frame, chosen: session.chosen };
  shown.show(session, frame);
  nextCards = clock.last + CARD_INTERVAL;
  byId("time").max = session.frames.length - 1;
  byId("time").value = at;
}

// Show all of the scene as it is at first.
function fitScene() {
  session.extent = maps.extentOf([session.frames[0].state, session.now().state]);
  map.unzoom();
}

// After a change of the state or of a setting.
function refresh() {
  shownFrame = null;
  clock.stale = true;
}

function say(text) { write(byId("status"), text); }

// Time ------------------------------------------------------------------------------------------

function advance() {
  const before = session.now().state.vessels;
  session.command = helm.command();
  if (!session.advance()) return false;
  session.now().state.vessels.forEach((vessel, i) => {
    if (vessel.collided && !before[i].collided) say(`Vessel ${i + 1} has collided.`);
    if (vessel.arrived && !before[i].arrived) say(`Vessel ${i + 1} has arrived.`);
  });
  return true;
}

function play() {
  if (clock.playing) return;
  if (!advance()) {
    say("This voyage has ended: restart, go back, or choose another scenario.");
    return;
  }
  clock.start();
  refresh();
}

function pause() {
  clock.stop();
  refresh();
}

const toggle = () => (clock.playing ? pause() : play());

// Stop in the middle of a step, at the nearer of its ends.
function settle() {
  if (unfolding() && clock.share < 0.5) session.seek(session.at - 1);
  clock.share = 1;
}

function halt() {
  if (clock.playing) { settle(); pause(); }
}

function finish() {
  pause();
  const { vessels, steps } = session.now().state, time = (steps * stepTime()).toFixed(1);
  const collided = vessels.filter((vessel) => vessel.collided).length;
  if (vessels.every((vessel) => vessel.arrived)) say(`All vessels have arrived, after ${time} s.`);
  else if (collided) say(`The voyage has ended after ${time} s: ${collided} have collided.`);
  else say("The time is up.");
}

function seek(at) {
  if (clock.playing) pause();
  session.seek(at);
  const { kind, index } = item;
  if (!items.all(session).some((each) => each.kind === kind && each.index === index)) {
    item = { kind: "vessel", index: session.chosen };
  }
  fillControls();
  refresh();
}

function step() {
  if (clock.playing) pause();
  else if (!advance()) say("This voyage has ended.");
  refresh();
}

// Plays on, unless it was paused on the way.
function open(scenario) {
  const goesOn = clock.playing || session.isOver();
  pause();
  session.open(scenario);
  showHelm();
  item = { kind: "vessel", index: session.chosen };
  fitScene();
  fillControls();
  say(`${data.scenarios[scenario].group}: ${data.scenarios[scenario].name}.`);
  if (goesOn) play();
  refresh();
}

const HOW_TO_STEER = "Hold a button, W, A, S, D or an arrow key.";

function takeHelm(whether) {
  session.helm = whether ? session.chosen : null;
  helm.release();
  showHelm();
  say(whether ? `You have the helm of vessel ${session.chosen + 1}. ${HOW_TO_STEER}`
    : "The policy steers all vessels.");
  refresh();
}

function showHelm() {
  const taken = session.helm !== null;
  byId("helm").setAttribute("aria-pressed", taken);
  write(byId("helm"), taken ? "Leave the helm" : "Take the helm");
  byId("pad").hidden = !taken;
}

// Items -----------------------------------------------------------------------------------------

// A vessel that is moved, or whose goal is moved, is in motion again.
function edit(how) {
  change((state) => {
    how(state);
    const vessel = ["vessel", "goal"].includes(item.kind) && state.vessels[item.index];
    if (vessel) Object.assign(vessel, { active: true, collided: false, arrived: false });
  });
}

function change(how) {
  session.edit(how);
  refresh();
}

function nudge(north, east) {
  halt();
  const [x, y] = items.placeOf(session.now().state, item);
  edit((state) => items.moveTo(state, item, x + north, y + east));
}

function turn(by) {
  if (item.kind !== "vessel") return;
  halt();
  edit((state) => items.turnTo(state.vessels[item.index], state.vessels[item.index].theta + by));
}

function chooseItem(chosen) {
  item = { kind: chosen.kind, index: chosen.index };
  if (item.kind === "vessel" || item.kind === "goal") chooseVessel(item.index, false);
  byId("item").value = `${item.kind} ${item.index}`;
  showRemovable();
  refresh();
}

function chooseVessel(index, withItem = true) {
  if (index >= session.now().state.vessels.length) return;
  const steering = session.helm !== null && session.helm !== index;
  session.choose(index);
  byId("vessel").value = session.chosen;
  if (steering) helm.release();
  if (withItem) chooseItem({ kind: "vessel", index: session.chosen });
  refresh();
}

function showRemovable() {
  const { vessels } = session.now().state, { kind } = item;
  byId("remove").disabled = kind === "goal" || (kind === "vessel" && vessels.length < 2);
}

function add(kind) {
  pause();
  session.add(kind);
  item = { kind, index: session.now().state[items.LISTS[kind]].length - 1 };
  fillControls();
  chooseItem(item);
  say(`${items.NAMES[kind]} ${item.index + 1} has been added.`);
}

function remove() {
  pause();
  const { kind, index } = item;
  session.edit((state) => state[items.LISTS[kind]].splice(index, 1));
  if (kind === "vessel" && session.helm !== null) takeHelm(false);
  item = { kind: "vessel", index: session.chosen };
  fillControls();
  refresh();
  say(`${items.NAMES[kind]} ${index + 1} has been removed.`);
}

// Controls --------------------------------------------------------------------------------------

function fillControls() {
  const { vessels } = session.now().state;
  byId("vessel").replaceChildren(...vessels.map((_, index) => new Option(index + 1, index)));
  byId("vessel").value = session.chosen;
  byId("item").replaceChildren(...items.all(session).map(({ kind, index }) =>
    new Option(`${items.NAMES[kind]} ${index + 1}`, `${kind} ${index}`)));
  byId("item").value = `${item.kind} ${item.index}`;
  byId("scenario").value = session.scenario;
  worldCard.show();
  showRemovable();
}

// A setting holds from the step that is shown on.
function changed() {
  if (unfolding()) clock.share = 0;
  fillControls();
  refresh();
}

function setUp() {
  document.title = `marinenav demo: ${data.title}`;
  write(byId("policy"), data.title);
  const groups = new Map();
  data.scenarios.forEach(({ group, name }, index) => {
    if (!groups.has(group)) {
      groups.set(group, Object.assign(document.createElement("optgroup"), { label: group }));
    }
    groups.get(group).append(new Option(name, index));
  });
  byId("scenario").replaceChildren(...groups.values());
  fillControls();
  showHelm();
}

listen("play", "click", toggle);
listen("step", "click", step);
listen("back", "click", () => seek(shownAt() - 1));
listen("restart", "click", () => open(session.scenario));
listen("time", "input", ({ target }) => seek(Number(target.value)));
listen("scenario", "change", ({ target }) => open(Number(target.value)));
listen("vessel", "change", ({ target }) => chooseVessel(Number(target.value)));
listen("helm", "click", () => takeHelm(session.helm === null));
listen("follow", "change", refresh);
listen("item", "change", ({ target }) => {
  const [kind, index] = target.value.split(" ");
  chooseItem({ kind, index: Number(index) });
});
listen("remove", "click", remove);
listen("clear", "click", () => change((state) => { state.shores = []; }));
listen("save", "click", pen.save);
listen("file", "change", ({ target }) => { pen.open(target.files[0]); target.value = ""; });
const drawing = document.querySelectorAll("[data-draw]");
drawing.forEach((button) => button.addEventListener("click", () => {
  halt();
  pen.choose(button.dataset.draw);
  drawing.forEach((each) => each.setAttribute("aria-pressed", each.dataset.draw === pen.kind));
}));
document.querySelectorAll("[data-add]").forEach((button) =>
  button.addEventListener("click", () => add(button.dataset.add)));

// Pointers --------------------------------------------------------------------------------------

const canvas = byId("map");

function under(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left - canvas.clientLeft, event.clientY - box.top - canvas.clientTop];
}

canvas.addEventListener("pointerdown", (event) => {
  if (pen.kind) halt();
  if (pen.down(map.toWorld(...under(event)))) return canvas.setPointerCapture(event.pointerId);
  const hit = map.hit(...under(event), item, poses());
  if (!hit) return;
  settle();
  clock.held = true;
  dragged = hit;
  canvas.setPointerCapture(event.pointerId);
  chooseItem(hit);
});

canvas.addEventListener("pointermove", (event) => {
  pen.move(map.toWorld(...under(event)));
  if (!dragged) return;
  const [x, y] = map.toWorld(...under(event)), { index } = dragged;
  edit((state) => {
    const vessel = state.vessels[index];
    if (dragged.turning) items.turnTo(vessel, Math.atan2(y - vessel.y, x - vessel.x));
    else items.moveTo(state, dragged, x, y);
  });
});

for (const type of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(type, () => {
    pen.up();
    if (!dragged) return;
    dragged = null;
    clock.held = false;
    if (clock.playing && !advance()) finish();
    clock.share = 0;
    refresh();
  });
}

// A finger on an item moves it, or draws; elsewhere it scrolls the page.
canvas.addEventListener("touchstart", (event) => {
  if (pen.kind || map.hit(...under(event.touches[0]), item, poses())) event.preventDefault();
}, { passive: false });

function zoom(by) {
  if (by) map.zoom(by);
  else fitScene();
  refresh();
}

const ARROWS = { ArrowUp: [MOVE_DISTANCE, 0], ArrowDown: [-MOVE_DISTANCE, 0], ArrowRight: [0, MOVE_DISTANCE],
  ArrowLeft: [0, -MOVE_DISTANCE] };
keys.listen({ toggle, seek, choose: chooseVessel, zoom }, [
  [", and .", "step back, step on", { ",": () => seek(shownAt() - 1), ".": step }, true],
  ["H", "take or leave the helm", { h: () => takeHelm(session.helm === null) }],
  ["W A S D, arrows", "at the helm: ahead, port, astern, starboard; X stops"],
  ["Arrows, Q, E", "on the map: move the chosen item, turn a vessel",
    { q: () => turn(-TURN_ANGLE), e: () => turn(TURN_ANGLE) }, true],
  ["R, N", "restart, next scenario",
    { r: () => open(session.scenario), n: () => open((session.scenario + 1) % data.scenarios.length) }],
], (key, { target }) => {
  if (helm.steers(key)) helm.hold(key);
  else if (ARROWS[key] && target === canvas) nudge(...ARROWS[key]);
  else return false;
  return true;
}, helm.steers);

setUp();
fitScene();
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) play();

// For scripts: numbers of vessels and frames from 0.
window.demo = { session, play, pause, seek, step, open, playing: () => clock.playing,
  poses, commanded: helm.command, toCanvas: map.at };
