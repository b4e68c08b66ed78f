// The card with the settings of the world: noise, vortices, weather, shield and risk level.
import { byId, listen, write } from "./elements.js";

const some = (unit) => (value) => (value ? `${value} ${unit}` : "none");

// Makes the sliders, and calls changed() after each change of the session; show() writes what is set.
export function make(session, data, changed) {
  const edge = () => 2 * Math.PI * session.k.core_radius;
  const setRisk = () => { session.risk = byId("configured").checked ? null : Number(byId("risk").value); };
  // range: least, greatest, step; read(state): the number, whose text stands beside it; set(number).
  const ofState = (change) => (value) => session.edit((state) => change(state, value), false);
  const sliders = {
    noise: { label: "noise", range: [0, 4, 0.5], read: ({ noise }) => noise,
      text: (noise) => (noise ? `× ${noise}` : "none"), set: ofState((state, noise) => { state.noise = noise; }) },
    current: { label: "vortices", range: [0.5, 6, 0.5],
      read: ({ cores }) => Math.max(0, ...cores.map((core) => Math.abs(core[2]))) / edge(),
      text: (speed) => (byId("current").disabled ? "none here" : `${speed.toFixed(1)} m/s`),
      set: (speed) => session.edit(({ cores }) => cores.forEach((core) => {
        core[2] = Math.sign(core[2] || 1) * edge() * speed;
      })) },
    wind: { label: "wind", range: [0, 16, 1], read: ({ weather }) => weather.wind, text: some("m/s"),
      set: ofState(({ weather }, wind) => { weather.wind = wind; }) },
    direction: { label: "wind to", range: [0, 345, 15],
      read: ({ weather }) => Math.round(weather.direction * 180 / Math.PI),
      text: (degrees) => `${String(degrees).padStart(3, "0")}°`,
      set: ofState(({ weather }, degrees) => { weather.direction = degrees * Math.PI / 180; }) },
    waves: { label: "waves", range: [0, 1, 0.1], read: ({ weather }) => weather.waves, text: some("m"),
      set: ofState(({ weather }, waves) => { weather.waves = waves; }) },
    risk: { label: "risk level", range: [0.05, 1, 0.05], read: () => session.risk ?? 1,
      text: (risk) => (session.risk === null ? "" : risk.toFixed(2)), set: setRisk },
  };

  function show() {
    const { state } = session.now();
    byId("current").disabled = !state.cores.length;
    byId("shield").checked = session.shield;
    byId("configured").checked = byId("risk").disabled = session.risk === null;
    for (const [id, { read, text }] of Object.entries(sliders)) {
      byId(id).value = read(state);
      write(byId(`${id}-text`), text(read(state)));
    }
  }

  for (const [id, { label, range: [min, max, step], set }] of Object.entries(sliders)) {
    const element = (kind, attributes) => Object.assign(document.createElement(kind), { className: id, ...attributes });
    byId("settings").append(element("label", { htmlFor: id, textContent: label }),
      element("input", { id, type: "range", min, max, step }), element("output", { id: `${id}-text`, htmlFor: id }));
    listen(id, "input", ({ target }) => { set(Number(target.value)); changed(); });
  }
  listen("configured", "change", () => { setRisk(); changed(); });
  listen("shield", "change", () => { session.shield = byId("shield").checked; changed(); });

  document.querySelectorAll(".risk").forEach((each) => { each.hidden = !session.policy.supportsRisk; });
  write(byId("configured-text"), data.risk ? `, ${data.risk}` : "");
  return { show };
}
