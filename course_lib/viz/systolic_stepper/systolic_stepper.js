// The systolic stepper: drawing and controls. Frames made by Python say what each cycle does. dom.js comes before this
// file.

const FILL = ["#cfe3f1", "#fdf3d8", "#cfeadf"]; // of cells that work on the same row of x, in turn
const WAITING = 4; // waiting elements at most in front of a row
const QUEUE = 26, TALL = 66, LEAST = 68, MOST = 110; // pixels
const PLAY_MS = 1100; // per cycle

function drawArray(stage, w, y, { cells, waiting, leaves }, width) {
  stage.replaceChildren();
  const rows = w.length, columns = w[0].length, left = QUEUE * (WAITING + 0.5);
  const wide = Math.max(LEAST, Math.min(MOST, (width - left) / columns));
  Object.assign(stage.style, { width: `${left + wide * columns}px`, height: `${24 + TALL * rows + 44}px` });
  const place = (element, x0, top, w0, high) => {
    Object.assign(element.style, { left: `${x0}px`, top: `${top}px`, width: `${w0}px`, height: `${high}px` });
    return element;
  };
  place(make(stage, "span", "course-name", "x enters"), 0, 0, left, 20);
  place(make(stage, "span", "course-name", "weights stay, sums move down"), left, 0, wide * columns, 20);
  for (let row = 0; row < rows; row++) {
    const top = 24 + row * TALL;
    for (const [distance, number] of waiting[row]) {
      place(make(stage, "span", "course-waits", String(number)), left - distance * QUEUE - 2, top + TALL / 2 - 13, 24, 26);
    }
    for (let column = 0; column < columns; column++) {
      const cell = place(make(stage, "div", "course-pe"), left + column * wide, top, wide, TALL);
      make(cell, "span", "course-weight", `w ${w[row][column]}`);
      if (!cells[row][column]) continue;
      const [rowOfX, number, above, total] = cells[row][column];
      cell.style.backgroundColor = FILL[rowOfX % FILL.length];
      cell.classList.add("course-works");
      make(cell, "span", "course-adds", `${above} + ${number}·${w[row][column]}`);
      make(cell, "b", "", `= ${total}`);
    }
  }
  const below = 24 + rows * TALL;
  place(make(stage, "span", "course-name", "comes out"), 0, below + 12, left, 20);
  for (const [m, column] of leaves) {
    const result = place(make(stage, "span", "course-out", String(y[m][column])), left + column * wide + 4, below + 6, wide - 8, 30);
    result.style.backgroundColor = FILL[m % FILL.length];
    result.title = `y[${m}, ${column}]`;
  }
}

function drawMatrix(parent, name, rows, columns) {
  const table = make(make(parent, "div", "course-matrix"), "table");
  make(table, "caption", "", name);
  const body = make(table, "tbody");
  return Array.from({ length: rows }, () => {
    const line = make(body, "tr");
    return Array.from({ length: columns }, () => make(line, "td"));
  });
}

