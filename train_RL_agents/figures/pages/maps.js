// The map: to scale, north up. It draws a frame of a session, of the demo or of a recording, and
// tells what lies under a pointer.
import * as actuators from "./actuators.js";
import * as dynamics from "./dynamics.js";
import * as items from "./items.js";
import { clearance, current } from "./shores.js";

// Margin around all that is in view, half the width of a view that follows a vessel, and half the smallest width (m).
const SCENE_MARGIN = 4, FOLLOWING_HALF_WIDTH = 22, MIN_HALF_WIDTH = 6;
// Time ahead of an object to which its arrow points (s); length of the arrow of the largest thrust, in hull lengths.
const ARROW_SECONDS = 2, THRUST_ARROW_LENGTH = 0.5;
// Distance at which a pointer hits an item (pixels), and of the handle that turns a vessel from its centre (m).
const HIT_DISTANCE = 20, HANDLE_DISTANCE = 5.5;
const DASHES = [[], [7, 4], [7, 3, 2, 3], [2, 3], [12, 3], [3, 2]];

// Where a point of a body's frame is in the world.
function fromBody(x, y, yaw, forward, side) {
  const cos = Math.cos(yaw), sin = Math.sin(yaw);
  return [x + forward * cos - side * sin, y + forward * sin + side * cos];
}

// The corners of all that there is in states: [[north, east], [north, east]], lowest first.
export function extentOf(states) {
  const low = [Infinity, Infinity], high = [-Infinity, -Infinity];
  const include = (x, y, radius = 0) => [x, y].forEach((value, axis) => {
    low[axis] = Math.min(low[axis], value - radius);
    high[axis] = Math.max(high[axis], value + radius);
  });
  for (const { vessels, obstacles, cores, shores = [] } of states) {
    shores.forEach(([ax, ay, bx, by]) => { include(ax, ay); include(bx, by); });
    vessels.forEach(({ x, y, goal }) => { include(x, y); include(...goal); });
    obstacles.forEach((disc) => include(...disc));
    cores.forEach(([x, y]) => include(x, y));
  }
  return [low, high];
}

function hullOutline(x, y, yaw, { length, width }) {
  const corners = [[0.5, 0], [0.2, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.2, -0.5]];
  return corners.map(([a, b]) => fromBody(x, y, yaw, a * length, b * width));
}

