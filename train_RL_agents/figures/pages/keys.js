// Keys of a page, which work whatever control has the focus, and their list.
import { byId } from "./elements.js";

export const ZOOM_FACTOR = 1.3;
const MOVED_CONTROLS = 'input[type="range"], select';
const MOVING_KEYS = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"];

export const nameOf = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);

// The keys that all pages have, in rows as below; of seek, the last frame is at infinity.
const common = ({ toggle, seek, choose, zoom }) => [
  ["Space", "play, pause", { " ": toggle }],
  ["Home, End", "first and last step", { Home: () => seek(0), End: () => seek(Infinity) }],
  ["1 to 9", "choose a vessel",
    Object.fromEntries(Array.from({ length: 9 }, (_, number) => [number + 1, () => choose(number)]))],
  ["+, − and 0", "zoom in and out, see all; the wheel, too",
    { "+": () => zoom(ZOOM_FACTOR), "-": () => zoom(1 / ZOOM_FACTOR), 0: () => zoom(0) }, true],
  ["F", "follow the vessel", { f: () => byId("follow").click() }],
  ["Enter", "press the button, or change the checkbox, that has the focus"],
];

// own: rows [names, meaning, { key: action }, whether they repeat while held] for the list, after those of `acts`. What
// press(key, event) returns true for is done by that. Sliders and lists keep the keys that move them, unless wants(key)
// says otherwise. Enter presses a focused button, or changes a focused checkbox.
export function listen(acts, own, press = () => false, wants = () => false) {
  const used = new Set(), item = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
  const rows = [...common(acts), ...own];
  document.querySelector(".keys").append(...rows.flatMap(([names, meaning]) => [item("dt", names), item("dd", meaning)]));
  const known = new Map(rows.flatMap(([, , acts, repeats]) =>
    Object.entries(acts ?? {}).map(([key, act]) => [key, { act, repeats }])));
  document.addEventListener("keydown", (event) => {
    const { target } = event, key = nameOf(event);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.matches(MOVED_CONTROLS) && MOVING_KEYS.includes(key) && !wants(key)) return;
    if (key === "Enter" && target.matches('[type="checkbox"]')) target.click();
    const found = known.get(key), isPressed = press(key, event);
    if (!isPressed && !found) return;
    if (!isPressed && (found.repeats || !event.repeat)) found.act();
    used.add(key);
    event.preventDefault();
  });
  // Some browsers press a focused button when space is let go.
  document.addEventListener("keyup", (event) => {
    if (used.delete(nameOf(event))) event.preventDefault();
  });
}
