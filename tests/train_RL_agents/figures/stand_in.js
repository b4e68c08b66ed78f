// Runs the script of a page in Node, with a stand-in for the document of a browser: elements without layout.
// Input: { tree, script, panels, play }; output: { errors, texts, clock }, see test_pages.py.
import { readFileSync } from "node:fs";

const given = JSON.parse(readFileSync(0, "utf8"));
const dashed = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const nothing = () => new Proxy(() => nothing(), { get: () => nothing, set: () => true });

class Element {
  constructor(tag, attributes = {}, children = []) {
    Object.assign(this, { tag, attributes: { ...attributes }, children: [], parentElement: null, listeners: {} });
    this.style = { setProperty() {} };
    this.hidden = "hidden" in attributes;
    this.checked = "checked" in attributes;
    this.text = "";
    this.append(...children);
    this.classList = {
      toggle: (name, on = !this.classes.has(name)) => {
        const names = this.classes;
        if (on) names.add(name); else names.delete(name);
        this.className = [...names].join(" ");
      },
    };
    this.dataset = new Proxy({}, {
      get: (_, name) => this.attributes[`data-${dashed(name)}`],
      set: (_, name, value) => { this.attributes[`data-${dashed(name)}`] = String(value); return true; },
    });
    for (const name of ["clientWidth", "offsetWidth", "offsetHeight"]) this[name] = 600;
    for (const name of ["clientLeft", "offsetLeft", "offsetTop"]) this[name] = 0;
  }

  get classes() { return new Set(this.className.split(" ").filter(Boolean)); }
  get className() { return this.attributes.class ?? ""; }
  set className(text) { this.attributes.class = text; }
  set id(name) { this.attributes.id = name; }
  get textContent() { return this.text + this.children.map((each) => each.textContent).join(""); }
  set textContent(text) { this.children = []; this.text = String(text); }
  get value() {
    const options = this.options, chosen = options.find((each) => "selected" in each.attributes) ?? options[0];
    return this.chosen ?? (this.tag === "select" ? chosen?.value : this.attributes.value) ?? "";
  }
  set value(value) { this.chosen = String(value); }
  get valueAsNumber() { return Number(this.value); }
  get firstChild() { return this.children[0] ?? null; }
  get firstElementChild() { return this.firstChild; }
  get content() { return this; }
  get all() { return this.children.flatMap((each) => [each, ...each.all]); }
  get options() { return this.all.filter(({ tag }) => tag === "option"); }
  get rows() { return this.all.filter(({ tag }) => tag === "tr"); }
  get cells() { return this.children; }
  get tHead() { return this.querySelector("thead"); }
  get tBodies() { return this.querySelectorAll("tbody"); }

  append(...added) {
    for (const each of added) {
      if (!(each instanceof Element)) { this.text += each; continue; }
      each.parentElement = this;
      this.children.push(each);
    }
  }
  replaceChildren(...added) { this.textContent = ""; this.append(...added); }
  remove() {
    if (this.parentElement) this.parentElement.children = this.parentElement.children.filter((each) => each !== this);
  }
  insertCell() { const cell = new Element("td"); this.append(cell); return cell; }
  cloneNode() {
    const copy = new Element(this.tag, this.attributes, this.children.map((each) => each.cloneNode()));
    copy.text = this.text;
    return copy;
  }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  matches(selectors) {
    return selectors.split(",").some((selector) => {
      const [, tag, id, kind, name, , value] = selector.trim().match(
        /^([\w-]*)(?:#([\w-]+))?(?:\.([\w-]+))?(?:\[([\w-]+)(="?([^"\]]*)"?)?\])?$/);
      return (!tag || tag === this.tag) && (!id || id === this.attributes.id) && (!kind || this.classes.has(kind)) &&
        (!name || (value === undefined ? name in this.attributes : this.attributes[name] === value));
    });
  }
  querySelectorAll(selectors) { return this.all.filter((each) => each.matches(selectors)); }
  querySelector(selectors) { return this.querySelectorAll(selectors)[0] ?? null; }
  addEventListener(type, act) { (this.listeners[type] ??= []).push(act); }
  click() { this.listeners.click.forEach((act) => act({ target: this })); }
  getBoundingClientRect() { return { left: 0, top: 0, width: 600, height: 600 }; }
  getContext() { return nothing(); }
  contains(other) { return this.all.includes(other); }
}

const grow = ([tag, attributes, text, ...children]) => {
  const element = new Element(tag, attributes, children.map(grow));
  element.text = text;
  return element;
};
const root = grow(given.tree), media = { matches: false, addEventListener() {} };
Object.assign(globalThis, {
  window: globalThis, devicePixelRatio: 1, addEventListener() {}, matchMedia: () => media,
  location: { hash: "", href: "file:///page.html" }, history: { replaceState() {} },
  getComputedStyle: () => ({ getPropertyValue: () => "" }),
  requestAnimationFrame: (act) => setTimeout(() => act(performance.now()), 16),
  ResizeObserver: class { constructor(act) { this.act = act; } observe() { setTimeout(this.act); } },
  Option: class extends Element {
    constructor(text, value) { super("option", { value: String(value) }); this.textContent = text; }
  },
  document: {
    documentElement: root, body: root, addEventListener() {},
    getElementById: (id) => root.querySelector(`#${id}`),
    querySelectorAll: (selectors) => root.querySelectorAll(selectors),
    querySelector: (selectors) => root.querySelector(selectors),
    createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag),
  },
});

const errors = [], wait = (time) => new Promise((done) => { setTimeout(done, time); });
for (const name of ["log", "info", "warn", "error"]) console[name] = (...words) => errors.push(words.join(" "));
const text = (selector) => root.querySelector(selector)?.textContent.trim() ?? "";
process.on("uncaughtException", (error) => errors.push(error.stack));
try {
  await import(`data:text/javascript;base64,${Buffer.from(given.script).toString("base64")}`);
} catch (error) { errors.push(error.stack); }
await wait(200);
const texts = Object.fromEntries(given.panels.map((panel) => [panel, text(panel)])), clock = [text("#clock")];
if (given.play && !errors.length) {
  if (text("#play") === "Play") root.querySelector("#play").click();
  await wait(1000);
  clock.push(text("#clock"));
}
process.stdout.write(JSON.stringify({ errors, texts, clock }));
process.exit();
