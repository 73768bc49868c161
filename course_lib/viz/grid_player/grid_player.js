// The grid player: operands in HBM and VMEM, the caption, controls, timeline and ledger. It asks the kernel nothing.

const SPEEDS = [1, 2, 5, 10, 30, 100, 300, 1000, 3000]; // steps per second
const FLY_MS = 420; // of one copy, at most
const SAVE_MS = 300; // between two messages to the kernel
const STILL = "(prefers-reduced-motion: reduce)";

function drawLedger(parent, kernel) {
  const table = make(make(parent, "div", "course-wide"), "table", "course-ledger");
  make(table, "caption", "", "Bytes between HBM and the core, up to this step");
  const head = make(make(table, "thead", ""), "tr", "");
  for (const words of ["operand", "direction", "copies", "of", "bytes", "of"]) {
    make(head, "th", "", words).scope = "col";
  }
  const body = make(table, "tbody", "");
  const rows = kernel.lanes.map((lane) => {
    const line = make(body, "tr", "");
    const way = lane.direction === "in" ? `HBM → ${lane.core}` : `${lane.core} → HBM`;
    make(line, "th", "", lane.name).scope = "row";
    make(line, "td", "course-way", lane.byHand ? `${way}, by the kernel itself` : way);
    return numbers(line, lane.when.length, lane.sum.at(-1));
  });
  const line = make(make(table, "tfoot", ""), "tr", "");
  make(line, "th", "", "total").scope = "row";
  make(line, "td", "", kernel.uncounted ? "except what is not counted" : "");
  const add = (values) => values.reduce((sum, n) => sum + n, 0);
  const total = numbers(line, add(kernel.lanes.map((l) => l.when.length)), add(kernel.lanes.map((l) => l.sum.at(-1))));
  return (step) => {
    const copies = kernel.lanes.map((lane) => copiesUpTo(lane, step));
    const bytes = kernel.lanes.map((lane, n) => lane.sum[copies[n]]);
    rows.forEach((show, n) => show(copies[n], bytes[n]));
    total(add(copies), add(bytes));
  };
}

function numbers(line, allCopies, allBytes) {
  const copies = make(line, "td", "course-copies");
  make(line, "td", "course-of", count(allCopies));
  const bytes = make(line, "td", "course-bytes");
  make(line, "td", "course-of", count(allBytes));
  return (n, size) => {
    put(copies, count(n));
    put(bytes, count(size));
  };
}

function drawControls(parent, kernel) {
  const bar = make(parent, "div", "course-controls");
  const play = button(bar, "course-play", "Play", "Play or pause (space)");
  play.removeAttribute("aria-label"); // its text names it
  const back = button(bar, "course-back", "◀", "One step back (left arrow)");
  const next = button(bar, "course-next", "▶", "One step forward (right arrow)");
  const copy = button(bar, "course-next-copy", "Next copy", "Go to the next step that copies something");
  const label = make(bar, "label", "course-speed-label", "Speed ");
  const speed = make(label, "select", "course-speed");
  for (const n of SPEEDS) make(speed, "option", "", `${count(n)} ${n === 1 ? "step" : "steps"}/s`).value = n;
  // The slowest speed that plays the grid in about a minute.
  speed.value = SPEEDS.find((n) => kernel.steps / n <= 64) ?? SPEEDS.at(-1);
  return { play, back, next, copy, speed };
}

function drawTimeline(parent, kernel, goTo, current) {
  const box = make(parent, "div", "course-time");
  const names = make(box, "div", "course-lanes");
  const wrong = kernel.problemSteps.length > 0;
  if (wrong) make(names, "div", "course-lane-marks", "wrong at");
  for (const lane of kernel.lanes) {
    const says = `Go to the next copy of ${lane.name} ${lane.direction === "in" ? "into" : "out of"} the core`;
    const label = button(names, "course-lane", `${lane.direction === "in" ? "⬇" : "⬆"} ${lane.name}`, says);
    label.onclick = () => {
      const step = nextIn(lane.when, current());
      if (step >= 0) goTo(step, true);
    };
  }
  for (const each of kernel.accumulators) {
    const says = `Go to the next step at which ${each.name} holds all parts`;
    const label = button(names, "course-lane", `∑ ${each.name}`, says);
    label.onclick = () => {
      const step = nextFull(each, current());
      if (step >= 0) goTo(step);
    };
  }
  const strip = make(box, "div", "course-strip");
  const canvas = make(strip, "canvas", "course-timeline");
  canvas.setAttribute("role", "img");
  const slider = make(strip, "input", "course-slider");
  Object.assign(slider, { type: "range", min: 0, max: kernel.steps - 1, step: 1, ariaLabel: "Grid step" });
  const timeline = new Timeline(canvas, kernel);
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    goTo(timeline.stepAt(event.offsetX));
  };
  canvas.onpointermove = (event) => {
    const at = timeline.stepAt(event.offsetX);
    canvas.title = `Step ${count(at + 1)}, grid index ${tuple(coordinates(kernel, at))}`;
    if (event.buttons & 1) goTo(at);
  };
  return {
    timeline, slider,
    layout() {
      timeline.layout(strip.clientWidth);
      canvas.ariaLabel = timeline.words();
    },
    show(step) {
      timeline.draw(step);
      slider.value = step;
      slider.setAttribute("aria-valuetext", `step ${step + 1} of ${kernel.steps}`);
    },
  };
}

