// What roofline.predict says of a blocked matmul, in closed form, and the words of roof_plot.py, for a browser without
// Python; the tests compare both. units.js and pipeline_model.js come before this file, roof_plot.js after it.

const ITEMSIZE = { bfloat16: 2, float32: 4, int8: 1 };
const SIZE_OUT = { bfloat16: 2, float32: 4, int8: 4 };
const ALIKE = 0.005; // roofs this near count as equally long
const MORE = 1.1; // times the lowest roof: from there on the parts count as adding up
const NEAR = 0.05; // core and HBM both bind if nearer than this share of the longer: vocabulary.py
const MODEL = "predicted (model)";

// ---- the model: roofline and cost of the kernel in blocked_product.py

export const peak = (s, chip) => (s.dtype === "int8" && chip.int8) || chip.bf16;
const cut = (s) => [Math.min(s.bm, s.m), Math.min(s.bk, s.k), Math.min(s.bn, s.n)];

function ideal(s, chip) {
  const flops = 2 * s.m * s.k * s.n;
  const moved = (s.m * s.k + s.k * s.n) * ITEMSIZE[s.dtype] + s.m * s.n * SIZE_OUT[s.dtype];
  const compute = flops / peak(s, chip), memory = moved / chip.bandwidth;
  return { flops, hbm_bytes: moved, steps: 0, vmem_bytes: 0, compute_s: compute, memory_s: memory, steps_s: 0,
    seconds: Math.max(compute, memory) };
}

// Returns [index, how many alike]: a step's copies depend only on whether it, or a neighbour, is the first or the last.
function alike(count) {
  if (count <= 4) return Array.from({ length: count }, (_, index) => [index, 1]);
  return [[0, 1], [1, count - 3], [count - 2, 1], [count - 1, 1]];
}

// Returns the flow of copies after one step, with times from its end; pipeline_model.js says what waits for what.
function stepped(flow, ahead, work, write, chip) {
  const t = times(flow, { ahead, work, write }, chip);
  return { seconds: flow.seconds + t.ends, ...after(flow, t) };
}

// Runs through the indices of an axis, alike ones as often as they occur. Once a flow repeats, it skips whole rounds.
function inTurn(flow, size, body) {
  for (const [index, count] of alike(size)) {
    const seen = new Map();
    for (let done = 0; done < count; done++) {
      const known = [flow.free, flow.written, ...flow.coming].map((time) => Math.round(time * 1e13)).join();
      const before = seen.get(known);
      if (before) {
        const rounds = Math.floor((count - done) / (done - before.done));
        flow = { ...flow, seconds: flow.seconds + rounds * (flow.seconds - before.seconds) };
        done += rounds * (done - before.done);
        seen.clear();
        if (done === count) break;
      }
      seen.set(known, { done, seconds: flow.seconds });
      flow = body(index)(flow);
    }
  }
  return flow;
}

const tiles = (rows, lanes) => (rows > 4 ? up(rows, 8) : 2 ** Math.ceil(Math.log2(rows))) * up(lanes, 128);

// Returns the bytes of a part of an array with `all` rows, in whole tiles of HBM, as in grid/tiles.py.
function whole(rows, lanes, size, all) {
  const packed = 4 / size, height = all > 4 ? 8 : 2 ** Math.ceil(Math.log2(all));
  return up(rows, packed === 4 && all % 32 === 0 ? 32 : Math.max(packed, height)) * up(lanes, 128) * size;
}

