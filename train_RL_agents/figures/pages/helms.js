// The helm of a session: keys and buttons that are held down, and the command that they give.
import * as actuators from "./actuators.js";
import { limit } from "./dynamics.js";
import { nameOf } from "./keys.js";

const KEYS = { w: "ahead", s: "astern", a: "port", d: "starboard", x: "stop",
  ArrowUp: "ahead", ArrowDown: "astern", ArrowLeft: "port", ArrowRight: "starboard" };

export function make(session) {
  const pressed = new Set();

  // [left, right] in [-1, 1] of the vessel at whose helm somebody is.
  function command() {
    if (session.helm === null) return [0, 0];
    const vessel = session.now().state.vessels[session.helm], { hull } = session.k.of(vessel.kind);
    if (pressed.has("stop")) {
      const most = hull.max_thrust_rate * session.k.dt * session.k.substeps;
      return [limit(-vessel.left / most), limit(-vessel.right / most)];
    }
    const ahead = pressed.has("ahead") - pressed.has("astern"), turn = pressed.has("starboard") - pressed.has("port");
    // An angle that pushes the stern to port turns the bow to starboard.
    if (actuators.isSteered(hull)) return [limit(ahead), limit(hull.actuators.position > 0 ? turn : -turn)];
    return [limit(ahead + turn), limit(ahead - turn)];
  }

  // Whether a key steers, and hold it.
  const steers = (key) => session.helm !== null && key in KEYS;
  const hold = (key) => pressed.add(KEYS[key]);
  const release = () => pressed.clear();

  // Buttons that steer while they are held down, by pointer or by key.
  document.querySelectorAll("[data-key]").forEach((button) => {
    const { key } = button.dataset, on = () => pressed.add(key), off = () => pressed.delete(key);
    button.addEventListener("pointerdown", (event) => { on(); event.preventDefault(); });
    ["pointerup", "pointerleave", "pointercancel", "keyup", "blur"].forEach((type) =>
      button.addEventListener(type, off));
    button.addEventListener("keydown", (event) => {
      if (event.key === "Enter") on();
    });
    button.addEventListener("contextmenu", (event) => event.preventDefault());
  });
  document.addEventListener("keyup", (event) => pressed.delete(KEYS[nameOf(event)]));
  window.addEventListener("blur", release);

  return { command, steers, hold, release };
}
