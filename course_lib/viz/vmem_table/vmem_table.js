// The VMEM table computes bytes, padding and verdict as vmem_table.py does, for a browser without Python; the tests
// compare both. dom.js and units.js come before this file.

const product = (numbers) => numbers.reduce((all, n) => all * n, 1);
const isPower = (size) => 2 ** Math.round(Math.log2(size)) === size;

const by = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;

// ---- what a buffer takes

export function padded(row, shape) {
  const tiles = shape.length ? [...shape] : [1], rank = tiles.length, words = Math.max(1, Math.floor(4 / row.itemsize));
  tiles[rank - 1] = up(tiles[rank - 1], rank > 1 ? 128 : 128 * words);
  if (rank > 1) {
    const rows = tiles[rank - 2];
    tiles[rank - 2] = rows > 4 ? up(rows, 8) : Math.max(words, 2 ** Math.ceil(Math.log2(rows)));
  }
  return tiles;
}
const needs = (row, shape, buffers) => up(product(padded(row, shape)) * row.itemsize * buffers, row.unit);
export const total = (data, shapes, buffers) => data.rows.reduce((sum, row, n) => sum + needs(row, shapes[n], buffers[n]), 0);

export function verdict(data, shapes, buffers) {
  const all = total(data, shapes, buffers), { limit, physical, chip } = data;
  if (all <= limit) {
    return `Fits: ${sizeOf(all)} of ${sizeOf(limit)} used, ${sizeOf(limit - all)} free. The compiler needs more for itself: `
      + "spilled registers, temporaries.";
  }
  const words = `${sizeOf(all - limit)} too much: the kernel needs ${sizeOf(all)}, and may use ${sizeOf(limit)}. The compiler `
    + "would refuse it.";
  if (all > physical) return `${words} A larger vmem_limit_bytes does not help: a ${chip} has ${sizeOf(physical)}.`;
  return `${words} A ${chip} has ${sizeOf(physical)}: smaller blocks help, or a larger vmem_limit_bytes.`;
}

// ---- the (8, 128) rule

const least = (row) => 128 * Math.max(1, Math.floor(4 / row.itemsize));
function unitOf(row, axis) {
  if (row.array.length === 1) return 1024;
  return { 0: 128, 1: row.itemsize <= 1 ? 32 / row.itemsize : 8 }[row.array.length - 1 - axis] ?? 1;
}
function takes(size, row, axis) {
  const power = row.array.length === 1 && size >= least(row) && isPower(size);
  return size === row.array[axis] || size % unitOf(row, axis) === 0 || power;
}
function nearest(size, row, axis) {
  const unit = unitOf(row, axis);
  let found = [Math.floor(size / unit) * unit, up(size, unit)];
  if (row.array.length === 1) {
    for (let power = least(row); power <= 1024; power *= 2) found.push(power);
    found = [Math.max(0, ...found.filter((n) => n < size)), Math.min(...found.filter((n) => n > size))];
  }
  return found.filter((n) => n > 0 && n < row.array[axis]);
}
export function illegal(data, shapes) {
  const said = [];
  data.rows.forEach((row, number) => {
    if (!row.rule) return;
    shapes[number].forEach((size, axis) => {
      if (takes(size, row, axis)) return;
      const near = nearest(size, row, axis), vector = row.array.length === 1;
      const rule = `a multiple of ${unitOf(row, axis)}` + (vector ? `, a power of two of at least ${least(row)}` : "");
      said.push({ row: number, axis, words: `${row.name}, axis ${axis}: ${size} is not legal. It is ${rule}, or the whole axis. `
        + `Nearest: ${near.length ? `${near.join(", ")} or ` : ""}${row.array[axis]}, the whole axis.` });
    });
  });
  return said;
}

// Returns the next size for an arrow key: for a window the next legal one that divides its axis, else double or half.
export function next(size, direction, row, axis) {
  if (!row.rule) return direction > 0 ? size * 2 : Math.max(1, Math.floor(size / 2));
  const length = row.array[axis], legal = [];
  for (let n = 1; n * n <= length; n++) {
    if (length % n === 0) legal.push(...[n, length / n].filter((each) => takes(each, row, axis)));
  }
  const further = legal.filter((n) => (direction > 0 ? n > size : n < size));
  if (!further.length) return size;
  return direction > 0 ? Math.min(...further) : Math.max(...further);
}

