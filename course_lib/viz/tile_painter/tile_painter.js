// The tile painter counts and draws registers as tile_plan.py and tile_painter.py do, for a browser without Python; the
// tests compare them. dom.js and units.js come before this file.

const LANES = 128, SUBLANES = 8, DRAWN = 18, LARGEST = 10 ** 6;
const WIDE = 104, HIGH = 56; // pixels of a register
const ITEMSIZE = { float32: 4, bfloat16: 2, int8: 1 };

const product = (numbers) => numbers.reduce((all, n) => all * n, 1);

function tileRows(rows, packed) {
  if (packed === 4 && rows % (SUBLANES * packed) === 0) return SUBLANES * packed;
  return Math.max(packed, rows > SUBLANES / 2 ? SUBLANES : 2 ** Math.ceil(Math.log2(rows)));
}

export function plan(shape, dtype) {
  const [rows, lanes] = shape.slice(-2), slices = product(shape.slice(0, -2)), itemsize = ITEMSIZE[dtype], packed = 4 / itemsize;
  const tall = tileRows(rows, packed), inRegister = SUBLANES * packed, room = inRegister / tall;
  const stored = up(rows, tall) * up(lanes, LANES) * itemsize, registers = slices * Math.ceil(stored / 4096);
  const one = [];
  for (let r = 0; r < Math.min(rows, tall * room * DRAWN); r += tall) {
    for (let c = 0; c < Math.min(lanes, LANES * room * DRAWN); c += LANES) {
      one.push([Math.min(tall, rows - r), Math.min(LANES, lanes - c)]);
    }
  }
  const held = [];
  for (let n = 0; n < one.length; n += room) held.push(one.slice(n, n + room));
  const drawn = Array(Math.min(slices, DRAWN)).fill(held).flat().slice(0, Math.min(DRAWN, registers));
  return { numbers: product(shape), registers, places: registers * inRegister * LANES, stored: slices * stored, tile_rows: tall, room, drawn };
}

const many = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;
export function sentence(shape, dtype) {
  const found = plan(shape, dtype), slices = product(shape.slice(0, -2));
  const empty = significant(100 * (1 - found.numbers / found.places), 3);
  const said = `${dtype}[${shape.join(", ")}]: ${many(found.numbers, "element")} in ${many(found.registers, "register")}. ${empty} % of the `
    + `places are empty. In memory it takes ${sizeOf(found.stored)}, in tiles of ${found.tile_rows} x ${LANES}.`;
  return slices > 1 ? `${said} Each of the ${count(slices)} slices of the leading axes begins new registers.` : said;
}

// Returns the sizes that were typed; null if they are not sizes.
export function sizes(typed) {
  const parts = typed.replace(/[()[\]]/g, "").split(/[\s,x]+/).filter((part) => part !== "");
  const found = parts.map(Number);
  const fits = found.length >= 2 && found.length <= 5 && found.every((n) => Number.isInteger(n) && n >= 1 && n <= LARGEST);
  return fits ? found : null;
}

function drawRegister(parent, tiles, { room, tile_rows }) {
  const register = make(parent, "div", "course-register");
  const tall = HIGH / room;
  tiles.forEach(([rows, lanes], n) => {
    const filled = make(register, "div", "course-filled");
    const height = Math.max(1.5, (tall * rows) / tile_rows), width = Math.max(1.5, (WIDE * lanes) / LANES);
    Object.assign(filled.style, { top: `${n * tall}px`, width: `${width}px`, height: `${height}px` });
  });
  for (let line = 1; line < room; line++) make(register, "div", "course-line").style.top = `${line * tall}px`;
}

function render({ model, el }) {
  const root = rootOf(el, "course-tiles");
  make(root, "strong", "course-title", "An array in vector registers");
  const bar = make(root, "div", "course-bar");
  const named = make(bar, "label", "", "shape "), typed = make(named, "input", "course-shape");
  Object.assign(typed, { type: "text", ariaLabel: "shape", spellcheck: false });
  const choices = make(bar, "label", "", "dtype "), dtype = make(choices, "select", "course-dtype");
  dtype.ariaLabel = "dtype";
  for (const name of Object.keys(ITEMSIZE)) make(dtype, "option", "", name).value = name;
  const stage = make(root, "div", "course-stage");
  stage.setAttribute("role", "img");
  const more = make(root, "p", "course-more"), words = make(root, "p", "course-words");
  words.setAttribute("aria-live", "polite");
  make(root, "p", "course-note", "Blue: elements of the array. Grey: empty. Type two sizes or more, such as 20, 200 or 1024, 1, 1. "
    + "The up and down keys double and halve the last size.");

  function show() {
    const shape = model.get("shape"), kind = model.get("dtype"), found = plan(shape, kind);
    if (document.activeElement !== typed || !sizes(typed.value)) typed.value = shape.join(", ");
    dtype.value = kind;
    stage.replaceChildren();
    for (const tiles of found.drawn) drawRegister(stage, tiles, found);
    const left = found.registers - found.drawn.length;
    put(more, left ? `and ${count(left)} more` : "");
    put(words, sentence(shape, kind));
    stage.ariaLabel = words.textContent;
  }
  function tell(name, value) {
    model.set(name, value);
    model.save_changes();
  }
  typed.oninput = () => {
    const shape = sizes(typed.value);
    typed.classList.toggle("course-wrong", !shape);
    if (shape) tell("shape", shape);
    else put(words, "Type two to five whole numbers from 1 to 1,000,000, separated by commas.");
  };
  typed.onkeydown = (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    const shape = [...model.get("shape")], last = shape.length - 1;
    shape[last] = event.key === "ArrowUp" ? Math.min(LARGEST, 2 * shape[last]) : Math.max(1, Math.floor(shape[last] / 2));
    typed.value = shape.join(", ");
    typed.classList.remove("course-wrong");
    tell("shape", shape);
  };
  dtype.onchange = () => tell("dtype", dtype.value);
  for (const name of ["shape", "dtype"]) model.on(`change:${name}`, show);
  show();
  return () => { for (const name of ["shape", "dtype"]) model.off(`change:${name}`, show); };
}

export default { render };
