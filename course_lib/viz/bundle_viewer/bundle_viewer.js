// The bundle viewer: the strip, the visible rows, and what the bundle under the pointer or the cursor does.
// dom.js, units.js, bundle_words.js and bundle_strip.js come before this file.

const ROW = 24, SEEN = 16; // pixels; visible rows
const WIDE = 700; // from this width on, rows have words
let viewers = 0; // on the page, so that the ids of cells differ

function drawHead(root, data) {
  const head = make(root, "div", "course-head");
  const rows = data.rows.length + data.leftOut;
  make(head, "strong", "course-title", `${data.name} on a ${data.chip}: ${count(rows)} ${rows === 1 ? "bundle" : "bundles"}`);
  const jumps = make(head, "div", "course-jumps");
  const busiest = button(jumps, "course-busiest", "Busiest loop", "Go to the loop that issues most bundles");
  const next = button(jumps, "course-next-loop", "Next loop", "Go to the next loop of the program");
  for (const jump of [busiest, next]) jump.removeAttribute("aria-label"); // its text names it
  busiest.disabled = next.disabled = !data.loops.length;
  return { busiest, next };
}

function drawLegend(root) {
  const legend = make(root, "div", "course-legend");
  for (const [use, words] of [[0, "unused"], [1, "a quarter of its slots"], [2, "half"], [4, "all"]]) {
    const entry = make(legend, "span");
    make(entry, "i", `course-key course-use-${use}`);
    entry.append(words);
  }
  make(legend, "span", "", "number: operations started");
  make(legend, "span", "", "·: no operation started here");
  make(legend, "span", "course-keys", "Keys: arrows, Page Up, Page Down, Home, End");
}

// Lists what a bundle starts, one operation per line, with its source code.
function drawDetails(panel, data, row) {
  panel.replaceChildren();
  const runs = times(data, row), around = data.loops.some(([first, last]) => first <= row && row <= last);
  const often = runs === null ? ", issued an unknown number of times" : `, issued ${runs === 1 ? "once" : `${count(runs)} times`} at most`;
  const kernel = data.kernels.length > 1 ? ` of ${data.kernels.findLast(([, first]) => first <= row)[0]}` : "";
  make(panel, "strong", "course-which", `Bundle ${row}${kernel}${around ? often : ", issued once"}`);
  const list = make(panel, "ul");
  let before = "";
  for (const [unit, words, number, column, end] of data.rows[row][1]) {
    const line = make(list, "li");
    make(line, "b", "", data.units[unit]);
    line.append(" ");
    make(line, "code", "", words);
    const place = String([number, column, end]), again = place === before;
    before = place;
    if (number === undefined || again) continue;
    const [file, at] = data.lines[number], source = data.sources[number];
    const from = make(line, "span", "course-from", `${file ? `${file} ` : ""}line ${at}${source ? ": " : ""}`);
    if (!source) continue;
    const code = make(from, "code", "course-source"), until = end || source.length, indent = source.search(/\S/);
    code.append(source.slice(Math.min(indent, column), column));
    make(code, "mark", "", source.slice(column, until));
    code.append(source.slice(until));
  }
  if (!data.rows[row][1].length) make(list, "li", "", "Nothing starts here.");
}

function render({ model, el }) {
  const root = rootOf(el, "course-bundles");
  let ended = false, end = () => {};
  inflated(model.get("program")).then((data) => { if (!ended) end = drawViewer(root, model, data); });
  return () => { ended = true; end(); };
}

