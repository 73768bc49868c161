// The systolic array: what a cycle does, as systolic.py has it; the tests compare. Below that, what is drawn.
// dom.js and units.js stand before this file.

// ---- one cycle

const rangeOf = (n) => Array.from({ length: n }, (_, i) => i);
export const cyclesOf = (x, w) => x.length + w.length + w[0].length - 2;
const sumTo = (x, w, m, column, rows) => rangeOf(rows).reduce((sum, k) => sum + x[m][k] * w[k][column], 0);

export function cellAt(x, w, cycle, row, column) {
  const m = cycle - 1 - row - column;
  if (cycle < 1 || m < 0 || m >= x.length) return null;
  const above = sumTo(x, w, m, column, row);
  return { row_of_x: m, x: x[m][row], above, total: above + x[m][row] * w[row][column] };
}
export const atWork = (x, w, cycle) =>
  rangeOf(w.length).flatMap((r) => rangeOf(w[0].length).filter((c) => cellAt(x, w, cycle, r, c))).length;
export const waiting = (x, w, cycle, row) =>
  rangeOf(x.length).filter((m) => m + row + 1 > cycle).map((m) => [m + row - cycle + 1, x[m][row]]);
export const out = (x, w, cycle) => rangeOf(x.length).map((m) => rangeOf(w[0].length).map((column) =>
  (cycle >= m + w.length + column ? sumTo(x, w, m, column, w.length) : null)));

export function caption(x, w, cycle) {
  const rows = w.length, columns = w[0].length, all = cyclesOf(x, w);
  if (cycle === 0) {
    return `Before the first cycle. The ${rows} x ${columns} weights lie in their cells, and stay there. `
      + "Each row of x will enter from the left, every number one cycle after the one above it.";
  }
  const left = rangeOf(x.length).flatMap((m) => rangeOf(columns).filter((c) => m + rows + c === cycle).map((c) => [m, c]));
  const said = [`Cycle ${cycle} of ${all}: ${atWork(x, w, cycle)} of ${rows * columns} cells work.`];
  if (left.length) said.push(`Out ${left.length === 1 ? "comes" : "come"} ${left.map(([m, c]) => `y[${m}, ${c}]`).join(", ")}.`);
  if (cycle < rows) said.push(`Nothing is out yet: a sum has ${rows} rows to pass.`);
  else if (cycle === rows) said.push(`The first result, after ${rows} cycles: one for each row of the array.`);
  const done = cycle - (rows + columns - 1);
  if (done === 0) said.push(`Row 0 of y is complete, after ${cycle} cycles.`);
  else if (done > 0 && done < x.length) said.push(`Row ${done} of y is complete: one row a cycle from now on.`);
  if (cycle === all) said.push("All of y is out.");
  return said.join(" ");
}
