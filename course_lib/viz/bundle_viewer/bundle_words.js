// The program of a viewer, unpacked, and what the table tells a screen reader about a bundle.

const LASTING = ["MXU", "XLU", "EUP"]; // units that keep working after the bundle that started them
const LATER = "still working on earlier operations", ELSEWHERE = "used by an operation in another column";

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// Returns how often a bundle is issued if no branch jumps over it; null if unknown.
export function times(data, row) {
  const around = data.loops.filter(([first, last]) => first <= row && row <= last).map(([, , turns]) => turns);
  return around.includes(null) ? null : around.reduce((product, n) => product * n, 1);
}
const started = (data, row, column) => data.rows[row][1].filter(([unit]) => unit === column);

export function cellWords(data, row, column) {
  const unit = data.units[column], offered = data.offered[column], uses = data.rows[row][0][column];
  const own = started(data, row, column);
  if (!own.length && !uses) return `bundle ${row}, ${unit}: nothing`;
  const busy = offered ? `, ${uses} of ${offered} in use` : "";
  if (!own.length) return `bundle ${row}, ${unit}${busy}: ${LASTING.includes(unit) ? LATER : ELSEWHERE}`;
  return `bundle ${row}, ${unit}${busy}: ${own.map((each) => said(data, each)).join("; ")}`;
}

function said(data, [, words, number, column, end]) {
  if (number === undefined) return words;
  const [file, line] = data.lines[number], source = data.sources[number].slice(column, end || undefined).trim();
  return `${words}, from ${file ? `${file} ` : ""}line ${line}${source ? `, ${source}` : ""}`;
}