function drawViewer(root, model, data) {
  const rows = data.rows.length, columns = data.units.length, id = `course-bundles-${viewers++}`;
  const { uses, own } = usesOf(data), deepest = Math.max(0, ...data.loops.map((loop) => depthOf(data, loop)));
  let row = Math.max(0, Math.min(rows - 1, model.get("row"))), column = 0, wide = false, asked = 0;

  const jumps = drawHead(root, data);
  const overview = make(root, "div", "course-overview"), names = make(overview, "div", "course-lanes");
  for (const unit of data.units) make(names, "span", "", unit);
  const canvas = make(overview, "canvas", "course-strip");
  canvas.setAttribute("role", "img");
  canvas.ariaLabel = `The whole program, a lane for each of ${data.units.join(", ")}`;
  const strip = new Strip(canvas, data, uses);
  const loopLine = make(root, "p", "course-loop");
  loopLine.setAttribute("role", "status");
  const frame = make(root, "div", "course-frame");
  const head = make(frame, "div", "course-row course-columns");
  const table = make(frame, "div", "course-rows");
  table.tabIndex = 0;
  table.setAttribute("role", "grid");
  table.setAttribute("aria-rowcount", rows);
  table.setAttribute("aria-colcount", columns);
  table.ariaLabel = `Bundles of ${data.name}: a row for each, a column for each unit`;
  const spacer = make(table, "div", "course-spacer");
  spacer.setAttribute("role", "presentation");
  spacer.style.height = `${rows * ROW}px`;
  table.style.height = `${Math.min(rows, SEEN) * ROW}px`;
  const details = make(root, "div", "course-details");
  drawLegend(root);
  if (data.leftOut) make(root, "p", "course-note", `${count(data.leftOut)} bundles at the end are left out.`);

  function drawColumns() {
    head.replaceChildren();
    make(head, "span", "course-gutter").style.width = `${deepest * 10}px`;
    make(head, "span", "course-number", "bundle");
    data.units.forEach((unit, n) => { make(head, "span", "course-cell", unit).title = `${unit}: ${data.does[n]}`; });
    if (wide) make(head, "span", "course-words", "what it starts");
  }

  function drawRow(n) {
    const line = make(spacer, "div", `course-row${n === row ? " course-current" : ""}`);
    line.setAttribute("role", "row");
    line.setAttribute("aria-rowindex", n + 1);
    line.dataset.row = n;
    line.style.top = `${n * ROW}px`;
    const gutter = make(line, "span", "course-gutter");
    gutter.style.width = `${deepest * 10}px`;
    data.loops.forEach(([first, last], which) => {
      if (n < first || last < n) return;
      const bar = make(gutter, "i", `course-bar${n === first ? " course-first" : ""}${n === last ? " course-last" : ""}`);
      bar.style.left = `${(strip.depths[which] - 1) * 10 + 2}px`;
    });
    make(line, "span", "course-number", String(n));
    for (let c = 0; c < columns; c++) {
      const cell = make(line, "span", `course-cell course-use-${uses[n * columns + c]}`);
      cell.id = `${id}-${n}-${c}`;
      cell.setAttribute("role", "gridcell");
      cell.setAttribute("aria-colindex", c + 1);
      cell.ariaLabel = cellWords(data, n, c);
      cell.dataset.column = c;
      if (n === row && c === column) cell.classList.add("course-here");
      const begun = own[n * columns + c];
      cell.textContent = begun ? String(begun) : uses[n * columns + c] ? "·" : "";
    }
    if (wide) make(line, "span", "course-words", wordsOf(n));
  }
  function wordsOf(n) {
    const opening = data.loops.filter(([first]) => first === n).map(([, , turns]) => `↻ ${turns === null ? "?" : count(turns)}×`);
    return [...opening, data.rows[n][1].map(([, words]) => words).join("; ")].join("  ");
  }

  function drawRows() {
    asked = 0;
    const first = Math.max(0, Math.floor(table.scrollTop / ROW) - 2), last = Math.min(rows - 1, first + SEEN + 4);
    spacer.replaceChildren();
    for (let n = first; n <= last; n++) drawRow(n);
    table.setAttribute("aria-activedescendant", `${id}-${row}-${column}`);
    strip.draw(Math.round(table.scrollTop / ROW), Math.min(rows, Math.round(table.scrollTop / ROW) + SEEN) - 1, row);
  }
  const later = () => { if (!asked) asked = requestAnimationFrame(drawRows); };

  function describe(n) {
    drawDetails(details, data, n);
    const inside = data.loops.map((_, which) => which).filter((which) => data.loops[which][0] <= n && n <= data.loops[which][1]);
    put(loopLine, inside.length ? data.loopWords[inside.at(-1)] : "In no loop.");
  }
  function reveal() {
    const top = row * ROW, seen = table.clientHeight;
    if (top < table.scrollTop) table.scrollTop = top;
    else if (top + ROW > table.scrollTop + seen) table.scrollTop = top + ROW - seen;
  }
  function goTo(target, tells = true) {
    row = Math.max(0, Math.min(rows - 1, target));
    reveal();
    drawRows();
    describe(row);
    if (!tells || model.get("row") === row) return;
    model.set("row", row);
    model.save_changes();
  }
  function open(which) { // scrolls the first bundle of a loop to the top
    goTo(data.loops[which][0]);
    table.scrollTop = Math.max(0, (data.loops[which][0] - 1) * ROW);
    drawRows();
    table.focus({ preventScroll: true });
  }

  jumps.busiest.onclick = () => open(data.busiest);
  jumps.next.onclick = () => {
    const next = data.loops.findIndex(([first]) => first > row);
    open(next < 0 ? 0 : next);
  };
  table.onscroll = later;
  table.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const moves = {
      ArrowDown: [row + 1, column], ArrowUp: [row - 1, column], PageDown: [row + SEEN, column], PageUp: [row - SEEN, column],
      Home: [0, column], End: [rows - 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    column = Math.max(0, Math.min(columns - 1, moves[event.key][1]));
    goTo(moves[event.key][0]);
  };
  const rowOf = (event) => event.target.closest?.("[data-row]");
  table.onpointerover = (event) => { if (rowOf(event)) describe(Number(rowOf(event).dataset.row)); };
  table.onpointerleave = () => describe(row);
  table.onclick = (event) => {
    const line = rowOf(event);
    if (!line) return;
    column = Number(event.target.dataset.column ?? column);
    goTo(Number(line.dataset.row));
  };
  function dragged(event) {
    const target = strip.rowAt(event.offsetX);
    table.scrollTop = Math.max(0, (target - SEEN / 2) * ROW);
    goTo(target);
  }
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    dragged(event);
  };
  canvas.onpointermove = (event) => { if (event.buttons & 1) dragged(event); };

  let shownWidth = 0;
  function fit() {
    if (!root.clientWidth || root.clientWidth === shownWidth) return;
    const opening = !shownWidth;
    shownWidth = root.clientWidth;
    wide = shownWidth >= WIDE;
    root.classList.toggle("course-wide", wide);
    drawColumns();
    strip.layout(overview.clientWidth - names.offsetWidth);
    names.style.paddingTop = `${strip.top}px`;
    if (opening) table.scrollTop = Math.max(0, (row - 1) * ROW);
    goTo(row, false);
  }
  const heard = () => { if (model.get("row") !== row) goTo(model.get("row"), false); };
  const resized = new ResizeObserver(() => requestAnimationFrame(fit));
  model.on("change:row", heard);
  resized.observe(root);
  fit();
  return () => {
    resized.disconnect();
    cancelAnimationFrame(asked);
    model.off("change:row", heard);
  };
}

export default { render };
