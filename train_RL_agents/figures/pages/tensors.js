// Networks as graphs of PyTorch's operators (ATen), computed in float64 on tensors of fixed shapes.
// A tensor is { shape, data }; one that must be computed also has compute(), which fills its data.
export const sizeOf = (shape) => shape.reduce((product, size) => product * size, 1);
const from = (axis, shape) => (axis < 0 ? axis + shape.length : axis);
const view = (x, shape) => ({ ...x, shape });
export const constant = (shape, data) => ({ shape, data: Float64Array.from(data) });

function result(shape, fill) {
  const data = new Float64Array(sizeOf(shape));
  return { shape, data, compute: () => fill(data) };
}

function stridesOf(shape) {
  const strides = shape.map(() => 1);
  for (let axis = shape.length - 2; axis >= 0; axis--) {
    strides[axis] = strides[axis + 1] * shape[axis + 1];
  }
  return strides;
}

// Where each element of a tensor of that shape lies, if its axes have these strides.
function places(shape, strides, offset = 0) {
  const found = new Int32Array(sizeOf(shape)), index = shape.map(() => 0);
  let place = offset;
  for (let i = 0; i < found.length; i++) {
    found[i] = place;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      place += strides[axis];
      if (++index[axis] < shape[axis]) break;
      place -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return found;
}

// The elements of x at a place and strides; they need no copy where they are all of x in its order.
function asStrided(x, shape, strides, offset) {
  const own = stridesOf(shape), inOrder = shape.every((size, axis) => size === 1 || strides[axis] === own[axis]);
  if (inOrder && sizeOf(shape) === x.data.length) return view(x, shape);
  const where = places(shape, strides, offset);
  return result(shape, (out) => {
    for (let i = 0; i < out.length; i++) out[i] = x.data[where[i]];
  });
}

// Strides of a tensor that is broadcast to a larger shape.
function spread(shape, full) {
  const strides = stridesOf(shape), lead = full.length - shape.length;
  return full.map((size, axis) =>
    (axis < lead || (shape[axis - lead] === 1 && size !== 1) ? 0 : strides[axis - lead]));
}

function broadcast(...shapes) {
  const length = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length }, (_, axis) => Math.max(...shapes.map((shape) =>
    shape[axis - length + shape.length] ?? 1)));
}

// Elementwise -----------------------------------------------------------------------------------

const asTensor = (x) => (typeof x === "number" ? constant([], [x]) : x);

// An operator on the elements of tensors, which are broadcast, as an expression of their names. One loop for each
// operator, as the engine makes fast code only of a loop that is of one kind.
function elementwise(names, expression) {
  const read = names.map((name) => `${name} = data_${name}[at_${name}[i]]`).join(", ");
  const loop = Function("out", ...names.map((name) => `data_${name}`), ...names.map((name) => `at_${name}`),
    `for (let i = 0; i < out.length; i++) { const ${read}; out[i] = ${expression}; }`);
  return (...given) => {
    const all = names.map((_, i) => asTensor(given[i])), shape = broadcast(...all.map((each) => each.shape));
    const at = all.map((each) => places(shape, spread(each.shape, shape)));
    return result(shape, (out) => loop(out, ...all.map(({ data }) => data), ...at));
  };
}

const limited = elementwise(["x", "low", "high"], "Math.min(Math.max(x, low), high)");
const clamp = (x, low, high) => limited(x, low ?? -Infinity, high ?? Infinity);
const whether = elementwise(["x"], "x === 0 ? 0 : 1"), single = elementwise(["x"], "Math.fround(x)");
const whole = elementwise(["x"], "Math.trunc(x)");

function cast(x, type) {
  if (type === "torch.float64") return view(x, x.shape);
  return { "torch.bool": whether, "torch.float32": single }[type]?.(x) ?? whole(x);
}

// Reductions ------------------------------------------------------------------------------------

