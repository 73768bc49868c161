// One step of a grid: blocks, copies, bytes, problems, without drawing. grid_step.py says the same.
// units.js comes before this file.

const TYPES = {
  uint8: Uint8Array, uint32: Uint32Array, int32: Int32Array, float64: Float64Array,
};
const NEVER = 0, SEEN = 1, PARTLY = 2, COMPLETE = 3, AGAIN = 4, LOST = 5;
const NONE = 0xffffffff; // no run

const tuple = (numbers) => `(${Array.from(numbers).join(", ")}${numbers.length === 1 ? "," : ""})`;

// Counts the entries of an ascending array that do not exceed a value.
function upTo(array, value) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

async function decoded(data, frames) {
  const inflating = new Blob([frames]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(inflating).arrayBuffer();
  const open = (value) => {
    if (Array.isArray(value)) return value.map(open);
    if (value === null || typeof value !== "object") return value;
    if (value.at !== undefined) return unpacked(new TYPES[value.type](buffer, value.at, value.count), value);
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, open(inner)]));
  };
  const { kernels, unreadable } = open(data);
  for (const kernel of kernels) prepare(kernel);
  return { kernels, unreadable };
}

// Integers come by column, as differences from row to row.
function unpacked(array, { type, columns }) {
  if (type === "float64") return array;
  const rows = array.length / columns, whole = new array.constructor(array.length);
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      const at = row * columns + column;
      whole[at] = array[column * rows + row] + (row ? whole[at - columns] : 0);
    }
  }
  return whole;
}

function prepare(kernel) {
  for (const operand of kernel.operands) prepareOperand(operand);
  for (const lane of kernel.lanes) prepareLane(kernel, lane);
  const wrong = new Set();
  for (const operand of kernel.operands) {
    if (operand.space === "hbm") continue;
    for (let run = 0; run < operand.first.length; run++) {
      const again = operand.role === "output" && operand.since[run];
      if (again || operand.outside[operand.visits[run]]) wrong.add(operand.first[run]);
    }
  }
  kernel.problemSteps = Uint32Array.from(wrong).sort();
  // The larger steps of the keyboard: one unit of the next outer axis, and one of the outermost.
  const sizes = kernel.grid.filter((n) => n > 1);
  const tenth = Math.max(1, Math.round(kernel.steps / 10));
  kernel.big = sizes.length > 1 ? sizes.at(-1) : tenth;
  kernel.bigger = sizes.length > 1 ? kernel.steps / sizes[0] : tenth;
}

function prepareOperand(operand) {
  const runs = operand.lengths.length, blocks = operand.bytes.length;
  operand.rank = operand.shape.length;
  operand.moving = operand.element.includes(true); // its blocks are windows that may overlap
  operand.first = new Uint32Array(runs);
  operand.firstRun = new Uint32Array(blocks).fill(NONE);
  operand.secondRun = new Uint32Array(blocks).fill(NONE);
  operand.lastRun = new Uint32Array(blocks);
  for (let run = 0, step = 0; run < runs; run++) {
    const block = operand.visits[run];
    operand.first[run] = step;
    step += operand.lengths[run];
    if (operand.firstRun[block] === NONE) operand.firstRun[block] = run;
    else if (operand.secondRun[block] === NONE) operand.secondRun[block] = run;
    operand.lastRun[block] = run;
  }
}

// Adds to a lane the steps of its copies, and the bytes up to each.
function prepareLane(kernel, lane) {
  const operand = kernel.operands[lane.operand];
  const events = lane.byHand ? lane.sizes.length : operand.first.length;
  lane.when = new Uint32Array(events);
  lane.sum = new Float64Array(events + 1);
  for (let n = 0, step = 0; n < events; n++) {
    if (lane.byHand) lane.when[n] = step += lane.gaps[n];
    else lane.when[n] = lane.direction === "in" ? operand.first[n] : operand.first[n] + operand.lengths[n] - 1;
    lane.sum[n + 1] = lane.sum[n] + (lane.byHand ? lane.sizes[n] : operand.bytes[operand.visits[n]]);
  }
}

const runAt = (operand, step) => upTo(operand.first, step) - 1;
const copiesUpTo = (lane, step) => upTo(lane.when, step);
const bytesUpTo = (lane, step) => lane.sum[upTo(lane.when, step)];
const copiesAt = (lane, step) => upTo(lane.when, step) - (step > 0 ? upTo(lane.when, step - 1) : 0);
const row = (array, number, rank) => array.subarray(number * rank, (number + 1) * rank);

function coordinates(kernel, step) {
  const found = [];
  for (const n of kernel.grid.slice().reverse()) {
    found.unshift(step % n);
    step = Math.floor(step / n);
  }
  return found;
}

