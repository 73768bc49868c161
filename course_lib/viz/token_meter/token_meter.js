// The token meter: bars of one step, and its controls. All arithmetic is in decode_costs.js, so that it moves without a
// kernel. dom.js, units.js and decode_costs.js come before this file.

const BYTES = [[1, "1 byte (int8)"], [2, "2 bytes (bfloat16)"]]; // of a weight, and of an element of the KV cache
// Contexts of the slider: 256, 384, 512, 768 ... 131,072 tokens.
const CONTEXTS = Array.from({ length: 19 }, (_, n) => 2 ** (8 + Math.floor(n / 2)) * (n % 2 ? 1.5 : 1));

function render({ model, el }) {
  const of = model.get("model"), chips = model.get("chips");
  const root = rootOf(el, "course-meter");
  make(root, "strong", "course-title", "Tokens per second, by bandwidth alone");
  make(root, "p", "course-about", `A model of ${significant(of.parameters / 1e9, 4)} billion parameters keeps the keys and values of ${count(of.layers)} layers, `
    + `${count(of.kv_heads)} heads of ${count(of.head)} elements.`);
  const bar = make(root, "div", "course-controls");
  const slider = (label, name, more) => {
    const control = field(bar, label, input("range", { step: 1, ...more }), name), shown = make(control.parentElement, "b");
    return { control, shown };
  };
  const sequences = slider("Sequences", "course-sequences", { min: 1, max: 256 });
  const context = slider("Context", "course-context", { min: 0, max: CONTEXTS.length - 1 });
  const weight = field(bar, "Weights", choice(BYTES)), kept = field(bar, "KV cache", choice(BYTES));
  const chip = field(bar, "Chip", choice(Object.entries(chips).map(([name, { bandwidth }]) => [name, `${name}, ${byteRate(bandwidth)}`])));

  const rates = make(root, "p", "course-rates");
  rates.setAttribute("aria-live", "polite");
  const total = make(rates, "b", "course-total"), each = make(rates, "span", "course-each");
  const stage = make(root, "div", "course-bars");
  const lines = ["weights", "KV cache", "memory"].map((name, n) => {
    make(stage, "span", "course-name", name);
    const track = make(stage, "div", "course-track"), parts = ["weights", "kept"].map((part) => make(track, "i", `course-${part}`));
    if (n < 2) parts[1 - n].remove();
    const limit = n === 2 ? make(track, "u") : null;
    return { parts, limit, words: make(stage, "span", "course-words") };
  });
  const longer = make(root, "p", "course-binds"), room = make(root, "p", "course-fits");
  make(root, "p", "course-note", "A step writes one token of each sequence. It reads all weights once, and the keys and values of every sequence: "
    + "the KV cache. The upper two bars are one step, the weights first. Arithmetic, latency and everything else are left out.");

  const nearest = (tokens) => CONTEXTS.reduce((best, each, n) => (Math.abs(each - tokens) < Math.abs(CONTEXTS[best] - tokens) ? n : best), 0);
  function place(part, from, share) {
    Object.assign(part.style, { left: `min(${100 * from}%, 100% - 2px)`, width: `max(2px, ${100 * share}%)` });
  }
  function show() {
    const setting = Object.fromEntries(["sequences", "context", "weight_bytes", "kept_bytes"].map((name) => [name, model.get(name)]));
    const memory = chips[model.get("chip")], found = cost(of, setting, memory);
    sequences.control.value = setting.sequences;
    put(sequences.shown, count(setting.sequences));
    context.control.value = nearest(setting.context);
    context.control.setAttribute("aria-valuetext", `${count(setting.context)} tokens`);
    put(context.shown, `${count(setting.context)} tokens`);
    weight.value = setting.weight_bytes;
    kept.value = setting.kept_bytes;
    chip.value = model.get("chip");
    put(total, `${rate(found.total)} in all`);
    put(each, `${rate(found.each)} for each sequence`);
    const step = found.weights_s + found.kept_s, share = found.weights_s / step;
    place(lines[0].parts[0], 0, share);
    place(lines[1].parts[1], share, 1 - share);
    put(lines[0].words, `${milliseconds(found.weights_s)}, ${sizeOf(found.weights)}`);
    put(lines[1].words, `${milliseconds(found.kept_s)}, ${sizeOf(found.kept)}`);
    const whole = Math.max(memory.hbm_bytes, found.weights + found.kept);
    place(lines[2].parts[0], 0, found.weights / whole);
    place(lines[2].parts[1], found.weights / whole, found.kept / whole);
    lines[2].limit.style.left = `${(100 * memory.hbm_bytes) / whole}%`;
    put(lines[2].words, `${sizeOf(memory.hbm_bytes)} at the line`);
    put(longer, binds(found));
    put(room, fits(found, memory));
    room.classList.toggle("course-over", found.free < 0);
  }
  function change(name, value) {
    model.set(name, value);
    model.save_changes();
  }
  sequences.control.oninput = () => change("sequences", Number(sequences.control.value));
  context.control.oninput = () => change("context", CONTEXTS[context.control.value]);
  weight.onchange = () => change("weight_bytes", Number(weight.value));
  kept.onchange = () => change("kept_bytes", Number(kept.value));
  chip.onchange = () => change("chip", chip.value);
  const names = ["chip", "sequences", "context", "weight_bytes", "kept_bytes"];
  for (const name of names) model.on(`change:${name}`, show);
  show();
  return () => { for (const name of names) model.off(`change:${name}`, show); };
}

export default { render };