// Draws everything for one grid; returns functions that show a step, fit the width, and end.
function drawKernel(root, kernel, unreadable, model, choose) {
  let step = 0, playing = 0, owed = 0, before = 0; // playing: steps per second
  let told = 0, teller = null, flights = [], shownWidth = 0;
  const words = `grid ${tuple(kernel.grid)}, ${count(kernel.steps)} ${kernel.steps === 1 ? "step" : "steps"}`;
  const title = make(root, "div", "course-title");
  if (choose) title.append(choose);
  else make(title, "strong", "", kernel.title);
  make(title, "span", "", words);
  const stage = make(root, "div", "course-operands");
  const views = kernel.operands.map((operand) => drawOperand(stage, kernel, operand, goTo));
  const carried = drawAccumulators(root, kernel);
  const legend = make(root, "div", "course-legend");
  const bar = drawControls(root, kernel);
  const time = drawTimeline(root, kernel, goTo, () => step);
  const problem = make(root, "div", "course-problem"); // below the controls: its height changes from step to step
  const caption = make(root, "p", "course-caption");
  caption.setAttribute("aria-live", "polite");
  const ledger = drawLedger(root, kernel);
  const notes = make(root, "div", "course-notes");
  const problemWords = make(problem, "span", "");
  const problemNext = button(problem, "course-next-problem", "Next mark", "Go to the next step that is marked as wrong");

  function tell() { // tells the kernel, a few times a second at most
    clearTimeout(teller);
    const wait = told + SAVE_MS - performance.now();
    if (wait > 0) return void (teller = setTimeout(tell, wait));
    told = performance.now();
    if (model.get("step") === step) return;
    model.set("step", step);
    model.save_changes();
  }
  function show() {
    if (shownWidth) for (const view of [...views, time]) view.show(step); // only once it is on the page
    carried.show(step);
    ledger(step);
    put(caption, captionOf(kernel, step));
    showProblem();
  }
  function showProblem() {
    const here = problemsAt(kernel, step), all = kernel.problemSteps.length;
    problem.hidden = !all;
    problem.classList.toggle("here", here.length > 0);
    const summary = `${count(all)} ${all === 1 ? "step of this grid goes" : "steps of this grid go"} wrong, ` +
      `marked red in the timeline.`;
    put(problemWords, here.length ? `✗ ${here.join(" ")}` : summary);
  }
  function goTo(target, flies = false) {
    target = Math.max(0, Math.min(kernel.steps - 1, target));
    if (target === step) return;
    step = target;
    land();
    show();
    tell();
    if (flies) takeOff(playing ? 1000 / playing : 1000);
  }
  function land() {
    for (const flight of flights) flight.cancel();
    flights = [];
  }
  function takeOff(period) {
    if (period < 200 || matchMedia(STILL).matches) return;
    const duration = Math.min(FLY_MS, period * 0.42);
    for (const view of views) {
      const move = moveOf(view.operand, step);
      if (move) flights.push(fly(stage, view, step, move, duration, move === "out" ? duration * 1.15 : 0));
    }
    flights = flights.filter(Boolean);
  }
  function stop() {
    if (!playing) return;
    playing = 0;
    put(bar.play, "Play");
    caption.setAttribute("aria-live", "polite");
    told = 0;
    tell();
  }
  function start() {
    if (step === kernel.steps - 1) goTo(0);
    playing = Number(bar.speed.value);
    owed = 0;
    before = performance.now();
    put(bar.play, "Pause");
    caption.setAttribute("aria-live", "off"); // too fast to listen to
    takeOff(1000 / playing);
    requestAnimationFrame(tick);
  }
  function tick(now) {
    if (!playing || !root.isConnected) return stop();
    owed += (Math.min(Math.max(now - before, 0), 250) * playing) / 1000;
    before = now;
    const steps = Math.floor(owed);
    owed -= steps;
    if (steps) goTo(step + steps, steps === 1);
    if (step < kernel.steps - 1) requestAnimationFrame(tick);
    else stop();
  }
  const toggle = () => (playing ? stop() : start());
  function byHand(target, flies = false) {
    stop();
    goTo(target, flies);
  }
  const nextCopy = () => kernel.lanes.map((lane) => nextIn(lane.when, step)).filter((s) => s >= 0);
  bar.play.onclick = toggle;
  bar.back.onclick = () => byHand(step - 1);
  bar.next.onclick = () => byHand(step + 1, true);
  bar.copy.onclick = () => nextCopy().length && byHand(Math.min(...nextCopy()), true);
  bar.speed.onchange = () => { if (playing) playing = Number(bar.speed.value); };
  time.slider.oninput = () => byHand(Number(time.slider.value));
  problemNext.onclick = () => {
    const next = nextIn(kernel.problemSteps, step);
    byHand(next >= 0 ? next : kernel.problemSteps[0]);
  };
  function pressed(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
    const onButton = event.target.tagName === "BUTTON";
    const far = event.shiftKey ? kernel.big : 1, page = event.shiftKey ? kernel.bigger : kernel.big;
    const moves = {
      ArrowRight: () => byHand(step + far, far === 1), ArrowUp: () => byHand(step + far, far === 1),
      ArrowLeft: () => byHand(step - far), ArrowDown: () => byHand(step - far),
      PageUp: () => byHand(step + page), PageDown: () => byHand(step - page),
      Home: () => byHand(0), End: () => byHand(kernel.steps - 1),
    };
    if (event.key === " " && !onButton) moves[" "] = toggle;
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }
  function fit(width) {
    if (!width || width === shownWidth) return;
    shownWidth = width;
    land();
    for (const view of views) view.layout();
    time.layout();
    drawLegend(legend, kernel, views);
    showNotes();
    show();
  }
  function showNotes() {
    const said = [...kernel.notes, ...unreadable];
    if (kernel.steps > 1 && kernel.operands.some((operand) => operand.space !== "hbm" && operand.buffers > 1)) {
      said.unshift("A copy is drawn at the step it belongs to. On the chip, a copy in starts a step earlier and a write-back " +
        "lasts a step longer, in the other buffer, while the kernel computes.");
    }
    for (const view of views) {
      const [rows, columns] = view.together();
      if (rows * columns > 1) {
        said.push(`${view.operand.name}: one square of the picture stands for ${rows} x ${columns} blocks.`);
      }
    }
    if (time.timeline.step < 2) {
      said.push(`One column of the timeline stands for about ${count(Math.round(1 / time.timeline.step))} steps; ` +
        "its height says how many of them copy.");
    }
    notes.replaceChildren();
    for (const sentence of said) make(notes, "p", "", sentence);
  }
  function clicked(event) { // so that the keys continue from the click
    if (event.target.tagName !== "CANVAS") return;
    event.preventDefault();
    time.slider.focus({ preventScroll: true });
  }
  root.addEventListener("keydown", pressed);
  root.addEventListener("mousedown", clicked);
  return {
    fit,
    start(value) {
      step = Math.max(0, Math.min(kernel.steps - 1, value));
      show();
    },
    heard(value) { // from the kernel, or from another view of this player
      if (!playing && value !== step) goTo(value);
    },
    end() {
      stop();
      clearTimeout(teller);
      root.removeEventListener("keydown", pressed);
      root.removeEventListener("mousedown", clicked);
    },
  };
}