// Returns the index of a block, or its first element if its index map counts elements.
function indexOf(operand, block) {
  return tuple(row(operand.moving ? operand.starts : operand.indices, block, operand.rank));
}
const named = (operand, block) =>
  `${operand.name} ${operand.moving ? "window at element" : "block"} ${indexOf(operand, block)}`;

function elementsOf(operand, block) {
  const start = row(operand.starts, block, operand.rank);
  return `[${Array.from(start).map((s, axis) => `${s}:${s + operand.block[axis]}`).join(", ")}]`;
}

// Returns the direction of the copy for an operand at a step: "in", "out" or "".
function moveOf(operand, step) {
  if (operand.space === "hbm" || operand.role === "prefetch") return "";
  const run = runAt(operand, step);
  if (operand.role === "output") return step === operand.first[run] + operand.lengths[run] - 1 ? "out" : "";
  return step === operand.first[run] ? "in" : "";
}

function movesInWords(kernel, operand, step) {
  if (operand.role === "prefetch") return `${operand.name}: in SMEM from the start`;
  if (operand.space === "hbm") return `${operand.name}: ${byHandInWords(kernel, operand, step)}`;
  const move = moveOf(operand, step);
  const words = operand.role === "output"
    ? (move ? "written back after this step" : "stays, no copy")
    : (move ? "copied in" : "same block, no copy");
  return `${named(operand, operand.visits[runAt(operand, step)])}: ${words}`;
}

function byHandInWords(kernel, operand, step) {
  if (!operand.byHand) return "stays in HBM";
  const lanes = kernel.lanes.filter((lane) => lane.byHand && lane.name === operand.name);
  const copies = lanes.reduce((sum, lane) => sum + copiesAt(lane, step), 0);
  return `${count(copies)} ${copies === 1 ? "copy" : "copies"} by the kernel itself`;
}

function captionOf(kernel, step) {
  const moves = kernel.operands.map((operand) => ` ${movesInWords(kernel, operand, step)}.`).join("");
  const said = moves + kernel.accumulators.map((e) => ` In ${e.name}: ${accumulatorWords(e, step).join(", ")}.`).join("");
  const total = kernel.lanes.reduce((sum, lane) => sum + bytesUpTo(lane, step), 0);
  return `Step ${count(step + 1)} of ${count(kernel.steps)}, grid index ${tuple(coordinates(kernel, step))}.` +
    `${said} HBM traffic so far: ${count(total)} bytes.`;
}

function problemsAt(kernel, step) {
  const found = [], at = (s) => `${count(s + 1)} ${tuple(coordinates(kernel, s))}`;
  for (const operand of kernel.operands) {
    if (operand.space === "hbm") continue;
    const run = runAt(operand, step), block = operand.visits[run], which = named(operand, block);
    if (revisited(operand, run) && step === operand.first[run]) {
      const left = operand.first[run - operand.since[run] + 1] - 1;
      found.push(`${which} was written back after step ${at(left)} and is visited again at step ${at(step)}: ` +
        "it is not copied in again.");
    }
    if (operand.outside[block]) {
      found.push(`${which} at step ${at(step)} lies outside the array: ${extentOf(operand)}.`);
    }
  }
  return found;
}

const revisited = (operand, run) => operand.role === "output" && operand.since[run] > 0;

function extentOf(operand) {
  const array = `${operand.dtype}[${operand.shape.join(", ")}]`;
  if (operand.moving) return `it is ${array}`;
  const count = operand.shape.map((n, axis) => Math.ceil(n / operand.block[axis])).join(" x ");
  return `${array} has ${count} blocks of ${tuple(operand.block)}, counted from 0`;
}

// Returns the next step after this one in an ascending array of steps, or -1.
function nextIn(steps, step) {
  const at = upTo(steps, step);
  return at < steps.length ? steps[at] : -1;
}

// Returns the next step that sees a block, starting over after the last; -1 if none does.
function nextVisit(operand, block, step) {
  let earliest = -1;
  for (let run = 0; run < operand.first.length; run++) {
    if (operand.visits[run] !== block) continue;
    if (operand.first[run] > step) return operand.first[run];
    if (earliest < 0) earliest = operand.first[run];
  }
  return earliest;
}

function visitsUpTo(operand, block, run) {
  let visits = 0;
  for (let n = 0; n <= run; n++) visits += operand.visits[n] === block;
  return visits;
}

// Names the slice of the leading axes in which a block lies: "slice [2, 0:4] of [8, 8]".
function sliceOf(operand, block) {
  const start = row(operand.starts, block, operand.rank), leading = Math.max(0, operand.rank - 2);
  const sizes = operand.shape.slice(0, leading);
  if (!sizes.some((n, axis) => n > operand.block[axis])) return "";
  const at = sizes.map((_, axis) => {
    const size = operand.block[axis];
    return size === 1 ? `${start[axis]}` : `${start[axis]}:${start[axis] + size}`;
  });
  return `slice [${at.join(", ")}] of [${sizes.join(", ")}]`;
}
