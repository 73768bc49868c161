// The softmax stepper: a row of scores to step through and to change. All arithmetic is here, so that it moves without
// a kernel. dom.js, units.js and softmax_steps.js come before this file.

const BY = 0.5; // a key press or the least drag changes a score so much
const LETTER = 7.5, AROUND = 3; // pixels: of a digit, and around a score

function render({ model, el }) {
  const given = [...model.get("scores")], values = model.get("values"), block = model.get("block");
  const low = model.get("low"), high = model.get("high"), last = Math.ceil(given.length / block);
  const root = rootOf(el, "course-softmax");
  make(root, "strong", "course-title", `Online softmax, ${block === 1 ? "one key" : `${block} keys`} at a time`);
  const wide = make(root, "div", "course-wide"), row = make(wide, "div", "course-row");
  const names = make(row, "div", "course-names");
  for (const name of ["score", "", "key", "v"]) make(names, "span", name ? "" : "course-space", name);
  const columns = values.map((value, key) => {
    const column = make(row, "div"), shown = make(column, "span", "course-score"), field = make(column, "div", "course-field");
    const bar = make(field, "i", "course-bar"), line = make(field, "i", "course-m");
    make(field, "i", "course-zero").style.bottom = `${height(0)}%`;
    make(column, "span", "course-key", String(key));
    make(column, "span", "course-value", String(value));
    const first = key % block === 0;
    make(column, "span", first ? "course-block course-first" : "course-block", first ? (block > 1 ? "block " : "") + key / block : "");
    Object.assign(field, { tabIndex: 0, role: "slider", ariaLabel: `Score of key ${key}`, ariaOrientation: "vertical",
      ariaValueMin: low, ariaValueMax: high });
    field.onkeydown = (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const moves = { ArrowUp: BY, ArrowDown: -BY }, masks = event.key === "Delete" || event.key === "Backspace";
      if (!masks && moves[event.key] === undefined) return;
      event.preventDefault();
      change(key, masks ? null : (model.get("scores")[key] ?? 0) + moves[event.key]);
    };
    let from = null;
    field.onpointerdown = (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      field.setPointerCapture(event.pointerId);
      field.focus({ preventScroll: true });
      from = { y: event.clientY, score: model.get("scores")[key] ?? 0 };
    };
    field.onpointermove = (event) => {
      const moved = from && event.buttons & 1 ? (from.y - event.clientY) * (high - low) / field.clientHeight : 0;
      if (Math.abs(moved) >= BY / 2) from.dragged = true;
      if (from?.dragged && event.buttons & 1) change(key, from.score + BY * Math.round(moved / BY));
    };
    field.onpointerup = field.onpointercancel = () => { from = null; };
    field.ondblclick = () => change(key, model.get("scores")[key] === null ? 0 : null);
    return { column, shown, field, bar, line };
  });
  const bar = make(root, "div", "course-controls");
  const back = button(bar, "course-back", "◀", "One step back (left arrow)");
  const next = button(bar, "course-next", "▶", "One step forward (right arrow)");
  const reset = button(bar, "course-reset", "Reset", "Reset: the given scores, before the first block");
  const words = make(root, "p", "course-caption");
  words.setAttribute("aria-live", "polite");
  const lines = drawTable(root, last), end = make(root, "p", "course-end");
  make(root, "p", "course-note", "Seen scores are solid, those of the current block are framed, later ones are pale. The dashed line is m. "
    + "Shrink is exp(m before - m after).");
  make(root, "p", "course-keys", "Keys: ← →, Home, End. On a bar (Tab): ↑ ↓ by 0.5, Delete masks it. Or drag a bar up and down; "
    + "a double click masks it.");

  function height(score) {
    return Math.max(0, Math.min(100, (100 * (score - low)) / (high - low)));
  }
  const at = () => Math.max(0, Math.min(last, model.get("step")));
  function show() {
    const scores = model.get("scores").map((score) => score ?? -Infinity), number = at(), zero = height(0);
    const found = steps(scores, values, block), m = number ? found[number - 1].m : -Infinity;
    const letters = Math.max(...[...scores.map(scoreWords), ...values.map(String)].map((shown) => shown.length), 4);
    row.style.setProperty("--wide", `${letters * LETTER + AROUND}px`);
    columns.forEach(({ column, shown, field, bar, line }, key) => {
      const score = scores[key], when = Math.floor(key / block) + 1 - number, masked = score === -Infinity;
      column.className = `course-column course-${when > 0 ? "later" : when ? "seen" : "now"}${masked ? " course-masked" : ""}`;
      put(shown, scoreWords(score));
      const top = height(masked ? 0 : score);
      Object.assign(bar.style, { bottom: `${Math.min(top, zero)}%`, height: masked ? "0" : `max(2px, ${Math.abs(top - zero)}%)` });
      Object.assign(line.style, { bottom: `${height(m)}%`, display: when > 0 || m === -Infinity ? "none" : "" });
      field.ariaValueNow = masked ? low : score;
      field.ariaValueText = masked ? "masked" : scoreWords(score);
    });
    lines.forEach(({ line, cells }, n) => {
      const { before, m, shrink, total, acc } = found[n], seen = n < number;
      line.className = n === number - 1 ? "course-current" : "";
      put(cells[0], `${n}: ${keysWords(found[n])}`);
      [scoreWords(before), scoreWords(m), figure(shrink), figure(total), figure(acc)].forEach(
        (shown, column) => put(cells[column + 1], seen ? shown : "·"));
    });
    put(words, said(found, number));
    put(end, number === last ? ended(scores, values, block) : "After the last step, o = acc / l.");
    if (number) keepInView(columns[found[number - 1].first].column, columns[found[number - 1].end - 1].column);
    back.ariaDisabled = number === 0;
    next.ariaDisabled = number === last;
  }
  function keepInView(first, end) { // of a row too long for the page
    const right = end.offsetLeft + end.offsetWidth - wide.offsetLeft, left = first.offsetLeft - wide.offsetLeft;
    if (right > wide.scrollLeft + wide.clientWidth) wide.scrollLeft = right - wide.clientWidth + 6;
    if (left < wide.scrollLeft) wide.scrollLeft = left - 6;
  }
  function tell(trait, value) {
    model.set(trait, value);
    model.save_changes();
  }
  function change(key, score) {
    const scores = [...model.get("scores")];
    const kept = score === null ? null : Math.round(100 * Math.max(low, Math.min(high, score))) / 100;
    if (kept === scores[key]) return;
    scores[key] = kept;
    tell("scores", scores);
  }
  function goTo(target) {
    target = Math.max(0, Math.min(last, target));
    if (target !== at()) tell("step", target);
  }
  back.onclick = () => goTo(at() - 1);
  next.onclick = () => goTo(at() + 1);
  reset.onclick = () => {
    tell("scores", [...given]);
    goTo(0);
  };
  root.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const moves = { ArrowRight: at() + 1, ArrowLeft: at() - 1, Home: 0, End: last };
    if (moves[event.key] === undefined) return;
    event.preventDefault();
    goTo(moves[event.key]);
  };
  for (const name of ["scores", "step"]) model.on(`change:${name}`, show);
  show();
  return () => { for (const name of ["scores", "step"]) model.off(`change:${name}`, show); };
}

// Draws a line for each step.
function drawTable(parent, count) {
  const table = make(make(parent, "div", "course-wide"), "table"), head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  for (const name of ["block", "m before", "m after", "shrink", "l", "acc"]) make(head, "th", "", name).scope = "col";
  return Array.from({ length: count }, () => {
    const line = make(body, "tr"), first = make(line, "th");
    first.scope = "row";
    return { line, cells: [first, ...Array.from({ length: 5 }, () => make(line, "td"))] };
  });
}

export default { render };
