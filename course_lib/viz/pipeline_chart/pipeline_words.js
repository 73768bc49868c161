// The words of pipeline_words.py, and what happens in a step; the tests compare both.
// units.js and pipeline_lanes.js come before this file.

const wholeOf = (n) => count(Math.floor(n + 0.5));
const cycles = (n) => `${wholeOf(n)} cycles`;
const counted = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

export const title = (data, s) => `${data.kernel}, ${counted(s.buffers, "buffer")}, ${MODEL} on a ${data.chip}`;

export function readout(data, s, found) {
  const scalar = data.scalar ? `, ${wholeOf(data.scalar)} of them scalar code` : "", { parts } = found;
  const most = Math.max(...Object.values(parts).filter((part) => part !== null));
  const mark = (part) => (part === most ? ", the longest" : "");
  const rows = [["work, c", `${cycles(found.work)}${scalar}${mark(found.work)}`],
    ["bytes", `${cycles(parts.bytes)} at ${byteRate(data.bandwidth)}${mark(parts.bytes)}`]];
  for (const [name, buffers, there] of [["read", s.buffers, data.reads], ["write", OUT, data.writes]]) {
    if (!there.some(Boolean)) continue;
    const value = parts[name] === null ? `not each step ${name}s` : `${cycles(parts[name])}${mark(parts[name])}`;
    rows.push([`(latency of a ${name} + its bytes + c) / ${buffers}`, value]);
  }
  rows.push(["T, a step on average", `${cycles(found.step)}, ${duration(found.step / data.clock)}, ${MODEL}`], ["binds", found.bound],
    ["the core waits", percent(Math.max(0, 1 - found.work / found.step))],
    ["bubbles", `${found.bubbles.length} in the ${counted(Math.min(s.shown, found.steps.length), "step")} shown`]);
  if (data.compiled && untouched(data, s)) {
    rows.push(["predicted (compiler)", `${cycles(data.compiled)} a step, first copy and last write included`]);
  }
  return rows;
}
const untouched = (data, s) => s.buffers === data.buffers && s.block === 1 && s.work === data.work;

export function hints(data, s, found) {
  const said = [], reads = data.reads.some(Boolean);
  if (reads && s.buffers === 1) {
    said.push("With one buffer, a read is requested when the work on the previous block is done, so nothing hides it.");
  }
  if (reads && s.buffers > Math.max(OUT, data.buffers)) {
    said.push("pallas_call takes at most two buffers. emit_pipeline takes more for inputs; outputs have two as well.");
  }
  const parts = Object.values(found.parts).filter((part) => part !== null);
  if (found.step > 1.05 * Math.max(...parts)) said.push("T is more than each of its parts, because copies wait for one another.");
  if (data.compiled && untouched(data, s) && s.latency === "compiler" && found.step > 1.05 * data.compiled) {
    said.push("In the compiler's simulator, copies do not share the HBM; here they do.");
  }
  if (s.block !== 1) {
    said.push(`Blocks × ${significant(s.block, 3)}: bytes and work are assumed to grow with the block, scalar code to stay the same. `
      + "The work of a matmul grows faster, so set it too.");
  }
  const [read, write] = data.latency[s.latency];
  const whose = s.latency === "compiler" ? "predicted (compiler)" : "fitted to published timings";
  said.push(`Latency of a read ${cycles(read)}, of a write ${cycles(write)}, ${whose}${data.borrowed}. All copies share the HBM, `
    + `${wholeOf(data.bandwidth / data.clock)} bytes a cycle, fitted to published timings.`);
  return [...said, ...data.notes];
}

// Returns the words for a bubble, the longest first: the first that fits is used.
export function bubble(step, long, steps) {
  const name = step === 0 ? "prologue" : step === steps ? "drain" : "";
  return [...(name ? [`${name} ${wholeOf(long)}`] : []), wholeOf(long)];
}

// Says what step `n` does, and when.
export function caption(s, found, n) {
  const step = found.steps[n], before = found.steps[n - 1];
  const visits = found.steps.slice(0, n + 1).filter((each) => each.asked !== null).length;
  const said = step.asked === null ? [`Step ${n} reads nothing ahead.`]
    : [`Step ${n}: its read, requested at ${wholeOf(step.asked)}, fills buffer ${(visits - 1) % s.buffers} until `
      + `${wholeOf(step.arrives)}.`];
  if (step.alone !== null) said.push(`A block that has one buffer is requested at ${wholeOf(step.alone)}.`);
  const gap = found.bubbles.find(([number]) => number === n);
  const late = before && before.ends - before.done > step.begins - step.starts;
  said.push(gap ? `The core waits ${cycles(gap[2] - gap[1])} for ${late ? `the write of step ${n - 2}` : "it"}.`
    : "The core does not wait.");
  said.push(`It works from ${wholeOf(step.begins)} to ${wholeOf(step.done)}.`);
  if (step.leaves !== null) said.push(`The result leaves from ${wholeOf(step.leaves)} on and is gone at ${wholeOf(step.gone)}.`);
  return said.join(" ");
}
