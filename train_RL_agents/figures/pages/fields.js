// The number fields of an item, with the parts that items.fieldsOf returns.
export function make(row, set) {
  let shown = [], labels = "";

  function makeField([label, size], number) {
    const element = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { type: "number", step: "any" });
    input.addEventListener("change", () => {
      if (Number.isFinite(input.valueAsNumber)) set(number, input.valueAsNumber);
      else show(...shown);
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
  }

  function show(parts, state) {
    shown = [parts, state];
    const names = parts.map(([label]) => label).join();
    if (labels !== names) row.replaceChildren(...parts.map(makeField));
    labels = names;
    row.querySelectorAll("input").forEach((input, number) => {
      input.value = Math.round(parts[number][2](state) * 10) / 10;
    });
  }

  return { show };
}
