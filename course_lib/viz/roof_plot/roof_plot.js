// The roof plot: drawing and controls. dom.js, units.js, roof_model.js and names.js come before this file.

const NAMES = { bfloat16: "bfloat16", float32: "float32, 1 pass", int8: "int8" };
const SETTINGS = ["m", "k", "n", "bm", "bk", "bn", "ideal", "dtype", "chip"];
const MOST = 65536; // of an axis, or of a side of a block
const SIDE = 128; // of the smallest block that a drag makes
const LARGEST = 8192; // and of the largest
const NO_BLOCKS = "The ideal has no blocks: untick it to choose them.";
const LABELLED = 4; // with more published points, only the list below the plot names them

// ---- sizes that a drag or a key stops at

function stride(size, fine) {
  const power = 2 ** Math.floor(Math.log2(size));
  if (fine) return Math.max(1, power / 64);
  return size >= 512 ? power / 4 : size >= SIDE ? SIDE : Math.max(1, power / 4);
}
const within = (size, most) => Math.min(most, Math.max(1, size));
const snapped = (size, fine) => within(Math.round(size / stride(size, fine)) * stride(size, fine), MOST);
function neighbour(size, direction, fine) {
  if (direction > 0) return within((Math.floor(size / stride(size, fine)) + 1) * stride(size, fine), MOST);
  const unit = stride(Math.max(1, size - 1), fine);
  return within((Math.ceil(size / unit) - 1) * unit, MOST);
}
// Changes the largest of m, k and n to `largest`, and the others in proportion.
function sizes(s, largest) {
  const most = Math.max(s.m, s.k, s.n);
  const next = (size) => (size === most ? largest : snapped((size * largest) / most, s.ideal));
  return { m: next(s.m), k: next(s.k), n: next(s.n) };
}
function doubled(s, times) {
  const next = (side) => Math.min(Math.max(side, LARGEST), Math.max(Math.min(side, SIDE), up(side * 2 ** times, SIDE)));
  return { bm: next(s.bm), bk: next(s.bk), bn: next(s.bn) };
}
const legal = (side, unit) => Math.min(MOST, Math.max(unit, Math.round(side / unit) * unit));
const unitOf = (name, dtype) => (name !== "bm" ? 128 : dtype === "int8" ? 32 : 8);

// ---- drawing

const INK = "#1f2933", MUTED = "#56616d", TRACK = "#e9edf2", PAPER = "#ffffff", BLUE = "#0072b2", RED = "#b34700";
const FIELD = { left: 54, right: 26, top: 30, bottom: 48 };

// Returns the range of the axes as powers of ten: both sides of the ridge, the rates around the peak, and every point.
function scales(s, chip, points) {
  const ridge = peak(s, chip) / chip.bandwidth, most = peak(s, chip);
  const xs = [ridge / 300, ridge * 50, ...points.flatMap((p) => [p.intensity / 2, p.intensity * 2])];
  const ys = [most / 500, most * 20, ...points.map((p) => p.rate / 2)];
  return { x: [Math.log10(Math.min(...xs)), Math.log10(Math.max(...xs))],
    y: [Math.log10(Math.min(...ys)), Math.log10(Math.max(...ys))] };
}

function places(scale, width, height) {
  const right = width - FIELD.right, bottom = height - FIELD.bottom;
  const perX = (right - FIELD.left) / (scale.x[1] - scale.x[0]), perY = (bottom - FIELD.top) / (scale.y[1] - scale.y[0]);
  return { right, bottom, perX, perY, least: FIELD.left - 4, most: width - 2, // words may reach a little further
    left: (value) => FIELD.left + perX * (Math.log10(value) - scale.x[0]),
    top: (value) => FIELD.top + perY * (scale.y[1] - Math.log10(value)) };
}

