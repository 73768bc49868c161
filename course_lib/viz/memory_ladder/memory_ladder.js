// The memory ladder: a rung for each memory, bars on log axes, and its controls.
// dom.js and units.js come before this file.

const AXES = { capacity: [13, 38], bandwidth: [30, 47] }; // powers of two at the ends of the bars
const TICKS = { capacity: [2 ** 20, 2 ** 30], bandwidth: [1e10, 1e12] };
const SLIDER = [2, 36]; // powers of two: 4 bytes to 64 GiB
const UNKNOWN = "not published";
const VIEW = { TensorCore: "one TensorCore", SM: "one SM" };

const share = (field, value) => {
  const [low, high] = AXES[field];
  return Math.max(0, Math.min(1, (Math.log2(value) - low) / (high - low)));
};

// Says the same as memory_rungs.time_words; the tests compare.
export function timeWords(rung, view, size) {
  const { capacity, bandwidth, per_cycle } = rung[view];
  const over = capacity && size > capacity ? `, ${significant(size / capacity, 2)} times what it holds` : "";
  if (bandwidth === null) return per_cycle ? `at least ${count(Math.ceil(size / per_cycle))} cycles${over}` : UNKNOWN;
  return `${rung.latency_s === null ? "at least " : ""}${duration((rung.latency_s ?? 0) + size / bandwidth)}${over}`;
}

function drawAxis(cell, field, words) {
  make(cell, "span", "", words);
  const axis = make(cell, "span", "course-axis");
  const label = field === "capacity" ? sizeOf : byteRate;
  for (const value of TICKS[field]) make(axis, "i", "", label(value)).style.left = `${100 * share(field, value)}%`;
}

function render({ model, el }) {
  const all = model.get("chips"), whose = model.get("whose");
  const root = rootOf(el, "course-ladder");
  const title = make(root, "strong", "course-title");
  const bar = make(root, "div", "course-controls");
  const field = (words, tag) => make(make(bar, "label", "course-field", words), tag);
  const chip = field("Chip ", "select"), view = field("of ", "select"), slider = field("How long for ", "input");
  chip.ariaLabel = "Chip";
  view.ariaLabel = "A core, or the whole chip";
  for (const [name, { name: words }] of Object.entries(all)) chip.append(new Option(words, name));
  Object.assign(slider, { type: "range", min: SLIDER[0], max: SLIDER[1], step: 0.25, ariaLabel: "Bytes, on a log scale" });
  const amountOf = make(slider.parentElement, "b", "course-bytes");

  const table = make(root, "table"), columns = make(make(table, "thead"), "tr");
  const heads = ["memory", "holds", "bandwidth", "latency", "time"].map((words, n) => {
    const cell = make(columns, "th");
    cell.scope = "col";
    if (n === 1 || n === 2) drawAxis(cell, n === 1 ? "capacity" : "bandwidth", n === 1 ? "holds" : "bandwidth");
    else cell.textContent = words;
    return cell;
  });
  const body = make(table, "tbody");
  const status = make(root, "p", "course-status");
  status.setAttribute("role", "status");
  const legend = make(root, "ul", "course-legend");
  for (const [letter, words] of Object.entries(whose)) {
    const line = make(legend, "li");
    make(line, "b", "course-whose", letter);
    line.append(` ${words}`);
  }
  make(root, "p", "course-note", "Bars have log scales: a tenth of the speed is the same amount shorter everywhere. A time is the "
    + "latency, if it is known, plus the bytes at full bandwidth.");

  function drawFigure(line, rung, which, name) {
    const cell = make(line, "td", `course-${name}`);
    cell.dataset.label = name === "capacity" ? "holds" : name;
    const words = name === "latency" ? rung.latency : rung.words[which][name], from = rung.from[which][name];
    const value = name === "latency" ? null : rung[which][name];
    const text = make(cell, "span", value || from ? "course-figure" : "course-unknown", words);
    if (from) {
      text.append(" ");
      const mark = make(text, "b", "course-whose", from);
      mark.title = whose[from];
      mark.ariaLabel = `(${whose[from]})`;
    }
    if (name === "latency") return;
    const track = make(cell, "span", "course-track");
    if (value) make(track, "i").style.width = `${Math.max(1, 100 * share(name, value))}%`;
  }

  function show() {
    const ladder = all[model.get("chip")], which = model.get("view"), size = model.get("bytes");
    chip.value = model.get("chip");
    const cores = ladder.cores === 1 ? `its only ${ladder.core}` : `one of ${ladder.cores} ${ladder.core}s`;
    view.replaceChildren(new Option(cores, "core"), new Option("the whole chip", "chip"));
    view.value = which;
    slider.value = Math.log2(size);
    slider.setAttribute("aria-valuetext", sizeOf(size));
    put(amountOf, sizeOf(size));
    put(title, `The memories of a ${ladder.name}`);
    heads[4].textContent = `${sizeOf(size)} take`;
    body.replaceChildren();
    for (const rung of ladder.rungs) {
      const line = make(body, "tr"), name = make(line, "th");
      name.scope = "row";
      make(name, "span", "course-name", rung.name);
      const shared = rung.of_chip && ladder.cores > 1 && which === "core";
      make(name, "span", "course-what", `${rung.what}${shared ? "; of the whole chip" : ""}`);
      for (const each of ["capacity", "bandwidth", "latency"]) drawFigure(line, rung, which, each);
      const time = make(line, "td", "course-time", timeWords(rung, which, size));
      time.dataset.label = `${sizeOf(size)} take`;
    }
  }
  function change(name, value) {
    model.set(name, value);
    model.save_changes();
    const ladder = all[model.get("chip")], hbm = ladder.rungs.find((rung) => rung.name === "HBM");
    const place = model.get("view") === "chip" ? "the whole chip" : VIEW[ladder.core];
    const took = timeWords(hbm, model.get("view"), model.get("bytes"));
    put(status, `${ladder.name}, ${place}: ${sizeOf(model.get("bytes"))} from HBM take ${took}.`);
  }
  chip.onchange = () => change("chip", chip.value);
  view.onchange = () => change("view", view.value);
  slider.oninput = () => change("bytes", Math.round(2 ** Number(slider.value)));
  const names = ["chip", "view", "bytes"];
  for (const name of names) model.on(`change:${name}`, show);
  show();
  return () => { for (const name of names) model.off(`change:${name}`, show); };
}

export default { render };
