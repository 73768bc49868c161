// A memory's figures in words, as memory_rungs.py has them; the tests compare. units.js stands before this file.

const UNKNOWN = "not published";

export function figureWords(rung, view, field) {
  const value = rung[view][field], { per_cycle } = rung[view];
  if (field === "capacity") return value === null ? "no store of its own" : sizeOf(value);
  if (value !== null) return byteRate(value);
  return per_cycle ? `${sizeOf(per_cycle)} a cycle` : UNKNOWN;
}

export function source(rung, view, field) {
  if (field === "latency") return rung.whose.latency;
  const figures = rung[view];
  if (figures[field] === null && (field === "capacity" || !figures.per_cycle)) return "";
  return view === "chip" && rung.whose.chip !== undefined ? rung.whose.chip : rung.whose[field];
}

export function timeWords(rung, view, size) {
  const { capacity, bandwidth, per_cycle } = rung[view];
  const over = capacity && size > capacity ? `, ${significant(size / capacity, 2)} times what it holds` : "";
  if (bandwidth === null) return per_cycle ? `at least ${count(Math.ceil(size / per_cycle))} cycles${over}` : UNKNOWN;
  return `${rung.latency_s === null ? "at least " : ""}${duration((rung.latency_s ?? 0) + size / bandwidth)}${over}`;
}
