// The pipeline chart: drawing and controls. dom.js, units.js and the other pipeline_*.js come before this file.

const INK = "#1f2933", MUTED = "#56616d", LINE = "#c9d1d9", PAPER = "#ffffff", RED = "#b34700";
const SETTINGS = ["buffers", "block", "work", "shown", "latency", "step"];
const LOOKS = { // kind -> [fill, colour of its hatch, words]
  queue: ["#dfe4ea", "", "other copies' bytes first"],
  latency: ["#cfe3f1", "#0072b2", "latency of a read"],
  bytes: ["#0072b2", "", "its bytes arrive"],
  waits: ["#ffffff", "", "full, and not used yet"],
  "in use": ["#d3eee4", "", "the core works on it"],
  work: ["#009e73", "", "the core works"],
  bubble: ["#ffffff", "", "bubble: the core waits"],
  leaving: ["#e69f00", "", "bytes leave"],
  answer: ["#fbe9c6", "#e69f00", "latency of a write"],
};
const LANE = 22, GAP = 5, AXIS = 36, TICKS = 8;
const MOST_SHOWN = 32, MOST_WORK = 1e6, A_STEP = 900; // milliseconds
const TIMES = [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32, 64, 128];

// Returns the distance between ticks, 1, 2 or 5 times a power of ten, such that few lie below `end`.
export function stride(end, ticks = TICKS) {
  const power = 10 ** Math.floor(Math.log10(end / ticks));
  return [1, 2, 5, 10].map((n) => n * power).find((every) => end / every <= ticks);
}


