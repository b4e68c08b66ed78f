"use strict";
// The page: time, keys, pointers and controls.
(() => {
  const byId = (id) => document.getElementById(id), { write } = cards;
  const data = JSON.parse(byId("data").textContent);
  const session = sessions.make(data), map = maps.make(byId("map"), session, data);
  const shown = cards.make(document);
  const SPEEDS = Array.from(byId("speed").options, ({ value }) => Number(value));
  const MOVE = 0.5, TURN = Math.PI / 36, ZOOM = 1.3, MOST_AT_ONCE = 20, CARDS_EVERY = 90;
  const clock = { playing: false, share: 0, last: 0, next: 0, held: false };
  const pressed = new Set();
  let item = { kind: "vessel", index: 0 }, dragged = null, stale = true, shownFrame = null;
  session.stale = () => { stale = true; };

  // What is shown ---------------------------------------------------------------------------------

  const stepTime = () => session.k.dt * session.k.substeps;
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
    stale = false;
    const at = shownAt(), frame = session.frames[at];
    map.draw(frame, poses(), at, item, byId("follow").checked);
    const seconds = (at + (unfolding() ? clock.share : 0)) * stepTime();
    write(byId("clock"), `${seconds.toFixed(1)} s, step ${frame.state.steps}`);
    const same = shownFrame?.frame === frame && shownFrame.chosen === session.chosen;
    // In fast motion the cards leave frames out: what they show takes longer than the step itself.
    if (!same && (!clock.playing || clock.last >= clock.next)) showFrame(frame, at);
  }

  function showFrame(frame, at) {
    shownFrame = { frame, chosen: session.chosen };
    shown.show(session, frame);
    clock.next = clock.last + CARDS_EVERY;
    byId("time").max = session.frames.length - 1;
    byId("time").value = at;
    if (!clock.playing) fillFields();
  }

  // After a change of the state or of a setting.
  function refresh() {
    shownFrame = null;
    stale = true;
  }

  const say = (text) => write(byId("status"), text);

  // Time ------------------------------------------------------------------------------------------

  function advance() {
    const before = session.now().state.vessels;
    session.command = command();
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
    Object.assign(clock, { playing: true, share: 0 });
    write(byId("play"), "Pause");
    refresh();
  }

  function pause() {
    clock.playing = false;
    write(byId("play"), "Play");
    refresh();
  }

  const toggle = () => (clock.playing ? pause() : play());

  // Stop in the middle of a step, at the nearer of its ends.
  function settle() {
    if (unfolding() && clock.share < 0.5) session.seek(session.at - 1);
    clock.share = 1;
  }

  function tick(now) {
    if (clock.playing && !clock.held) {
      clock.share += Math.max(0, now - clock.last) / 1000 * Number(byId("speed").value) / stepTime();
      for (let count = 0; clock.share >= 1 && clock.playing; count++) {
        clock.share = count < MOST_AT_ONCE ? clock.share - 1 : 0;
        if (!advance()) finish();
      }
      stale = true;
    }
    clock.last = now;
    if (stale) draw();
    requestAnimationFrame(tick);
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
    if (!items().some((each) => each.kind === kind && each.index === index)) {
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

  function open(scenario) {
    pause();
    session.open(scenario);
    showHelm();
    item = { kind: "vessel", index: session.chosen };
    fillControls();
    say(`${data.scenarios[scenario].suite}: ${data.scenarios[scenario].name}.`);
    refresh();
  }

  // The helm --------------------------------------------------------------------------------------

  const KEYS = { w: "ahead", s: "astern", a: "port", d: "starboard", x: "stop",
    ArrowUp: "ahead", ArrowDown: "astern", ArrowLeft: "port", ArrowRight: "starboard" };

  // The command of the keys that are down, [left, right] in [-1, 1].
  function command() {
    if (session.helm === null) return [0, 0];
    const vessel = session.now().state.vessels[session.helm];
    const limit = (value) => Math.max(-1, Math.min(1, value));
    if (pressed.has("stop")) {
      const most = session.k.of(vessel.kind).hull.max_thrust_rate * stepTime();
      return [limit(-vessel.left / most), limit(-vessel.right / most)];
    }
    const ahead = pressed.has("ahead") - pressed.has("astern");
    const turn = pressed.has("starboard") - pressed.has("port");
    return [limit(ahead + turn), limit(ahead - turn)];
  }

  function takeHelm(whether) {
    session.helm = whether ? session.chosen : null;
    pressed.clear();
    showHelm();
    const how = "hold a button, W, A, S, D or an arrow key";
    say(whether ? `You have the helm of vessel ${session.chosen + 1}: ${how}.`
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

  const NAMES = { vessel: "Vessel", goal: "Goal", obstacle: "Obstacle", vortex: "Vortex" };

  function items() {
    const { vessels, obstacles, cores } = session.now().state;
    const list = (kind, things) => things.map((_, index) => ({ kind, index }));
    return [...list("vessel", vessels), ...list("goal", vessels), ...list("obstacle", obstacles),
      ...list("vortex", cores)];
  }

  // What can be set of an item: label, step, how to read and to write it.
  function fieldsOf({ kind, index }) {
    const row = (state) => (kind === "obstacle" ? state.obstacles : state.cores)[index];
    const edge = () => 2 * Math.PI * session.k.core_radius;
    const place = (get) => [
      ["north (m)", 0.5, (s) => get(s)[0], (s, value) => { get(s)[0] = value; }],
      ["east (m)", 0.5, (s) => get(s)[1], (s, value) => { get(s)[1] = value; }],
    ];
    return {
      vessel: [
        ["north (m)", 0.5, (s) => s.vessels[index].x, (s, value) => { s.vessels[index].x = value; }],
        ["east (m)", 0.5, (s) => s.vessels[index].y, (s, value) => { s.vessels[index].y = value; }],
        ["heading (°)", 5, (s) => s.vessels[index].theta * 180 / Math.PI, (s, value) => {
          turnTo(s.vessels[index], value * Math.PI / 180);
        }],
      ],
      goal: place((s) => s.vessels[index].goal),
      obstacle: [...place(row), ["radius (m)", 0.5, (s) => row(s)[2],
        (s, value) => { row(s)[2] = Math.max(0.1, value); }]],
      vortex: [...place(row), ["edge speed (m/s), − is anticlockwise", 0.5,
        (s) => row(s)[2] / edge(), (s, value) => { row(s)[2] = value * edge(); }]],
    }[kind];
  }

  // Turn a vessel with its velocity.
  function turnTo(vessel, angle) {
    const by = angle - vessel.theta, cos = Math.cos(by), sin = Math.sin(by), { wx, wy } = vessel;
    Object.assign(vessel, {
      theta: dynamics.wrap(angle), wx: cos * wx - sin * wy, wy: sin * wx + cos * wy, r: 0, gr: 0,
    });
  }

  // A vessel that is moved, or whose goal is moved, is in motion again.
  function edit(change) {
    session.edit((state) => {
      change(state);
      const vessel = ["vessel", "goal"].includes(item.kind) && state.vessels[item.index];
      if (vessel) Object.assign(vessel, { active: true, collided: false, arrived: false });
    });
    refresh();
  }

  function moveTo(state, { kind, index }, x, y) {
    if (kind === "vessel") Object.assign(state.vessels[index], { x, y });
    else if (kind === "goal") state.vessels[index].goal = [x, y];
    else (kind === "obstacle" ? state.obstacles : state.cores)[index].splice(0, 2, x, y);
  }

  function nudge(north, east) {
    if (clock.playing) { settle(); pause(); }
    const [x, y] = fieldsOf(item).slice(0, 2).map(([, , get]) => get(session.now().state));
    edit((state) => moveTo(state, item, x + north, y + east));
  }

  function turn(by) {
    if (item.kind !== "vessel") return;
    if (clock.playing) { settle(); pause(); }
    edit((state) => turnTo(state.vessels[item.index], state.vessels[item.index].theta + by));
  }

  function chooseItem(chosen) {
    item = { kind: chosen.kind, index: chosen.index };
    if (item.kind === "vessel" || item.kind === "goal") chooseVessel(item.index, false);
    byId("item").value = `${item.kind} ${item.index}`;
    fillFields();
    refresh();
  }

  function chooseVessel(index, withItem = true) {
    if (index >= session.now().state.vessels.length) return;
    const steering = session.helm !== null && session.helm !== index;
    session.choose(index);
    byId("vessel").value = session.chosen;
    if (steering) pressed.clear();
    if (withItem) chooseItem({ kind: "vessel", index: session.chosen });
    refresh();
  }

  function fillFields() {
    const row = byId("fields"), parts = fieldsOf(item), labels = parts.map(([label]) => label).join();
    if (row.dataset.labels !== labels) {
      row.dataset.labels = labels;
      row.replaceChildren(...parts.map(([label, size], number) => {
        const element = document.createElement("label"), input = document.createElement("input");
        Object.assign(input, { type: "number", step: "any" });
        input.addEventListener("change", () => {
          if (!Number.isFinite(input.valueAsNumber)) return fillFields();
          if (clock.playing) { settle(); pause(); }
          return edit((state) => fieldsOf(item)[number][3](state, input.valueAsNumber));
        });
        input.addEventListener("keydown", (event) => {
          const by = { ArrowUp: size, ArrowDown: -size }[event.key];
          if (!by) return;
          event.preventDefault();
          input.value = Number(input.value) + by;
          input.dispatchEvent(new Event("change"));
        });
        element.append(`${label} `, input);
        return element;
      }));
    }
    row.querySelectorAll("input").forEach((input, number) => {
      input.value = Math.round(parts[number][2](session.now().state) * 10) / 10;
    });
    const { vessels } = session.now().state, { kind } = item;
    byId("remove").disabled = kind === "goal" || (kind === "vessel" && vessels.length < 2);
  }

  function add(kind) {
    pause();
    session.add(kind);
    const { vessels, obstacles, cores } = session.now().state;
    item = { kind, index: { vessel: vessels, obstacle: obstacles, vortex: cores }[kind].length - 1 };
    fillControls();
    chooseItem(item);
    say(`${NAMES[kind]} ${item.index + 1} has been added.`);
  }

  function remove() {
    pause();
    const { kind, index } = item;
    const name = { vessel: "vessels", obstacle: "obstacles", vortex: "cores" }[kind];
    session.edit((state) => state[name].splice(index, 1));
    if (kind === "vessel" && session.helm !== null) takeHelm(false);
    item = { kind: "vessel", index: session.chosen };
    fillControls();
    refresh();
    say(`${NAMES[kind]} ${index + 1} has been removed.`);
  }

  // Controls --------------------------------------------------------------------------------------

  const fill = (select, options) => select.replaceChildren(...options);

  function fillControls() {
    const { vessels, cores, noise, weather } = session.now().state;
    fill(byId("vessel"), vessels.map((_, index) => new Option(index + 1, index)));
    byId("vessel").value = session.chosen;
    fill(byId("item"), items().map(({ kind, index }) =>
      new Option(`${NAMES[kind]} ${index + 1}`, `${kind} ${index}`)));
    byId("item").value = `${item.kind} ${item.index}`;
    byId("scenario").value = session.scenario;
    byId("noise").value = noise;
    write(byId("noise-text"), noise ? `× ${noise}` : "none");
    const edge = 2 * Math.PI * session.k.core_radius;
    const speed = cores.length ? Math.max(...cores.map((core) => Math.abs(core[2]))) / edge : 0;
    byId("current").disabled = !cores.length;
    byId("current").value = speed || 3;
    write(byId("current-text"), cores.length ? `${speed.toFixed(1)} m/s` : "none here");
    const goesTo = Math.round(weather.direction * 180 / Math.PI);
    byId("wind").value = weather.wind;
    write(byId("wind-text"), weather.wind ? `${weather.wind} m/s` : "none");
    byId("waves").value = weather.waves;
    write(byId("waves-text"), weather.waves ? `${weather.waves} m` : "none");
    byId("direction").value = goesTo;
    write(byId("direction-text"), `${String(goesTo).padStart(3, "0")}°`);
    byId("configured").checked = session.risk === null;
    byId("risk").disabled = session.risk === null;
    byId("risk").value = session.risk ?? 1;
    write(byId("risk-text"), session.risk === null ? "" : session.risk.toFixed(2));
    fillFields();
  }

  function setCurrent(speed) {
    const size = 2 * Math.PI * session.k.core_radius * speed;
    session.edit((state) => state.cores.forEach((core) => { core[2] = core[2] < 0 ? -size : size; }));
    changed();
  }

  function setWeather() {
    const [wind, waves, degrees] = ["wind", "waves", "direction"].map((id) => Number(byId(id).value));
    const direction = degrees * Math.PI / 180;
    session.edit((state) => { state.weather = { wind, direction, waves }; }, false);
    changed();
  }

  // A setting holds from the step that is shown on.
  function changed() {
    if (unfolding()) clock.share = 0;
    fillControls();
    refresh();
  }

  function setRisk() {
    session.risk = byId("configured").checked ? null : Number(byId("risk").value);
    changed();
  }

  function setUp() {
    document.title = `marinenav demo: ${data.title}`;
    write(byId("policy"), data.title);
    const groups = new Map();
    data.scenarios.forEach(({ suite, name }, index) => {
      if (!groups.has(suite)) {
        groups.set(suite, Object.assign(document.createElement("optgroup"), { label: suite }));
      }
      groups.get(suite).append(new Option(name, index));
    });
    fill(byId("scenario"), [...groups.values()]);
    document.querySelectorAll(".risk").forEach((each) => {
      each.hidden = !session.policy.supportsRisk;
    });
    write(byId("configured-text"), data.risk ? `, ${data.risk}` : "");
    fillControls();
    showHelm();
  }

  const listen = (id, type, act) => byId(id).addEventListener(type, act);
  listen("play", "click", toggle);
  listen("step", "click", step);
  listen("back", "click", () => seek(shownAt() - 1));
  listen("restart", "click", () => open(session.scenario));
  listen("time", "input", ({ target }) => seek(Number(target.value)));
  listen("scenario", "change", ({ target }) => open(Number(target.value)));
  listen("vessel", "change", ({ target }) => chooseVessel(Number(target.value)));
  listen("helm", "click", () => takeHelm(session.helm === null));
  listen("follow", "change", refresh);
  listen("noise", "input", ({ target }) => {
    session.edit((state) => { state.noise = Number(target.value); }, false);
    changed();
  });
  listen("current", "input", ({ target }) => setCurrent(Number(target.value)));
  ["wind", "waves", "direction"].forEach((id) => listen(id, "input", setWeather));
  listen("configured", "change", setRisk);
  listen("risk", "input", setRisk);
  listen("item", "change", ({ target }) => {
    const [kind, index] = target.value.split(" ");
    chooseItem({ kind, index: Number(index) });
  });
  listen("remove", "click", remove);
  listen("share", "click", share);
  document.querySelectorAll("[data-add]").forEach((button) =>
    button.addEventListener("click", () => add(button.dataset.add)));

  // Buttons that steer while they are held down, by pointer or by key.
  document.querySelectorAll("[data-key]").forEach((button) => {
    const { key } = button.dataset, on = () => pressed.add(key), off = () => pressed.delete(key);
    button.addEventListener("pointerdown", (event) => { on(); event.preventDefault(); });
    ["pointerup", "pointerleave", "pointercancel", "keyup", "blur"].forEach((type) =>
      button.addEventListener(type, off));
    button.addEventListener("keydown", (event) => {
      if (event.key === " " || event.key === "Enter") on();
    });
    button.addEventListener("contextmenu", (event) => event.preventDefault());
  });

  // Links -----------------------------------------------------------------------------------------

  function share() {
    if (clock.playing) { settle(); pause(); }
    const url = new URL(location.href);
    url.hash = `state=${session.link()}`;
    history.replaceState(null, "", url.hash);
    byId("link").value = url.href;
    byId("link").select();
    // Where the clipboard may not be written, the address and the selected text are left to copy.
    const copied = navigator.clipboard?.writeText(url.href) ?? Promise.reject(new Error("none"));
    copied.then(() => say("The link to this state has been copied."),
      () => say("The link to this state is in the address bar."));
  }

  function followLink() {
    const found = /^#state=([\w-]+)$/.exec(location.hash);
    if (!found) return;
    pause();
    say(session.follow(found[1]) ? "The state of the link."
      : "This link does not hold a state of this page.");
    item = { kind: "vessel", index: session.chosen };
    showHelm();
    fillControls();
    refresh();
  }

  window.addEventListener("hashchange", followLink);

  // Pointers --------------------------------------------------------------------------------------

  const canvas = byId("map");

  function under(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left - canvas.clientLeft, event.clientY - box.top - canvas.clientTop];
  }

  canvas.addEventListener("pointerdown", (event) => {
    const hit = map.hit(...under(event), item, poses());
    if (!hit) return;
    settle();
    clock.held = true;
    dragged = hit;
    canvas.setPointerCapture(event.pointerId);
    chooseItem(hit);
  });

  canvas.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    const [x, y] = map.toWorld(...under(event)), { index } = dragged;
    edit((state) => {
      const vessel = state.vessels[index];
      if (dragged.turning) turnTo(vessel, Math.atan2(y - vessel.y, x - vessel.x));
      else moveTo(state, dragged, x, y);
    });
  });

  for (const type of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(type, () => {
      if (!dragged) return;
      dragged = null;
      clock.held = false;
      if (clock.playing && !advance()) finish();
      clock.share = 0;
      fillFields();
      refresh();
    });
  }

  // A finger on an item moves it, elsewhere it scrolls the page.
  canvas.addEventListener("touchstart", (event) => {
    if (map.hit(...under(event.touches[0]), item, poses())) event.preventDefault();
  }, { passive: false });

  // Keys ------------------------------------------------------------------------------------------

  function changeSpeed(by) {
    const now = SPEEDS.indexOf(Number(byId("speed").value));
    byId("speed").value = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, now + by))];
    say(`Speed ${byId("speed").value}×.`);
  }

  function nextItem() {
    const all = items();
    const now = all.findIndex(({ kind, index }) => kind === item.kind && index === item.index);
    chooseItem(all[(now + 1) % all.length]);
    say(`${NAMES[item.kind]} ${item.index + 1}: on the map, the arrow keys move it.`);
  }

  const ACTIONS = {
    " ": toggle, ".": step, ",": () => seek(shownAt() - 1),
    Home: () => seek(0), End: () => seek(session.frames.length - 1),
    "[": () => changeSpeed(-1), "]": () => changeSpeed(1),
    h: () => takeHelm(session.helm === null), i: nextItem,
    q: () => turn(-TURN), e: () => turn(TURN),
    r: () => open(session.scenario), n: () => open((session.scenario + 1) % data.scenarios.length),
    f: () => { byId("follow").checked = !byId("follow").checked; refresh(); },
    c: share,
    "+": () => { map.zoom(ZOOM); refresh(); }, "-": () => { map.zoom(1 / ZOOM); refresh(); },
    0: () => { map.unzoom(); refresh(); },
  };
  const ARROWS = { ArrowUp: [MOVE, 0], ArrowDown: [-MOVE, 0], ArrowRight: [0, MOVE],
    ArrowLeft: [0, -MOVE] };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (event.target.matches("input, select, summary")) return;
    if (event.target.matches("button") && (key === " " || key === "Enter")) return;
    if (session.helm !== null && KEYS[key]) pressed.add(KEYS[key]);
    else if (ARROWS[key] && event.target === canvas) nudge(...ARROWS[key]);
    else if (ACTIONS[key] && !event.repeat) ACTIONS[key]();
    else if ("123456789".includes(key)) chooseVessel(Number(key) - 1);
    else if (!["q", "e", ",", "."].includes(key)) return;
    else ACTIONS[key]();
    event.preventDefault();
  });
  document.addEventListener("keyup", (event) => {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    pressed.delete(KEYS[key]);
  });
  window.addEventListener("blur", () => pressed.clear());

  // Start -----------------------------------------------------------------------------------------

  new ResizeObserver(() => { map.fit(); refresh(); }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    map.readTheme();
    refresh();
  });
  setUp();
  followLink();
  requestAnimationFrame(tick);

  // For scripts: numbers of vessels and frames from 0.
  window.demo = { session, play, pause, seek, step, open, playing: () => clock.playing,
    poses, toCanvas: map.at };
})();
