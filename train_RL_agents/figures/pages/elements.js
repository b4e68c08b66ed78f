// Elements of a page: to find, to make and to fill.
export const byId = (id) => document.getElementById(id);
export const listen = (id, type, act) => byId(id).addEventListener(type, act);

// Writes only what has changed, so that screen readers and layout are left in peace.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Write rows of texts into a table, whose lines are made once, with cells of these kinds; made(line, index) completes one.
export function fillTable(body, rows, kinds, made) {
  if (body.rows.length !== rows.length) {
    body.replaceChildren(...rows.map((_, index) => {
      const line = document.createElement("tr");
      line.append(...kinds.map((kind) => document.createElement(kind)));
      made(line, index);
      return line;
    }));
  }
  rows.forEach((texts, i) => texts.forEach((text, j) => write(body.rows[i].cells[j], String(text))));
}

export function shape(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