// ---- drawing

const LOOKS = { "input window": ["#0072b2", ""], "output window": ["#e69f00", "up"], scratch: ["#009e73", "down"] };

function painted(element, purpose) {
  const [fill, lean] = LOOKS[purpose] ?? ["#9aa5b1", ""];
  element.style.backgroundColor = fill;
  if (lean) element.classList.add(`course-${lean}`);
  return element;
}
function number(box, label, value, min) {
  Object.assign(box, { type: "number", min, step: 1, value, ariaLabel: label });
  return box;
}

function render({ model, el }) {
  const data = model.get("data"), { rows } = data;
  const start = { shapes: rows.map((row) => [...row.shape]), buffers: rows.map((row) => row.buffers) };
  const root = rootOf(el, "course-vmem-table");
  const head = make(root, "div", "course-head");
  make(head, "strong", "course-title", `VMEM of ${data.kernel} on a ${data.chip}`);
  const reset = make(head, "button", "course-reset", "Reset");
  reset.type = "button";

  const table = make(root, "table"), columns = make(make(table, "thead"), "tr");
  for (const name of ["buffer", "block", "dtype", "takes, in tiles", "buffers", "bytes"]) make(columns, "th", "", name).scope = "col";
  const body = make(table, "tbody");
  const lines = rows.map((row, n) => line(row, n));

  const verdictLine = make(root, "p", "course-verdict");
  verdictLine.setAttribute("role", "status");
  const complaints = make(root, "ul", "course-complaints");
  complaints.setAttribute("aria-live", "polite");
  const bar = make(root, "div", "course-bar");
  const filled = make(bar, "div", "course-filled");
  const parts = rows.map((row) => {
    const part = painted(make(filled, "div", "course-part"), row.purpose);
    make(part, "span", "", row.name);
    return part;
  });
  const mark = make(bar, "div", "course-limit");
  make(mark, "span", "", `limit ${sizeOf(data.limit)}`);
  const why = data.asked ? "set with vmem_limit_bytes" : "the default of a kernel that does not ask for more";
  make(root, "p", "course-note", `Limit: ${sizeOf(data.limit)}, ${why}. The ${data.chip} has ${sizeOf(data.physical)} in all.`);
  make(root, "p", "course-note", "Change a block: type a size, or press the up and down keys for the next legal size that divides "
    + "the array. Sizes that belong together are not linked.");

  function line(row, n) {
    const tr = make(body, "tr"), name = make(tr, "th");
    name.scope = "row";
    painted(make(name, "span", "course-swatch"), row.purpose);
    make(name, "span", "course-name", row.name);
    make(name, "span", "course-purpose", row.purpose);
    const block = make(tr, "td", "course-block-shape");
    block.dataset.label = "block";
    const sizes = row.shape.map((size, axis) => {
      if (axis) make(block, "span", "", "×");
      const box = number(make(block, "input"), `${row.name}, block size of axis ${axis}`, size, 1);
      if (row.array) box.title = `axis ${axis} of the array: ${row.array[axis]}`;
      box.onchange = () => {
        const asked = Number(box.value);
        if (Number.isInteger(asked) && asked >= 1 && asked <= 2 ** 31) resize(n, axis, asked);
        else show(`${row.name}, axis ${axis}: "${box.value}" is not a size. It must be a whole number, 1 or more.`);
      };
      box.onkeydown = (event) => {
        const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
        if (!direction) return;
        event.preventDefault();
        resize(n, axis, next(model.get("shapes")[n][axis], direction, row, axis));
      };
      return box;
    });
    if (row.array) make(block, "div", "course-whole", `of ${by(row.array)}`);
    const cell = (label, className = "") => {
      const td = make(tr, "td", className);
      td.dataset.label = label; // shown if the table is too narrow for its head
      return td;
    };
    const dtype = cell("dtype"), takesCell = cell("takes"), held = cell("buffers"), size = cell("bytes", "course-bytes");
    dtype.textContent = row.dtype;
    let choice = null;
    if (row.purpose === "scratch") held.textContent = "1";
    else {
      choice = make(held, "select");
      choice.ariaLabel = `${row.name}, number of buffers`;
      for (const count of new Set([1, 2, row.buffers])) choice.append(new Option(count, count));
      choice.onchange = () => change({ buffers: model.get("buffers").with(n, Number(choice.value)) });
    }
    return { sizes, takes: takesCell, choice, size };
  }

  // A block that is the whole array stays in one buffer; if it is cut, it gets two, and one again once it is whole.
  function resize(n, axis, size) {
    const row = rows[n], shape = model.get("shapes")[n].with(axis, size), patch = { shapes: model.get("shapes").with(n, shape) };
    const whole = (each) => row.array && String(each) === String(row.array);
    let words = "";
    if (row.stays && whole(shape) !== whole(model.get("shapes")[n])) {
      patch.buffers = model.get("buffers").with(n, whole(shape) ? 1 : 2);
      words = whole(shape) ? `${row.name} is the whole array again: it stays, in one buffer.`
        : `${row.name} is no longer the whole array: it comes block by block, so Pallas gives it two buffers.`;
    }
    change(patch, words);
  }

  let quiet = false;
  function change(patch, words = "") {
    quiet = true;
    for (const [name, value] of Object.entries(patch)) model.set(name, value);
    quiet = false;
    model.save_changes();
    show(words);
  }

  function show(words = "") {
    const shapes = model.get("shapes"), buffers = model.get("buffers"), all = total(data, shapes, buffers);
    const wrong = illegal(data, shapes), scale = Math.max(all, data.limit);
    rows.forEach((row, n) => {
      const { sizes, takes: cell, choice, size } = lines[n], need = needs(row, shapes[n], buffers[n]);
      sizes.forEach((box, axis) => {
        if (document.activeElement !== box || box.value !== String(shapes[n][axis])) box.value = shapes[n][axis];
        box.style.width = `${Math.max(70, 40 + 9 * String(shapes[n][axis]).length)}px`;
        box.classList.toggle("course-illegal", wrong.some((each) => each.row === n && each.axis === axis));
        box.setAttribute("aria-invalid", wrong.some((each) => each.row === n && each.axis === axis));
      });
      cell.textContent = by(padded(row, shapes[n]));
      if (choice) choice.value = buffers[n];
      size.replaceChildren();
      make(size, "span", "", sizeOf(need));
      const waste = 1 - product(shapes[n]) / product(padded(row, shapes[n]));
      if (waste > 0) make(size, "span", "course-waste", `${waste < 0.005 ? "<1" : fixed(100 * waste, 0)} % padding`);
      parts[n].style.width = `${(100 * need) / scale}%`;
      parts[n].classList.toggle("course-narrow", need / scale < 0.02 + 0.016 * row.name.length);
      parts[n].title = `${row.name}: ${sizeOf(need)}`;
    });
    mark.classList.toggle("course-far-left", data.limit < 0.3 * scale); // its words go to the other side
    mark.style.left = `${(100 * data.limit) / scale}%`;
    bar.classList.toggle("course-over", all > data.limit);
    bar.setAttribute("role", "img");
    bar.ariaLabel = `${sizeOf(all)} of ${sizeOf(data.limit)}`;
    verdictLine.textContent = `${all > data.limit ? "✗" : wrong.length ? "! Not legal as it stands." : "✓"} ${verdict(data, shapes, buffers)}`;
    verdictLine.classList.toggle("course-refused", all > data.limit || wrong.length > 0);
    complaints.replaceChildren();
    for (const each of [...(words ? [words] : []), ...wrong.map((one) => one.words)]) make(complaints, "li", "", each);
  }

  reset.onclick = () => change(structuredClone(start));
  const outside = () => quiet || show();
  for (const name of ["shapes", "buffers"]) model.on(`change:${name}`, outside);
  show();
  return () => { for (const name of ["shapes", "buffers"]) model.off(`change:${name}`, outside); };
}

export default { render };