function render({ model, el }) {
  const x = model.get("x"), w = model.get("w"), y = model.get("y"), rows = w.length, columns = w[0].length, size = model.get("size");
  const frames = model.get("frames"), all = frames.length - 1;
  const root = rootOf(el, "course-systolic");
  make(root, "strong", "course-title", `A systolic array of ${rows} x ${columns} weights`);
  const wide = make(root, "div", "course-wide"), stage = make(wide, "div", "course-stage");
  stage.setAttribute("role", "img");
  const bar = make(root, "div", "course-controls");
  const play = button(bar, "course-play", "Play", "Play or pause (space)");
  const back = button(bar, "course-back", "◀", "One cycle back (left arrow)");
  const next = button(bar, "course-next", "▶", "One cycle forward (right arrow)");
  const reset = button(bar, "course-reset", "Reset", "Back to before the first cycle");
  for (const each of [play, reset]) each.removeAttribute("aria-label"); // their text names them
  const slider = make(bar, "input", "course-slider");
  Object.assign(slider, { type: "range", min: 0, max: all, step: 1, ariaLabel: "Cycle" });
  const words = make(root, "p", "course-caption");
  words.setAttribute("aria-live", "polite");
  const matrices = make(root, "div", "course-matrices");
  const given = drawMatrix(matrices, "x", x.length, rows), result = drawMatrix(matrices, "y = x @ w", x.length, columns);
  make(root, "p", "course-note", `With ${rows} x ${columns} weights the first result is out after ${rows} cycles, the first row of y `
    + `after ${rows + columns - 1}, and then a row each cycle. With ${size} x ${size} weights, as in an MXU of a v5e, this scheme takes ${size} and `
    + `${2 * size - 1} cycles, so an MXU needs many rows of x for the same weights.`);
  make(root, "p", "course-keys", "Keys: ← →, Home, End, space");

  let cycle = Math.max(0, Math.min(all, model.get("cycle"))), timer = 0, shownWidth = 0;
  function show() {
    const { says } = frames[cycle];
    drawArray(stage, w, y, frames[cycle], shownWidth);
    stage.ariaLabel = says;
    put(words, says);
    slider.value = cycle;
    slider.setAttribute("aria-valuetext", `cycle ${cycle} of ${all}`);
    x.forEach((row, m) => row.forEach((n, k) => {
      const cell = given[m][k], inside = cycle - 1 - m - k;
      put(cell, String(n));
      cell.className = inside < 0 ? "" : inside < columns ? "course-inside" : "course-gone";
      cell.style.backgroundColor = inside >= 0 && inside < columns ? FILL[m % FILL.length] : "";
    }));
    y.forEach((row, m) => row.forEach((n, column) => {
      const cell = result[m][column], since = cycle - m - rows - column;
      put(cell, since < 0 ? "·" : String(n));
      cell.style.backgroundColor = since === 0 ? FILL[m % FILL.length] : "";
    }));
    back.disabled = cycle === 0;
    next.disabled = cycle === all;
  }
  function goTo(target, tells = true) {
    target = Math.max(0, Math.min(all, target));
    if (target === cycle) return;
    cycle = target;
    show();
    if (!tells) return;
    model.set("cycle", cycle);
    model.save_changes();
  }
  function stop() {
    clearInterval(timer);
    timer = 0;
    put(play, "Play");
    words.setAttribute("aria-live", "polite");
  }
  function start() {
    if (cycle === all) goTo(0);
    put(play, "Pause");
    words.setAttribute("aria-live", "off"); // too fast to listen to
    timer = setInterval(() => {
      if (!root.isConnected) return stop();
      goTo(cycle + 1);
      if (cycle === all) stop();
    }, PLAY_MS);
  }
  const toggle = () => (timer ? stop() : start());
  function byHand(target) {
    stop();
    goTo(target);
  }
  play.onclick = toggle;
  back.onclick = () => byHand(cycle - 1);
  next.onclick = () => byHand(cycle + 1);
  reset.onclick = () => byHand(0);
  slider.oninput = () => byHand(Number(slider.value));
  root.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const moves = { ArrowRight: cycle + 1, ArrowUp: cycle + 1, ArrowLeft: cycle - 1, ArrowDown: cycle - 1, Home: 0, End: all };
    const plays = event.key === " " && event.target.tagName !== "BUTTON";
    if (!plays && moves[event.key] === undefined) return;
    event.preventDefault();
    if (plays) toggle();
    else byHand(moves[event.key]);
  };
  const heard = () => { if (!timer) goTo(model.get("cycle"), false); };
  function fit() {
    if (!wide.clientWidth || wide.clientWidth === shownWidth) return;
    shownWidth = wide.clientWidth;
    show();
  }
  const resized = new ResizeObserver(() => requestAnimationFrame(fit));
  model.on("change:cycle", heard);
  resized.observe(wide);
  fit();
  return () => {
    stop();
    resized.disconnect();
    model.off("change:cycle", heard);
  };
}

export default { render };