function blocked(s, chip) {
  const [bm, bk, bn] = cut(s), size = ITEMSIZE[s.dtype], sizeOut = SIZE_OUT[s.dtype];
  const rows = Math.ceil(s.m / bm), depth = Math.ceil(s.k / bk), columns = Math.ceil(s.n / bn);
  const bandwidth = chip.bandwidth * chip.hbm, steps = rows * columns * depth;
  const compute = (2 * up(bm, chip.sublanes) * up(bk, chip.mxu) * up(bn, chip.mxu)) / peak(s, chip);
  const reads = (i, j, k) => {
    const first = i === 0 && j === 0 && k === 0;
    const height = Math.min(bm, s.m - i * bm), length = Math.min(bk, s.k - k * bk), width = Math.min(bn, s.n - j * bn);
    return (first || depth > 1 || j === 0 ? whole(height, length, size, s.m) : 0)
      + (first || depth > 1 || columns > 1 ? whole(length, width, size, s.k) : 0);
  };
  const writes = (i, j) => whole(Math.min(bm, s.m - i * bm), Math.min(bn, s.n - j * bn), sizeOut, s.m);
  const after = (i, j, k) => (k + 1 < depth ? [i, j, k + 1] : j + 1 < columns ? [i, j + 1, 0] : [i + 1, 0, 0]);
  const next = (i, j, k) => (after(i, j, k)[0] < rows ? reads(...after(i, j, k)) : 0) / bandwidth;
  const work = compute / chip.products + chip.issue_s;
  const step = (i, j, k) => (flow) => stepped(flow, next(i, j, k), work, k + 1 < depth ? 0 : writes(i, j) / bandwidth, chip);
  const first = reads(0, 0, 0) / bandwidth;
  let flow = { seconds: 0, ...asking({ free: 0, coming: [] }, first, chip.read_s) };
  flow = inTurn(flow, rows, (i) => (row) => inTurn(row, columns, (j) => (tile) => inTurn(tile, depth, (k) => step(i, j, k))));
  const moved = whole(s.m, s.k, size, s.m) * (depth > 1 ? columns : 1)
    + whole(s.k, s.n, size, s.k) * (depth > 1 || columns > 1 ? rows : 1) + whole(s.m, s.n, sizeOut, s.m);
  const held = (...axes) => (axes.some((n) => n > 1) ? 2 : 1); // buffers of a block, by the axes that move it
  const window = (buffers, bytes) => up(buffers * bytes, 1024); // rounded as in cost/vmem.py
  const windows = window(held(rows, depth), tiles(bm, bk) * size) + window(held(depth, columns), tiles(bk, bn) * size)
    + window(held(rows, columns), tiles(bm, bn) * sizeOut);
  return { flops: 2 * s.m * s.k * s.n, hbm_bytes: moved, steps,
    vmem_bytes: windows + 4 * tiles(bm, bn), // and the accumulator
    compute_s: steps * compute, memory_s: moved / bandwidth, steps_s: steps * chip.step_s,
    seconds: flow.seconds + flow.written };
}

export const predicted = (s, chip) => (s.ideal ? ideal(s, chip) : blocked(s, chip));

// ---- the words: roof_plot.py

// Returns the roofs that bind: one, or two that take equally long.
export function bindingRoofs({ compute_s, memory_s, steps_s }) {
  const core = compute_s + steps_s, part = compute_s >= steps_s ? "compute" : "grid steps";
  if (Math.abs(core - memory_s) < NEAR * Math.max(core, memory_s)) return ["HBM", part];
  return [memory_s > core ? "HBM" : part];
}
export const binds = (found) => (bindingRoofs(found).length > 1 ? "both" : bindingRoofs(found)[0]);

export function readout(s, chip) {
  const found = predicted(s, chip);
  const each = `${count(found.steps)} × ${duration(chip.step_s)}`;
  const rows = [
    ["FLOPs", amount(found.flops, "FLOPs")],
    ["HBM traffic", amount(found.hbm_bytes, "B")],
    ["intensity", intensity(found.flops / found.hbm_bytes)],
    ["compute roof", duration(found.compute_s)],
    ["HBM roof", duration(found.memory_s)],
    ["grid steps", s.ideal ? "none counted" : `${each} = ${duration(found.steps_s)}`],
    ["binds", binds(found)],
    [MODEL, duration(found.seconds)],
    ["share of the peak", percent(found.flops / found.seconds / peak(s, chip))],
  ];
  return s.ideal ? rows : [...rows, ["VMEM needed", sizeOf(found.vmem_bytes)]];
}