// Where the elements of a tensor lie, those along some axes one after another; and the other axes.
function along(x, axes) {
  const gone = new Set(axes.map((axis) => from(axis, x.shape))), strides = stridesOf(x.shape);
  const kept = x.shape.map((_, axis) => axis).filter((axis) => !gone.has(axis)), order = [...kept, ...gone];
  return { gone, kept, where: places(order.map((axis) => x.shape[axis]), order.map((axis) => strides[axis])) };
}

// fold(data, where, begin, end) reduces the elements at where[begin] to where[end - 1].
const reduction = (fold) => (x, axes, keep) => {
  const all = axes === null || axes === undefined || axes.length === 0;
  const given = all ? x.shape.map((_, axis) => axis) : [axes].flat();
  const { gone, kept, where } = along(x, given);
  const shape = keep ? x.shape.map((size, axis) => (gone.has(axis) ? 1 : size)) : kept.map((axis) => x.shape[axis]);
  const count = where.length / sizeOf(shape);
  return result(shape, (out) => {
    for (let i = 0; i < out.length; i++) out[i] = fold(x.data, where, i * count, (i + 1) * count);
  });
};

const summed = (term) => (data, where, begin, end) => {
  let total = 0;
  for (let i = begin; i < end; i++) total += term(data[where[i]]);
  return total;
};
const sum = summed((x) => x), squares = summed((x) => x * x);

const extreme = (better, place) => (data, where, begin, end) => {
  let best = begin;
  for (let i = begin + 1; i < end; i++) if (better(data[where[i]], data[where[best]])) best = i;
  return place ? best - begin : data[where[best]];
};
const more = (a, b) => a > b, less = (a, b) => a < b;

// An operator on each line of elements along an axis: work(line, out) of Float64Arrays.
function lines(x, axis, outputs, work) {
  const { where } = along(x, [axis]), count = x.shape.at(axis);
  const found = Array.from({ length: outputs }, () => ({ shape: x.shape, data: new Float64Array(x.data.length) }));
  const line = new Float64Array(count), out = found.map(() => new Float64Array(count));
  found[0].compute = () => {
    for (let begin = 0; begin < where.length; begin += count) {
      for (let i = 0; i < count; i++) line[i] = x.data[where[begin + i]];
      work(line, ...out);
      found.forEach((each, number) => out[number].forEach((value, i) => { each.data[where[begin + i]] = value; }));
    }
  };
  return found;
}

function logSoftmax(line, out) {
  const highest = line.reduce((a, b) => Math.max(a, b));
  let total = 0;
  for (let i = 0; i < line.length; i++) total += Math.exp(line[i] - highest);
  for (let i = 0; i < line.length; i++) out[i] = line[i] - highest - Math.log(total);
}

function softmax(line, out) {
  logSoftmax(line, out);
  for (let i = 0; i < line.length; i++) out[i] = Math.exp(out[i]);
}

function sort(x, axis, descending) {
  return lines(x, axis ?? -1, 2, (line, values, indices) => {
    const order = Array.from(line.keys());
    order.sort((a, b) => (descending ? line[b] - line[a] : line[a] - line[b]) || a - b);
    order.forEach((place, i) => { values[i] = line[place]; indices[i] = place; });
  });
}

function cumsum(line, out) {
  let total = 0;
  for (let i = 0; i < line.length; i++) out[i] = total += line[i];
}

// For each value the first place in its row of rising numbers that is not below it.
function searchsorted(rows, values) {
  const width = rows.shape.at(-1), each = values.shape.at(-1);
  return result(values.shape, (out) => {
    for (let i = 0; i < out.length; i++) {
      const start = Math.floor(i / each) * width;
      let place = 0;
      while (place < width && rows.data[start + place] < values.data[i]) place++;
      out[i] = place;
    }
  });
}

// Layers ----------------------------------------------------------------------------------------

