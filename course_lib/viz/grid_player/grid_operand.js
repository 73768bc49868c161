// One operand: its array in HBM, its buffers in VMEM, and the copies that fly between them.

const place = (operand) => (operand.space === "smem" ? "SMEM" : "VMEM");

// Draws one operand; returns functions that fit it into the width and show a step.
function drawOperand(parent, kernel, operand, goTo) {
  const box = make(parent, "section", "course-operand");
  box.ariaLabel = operand.name;
  const head = make(box, "div", "course-head");
  make(head, "strong", "", operand.name);
  make(head, "div", "course-shape", `${operand.dtype}[${operand.shape.join(", ")}]`);
  const hand = operand.space === "hbm";
  const blockWords = hand ? "no BlockSpec copies it" : `block ${tuple(operand.block)}`;
  make(head, "div", "course-shape", blockWords);
  const hbm = make(box, "div", "course-hbm");
  make(hbm, "div", "course-place", "HBM");
  const canvas = make(hbm, "canvas", "course-plane");
  canvas.setAttribute("role", "img");
  const slice = make(hbm, "div", "course-slice");
  const status = make(box, "div", "course-status");
  const vmem = make(box, "div", "course-vmem");
  make(vmem, "div", "course-place", hand ? "VMEM" : place(operand));
  const row = make(vmem, "div", "course-slots");
  const drawn = hand ? 0 : Math.min(operand.buffers, 4);
  const slots = Array.from({ length: drawn }, () => make(row, "div", "course-slot"));
  if (hand) make(row, "div", "course-nothing", operand.byHand ? "copied by the kernel itself" : "stays in HBM");
  if (operand.buffers > 4) make(row, "div", "course-nothing", `and ${operand.buffers - 4} more`);

  const plane = new Plane(canvas, operand);
  let shownStep = 0, shownRun = 0;
  canvas.blockCentre = (index) => { // where to click for the block with an index
    const shown = plane.slices.get(plane.sliceKey(operand.visits[shownRun]));
    const block = shown.find((b) => indexOf(operand, b) === tuple(index));
    const [x, y, wide, high] = plane.box(block);
    return [x + wide / 2, y + high / 2];
  };
  const under = (event) => plane.hit(event.offsetX, event.offsetY, shownRun);
  canvas.onclick = (event) => {
    const block = hand ? -1 : under(event);
    if (block >= 0) goTo(nextVisit(operand, block, shownStep));
  };
  canvas.onmousemove = (event) => {
    const block = hand ? -1 : under(event);
    canvas.title = block < 0 ? "" : explain(operand, block, shownRun);
    canvas.style.cursor = block < 0 ? "default" : "pointer";
  };
  return {
    operand, plane, canvas, slots,
    layout: () => plane.layout(Math.max(60, hbm.clientWidth - 16)),
    together: () => plane.together,
    show(step) {
      const run = runAt(operand, step), block = operand.visits[run];
      [shownStep, shownRun] = [step, run];
      plane.draw(run, hand ? windowsAt(kernel, operand, plane, step) : []);
      put(slice, hand ? "" : sliceOf(operand, block));
      showStatus(status, kernel, operand, step);
      showSlots(slots, operand, run);
      box.classList.toggle("course-wrong", !hand &&
        Boolean(operand.outside[block] || (revisited(operand, run) && step === operand.first[run])));
      canvas.ariaLabel = hand ? `${operand.name} in HBM` : `${operand.name} in HBM, ${named(operand, block)} in use`;
    },
  };
}

function explain(operand, block, run) {
  const visits = visitsUpTo(operand, block, run);
  const verb = operand.role === "output" ? "visited" : "copied";
  return `${named(operand, block)}, elements ${elementsOf(operand, block)}, ${sizeOf(operand.bytes[block])}; ` +
    `${verb} ${count(visits)} ${visits === 1 ? "time" : "times"} so far. Click to go to the next step that sees it.`;
}

function windowsAt(kernel, operand, plane, step) {
  const boxes = [], rank = operand.rank;
  for (const lane of kernel.lanes) {
    if (!lane.byHand || lane.name !== operand.name || !lane.starts) continue;
    const from = step > 0 ? upTo(lane.when, step - 1) : 0, until = Math.min(upTo(lane.when, step), from + WINDOWS);
    for (let n = from; n < until; n++) {
      const start = row(lane.starts, n, rank), shape = row(lane.shapes, n, rank);
      const spans = plane.sides.map((side, k) => {
        const axis = rank - 2 + k;
        return axis < 0 ? [0, side.pixels] : [start[axis] * side.scale, Math.max(2, shape[axis] * side.scale)];
      });
      boxes.push([spans[1][0] + plane.margin, spans[0][0] + plane.margin, spans[1][1], spans[0][1]]);
    }
  }
  return boxes;
}

function showStatus(status, kernel, operand, step) {
  const move = moveOf(operand, step);
  status.dataset.move = move;
  if (operand.role === "prefetch") return put(status, "there from the start");
  if (operand.space === "hbm") {
    const lane = kernel.lanes.find((l) => l.byHand && l.name === operand.name && copiesAt(l, step));
    status.dataset.move = lane?.direction ?? "";
    return put(status, byHandInWords(kernel, operand, step));
  }
  const bytes = sizeOf(operand.bytes[operand.visits[runAt(operand, step)]]);
  if (move === "in") return put(status, `copied in, ${bytes}`);
  if (move === "out") return put(status, `written back, ${bytes}`);
  put(status, operand.role === "output" ? "stays: no copy" : "same block: no copy");
}

// Shows the buffers: each keeps its block until it is filled again.
function showSlots(slots, operand, run) {
  slots.forEach((slot, n) => {
    const held = run - (((run - n) % operand.buffers) + operand.buffers) % operand.buffers;
    const now = held === run;
    put(slot, held >= 0 ? indexOf(operand, operand.visits[held]) : "free");
    slot.classList.toggle("current", now);
    const state = now ? "in use" : held < 0 ? "not used yet" : "holds the previous block, free to be filled";
    slot.title = `Buffer ${n + 1} of ${operand.buffers}: ${state}`;
  });
}

// Shows a copy as a tile that flies from the array to the buffer, or back.
function fly(stage, view, step, direction, duration, delay) {
  const { operand, plane, canvas, slots } = view, run = runAt(operand, step);
  const slot = slots[run % operand.buffers];
  if (!slot) return null;
  const stageBox = stage.getBoundingClientRect(), canvasBox = canvas.getBoundingClientRect();
  const [x, y, wide, high] = plane.box(operand.visits[run]);
  const inArray = { left: canvasBox.left - stageBox.left + x, top: canvasBox.top - stageBox.top + y, wide, high };
  const slotBox = slot.getBoundingClientRect();
  const inBuffer = {
    left: slotBox.left - stageBox.left, top: slotBox.top - stageBox.top, wide: slotBox.width, high: slotBox.height,
  };
  const [from, to] = direction === "in" ? [inArray, inBuffer] : [inBuffer, inArray];
  const tile = make(stage, "div", `course-flyer course-flying-${direction}`, slot.textContent);
  const frame = (b) => ({
    left: `${b.left}px`, top: `${b.top}px`, width: `${b.wide}px`, height: `${b.high}px`, opacity: 0.92,
  });
  const flight = tile.animate([frame(from), frame(to)], { duration, delay, easing: "ease-in-out" });
  flight.onfinish = flight.oncancel = () => tile.remove();
  return flight;
}