function render({ model, el }) {
  const data = model.get("data");
  const state = () => Object.fromEntries(SETTINGS.map((name) => [name, model.get(name)]));
  const start = state(), still = matchMedia("(prefers-reduced-motion: reduce)");
  const root = rootOf(el, "course-pipeline");
  const head = make(root, "strong", "course-title");

  const controls = make(root, "div", "course-controls"), boxes = {};
  const offered = [...new Set([1, 2, 3, 4, 6, 8, start.buffers])].sort((a, b) => a - b);
  boxes.buffers = field(controls, "buffers", choice(offered.map((n) => [n, n])));
  const blocks = TIMES.filter((n) => n === 1 || (data.unit * n >= 512 && data.unit * n <= 2 ** 24));
  boxes.block = field(controls, "block", choice(blocks.map((n) => [n, `${sizeOf(data.unit * n)}`])));
  const worked = data.scalar ? "work besides scalar code, cycles a step" : "work, cycles a step";
  boxes.work = field(controls, worked, input("number", { min: 1, max: MOST_WORK, step: 1 }));
  boxes.shown = field(controls, "steps shown", input("number", { min: 1, max: Math.min(MOST_SHOWN, data.reads.length), step: 1 }));
  boxes.latency = field(controls, "latency", choice([["compiler", "the compiler's"], ["timings", "from timings"]]));
  const play = button(controls, "course-play", "Play", "Play the steps one after another");
  const reset = button(controls, "course-reset", "Reset", "Back to the kernel's own pipeline");

  const plot = make(root, "div", "course-plot");
  plot.tabIndex = 0;
  plot.setAttribute("role", "slider");
  plot.setAttribute("aria-label", "Step of the pipeline");
  plot.setAttribute("aria-valuemin", 0);
  const svg = draw(plot, "svg", { "aria-hidden": "true" });
  const legend = make(root, "ul", "course-legend");
  const told = make(root, "p", "course-caption");
  const list = make(root, "dl");
  const said = make(root, "div", "course-hints");
  const message = make(root, "p", "course-message");
  message.setAttribute("role", "status");
  make(root, "p", "course-help", "Click a step, or select the chart with Tab: the left and right keys go from step to step, "
    + "the up and down keys change the buffers, Space plays.");

  let quiet = false, drawn = null;
  function change(patch, { save = true, words = "" } = {}) {
    quiet = true;
    for (const [name, value] of Object.entries(patch)) model.set(name, value);
    quiet = false;
    show(words);
    if (save) model.save_changes();
  }
  const within = (step, found) => Math.max(0, Math.min(step, found.shown - 1));

  function show(words = "") {
    const s = state(), found = { ...played(data, s), shown: Math.min(s.shown, data.reads.length) };
    const step = within(s.step, found);
    const width = Math.max(300, plot.clientWidth || 700);
    drawChart(s, found, step, width);
    put(head, title(data, s));
    put(told, caption(s, found, step));
    for (const [name, value] of [["valuemax", found.shown - 1], ["valuenow", step], ["valuetext", told.textContent]]) {
      plot.setAttribute(`aria-${name}`, value);
    }
    list.replaceChildren();
    for (const [name, value] of readout(data, s, found)) {
      make(list, "dt", "", name);
      make(list, "dd", ["binds", "T, a step on average"].includes(name) ? "course-bold" : "", value);
    }
    said.replaceChildren();
    for (const line of hints(data, s, found)) make(said, "p", "", line);
    const options = [...boxes.block.options].map((option) => Number(option.value));
    if (!options.includes(s.block)) boxes.block.append(new Option(sizeOf(data.unit * s.block), s.block));
    const values = { ...s, work: Math.round(s.work * s.block), shown: found.shown };
    for (const [name, box] of Object.entries(boxes)) if (box.value !== String(values[name])) box.value = values[name];
    put(message, words);
  }

  function drawChart(s, found, chosen, width) {
    const names = lanes(data, s), left = 78, right = width - 14, wide = right - left;
    const at = (time) => left + (time / found.end) * wide, tops = {};
    const ticks = Math.min(TICKS, Math.floor(wide / 60)), cut = (time) => at(Math.min(time, found.end));
    svg.replaceChildren();
    drawHatches(svg);
    let top = AXIS;
    const ruler = top;
    top += LANE + GAP;
    for (const name of names) {
      tops[name] = top;
      draw(svg, "rect", { x: left, y: top, width: wide, height: LANE, fill: "#f4f6f8" });
      draw(svg, "text", { x: left - 7, y: top + 16, "text-anchor": "end", class: `course-lane${name === "core" ? " course-bold" : ""}` }, name);
      top += LANE + GAP;
    }
    const height = top + AXIS;
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) svg.setAttribute(name, value);
    draw(svg, "text", { x: left - 7, y: ruler + 16, "text-anchor": "end", fill: MUTED }, "step");
    axis(found.end / data.clock * 1e6, AXIS - 8, "us", -7);
    axis(found.end, top + 2, "cycles", 18);

    const begun = (n) => (n ? found.steps[n - 1].done : 0), all = bars(found, s).filter(([lane]) => lane in tops);
    draw(svg, "rect", { x: at(begun(chosen)), y: ruler, width: Math.max(2, cut(found.steps[chosen].done) - at(begun(chosen))),
      height: top - GAP - ruler, class: "course-now" });
    for (const bar of all) drawBar(bar, chosen);
    for (let n = 0; n < found.shown; n++) {
      const from = at(begun(n)), to = cut(found.steps[n].done);
      draw(svg, "line", { x1: to, y1: ruler, x2: to, y2: top - GAP, stroke: "#8a94a0", "stroke-dasharray": "2 3" });
      fitting(svg, (from + to) / 2, ruler + 16, String(n), to - from, n === chosen ? { class: "course-bold" } : {});
    }
    for (const [lane, kind, n, from, to] of all) {
      const room = at(to) - at(from), middle = (at(from) + at(to)) / 2, y = tops[lane] + 16;
      if (kind === "bubble") bubble(n, to - from, found.steps.length).some((words) => fitting(svg, middle, y, words, room, { fill: RED }));
      else if (kind === "latency" || kind === "answer") fitting(svg, middle, y, String(n), room, { plate: true });
    }
    const cursor = draw(svg, "line", { y1: AXIS - 4, y2: top - GAP + 4, class: "course-cursor", visibility: "hidden" });
    drawn = { found, at, cursor, begun };
    legend.replaceChildren();
    for (const kind of Object.keys(LOOKS)) if (all.some((bar) => bar[1] === kind)) key(kind);

    function axis(end, y, unit, down) {
      draw(svg, "line", { x1: left, y1: y, x2: right, y2: y, stroke: "#8a94a0" });
      draw(svg, "text", { x: left - 14, y: y + down, "text-anchor": "end", fill: MUTED }, unit);
      for (let tick = 0, every = stride(end, ticks); tick * every <= end; tick++) {
        const x = left + ((tick * every) / end) * wide;
        draw(svg, "line", { x1: x, y1: y - 3, x2: x, y2: y + 3, stroke: "#8a94a0" });
        const words = draw(svg, "text", { x, y: y + down, "text-anchor": "middle", fill: MUTED }, significant(tick * every, 3));
        if (x + words.getComputedTextLength() / 2 > width) Object.entries({ x: width, "text-anchor": "end" }).forEach((each) => words.setAttribute(...each));
      }
    }
    function drawBar([lane, kind, n, from, to], now) {
      const [fill, hatch, does] = LOOKS[kind], y = tops[lane], x = at(from), long = Math.max(0.8, at(to) - x);
      const shape = { x, y, width: long, height: LANE };
      const g = draw(svg, "g", { class: `course-bar course-${kind.replace(" ", "-")}`, "data-step": n });
      draw(g, "title", {}, `step ${n}, ${does}: ${cycles(to - from)}`);
      draw(g, "rect", { ...shape, fill, ...(kind === "waits" && { stroke: LINE }) });
      if (hatch) draw(g, "rect", { ...shape, fill: `url(#${hatches[hatch]})` });
      if (kind === "bubble") draw(g, "path", { d: `M${x} ${y}h${long}m0 ${LANE}h${-long}`, stroke: RED, "stroke-width": 1.6, "stroke-dasharray": "4 3" });
      if (n === now && kind !== "bubble") draw(g, "path", { d: `M${x} ${y}h${long}m0 ${LANE}h${-long}`, stroke: INK, "stroke-width": 2 });
    }
  }

  // Writes words in the middle of a span of time if it is wide enough.
  function fitting(parent, x, y, text, room, { plate = false, ...look } = {}) {
    const words = draw(parent, "text", { x, y, "text-anchor": "middle", ...look }, text), long = words.getComputedTextLength();
    if (long + 8 > room) {
      words.remove();
      return false;
    }
    if (plate) words.before(draw(parent, "rect", { x: x - long / 2 - 3, y: y - 13, width: long + 6, height: LANE - 6, rx: 3, fill: PAPER, class: "course-plate" }));
    return true;
  }
  const hatches = Object.fromEntries(["#0072b2", "#e69f00"].map((colour) => [colour, `course-hatch-${colour.slice(1)}-${Math.random().toString(36).slice(2)}`]));
  function drawHatches(parent) {
    const defs = draw(parent, "defs", {});
    for (const [colour, id] of Object.entries(hatches)) {
      const lean = colour === "#0072b2" ? 45 : -45;
      const pattern = draw(defs, "pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${lean})` });
      draw(pattern, "line", { x1: 0, y1: 0, x2: 0, y2: 6, stroke: colour, "stroke-width": 1.6, "stroke-opacity": 0.75 });
    }
  }
  function key(kind) {
    const [fill, hatch, does] = LOOKS[kind], item = make(legend, "li");
    const swatch = draw(item, "svg", { width: 22, height: 14, "aria-hidden": "true" });
    if (hatch) drawHatches(swatch);
    draw(swatch, "rect", { x: 0.5, y: 0.5, width: 21, height: 13, fill, ...(["waits", "bubble"].includes(kind) && { stroke: LINE }) });
    if (hatch) draw(swatch, "rect", { width: 22, height: 14, fill: `url(#${hatches[hatch]})` });
    if (kind === "bubble") draw(swatch, "path", { d: "M0 1h22m0 12h-22", stroke: RED, "stroke-width": 1.6, "stroke-dasharray": "4 3" });
    make(item, "span", "", does);
  }

  // ---- playing: the cursor moves evenly through the time shown

  let frame = null;
  function stop() {
    cancelAnimationFrame(frame);
    frame = null;
    put(play, "Play");
    drawn?.cursor.setAttribute("visibility", "hidden");
  }
  function playing() {
    if (frame !== null) {
      stop();
      return model.save_changes();
    }
    put(play, "Pause");
    const last = within(Infinity, drawn.found), from = model.get("step") >= last ? 0 : model.get("step");
    let time = drawn.begun(from), before = null;
    change({ step: from }, { save: false });
    const tick = (now) => {
      const { found, at, begun } = drawn, end = found.steps[found.shown - 1].done;
      time += before === null ? 0 : ((now - before) / A_STEP) * (end / found.shown);
      before = now;
      if (time >= end) {
        change({ step: within(Infinity, found) }, { save: false });
        stop();
        return model.save_changes();
      }
      let step = 0;
      while (begun(step + 1) <= time) step++;
      if (step !== model.get("step")) change({ step }, { save: false });
      if (!still.matches) {
        for (const side of ["x1", "x2"]) drawn.cursor.setAttribute(side, at(time));
        drawn.cursor.setAttribute("visibility", "visible");
      }
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  }

  // ---- controls

  const to = (step) => { stop(); change({ step: within(step, drawn.found) }); };
  plot.onclick = (event) => {
    const bar = event.target.closest("[data-step]");
    if (bar && Number(bar.dataset.step) < drawn.found.shown) return to(Number(bar.dataset.step));
    const x = event.clientX - svg.getBoundingClientRect().left;
    const { found, at } = drawn, step = found.steps.findIndex((each) => at(each.done) >= x);
    to(step < 0 ? found.shown - 1 : step);
  };
  plot.onkeydown = (event) => {
    const step = within(model.get("step"), drawn.found), among = offered.indexOf(model.get("buffers"));
    const buffers = (n) => { stop(); change({ buffers: offered[Math.max(0, Math.min(n, offered.length - 1))] }); };
    const moves = { ArrowRight: () => to(step + 1), ArrowLeft: () => to(step - 1), Home: () => to(0), End: () => to(Infinity),
      ArrowUp: () => buffers(among + 1), ArrowDown: () => buffers(among - 1), " ": playing };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moves[event.key]();
  };
  play.onclick = playing;
  reset.onclick = () => { stop(); change(start); };
  boxes.buffers.onchange = () => change({ buffers: Number(boxes.buffers.value) });
  boxes.block.onchange = () => change({ block: Number(boxes.block.value) });
  boxes.latency.onchange = () => change({ latency: boxes.latency.value });
  const typed = (name, most, worth) => {
    const box = boxes[name], asked = Number(box.value), legal = box.value !== "" && Number.isInteger(asked);
    const taken = legal ? Math.min(most, Math.max(1, asked)) : worth.now;
    const words = taken === asked && legal ? "" : `${worth.name}: ${box.value || "nothing"} is not valid. It must be a whole number from 1 to `
      + `${count(most)}. Used instead: ${count(taken)}.`;
    change({ [name]: worth.kept(taken) }, { words });
  };
  boxes.work.onchange = () => {
    const block = model.get("block");
    typed("work", MOST_WORK, { name: "Work", now: Math.round(model.get("work") * block), kept: (n) => n / block });
  };
  boxes.shown.onchange = () => typed("shown", Math.min(MOST_SHOWN, data.reads.length),
    { name: "Steps shown", now: model.get("shown"), kept: (n) => n });

  const outside = () => quiet || show();
  for (const name of SETTINGS) model.on(`change:${name}`, outside);
  const observer = new ResizeObserver(() => show(message.textContent));
  observer.observe(plot);
  show();
  return () => {
    stop();
    observer.disconnect();
    for (const name of SETTINGS) model.off(`change:${name}`, outside);
  };
}

export default { render };