// Explains the fills that may occur, and the keys.
function drawLegend(legend, kernel, views) {
  legend.replaceChildren();
  const entries = [["now", "in use"], ["seen", "seen before"]];
  if (kernel.operands.some((o) => o.role === "output" && o.space !== "hbm")) entries.push(["complete", "complete"]);
  if (kernel.operands.some((o) => o.role === "output" && o.since.some((n) => n > 0))) {
    entries.push(["again", "written back, but comes again"], ["lost", "visited again, not copied in"]);
  }
  if (views.some((view) => view.plane.hasPadding)) entries.push(["padding", "beyond the array"]);
  for (const [name, words] of entries) {
    const entry = make(legend, "span", "");
    make(entry, "i", `course-key course-key-${name}`);
    entry.append(words);
  }
  const outer = kernel.big > 1 ? `, ⇧← ⇧→ (${count(kernel.big)} steps)` : "";
  make(legend, "span", "course-keys", `Keys: ← →${outer}, Home, End, space`);
}

async function render({ model, el }) {
  if (!("DecompressionStream" in window)) {
    make(el, "p", "", "The grid player needs a browser of 2023 or later.");
    return;
  }
  const { kernels, unreadable } = await decoded(model.get("data"), model.get("frames"));
  const root = rootOf(el, "course-player");
  let shown = null;
  const chooser = kernels.length > 1 ? document.createElement("select") : null;
  if (chooser) {
    chooser.className = "course-chooser";
    chooser.ariaLabel = "Which grid";
    kernels.forEach((kernel, n) => { make(chooser, "option", "", `${n}: ${kernel.title}`).value = n; });
    chooser.onchange = () => {
      model.set("call", Number(chooser.value));
      model.set("step", 0);
      model.save_changes();
    };
  }
  function open() {
    const chosen = chooser && document.activeElement === chooser;
    shown?.end();
    root.replaceChildren();
    const number = Math.max(0, Math.min(kernels.length - 1, model.get("call")));
    if (chooser) chooser.value = number;
    shown = drawKernel(root, kernels[number], unreadable, model, chooser);
    if (chosen) chooser.focus();
    shown.start(model.get("step"));
    shown.fit(root.clientWidth);
  }
  const heard = () => shown.heard(model.get("step"));
  const resized = new ResizeObserver(() => requestAnimationFrame(() => shown.fit(root.clientWidth)));
  model.on("change:step", heard);
  model.on("change:call", open);
  open();
  resized.observe(root);
  return () => {
    resized.disconnect();
    shown.end();
    model.off("change:step", heard);
    model.off("change:call", open);
  };
}

export default { render };
