// The steps of a pipeline over time, as in pipeline_lanes.py; the tests compare both.
// pipeline_model.js comes before this file.

const OUT = 2; // buffers of a written block, however many a read block has
const NEAR = 0.05; // T equals one of its parts if they are nearer than this: vocabulary.py
const BUBBLE = 0.5; // cycles: a shorter wait does not count
const HAIR = 2 ** -20; // cycles: a rounding error
const MODEL = "predicted (model)";

// Runs the pipeline, in cycles; `s` holds the settings of the controls.
export function played(data, s) {
  const work = data.scalar + s.work * s.block, pace = (s.block * data.clock) / data.bandwidth;
  const [reads, writes, alone] = [data.reads, data.writes, data.alone].map((sizes) => sizes.map((size) => size * pace));
  const [read_s, write_s] = data.latency[s.latency];
  const all = steps(reads.map(() => work), reads, writes, alone, { read_s, write_s, buffers: s.buffers });
  const number = all.length, later = Math.floor(number / 2), last = all.at(-1);
  const half = number > 3 ? number - (Math.floor(later / s.buffers) * s.buffers || later) : 0; // in whole turns
  const step = (last.done - (half ? all[half - 1].done : 0)) / (number - half);
  const mean = (sizes) => sizes.slice(half).reduce((sum, size) => sum + size, 0) / (number - half);
  const parts = { work, bytes: mean(reads) + mean(writes) + mean(alone),
    read: reads.slice(half).every(Boolean) ? (read_s + mean(reads) + work) / s.buffers : null,
    write: writes.slice(half).every(Boolean) ? (write_s + mean(writes) + work) / OUT : null };
  const shown = Math.min(s.shown, number);
  const bubbles = all.slice(0, shown).map((each, n) => [n, n ? all[n - 1].done : 0, each.begins])
    .filter(([, done, begins]) => begins - done > BUBBLE);
  let { done: end } = all[shown - 1];
  if (shown === number && data.ends) {
    end = Math.max(last.ends, last.gone ?? 0);
    if (end - last.done > BUBBLE) bubbles.push([number, last.done, end]);
  }
  return { steps: all, read: read_s, work, step, parts, bound: bound(step, parts, data.scalar), bubbles, end };
}

function bound(step, parts, scalar) {
  const [core, hbm] = [parts.work, parts.bytes].map((part) => Math.abs(step - part) < NEAR * step);
  if (hbm) return core ? "both" : "HBM";
  return core && 2 * scalar <= parts.work ? "compute" : "grid steps";
}

export function lanes(data, s) {
  const numbered = (name, most, sizes) => Array.from({ length: Math.min(most, sizes.filter(Boolean).length) }, (_, n) => `${name} ${n}`);
  return [...numbered("buffer", s.buffers, data.reads), ...(data.alone.some(Boolean) ? ["one buffer"] : []), "core",
    ...numbered("out", OUT, data.writes)];
}

// Returns [lane, kind, step, start, end] of each bar to draw.
export function bars(found, s) {
  const all = found.steps, made = [];
  const reading = all.flatMap((step, n) => (step.asked === null ? [] : [n]));
  reading.forEach((n, visit) => {
    const step = all[n], lane = `buffer ${visit % s.buffers}`, until = all[(reading[visit + 1] ?? all.length) - 1].done;
    const flows = step.flows - found.read;
    made.push([lane, "queue", n, step.asked, flows], [lane, "latency", n, flows, step.flows], [lane, "bytes", n, step.flows, step.arrives],
      [lane, "waits", n, step.arrives, step.begins], [lane, "in use", n, step.begins, until]);
  });
  const writing = all.flatMap((step, n) => (step.leaves === null ? [] : [n]));
  writing.forEach((n, visit) => {
    const step = all[n], lane = `out ${visit % OUT}`, first = visit ? writing[visit - 1] + 1 : 0;
    made.push([lane, "in use", n, all[first].begins, step.done], [lane, "queue", n, step.done, step.leaves],
      [lane, "leaving", n, step.leaves, step.left], [lane, "answer", n, step.left, step.gone]);
  });
  all.slice(0, s.shown + 1).forEach((step, n) => {
    if (step.alone !== null) {
      const lane = "one buffer", flows = step.alone + found.read;
      made.push([lane, "latency", n, step.alone, flows], [lane, "bytes", n, flows, step.begins], [lane, "in use", n, step.begins, step.done]);
    }
    made.push(["core", "work", n, step.begins, step.done]);
  });
  for (const [n, start, end] of found.bubbles) made.push(["core", "bubble", n, start, end]);
  return made.map(([lane, kind, n, start, end]) => [lane, kind, n, start, Math.min(end, found.end)])
    .filter(([, , , start, end]) => start < end - HAIR);
}
