// Words in a plot: each goes where it covers no other words and no mark, and crosses the fewest lines.

const halo = { stroke: "#ffffff", "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke" };

// Returns the corners of a line of text, turned by `angle` about its anchor.
function around(x, y, width, anchor, angle) {
  const left = { start: 0, middle: -width / 2, end: -width }[anchor], cos = Math.cos(angle), sin = Math.sin(angle);
  return [[left - 2, -13], [left + width + 2, -13], [left + width + 2, 4], [left - 2, 4]]
    .map(([right, down]) => [x + right * cos - down * sin, y + right * sin + down * cos]);
}
const square = (x, y, half) => [[x - half, y - half], [x + half, y - half], [x + half, y + half], [x - half, y + half]];

// Whether two convex shapes (a line has two corners) are apart: a side of one of them separates them.
function apart(a, b) {
  return [a, b].some((shape) => shape.some(([x0, y0], n) => {
    const [x1, y1] = shape[(n + 1) % shape.length], across = ([x, y]) => x * (y1 - y0) - y * (x1 - x0);
    const [ours, theirs] = [a.map(across), b.map(across)];
    return Math.max(...ours) <= Math.min(...theirs) || Math.max(...theirs) <= Math.min(...ours);
  }));
}

// Writes the text of the best of `tried`, { x, y, anchor, angle, text } each, preferring earlier ones, and adds its
// shape to `taken`, the shapes in the way. `at` has the edges of the plot. `optional`: writes nothing if all is taken.
function write(g, tried, { taken, at }, { optional = false, ...look }) {
  const element = draw(g, "text", { ...halo, ...look });
  const cost = ({ x, y, anchor = "start", angle = 0, text }, rank) => {
    element.textContent = text;
    const shape = around(x, y, element.getComputedTextLength(), anchor, angle);
    const outside = shape.some(([cx, cy]) => cx < at.least || cx > at.most || cy < 0 || cy > at.bottom);
    const covered = taken.filter((other) => !apart(shape, other.shape));
    const words = covered.filter((other) => !other.line).length, lines = covered.length - words;
    const price = 1000 * outside + 100 * words + 3 * lines + 0.1 * rank;
    return { x, y, anchor, angle, text, shape, free: !outside && !words, cost: price };
  };
  const best = tried.map(cost).reduce((least, each) => (each.cost < least.cost ? each : least));
  if (optional && !best.free) return element.remove();
  element.textContent = best.text;
  element.setAttribute("text-anchor", best.anchor);
  element.setAttribute("transform", `translate(${best.x} ${best.y}) rotate(${(best.angle * 180) / Math.PI})`);
  taken.push({ shape: best.shape });
}

// Returns places beside a mark at (x, y), nearest first.
const beside = (x, y, text) => [1, 1.8, 2.7, 3.6].flatMap((far) => [[18, 26, "start"], [-18, 26, "end"], [20, 5, "start"],
  [-20, 5, "end"], [18, -16, "start"], [-18, -16, "end"], [0, 36, "middle"], [0, -24, "middle"]]
  .map(([right, down, anchor]) => ({ x: x + right * far, y: y + 5 + (down - 5) * far, anchor, text })));