export function make(canvas, session, data) {
  const context = canvas.getContext("2d"), theme = {};
  const water = { key: "" }, land = { key: "" };
  let size = 0, view = { x: 0, y: 0, half: 1, scale: 1 };
  // What was zoomed to by hand, and how far one can see out.
  let lens = null, widest = 1;
  const colourOf = (vessel) => data.colours[vessel % data.colours.length];

  function readTheme() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "paper", "sea", "edge", "rock", "land", "coast", "flow", "zone", "accent", "focus"]) {
      theme[name] = style.getPropertyValue(`--${name}`).trim();
    }
    water.key = land.key = "";
  }

  function fit() {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
    size = width;
    canvas.width = canvas.height = Math.round(width * ratio);
    context.setTransform(canvas.width / width, 0, 0, canvas.width / width, 0, 0);
  }

  // What is in view: the scene, and vessels that have left it; or the surroundings of one.
  function look(poses, following) {
    const all = [...session.extent, ...poses];
    const north = all.map(([x]) => x), east = all.map(([, y]) => y);
    const [low, high] = [Math.min(...north), Math.max(...north)];
    const [left, right] = [Math.min(...east), Math.max(...east)];
    widest = Math.max(high - low, right - left) / 2 + SCENE_MARGIN;
    view = lens ?? { x: (low + high) / 2, y: (left + right) / 2, half: widest };
    if (following) {
      const [x, y] = poses[session.chosen];
      view = { x, y, half: lens?.half ?? FOLLOWING_HALF_WIDTH };
    }
    view.scale = size / (2 * view.half);
  }

  // Zoom in (by more than 1) or out; the point of the canvas stays where it is.
  function zoom(by, across = size / 2, down = size / 2) {
    const half = Math.max(MIN_HALF_WIDTH, view.half / by), [x, y] = toWorld(across, down);
    const scale = size / (2 * half);
    lens = half >= widest ? null : { x: x + (down - size / 2) / scale, y: y - (across - size / 2) / scale, half };
  }

  const unzoom = () => { lens = null; };

  // Move what is in view by pixels; nothing to do where all is.
  function pan(across, down) {
    if (lens) lens = { ...lens, x: lens.x + down / view.scale, y: lens.y - across / view.scale };
  }

  const at = (x, y) => [size / 2 + (y - view.y) * view.scale, size / 2 - (x - view.x) * view.scale];
  const toWorld = (across, down) =>
    [view.x - (down - size / 2) / view.scale, view.y + (across - size / 2) / view.scale];

  // Pen ----------------------------------------------------------------------------------------

  function path(points) {
    context.beginPath();
    points.forEach(([x, y]) => context.lineTo(...at(x, y)));
  }

  function disc(x, y, radius) {
    context.beginPath();
    context.arc(...at(x, y), Math.max(0, radius * view.scale), 0, 2 * Math.PI);
  }

  function stroke(colour, width = 1, dash = []) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.stroke();
    context.setLineDash([]);
  }

  function fill(colour) {
    context.fillStyle = colour;
    context.fill();
  }

  function text(words, x, y, dx = 0, dy = 0) {
    const [across, down] = at(x, y);
    context.lineWidth = 3;
    context.strokeStyle = theme.paper;
    context.strokeText(words, across + dx, down + dy);
    context.fillStyle = theme.ink;
    context.fillText(words, across + dx, down + dy);
  }

  function arrow(x, y, toX, toY, colour, { filled = false, dash = [], width = 1.4 } = {}) {
    const [a, b] = at(x, y), [c, d] = at(toX, toY), angle = Math.atan2(d - b, c - a);
    if (Math.hypot(c - a, d - b) < 2) return;
    context.beginPath();
    context.moveTo(a, b);
    context.lineTo(c, d);
    stroke(colour, width, dash);
    context.beginPath();
    context.moveTo(c - 7 * Math.cos(angle - 0.4), d - 7 * Math.sin(angle - 0.4));
    context.lineTo(c, d);
    context.lineTo(c - 7 * Math.cos(angle + 0.4), d - 7 * Math.sin(angle + 0.4));
    if (filled) fill(colour);
    stroke(colour, width);
  }

  function star(x, y, colour) {
    const [across, down] = at(x, y);
    context.beginPath();
    for (let i = 0; i < 10; i++) {
      const radius = i % 2 ? 3.5 : 8.5, angle = i * Math.PI / 5;
      context.lineTo(across + radius * Math.sin(angle), down - radius * Math.cos(angle));
    }
    context.closePath();
    fill(colour);
    stroke(theme.ink);
  }

  // Parts --------------------------------------------------------------------------------------

  // A layer as dense as a function of the place says, painted once for a view and what it shows.
  function drawLayer(kept, shown, colour, densityAt) {
    const key = JSON.stringify([shown, view, size, canvas.width]), step = 4;
    if (kept.key !== key) {
      const layer = document.createElement("canvas");
      layer.width = layer.height = size;
      const pen = layer.getContext("2d");
      pen.fillStyle = colour;
      for (let i = 0; i < size; i += step) {
        for (let j = 0; j < size; j += step) {
          pen.globalAlpha = densityAt(...toWorld(i + step / 2, j + step / 2));
          pen.fillRect(i, j, step, step);
        }
      }
      Object.assign(kept, { key, layer });
    }
    context.drawImage(kept.layer, 0, 0, size, size);
  }

  // The speed of the water.
  function drawWater({ cores, shores }) {
    if (!cores.length) return;
    drawLayer(water, [cores, shores], theme.flow, (x, y) =>
      0.6 * Math.min(1, Math.hypot(...current(x, y, { cores, shores }, session.k.core_radius))));
    const apart = Math.max(1, Math.round(view.half / 8));
    const first = (middle) => Math.ceil((middle - view.half) / apart) * apart;
    context.globalAlpha = 0.5;
    for (let x = first(view.x); x < view.x + view.half; x += apart) {
      for (let y = first(view.y); y < view.y + view.half; y += apart) {
        const [along, across] = current(x, y, { cores, shores }, session.k.core_radius);
        const speed = Math.hypot(along, across);
        const length = apart * Math.min(0.8, 1.5 * speed) / Math.max(speed, 1e-6);
        arrow(x - along * length / 2, y - across * length / 2,
              x + along * length / 2, y + across * length / 2, theme.ink, { width: 1 });
      }
    }
    context.globalAlpha = 1;
    cores.forEach(([x, y, circulation]) => {
      disc(x, y, session.k.core_radius);
      stroke(theme.ink, 1.5);
      text(circulation > 0 ? "↻" : "↺", x, y, 0, -14);
    });
  }

  // Land and its shores.
  function drawLand(all) {
    if (!all.length) return;
    drawLayer(land, all, theme.land, (x, y) => Number(clearance(x, y, all) < 0));
    all.forEach(([x, y, endX, endY]) => {
      path([[x, y], [endX, endY]]);
      stroke(theme.coast, 2);
    });
  }

  // The rest of the route that a vessel was given, after the waypoint that it has passed, unless it is straight.
  function drawRoute({ start, goal, route = [], waypoint = 0 }, vessel) {
    if (!route.some((place) => place.some((value, axis) => Math.abs(value - goal[axis]) > 0.1))) return;
    path([waypoint ? route[waypoint - 1] : start, ...route.slice(waypoint), goal]);
    stroke(colourOf(vessel), 1, [2, 5]);
  }

  function drawGround({ obstacles, vessels, shores = [] }) {
    drawLand(shores);
    vessels.forEach(drawRoute);
    const { width, height } = session.k.scenario;
    path([[0, 0], [width, 0], [width, height], [0, height], [0, 0]]);
    stroke(theme.edge);
    obstacles.forEach(([x, y, radius]) => {
      disc(x, y, radius);
      fill(theme.rock);
      stroke(theme.ink);
    });
    vessels.forEach(({ goal: [x, y] }, vessel) => {
      star(x, y, colourOf(vessel));
      text(String(vessel + 1), x, y, 13, -9);
    });
  }

  // The line that a vessel has come along, interrupted where it was moved by hand.
  function drawTrail(vessel, upTo) {
    context.beginPath();
    for (let i = 0; i <= upTo; i++) {
      const { state, edited } = session.frames[i], now = state.vessels[vessel];
      if (!now) continue;
      if (edited) context.moveTo(...at(now.x, now.y));
      else context.lineTo(...at(now.x, now.y));
    }
  }

  function drawVessel(frame, vessel, [x, y, yaw], upTo) {
    const now = frame.state.vessels[vessel], { hull } = session.k.of(now.kind);
    drawTrail(vessel, upTo);
    if (now.active) context.lineTo(...at(x, y));
    stroke(colourOf(vessel), 1.8, DASHES[vessel % DASHES.length]);
    context.globalAlpha = now.active ? 1 : 0.4;
    path(hullOutline(x, y, yaw, hull));
    context.closePath();
    fill(colourOf(vessel));
    stroke(theme.ink, vessel === session.chosen ? 2.2 : 1);
    context.globalAlpha = 1;
    const mark = now.grounded ? "⏚" : now.collided ? "×" : now.arrived ? "✓" : "";
    text(`${vessel + 1}${mark}`, x, y);
    if (!now.active) return;
    const side = hull.width / 2 + 0.1 * hull.length, scale = THRUST_ARROW_LENGTH * hull.length / hull.max_thrust;
    const thrusters = actuators.isSteered(hull)
      ? [[hull.actuators.position || -hull.length / 2, 0, now.left, now.actuator[1]]]
      : [[0, -side, now.left, 0], [0, side, now.right, 0]];
    for (const [ahead, aside, thrust, angle] of thrusters) {
      const to = [ahead + scale * thrust * Math.cos(angle), aside + scale * thrust * Math.sin(angle)];
      arrow(...fromBody(x, y, yaw, ahead, aside), ...fromBody(x, y, yaw, ...to), theme.ink, { filled: true });
    }
  }

  // What the chosen vessel sees and the rule that applies to it, from where it was observed.
  function drawChosen(frame, pose) {
    const now = frame.state.vessels[session.chosen], seen = frame.observations[session.chosen];
    if (!now.active) return;
    const { sensor } = session.k.of(now.kind);
    disc(pose[0], pose[1], sensor.range);
    stroke(colourOf(session.chosen), 1.4, [8, 4]);
    seen.seen.forEach((_, slot) => {
      const [px, py, vx, vy, radius] = seen.objects_state.subarray(5 * slot, 5 * slot + 5);
      const [x, y] = fromBody(now.x, now.y, now.theta, px, py);
      const [toX, toY] = fromBody(now.x, now.y, now.theta, px + ARROW_SECONDS * vx, py + ARROW_SECONDS * vy);
      disc(x, y, radius);
      stroke(theme.ink, 1.2, [4, 3]);
      if (Math.hypot(vx, vy) > 0.3) arrow(x, y, toX, toY, theme.ink);
    });
    if (!seen.rule.name) return;
    const asked = Math.atan2(now.gy, now.gx) + seen.rule.phi;
    arrow(pose[0], pose[1], ...fromBody(pose[0], pose[1], asked, 8, 0), theme.accent, { dash: [5, 3], width: 2.5 });
  }

  function drawZone(frame) {
    const now = frame.state.vessels[session.chosen], { rule, objects_state: objects } =
      frame.observations[session.chosen];
    if (!now.active || !rule.name) return;
    const [px, py, vx, vy] = objects.subarray(5 * rule.slot, 5 * rule.slot + 4);
    const [x, y] = fromBody(now.x, now.y, now.theta, px, py), course = now.theta + Math.atan2(vy, vx);
    path(session.zones[rule.name].map(([ahead, side]) => fromBody(x, y, course, ahead, side)));
    context.closePath();
    context.globalAlpha = 0.35;
    fill(theme.zone);
    context.globalAlpha = 1;
    stroke(theme.edge);
  }

  function handleOf([x, y, yaw]) {
    return fromBody(x, y, yaw, HANDLE_DISTANCE, 0);
  }

  function drawItem(item, poses) {
    if (!item) return;
    const [x, y] = placeOf(item, poses);
    disc(x, y, 14 / view.scale);
    stroke(theme.focus, 2, [3, 3]);
    if (item.kind !== "vessel") return;
    const handle = handleOf(poses[item.index]);
    path([[x, y], handle]);
    stroke(theme.focus, 1, [2, 3]);
    disc(...handle, 5 / view.scale);
    fill(theme.focus);
  }

  function drawScale() {
    const metres = view.half > 15 ? 10 : 5, length = metres * view.scale;
    context.fillStyle = theme.ink;
    context.fillRect(12, size - 12, length, 2);
    text(`${metres} m`, ...toWorld(32 + length, size - 11));
  }

  // Where wind and waves go to, in the corner.
  function drawWeather({ wind, direction, waves }) {
    if (!wind && !waves) return;
    const [x, y] = toWorld(size - 18, size - 15), half = 11 / view.scale;
    arrow(...fromBody(x, y, direction, -half, 0), ...fromBody(x, y, direction, half, 0), theme.ink, { width: 2.5 });
    context.textAlign = "right";
    const words = [wind && `wind ${wind} m/s`, waves && `waves ${waves} m`];
    text(words.filter(Boolean).join(", "), x, y, -18, 4);
  }

  // frame: shown; poses: [x, y, yaw] of each vessel at this moment; item: what is being edited;
  // still: keep the view; line: that is being drawn.
  function draw(frame, poses, upTo, item, { following = false, still = false, line = null } = {}) {
    if (!still) look(poses, following);
    context.fillStyle = theme.sea;
    context.fillRect(0, 0, size, size);
    context.font = "bold 13px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    drawWater(frame.state);
    drawZone(frame);
    drawGround(frame.state);
    poses.forEach((pose, vessel) => drawVessel(frame, vessel, pose, upTo));
    drawChosen(frame, poses[session.chosen]);
    drawItem(item, poses);
    path(line ?? []);
    stroke(theme.focus, 2, [4, 4]);
    drawScale();
    if (frame.state.weather) drawWeather(frame.state.weather);
  }

  // Items --------------------------------------------------------------------------------------

  function placeOf({ kind, index }, poses) {
    return kind === "vessel" ? poses[index] : items.placeOf(session.now().state, { kind, index });
  }

  // The item under a point of the canvas, or null; a vessel's handle is { ..., turning: true }.
  function hit(across, down, item, poses) {
    const away = ([x, y]) => {
      const [a, b] = at(x, y);
      return Math.hypot(a - across, b - down);
    };
    if (item?.kind === "vessel" && away(handleOf(poses[item.index])) < HIT_DISTANCE) {
      return { ...item, turning: true };
    }
    const near = items.all(session).map((each) => ({ ...each, away: away(placeOf(each, poses)) }))
      .filter((each) => each.away < HIT_DISTANCE).sort((a, b) => a.away - b.away);
    return near.length ? { kind: near[0].kind, index: near[0].index } : null;
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(1.0015 ** -event.deltaY, event.offsetX, event.offsetY);
    session.stale();
  }, { passive: false });
  new ResizeObserver(() => { fit(); session.stale(); }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); session.stale(); });
  readTheme();
  fit();
  return { draw, hit, toWorld, at, zoom, unzoom, pan };
}