function drawGrid(g, scale, at) {
  for (let power = Math.ceil(scale.x[0]); power <= scale.x[1]; power++) {
    const x = at.left(10 ** power);
    draw(g, "line", { x1: x, y1: FIELD.top, x2: x, y2: at.bottom, stroke: TRACK });
    draw(g, "text", { x, y: at.bottom + 18, "text-anchor": "middle", fill: MUTED }, significant(10 ** power, 1));
  }
  for (let power = Math.ceil(scale.y[0]); power <= scale.y[1]; power++) {
    const y = at.top(10 ** power);
    draw(g, "line", { x1: FIELD.left, y1: y, x2: at.right, y2: y, stroke: TRACK });
    draw(g, "text", { x: FIELD.left - 7, y: y + 5, "text-anchor": "end", fill: MUTED }, scaled(10 ** power, thousands(""), 3, 1000));
  }
  draw(g, "text", { x: 4, y: 16, fill: MUTED }, "FLOP/s");
  draw(g, "text", { x: (FIELD.left + at.right) / 2, y: at.bottom + 40, "text-anchor": "middle", fill: MUTED },
    "arithmetic intensity, FLOPs/byte");
}

// ---- the roofs

// Draws the roofs, then their words; adds both to `room.taken`, which already holds the marks.
function drawRoofs(g, s, chip, scale, room, found) {
  const { at, taken } = room, most = peak(s, chip), ridge = most / chip.bandwidth, bound = bindingRoofs(found);
  const start = Math.max(10 ** scale.x[0], 10 ** scale.y[0] / chip.bandwidth);
  const [x0, y0] = [at.left(start), at.top(start * chip.bandwidth)], [x1, y1] = [at.left(ridge), at.top(most)];
  const line = (xa, ya, xb, yb, stroke, width, dash) => {
    taken.push({ line: true, shape: [[xa, ya], [xb, yb]] });
    return draw(g, "line", { x1: xa, y1: ya, x2: xb, y2: yb, stroke, "stroke-width": width, "stroke-linecap": "round",
      ...(dash && { "stroke-dasharray": dash }) });
  };
  const roof = (name, className, stroke, ...rest) => {
    const drawn = line(...rest.slice(0, 4), stroke, bound.includes(name) ? 4 : 2, rest[4]);
    drawn.classList.add("course-roof", className);
    drawn.classList.toggle("course-binds", bound.includes(name));
  };
  const mark = (name) => (bound.includes(name) ? ", binds" : "");

  line(x1, y1, x1, at.bottom, MUTED, 1, "2 4");
  const reach = chip.bandwidth * chip.hbm, from = Math.max(10 ** scale.x[0], 10 ** scale.y[0] / reach);
  if (!s.ideal) {
    const copies = line(at.left(from), at.top(from * reach), at.left(most / reach), y1, MUTED, 1.5, "2 5");
    draw(copies, "title", {}, `copies reach ${percent(chip.hbm)} of the bandwidth`);
  }
  roof("HBM", "course-hbm-roof", INK, x0, y0, x1, y1);
  roof("compute", "course-compute-roof", INK, x1, y1, at.right, y1);
  const third = found.steps ? at.top(found.flops / found.steps_s) : null, seen = third !== null && third >= FIELD.top;
  if (seen) roof("grid steps", "course-third-roof", RED, FIELD.left, third, at.right, third, "9 6");

  const kind = s.dtype === "int8" && chip.int8 ? "int8" : "bf16", bold = { class: "course-bold", fill: INK };
  const flat = [`compute (MXU, ${kind}): ${flopRate(most)}${mark("compute")}`, `compute: ${flopRate(most)}`];
  const above = (text) => [-9, -24, 20].map((down) => ({ x: at.right, y: y1 + down, anchor: "end", text }));
  write(g, flat.flatMap(above), room, bold);

  const angle = Math.atan2(y1 - y0, x1 - x0), slope = [];
  for (const share of [0.4, 0.6, 0.5, 0.3, 0.7, 0.2, 0.8, 0.12, 0.88]) for (const more of [mark("HBM"), ""]) {
    const x = x0 + (x1 - x0) * share, y = y0 + (y1 - y0) * share, text = `HBM ${byteRate(chip.bandwidth)}${more}`;
    for (const down of [-9, 20, -22, 33]) {
      slope.push({ x: x - down * Math.sin(angle), y: y + down * Math.cos(angle), anchor: "middle", angle, text });
    }
  }
  write(g, slope, room, bold);

  if (found.steps) {
    const rate = flopRate(found.flops / found.steps_s), width = at.right - FIELD.left;
    const shares = [[0.01, "start"], [1, "end"], [0.5, "middle"], [0.3, "middle"], [0.7, "middle"]];
    const along = (y, downs, texts) => texts.flatMap((text) => shares.flatMap(([share, anchor]) =>
      downs.map((down) => ({ x: FIELD.left + share * width, y: y + down, anchor, text }))));
    const near = [-9, 20, -26, 37, -43, 54, -60, 71], long = `grid steps: ${rate}${mark("grid steps")}`;
    const places = seen ? along(third, near, [long, `steps: ${rate}`])
      : along(FIELD.top, [-8, 12, 30], [`▲ grid steps: ${rate}, above this plot`, `▲ grid steps: ${rate}`]);
    write(g, places, room, { class: "course-bold", fill: RED });
  }
  const heights = [8, 30, 52, 74, 96, 118, 140].flatMap((up) => [[6, "start"], [-6, "end"]].map(([right, anchor]) =>
    ({ x: x1 + right, y: at.bottom - up, anchor, text: `ridge: ${significant(ridge, 3)}` })));
  write(g, heights, room, { fill: MUTED });
}

