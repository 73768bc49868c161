// The ring player: drawing and controls. Python made the bars, the moments and the words. dom.js and stepping.js come before
// this file.

const SIDE = 220, RADIUS = 82, DEVICE = 18; // of the ring, in its own units

// Returns where each device stands: the first of the ring at the top, the others clockwise.
function placesOf(ring) {
  return new Map(ring.map((device, place) => {
    const angle = (2 * Math.PI * place) / ring.length - Math.PI / 2;
    return [device, [SIDE / 2 + RADIUS * Math.cos(angle), SIDE / 2 + RADIUS * Math.sin(angle)]];
  }));
}

// Draws an arrow a little to the left of the line between two devices, so that two ways stand apart.
function drawArrow(parent, [x1, y1], [x2, y2], kind) {
  const length = Math.hypot(x2 - x1, y2 - y1), ux = (x2 - x1) / length, uy = (y2 - y1) / length;
  const from = [x1 + ux * (DEVICE + 4) + uy * 6, y1 + uy * (DEVICE + 4) - ux * 6];
  const to = [x2 - ux * (DEVICE + 6) + uy * 6, y2 - uy * (DEVICE + 6) - ux * 6];
  const barb = (a) => `${to[0] - 10 * (ux * Math.cos(a) - uy * Math.sin(a))} ${to[1] - 10 * (uy * Math.cos(a) + ux * Math.sin(a))}`;
  draw(parent, "path", { d: `M${from.join(" ")}L${to.join(" ")}M${barb(0.5)}L${to.join(" ")}L${barb(-0.5)}`, class: `course-arrow course-kind-${kind}` });
}

function render({ model, el }) {
  const ring = model.get("ring"), lanes = model.get("lanes"), bars = model.get("bars"), waits = model.get("waits");
  const times = model.get("times"), clocks = model.get("clocks"), said = model.get("said"), end = model.get("end"), last = times.length - 1;
  const at = placesOf(ring);
  const root = rootOf(el, "course-devices");
  make(root, "strong", "course-title", model.get("title"));
  const steps = stepping(model, root, "moment", last);
  const words = make(root, "p", "course-caption");
  words.setAttribute("aria-live", "polite");

  const sides = make(root, "div", "course-sides");
  const circle = draw(sides, "svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, class: "course-circle", role: "img" });
  ring.forEach((device, place) => {
    const [x1, y1] = at.get(device), [x2, y2] = at.get(ring[(place + 1) % ring.length]);
    draw(circle, "line", { x1, y1, x2, y2, class: "course-wire" });
  });
  const arrows = draw(circle, "g", {});
  const boxes = ring.map((device) => {
    const [x, y] = at.get(device);
    const box = draw(circle, "rect", { x: x - DEVICE, y: y - DEVICE, width: 2 * DEVICE, height: 2 * DEVICE, rx: 5 });
    draw(circle, "text", { x, y: y + 5, "text-anchor": "middle", class: "course-device" }, String(device));
    return [device, box];
  });

  const table = make(sides, "div", "course-lanes");
  const tracks = lanes.map(([name, , share]) => {
    const line = make(table, "div", "course-lane");
    make(line, "span", "course-lane-name", name);
    const track = make(line, "div", "course-track");
    make(line, "span", "course-share", share);
    return track;
  });
  const pieces = bars.map(([lane, begin, until, says]) => {
    const piece = make(tracks[lane], "div", `course-bar course-kind-${lanes[lane][1]}`);
    piece.style.left = `${(100 * begin) / end}%`;
    piece.style.width = `${(100 * (until - begin)) / end}%`;
    piece.title = says;
    return piece;
  });
  const cursors = tracks.map((track) => make(track, "div", "course-cursor"));
  make(root, "p", "course-note", "Blue: to the next device round the ring. Orange: to the one before. Green: the core. A grey device waits. "
    + "Each lane has the share of the time in which it is busy. Framed: what had to arrive before what is under way could begin.");
  make(root, "p", "course-keys", "Keys: ← →, Home, End");

  function show(step) {
    const now = times[step], is = ([, begin, until]) => begin <= now && now < until;
    put(words, said[step]);
    arrows.replaceChildren();
    const causes = new Set();
    bars.forEach((bar, n) => {
      pieces[n].classList.toggle("course-now", is(bar));
      if (!is(bar)) return;
      if (bar[4] >= 0) causes.add(bar[4]);
      const [, kind, , devices] = lanes[bar[0]];
      if (kind < 2) drawArrow(arrows, at.get(devices[0]), at.get(devices[1]), kind);
    });
    pieces.forEach((piece, n) => piece.classList.toggle("course-cause", causes.has(n)));
    const waiting = new Set(waits.filter(is).map(([device]) => device));
    boxes.forEach(([device, box]) => box.setAttribute("class", waiting.has(device) ? "course-box course-waits" : "course-box"));
    cursors.forEach((cursor) => { cursor.style.left = `${(100 * now) / end}%`; });
    circle.setAttribute("aria-label", said[step]);
    return clocks[step];
  }
  pieces.forEach((piece, n) => { piece.onclick = () => steps.goTo(times.indexOf(bars[n][1])); });
  return steps.begin(show);
}

export default { render };
