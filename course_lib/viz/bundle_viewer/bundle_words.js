// What a bundle viewer shows of a program, and how it says so, as bundle_words.py has it; the tests compare. No drawing.
// dom.js and units.js stand before this file.

const LASTING = ["MXU", "XLU", "EUP"]; // units that go on working after the bundle that started them
const LATER = "still at work on what began before", ELSEWHERE = "taken by an operation of another column";

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

export function loopWords(data, number) {
  const [first, last, turns] = data.loops[number];
  const makes = turns === null ? "a number of turns that is not known before it runs" : `${count(turns)} turn${turns === 1 ? "" : "s"}`;
  const inside = data.loops.some(([f, l]) => (f !== first || l !== last) && f <= first && last <= l);
  const each = inside ? " each time the loop around it comes to it" : "", bundles = last - first + 1;
  return `Loop of ${count(bundles)} ${bundles === 1 ? "bundle" : "bundles"}, ${first} to ${last}. It makes ${makes}${each}.`;
}

// How often a bundle is issued, if no branch jumps over it; null where that is not known.
export function times(data, row) {
  const around = data.loops.filter(([first, last]) => first <= row && row <= last).map(([, , turns]) => turns);
  return around.includes(null) ? null : around.reduce((product, n) => product * n, 1);
}
const started = (data, row, column) => data.rows[row][1].filter(([unit]) => unit === column);

// How much of a unit a bundle uses, in quarters of its slots.
export function use(data, row, column) {
  const uses = data.rows[row][0][column], most = Math.max(uses, started(data, row, column).length);
  return most ? Math.min(4, Math.ceil((4 * most) / (data.offered[column] || most))) : 0;
}

export function cellWords(data, row, column) {
  const unit = data.units[column], offered = data.offered[column], uses = data.rows[row][0][column];
  const own = started(data, row, column);
  if (!own.length && !uses) return `bundle ${row}, ${unit}: nothing`;
  const busy = offered ? `, ${uses} of ${offered} in use` : "";
  if (!own.length) return `bundle ${row}, ${unit}${busy}: ${LASTING.includes(unit) ? LATER : ELSEWHERE}`;
  return `bundle ${row}, ${unit}${busy}: ${own.map((each) => said(data, each)).join("; ")}`;
}

export function said(data, [, words, number, column, end]) {
  if (number === undefined) return words;
  const [file, line] = data.lines[number], source = data.sources[number].slice(column, end || undefined).trim();
  return `${words}, from ${file ? `${file} ` : ""}line ${line}${source ? `, ${source}` : ""}`;
}

// Share of each unit's slots that the bundles of a range use; of what has no slots, of the bundles with any.
export function loopUses(data, first, last) {
  const rows = Array.from({ length: last - first + 1 }, (_, n) => first + n);
  const add = (values) => values.reduce((sum, n) => sum + n, 0);
  return data.offered.map((offered, column) => (offered
    ? add(rows.map((row) => data.rows[row][0][column])) / (offered * rows.length)
    : rows.filter((row) => started(data, row, column).length).length / rows.length));
}