export function hints(s, chip) {
  const found = predicted(s, chip), size = ITEMSIZE[s.dtype], most = peak(s, chip), said = [];
  const atTheRidge = Math.abs(found.compute_s / found.memory_s - 1) < ALIKE;
  if (atTheRidge) {
    const sizes = s.m === s.k && s.k === s.n ? `N = ${s.m}` : `m = ${s.m}, k = ${s.k}, n = ${s.n}`;
    said.push(`At ${sizes}, compute and HBM take equally long.`);
  }
  const [bm, bk, bn] = cut(s);
  if (s.ideal) {
    const each = Math.floor((2 * size + SIZE_OUT[s.dtype]) / 2);
    const from = count(Math.ceil((most / chip.bandwidth) * each));
    const fromThere = atTheRidge ? `: from N = ${from} on, compute binds on a ${chip.name}` : "";
    said.push(`Square matmuls of ${s.dtype} have N/${each} FLOPs/byte${fromThere}.`);
  } else if (bk < s.k && bm === s.bm && bn === s.bn) {
    said.push(`However large the matmul, bm = ${bm} and bn = ${bn} give at most ${intensity(2 / (size / bm + size / bn))}; `
      + `copies, at ${percent(chip.hbm)} of the bandwidth, keep up with the MXU from `
      + `${significant(most / (chip.bandwidth * chip.hbm), 3)} on.`);
  }
  if (found.seconds > MORE * Math.max(found.compute_s, found.memory_s, found.steps_s)) {
    said.push(`${duration(found.seconds)} is more than any single roof, because with two buffers the latency, bytes and work of a `
      + "step do not fully hide one another.");
  }
  return [...said, ...warnings(s, chip, found), constants(s, chip)];
}

function warnings(s, chip, found) {
  const { name } = chip, needs = sizeOf(found.vmem_bytes), said = [];
  if (found.vmem_bytes > chip.vmem) {
    said.push(`Cannot run: the blocks need ${needs} of VMEM, and a ${name} has ${sizeOf(chip.vmem)}.`);
  } else if (found.vmem_bytes > chip.scoped) {
    said.push(`The blocks need ${needs} of VMEM. Above ${sizeOf(chip.scoped)}, the compiler for a ${name} refuses a kernel `
      + "that does not ask for more (vmem_limit_bytes).");
  }
  const padding = 1 - found.flops / (found.compute_s * peak(s, chip));
  if (padding > 0.01) said.push(`${percent(padding)} of the MXU's work is padding, because the sizes do not fill the blocks.`);
  if (s.dtype === "int8") {
    said.push("The result of int8 is int32.");
    if (!chip.int8) said.push(`JAX's registry has no int8 rate for a ${name}, so the bf16 rate counts.`);
  }
  if (s.dtype === "float32") said.push("float32 in one pass: the MXU rounds x and y to bf16.");
  return said;
}

function constants(s, chip) {
  if (s.ideal) {
    const whose = chip.cores > 1 ? `, for one of ${chip.cores} cores and the HBM that they share` : "";
    return `Ideal: every array is copied once, behind the arithmetic, at the data sheet's rates${whose}.`;
  }
  let each = `a step takes ${duration(chip.step_s)} at least, and copies reach ${percent(chip.hbm)} of the HBM bandwidth`;
  if (chip.cores > 1) each += `, which one of ${chip.cores} cores has to itself`;
  if (chip.fitted === chip.name) return `Fitted to published timings of a ${chip.name}: ${each}.`;
  return `No published timings of a ${chip.name} were available. Fitted to those of a ${chip.fitted}: ${each}.`;
}
