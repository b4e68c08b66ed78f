// Charts over time or other even steps: lines with axes and ticks, a cursor, and the values under the pointer.
import { shape, write } from "./elements.js";

const BOX = { left: 44, right: 14, top: 8, bottom: 18, height: 130 };
const DASHES = ["", "6 4", "2 3", "9 3 2 3", "1 5"], LOOKS = ["solid", "dashed", "dotted", "dash-dot", "sparse"];

// Round numbers from low to high, about so many.
function ticks(low, high, about) {
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const first = Math.ceil(low / step - 1e-9), found = [];
  for (let i = first; i * step <= high + 1e-9 * step; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// In an element: a chart that is redrawn for other data; otherwise only its cursor moves. Steps are in a unit;
// seek(frame) is called where it is clicked.
export function make(parent, unit, seek = () => {}) {
  const figure = document.createElement("figure"), title = document.createElement("figcaption");
  const svg = shape("svg", { role: "img" }), readout = document.createElement("output");
  figure.append(title, svg, readout);
  parent.append(figure);
  let drawn = null;

  // name; lines: [{ name, values by frame }]; range: [low, high]; last: frame; dt: length of a step; begin: of frame 0.
  function draw(name, lines, range, last, dt, colours, begin = 0) {
    const width = Math.max(200, figure.clientWidth), { left, right, top, bottom, height } = BOX;
    const [low, high] = range, across = (frame) => left + (width - left - right) * frame / Math.max(last, 1);
    const down = (value) => top + (height - top - bottom) * (high - value) / (high - low);
    const looks = lines.map((line, i) => `${line.name} ${LOOKS[i]}`).join(", ");
    write(title, lines.length > 1 ? `${name}: ${looks}` : name);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-label", `${title.textContent}`);
    const parts = [];
    for (const value of ticks(low, high, 4)) {
      parts.push(shape("line", { class: value ? "grid" : "axis", x1: left, x2: width - right,
        y1: down(value), y2: down(value) }));
      parts.push(shape("text", { x: left - 5, y: down(value) + 4, "text-anchor": "end" },
        String(value).replace("-", "−")));
    }
    for (const second of ticks(begin, begin + Math.max(last, 1) * dt, width / 70)) {
      const x = across((second - begin) / dt);
      parts.push(shape("line", { class: "axis", x1: x, x2: x, y1: height - bottom, y2: height - bottom + 4 }));
      parts.push(shape("text", { x, y: height - 3, "text-anchor": "middle" }, `${second}`));
    }
    parts.push(shape("path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }));
    lines.forEach(({ values }, i) => parts.push(shape("polyline", {
      points: values.map((value, at) => `${across(at).toFixed(1)},${down(value).toFixed(1)}`).join(" "),
      stroke: colours[i], "stroke-dasharray": DASHES[i] })));
    const cursor = shape("line", { class: "cursor", x1: -1, x2: -1, y1: top, y2: height - bottom });
    svg.replaceChildren(...parts, cursor);
    drawn = { lines, last, dt, begin, width, across, cursor };
  }

  function at(frame) {
    if (!drawn) return;
    const x = drawn.across(Math.min(frame, drawn.last));
    drawn.cursor.setAttribute("x1", x);
    drawn.cursor.setAttribute("x2", x);
  }

  const frameUnder = ({ clientX }) => {
    const box = svg.getBoundingClientRect(), x = (clientX - box.left) * drawn.width / box.width;
    const share = (x - BOX.left) / (drawn.width - BOX.left - BOX.right);
    return Math.max(0, Math.min(drawn.last, Math.round(share * drawn.last)));
  };
  svg.addEventListener("click", (event) => seek(frameUnder(event)));
  svg.addEventListener("pointermove", (event) => {
    const frame = frameUnder(event), names = drawn.lines.length > 1;
    const values = drawn.lines.filter(({ values }) => frame < values.length).map(({ name, values }) =>
      `${names ? `${name} ` : ""}${Number(values[frame].toPrecision(4))}`);
    write(readout, `${(drawn.begin + frame * drawn.dt).toFixed(1)} ${unit}: ${values.join(", ") || "ended"}`);
  });
  svg.addEventListener("pointerleave", () => write(readout, ""));
  return { draw, at, show: (whether) => { figure.hidden = !whether; } };
}