// Draws hollow marks, larger than the point, so that one shows around the other.
function drawPublished(g, published, { at }) {
  for (const p of published) {
    const x = at.left(p.intensity), y = at.top(p.rate), d = `M${x} ${y - 13}l13 13l-13 13l-13 -13z`;
    draw(g, "path", { d, fill: "none", stroke: PAPER, "stroke-width": 5 });
    const diamond = draw(g, "path", { d, fill: "none", stroke: INK, "stroke-width": 2.2, class: "course-measured" });
    draw(diamond, "title", {}, figures(p));
  }
}
const figures = (p) => `${p.name}: ${intensity(p.intensity)}, ${flopRate(p.rate)}, ${duration(p.seconds)}, measured by ${p.measured_by}`;

// ---- controls


function render({ model, el }) {
  const state = () => Object.fromEntries(SETTINGS.map((name) => [name, model.get(name)]));
  const chips = model.get("chips"), start = state();
  const measured = model.get("published").map((p) => ({ ...p, intensity: p.flops / p.hbm_bytes, rate: p.flops / p.seconds }));
  const root = rootOf(el, "course-roofs");
  const head = make(root, "strong", "course-title");

  const controls = make(root, "div", "course-controls");
  const boxes = {};
  const group = (legend, names) => {
    const set = make(controls, "fieldset");
    make(set, "legend", "", legend);
    for (const name of names) boxes[name] = field(set, name, input("number", { min: 1, max: MOST, step: 1, name }));
    return set;
  };
  group("x[m, k] @ y[k, n]", ["m", "k", "n"]);
  const others = group("dtype and chip", []);
  boxes.dtype = field(others, "dtype", choice(Object.entries(NAMES)));
  boxes.chip = field(others, "chip", choice(Object.keys(chips).map((name) => [name, name])));
  const blocks = group("blocks", ["bm", "bk", "bn"]);
  boxes.ideal = field(blocks, "ideal: everything read once", input("checkbox", { name: "ideal" }), "course-tick");
  const reset = make(controls, "button", "course-reset", "Reset");
  reset.type = "button";

  const body = make(root, "div", "course-body");
  const plot = make(body, "div", "course-plot");
  const svg = draw(plot, "svg", { role: "group", "aria-label": "Three roofs, on log axes" });
  const back = draw(svg, "g", {});
  const point = draw(svg, "g", { class: "course-point", tabindex: 0, role: "slider", "aria-label": "Size of the matmul",
    "aria-valuemin": 1, "aria-valuemax": MOST });
  const front = draw(svg, "g", { class: "course-front" });
  const side = make(body, "div", "course-readout");
  const list = make(side, "dl");
  const said = make(root, "div", "course-hints");
  said.setAttribute("aria-live", "polite");
  const legend = make(root, "ul", "course-published");
  const message = make(root, "p", "course-message");
  message.setAttribute("role", "status");
  make(root, "p", "course-help", "Drag the point: sideways changes the size, up and down changes the blocks. Or select it with "
    + "Tab: the arrow keys do the same, and Page Up and Page Down double and halve the size.");

  let quiet = false, held = null, drawn = null;
  function change(patch, { save = true, words = "" } = {}) {
    quiet = true;
    for (const [name, value] of Object.entries(patch)) model.set(name, value);
    quiet = false;
    show(words);
    if (save) model.save_changes();
  }

  function show(words = "") {
    const s = state(), chip = chips[s.chip], found = predicted(s, chip);
    const here = { intensity: found.flops / found.hbm_bytes, rate: found.flops / found.seconds };
    const published = s.chip === model.get("published_on") ? measured : [];
    const width = plot.clientWidth || 420, height = Math.round(Math.min(460, Math.max(360, width * 0.75)));
    const scale = scales(s, chip, [here, ...published]);
    const at = places(scale, width, height);
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) svg.setAttribute(name, value);
    back.replaceChildren();
    drawGrid(back, scale, at);
    const marks = [[here, 13], ...published.map((p) => [p, 15])];
    const room = { at, taken: marks.map(([p, half]) => ({ shape: square(at.left(p.intensity), at.top(p.rate), half) })) };
    drawRoofs(back, s, chip, scale, room, found);
    drawPoint(s, here, room, found);
    front.replaceChildren();
    drawPublished(front, published, room);
    if (published.length <= LABELLED) for (const p of published) {
      write(front, beside(at.left(p.intensity), at.top(p.rate), `measured: ${flopRate(p.rate)}`), room, { optional: true });
    }
    drawn = at;

    head.textContent = `x[${s.m}, ${s.k}] @ y[${s.k}, ${s.n}], ${s.dtype}, ${MODEL} on a ${s.chip}`;
    list.replaceChildren();
    for (const [name, value] of readout(s, chip)) {
      make(list, "dt", "", name);
      make(list, "dd", ["binds", MODEL].includes(name) ? "course-bold" : "", value);
    }
    said.replaceChildren();
    for (const line of hints(s, chip)) make(said, "p", "", line);
    legend.replaceChildren();
    for (const p of published) make(legend, "li", "", figures(p));
    if (measured.length && !published.length) make(legend, "li", "", `The published points are for a ${model.get("published_on")}: choose it to see them.`);
    for (const [name, box] of Object.entries(boxes)) {
      if (box.type === "checkbox") box.checked = s[name];
      else if (box.value !== String(s[name])) box.value = s[name];
      if (name[0] === "b") box.disabled = s.ideal;
    }
    message.textContent = words;
  }

  function drawPoint(s, here, room, found) {
    const x = room.at.left(here.intensity), y = room.at.top(here.rate);
    point.replaceChildren();
    draw(point, "circle", { cx: x, cy: y, r: 22, class: "course-touch" });
    draw(point, "circle", { cx: x, cy: y, r: 16, class: "course-ring" });
    draw(point, "circle", { cx: x, cy: y, r: 9, fill: BLUE, stroke: PAPER, "stroke-width": 2, class: "course-dot" });
    write(point, beside(x, y, `model: ${flopRate(here.rate)}`), room, { class: "course-bold", fill: INK });
    point.setAttribute("aria-valuenow", Math.max(s.m, s.k, s.n));
    point.setAttribute("aria-valuetext", `m ${s.m}, k ${s.k}, n ${s.n}, ${s.ideal ? "ideal" : `blocks ${s.bm}, ${s.bk}, ${s.bn}`}; `
      + `${flopRate(here.rate)}, ${MODEL}, bound by ${binds(found)}`);
  }

  point.onpointerdown = (event) => {
    if (event.button) return;
    event.preventDefault();
    point.focus({ focusVisible: false });
    point.setPointerCapture(event.pointerId);
    held = { x: event.clientX, y: event.clientY, from: state(), perX: drawn.perX, perY: drawn.perY };
    root.classList.add("course-dragging");
  };
  point.onpointermove = (event) => {
    if (!held) return;
    const { from } = held, most = Math.max(from.m, from.k, from.n);
    const wider = most * 10 ** ((event.clientX - held.x) / held.perX);
    // The third roof is 2 * bm * bk * bn FLOPs over a step's seconds, so three sides scaled at once move it 3 times as far.
    const times = Math.round(((held.y - event.clientY) / held.perY / 3) * Math.log2(10));
    const moved = event.clientX === held.x ? {} : sizes(from, snapped(wider, from.ideal));
    change({ ...moved, ...(from.ideal ? {} : doubled(from, times)) }, { save: false, words: from.ideal && times ? NO_BLOCKS : "" });
  };
  const release = () => {
    if (!held) return;
    held = null;
    root.classList.remove("course-dragging");
    show();
    model.save_changes();
  };
  point.onpointerup = point.onpointercancel = point.onlostpointercapture = release;
  point.onkeydown = (event) => {
    const s = state(), most = Math.max(s.m, s.k, s.n);
    const moves = {
      ArrowRight: () => change(sizes(s, neighbour(most, 1, s.ideal))),
      ArrowLeft: () => change(sizes(s, neighbour(most, -1, s.ideal))),
      PageUp: () => change(sizes(s, within(most * 2, MOST))),
      PageDown: () => change(sizes(s, within(Math.round(most / 2), MOST))),
      Home: () => change(sizes(s, SIDE)),
      End: () => change(sizes(s, LARGEST)),
      ArrowUp: () => (s.ideal ? show(NO_BLOCKS) : change(doubled(s, 1))),
      ArrowDown: () => (s.ideal ? show(NO_BLOCKS) : change(doubled(s, -1))),
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moves[event.key]();
  };

  for (const name of ["m", "k", "n", "bm", "bk", "bn"]) {
    const box = boxes[name], block = name.length === 2;
    box.onchange = () => {
      const unit = block ? unitOf(name, model.get("dtype")) : 1, asked = Number(box.value);
      const taken = Number.isFinite(asked) && box.value !== "" ? legal(asked, unit) : model.get(name);
      const rule = block ? `a multiple of ${unit}` : "a whole number";
      const words = taken === asked ? "" : `${name} = ${box.value || "nothing"} is not valid: it must be ${rule} from ${unit} to ${MOST}. Used instead: ${taken}.`;
      change({ [name]: taken }, { words });
    };
    box.onkeydown = (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!direction) return;
      event.preventDefault();
      const now = model.get(name);
      change({ [name]: block ? doubled({ bm: now, bk: now, bn: now }, direction).bk : neighbour(now, direction, state().ideal) });
    };
  }
  boxes.ideal.onchange = () => change({ ideal: boxes.ideal.checked });
  boxes.chip.onchange = () => change({ chip: boxes.chip.value });
  boxes.dtype.onchange = () => change({ dtype: boxes.dtype.value, bm: legal(model.get("bm"), unitOf("bm", boxes.dtype.value)) });
  reset.onclick = () => change(start);

  const outside = () => quiet || show();
  for (const name of SETTINGS) model.on(`change:${name}`, outside);
  const observer = new ResizeObserver(() => show(message.textContent));
  observer.observe(plot);
  show();
  return () => {
    observer.disconnect();
    for (const name of SETTINGS) model.off(`change:${name}`, outside);
  };
}

export default { render };