// Four outputs at a time, over the inputs that are not zero: many are, behind a ReLU.
function linear(x, weight, bias) {
  const [outputs, inputs] = weight.shape, rows = sizeOf(x.shape) / inputs;
  const used = new Int32Array(inputs), tail = outputs - outputs % 4;
  return result([...x.shape.slice(0, -1), outputs], (out) => {
    const data = x.data, w = weight.data, first = bias?.data ?? new Float64Array(outputs);
    for (let row = 0; row < rows; row++) {
      const start = row * inputs, at = row * outputs;
      let count = 0;
      for (let i = 0; i < inputs; i++) if (data[start + i] !== 0) used[count++] = i;
      for (let o = 0, r = 0; o < tail; o += 4, r += 4 * inputs) {
        let a = first[o], b = first[o + 1], c = first[o + 2], d = first[o + 3];
        for (let j = 0; j < count; j++) {
          const i = used[j], value = data[start + i], place = r + i;
          a += value * w[place];
          b += value * w[place + inputs];
          c += value * w[place + 2 * inputs];
          d += value * w[place + 3 * inputs];
        }
        out[at + o] = a;
        out[at + o + 1] = b;
        out[at + o + 2] = c;
        out[at + o + 3] = d;
      }
      for (let o = tail; o < outputs; o++) {
        let total = first[o];
        for (let j = 0; j < count; j++) total += data[start + used[j]] * w[o * inputs + used[j]];
        out[at + o] = total;
      }
    }
  });
}

function matmul(a, b) {
  const [rows, inner] = a.shape.slice(-2), columns = b.shape.at(-1);
  const batch = broadcast(a.shape.slice(0, -2), b.shape.slice(0, -2));
  const inA = places(batch, spread(a.shape.slice(0, -2), batch));
  const inB = places(batch, spread(b.shape.slice(0, -2), batch));
  return result([...batch, rows, columns], (out) => {
    for (let n = 0, at = 0; n < inA.length; n++) {
      const startA = inA[n] * rows * inner, startB = inB[n] * inner * columns;
      for (let r = 0; r < rows; r++) {
        for (let c = 0; c < columns; c++, at++) {
          let total = 0;
          for (let i = 0; i < inner; i++) {
            total += a.data[startA + r * inner + i] * b.data[startB + i * columns + c];
          }
          out[at] = total;
        }
      }
    }
  });
}

function layerNorm(x, shape, weight, bias, epsilon) {
  const width = sizeOf(shape);
  return result(x.shape, (out) => {
    for (let start = 0; start < out.length; start += width) {
      let mean = 0, variance = 0;
      for (let i = 0; i < width; i++) mean += x.data[start + i] / width;
      for (let i = 0; i < width; i++) variance += (x.data[start + i] - mean) ** 2 / width;
      const scale = 1 / Math.sqrt(variance + epsilon);
      for (let i = 0; i < width; i++) {
        const normal = (x.data[start + i] - mean) * scale;
        out[start + i] = normal * (weight ? weight.data[i] : 1) + (bias ? bias.data[i] : 0);
      }
    }
  });
}

// Shapes and places -----------------------------------------------------------------------------

function cat(parts, axis) {
  const along = from(axis ?? 0, parts[0].shape), inner = sizeOf(parts[0].shape.slice(along + 1));
  const widths = parts.map((part) => part.shape[along] * inner);
  const width = widths.reduce((a, b) => a + b), outer = sizeOf(parts[0].shape.slice(0, along));
  return result(parts[0].shape.with(along, width / inner), (out) => {
    for (let row = 0, at = 0; row < outer; row++) {
      parts.forEach((part, number) => {
        const start = row * widths[number];
        for (let i = 0; i < widths[number]; i++) out[at++] = part.data[start + i];
      });
    }
  });
}

function stack(parts, axis) {
  const along = axis < 0 ? axis + parts[0].shape.length + 1 : axis;
  return cat(parts.map((part) => view(part, part.shape.toSpliced(along, 0, 1))), along);
}

// x[index] along the first axis.
function pick(x, [index, ...more]) {
  if (more.length || !index) throw new Error("this index is not supported");
  const width = sizeOf(x.shape.slice(1));
  return result([...index.shape, ...x.shape.slice(1)], (out) => {
    for (let i = 0; i < out.length; i++) {
      out[i] = x.data[index.data[Math.floor(i / width)] * width + (i % width)];
    }
  });
}

