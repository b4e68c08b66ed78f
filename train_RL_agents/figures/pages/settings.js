// The card with the settings of the world: noise, vortices, weather, shield and risk level.
import { write } from "./cards.js";

const byId = (id) => document.getElementById(id);

// Listens to the controls, and calls changed() after each change of the session; show() writes what is set.
export function make(session, data, changed) {
  const edge = () => 2 * Math.PI * session.k.core_radius;

  function show() {
    const { cores, noise, weather } = session.now().state, { risk } = session;
    byId("noise").value = noise;
    write(byId("noise-text"), noise ? `× ${noise}` : "none");
    const speed = cores.length ? Math.max(...cores.map((core) => Math.abs(core[2]))) / edge() : 0;
    byId("current").disabled = !cores.length;
    byId("current").value = speed || 3;
    write(byId("current-text"), cores.length ? `${speed.toFixed(1)} m/s` : "none here");
    for (const [name, unit] of [["wind", "m/s"], ["waves", "m"]]) {
      byId(name).value = weather[name];
      write(byId(`${name}-text`), weather[name] ? `${weather[name]} ${unit}` : "none");
    }
    const direction = Math.round(weather.direction * 180 / Math.PI);
    byId("direction").value = direction;
    write(byId("direction-text"), `${String(direction).padStart(3, "0")}°`);
    byId("shield").checked = session.shield;
    byId("configured").checked = byId("risk").disabled = risk === null;
    byId("risk").value = risk ?? 1;
    write(byId("risk-text"), risk === null ? "" : risk.toFixed(2));
  }

  // After each event of a control, set its number.
  function listen(id, type, set) {
    byId(id).addEventListener(type, () => {
      set(Number(byId(id).value));
      changed();
    });
  }

  listen("noise", "input", (noise) => session.edit((state) => { state.noise = noise; }, false));
  listen("current", "input", (speed) => session.edit((state) => state.cores.forEach((core) => {
    core[2] = Math.sign(core[2] || 1) * edge() * speed;
  })));
  for (const name of ["wind", "waves"]) {
    listen(name, "input", (value) => session.edit(({ weather }) => { weather[name] = value; }, false));
  }
  listen("direction", "input", (degrees) =>
    session.edit(({ weather }) => { weather.direction = degrees * Math.PI / 180; }, false));
  const setRisk = () => { session.risk = byId("configured").checked ? null : Number(byId("risk").value); };
  listen("configured", "change", setRisk);
  listen("risk", "input", setRisk);
  listen("shield", "change", () => { session.shield = byId("shield").checked; });

  document.querySelectorAll(".risk").forEach((each) => { each.hidden = !session.policy.supportsRisk; });
  write(byId("configured-text"), data.risk ? `, ${data.risk}` : "");
  return { show };
}
