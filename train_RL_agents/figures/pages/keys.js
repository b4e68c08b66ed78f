// Keys of a page, which work whatever control has the focus.
const MOVED_CONTROLS = 'input[type="range"], select';
const MOVING_KEYS = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"];

export const nameOf = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);

// Call press(key, event) for every key; it returns whether the page has used the key. Sliders and lists keep those
// that move them, unless wants(key) says otherwise. Enter presses a focused button, or changes a focused checkbox.
export function listen(press, wants = () => false) {
  const used = new Set();
  document.addEventListener("keydown", (event) => {
    const { target } = event, key = nameOf(event);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.matches(MOVED_CONTROLS) && MOVING_KEYS.includes(key) && !wants(key)) return;
    if (key === "Enter" && target.matches('[type="checkbox"]')) target.click();
    if (!press(key, event)) return;
    used.add(key);
    event.preventDefault();
  });
  // Some browsers press a focused button when space is let go.
  document.addEventListener("keyup", (event) => {
    if (used.delete(nameOf(event))) event.preventDefault();
  });
}