function gather(x, axis, index) {
  const along = from(axis, x.shape), strides = stridesOf(x.shape);
  const rest = places(index.shape, strides.with(along, 0));
  return result(index.shape, (out) => {
    for (let i = 0; i < out.length; i++) out[i] = x.data[rest[i] + index.data[i] * strides[along]];
  });
}

// alpha times x, for add and sub, whose alpha is nearly always 1.
function scaled(x, alpha) {
  if (alpha === undefined || alpha === 1) return x;
  if (typeof x === "number") return alpha * x;
  throw new Error("alpha is not supported for a tensor");
}

const total = elementwise(["x", "y"], "x + y"), difference = elementwise(["x", "y"], "x - y");
const full = (shape, value) => constant(shape, Array(sizeOf(shape)).fill(value));

// Operators on single elements, by ATen's names.
const UNARY = {
  neg: "-x", abs: "Math.abs(x)", exp: "Math.exp(x)", log: "Math.log(x)", log1p: "Math.log1p(x)",
  sqrt: "Math.sqrt(x)", rsqrt: "1 / Math.sqrt(x)", square: "x * x", reciprocal: "1 / x",
  sin: "Math.sin(x)", cos: "Math.cos(x)", atan: "Math.atan(x)", tanh: "Math.tanh(x)",
  sigmoid: "1 / (1 + Math.exp(-x))", relu: "x > 0 ? x : 0", sign: "Math.sign(x)",
  logical_not: "x === 0 ? 1 : 0",
};
const BINARY = {
  mul: "x * y", div: "x / y", pow: "x ** y", maximum: "Math.max(x, y)", minimum: "Math.min(x, y)",
  eq: "x === y ? 1 : 0", ne: "x !== y ? 1 : 0", lt: "x < y ? 1 : 0", le: "x <= y ? 1 : 0",
  gt: "x > y ? 1 : 0", ge: "x >= y ? 1 : 0", atan2: "Math.atan2(x, y)",
};
const made = (table, names) =>
  Object.fromEntries(Object.entries(table).map(([name, text]) => [name, elementwise(names, text)]));

// By ATen's names, with its arguments in their order.
export const OPERATORS = {
  ...made(UNARY, ["x"]),
  ...made(BINARY, ["x", "y"]),
  add: (a, b, alpha) => total(a, scaled(b, alpha)),
  sub: (a, b, alpha) => difference(a, scaled(b, alpha)),
  rsub: (a, b, alpha) => difference(b, scaled(a, alpha)),
  clamp,
  clamp_min: (x, low) => clamp(x, low),
  clamp_max: (x, high) => clamp(x, null, high),
  where: elementwise(["c", "x", "y"], "c ? x : y"),
  to: cast,
  sum: reduction(sum),
  mean: reduction((data, at, begin, end) => sum(data, at, begin, end) / (end - begin)),
  linalg_vector_norm: (x, order, axes, keep) => reduction((...part) => Math.sqrt(squares(...part)))(x, axes, keep),
  amax: reduction(extreme(more, false)),
  amin: reduction(extreme(less, false)),
  argmax: reduction(extreme(more, true)),
  argmin: reduction(extreme(less, true)),
  softmax: (x, axis) => lines(x, axis, 1, softmax)[0],
  log_softmax: (x, axis) => lines(x, axis, 1, logSoftmax)[0],
  cumsum: (x, axis) => lines(x, axis, 1, cumsum)[0],
  sort,
  searchsorted,
  linear,
  matmul,
  layer_norm: layerNorm,
  as_strided: asStrided,
  cat,
  stack,
  index: pick,
  gather,
  arange: (end) => constant([end], Array.from({ length: end }, (_, i) => i)),
  full,
  zeros_like: (x) => full(x.shape, 0),
  ones_like: (x) => full(x.shape, 1),
  clone: (x) => view(x, x.shape),
  getitem: (parts, index) => parts[index],
};
