// The page player: drawing and controls. Frames made by Python say who has which pages in each step. dom.js and
// stepping.js come before this file.

const NARROWEST = 0.05; // share of a bar that has room for a letter

// Returns for each page of the pool whose it is and how many tokens are in it; null for a free one.
function pagesOf({ rows }, room, page) {
  const cells = Array(room).fill(null);
  rows.forEach(([, length, pages], whose) => pages.forEach((number, place) => {
    cells[number] = { whose, tokens: Math.min(page, length - place * page) };
  }));
  return cells;
}

function drawBar(parent, name) {
  const box = make(parent, "div", "course-use"), words = make(box, "p", "course-words"), bar = make(box, "div", `course-bar ${name}`);
  bar.setAttribute("aria-hidden", "true"); // the words above say the same
  return { words, bar };
}

function render({ model, el }) {
  const names = model.get("names"), frames = model.get("frames"), room = model.get("room"), page = model.get("page");
  const all = room * page, reserve = model.get("reserve"), last = frames.length - 1;
  const root = rootOf(el, "course-pages");
  make(root, "strong", "course-title", `A pool of ${room} ${room === 1 ? "page" : "pages"} with room for ${page} ${page === 1 ? "token" : "tokens"} each`);
  const steps = stepping(model, root, "step", last);
  const words = make(root, "p", "course-caption");
  words.setAttribute("aria-live", "polite");

  const sides = make(root, "div", "course-sides"), pool = make(sides, "div", "course-pool");
  pool.setAttribute("role", "img");
  const cells = Array.from({ length: room }, (_, number) => {
    const cell = make(pool, "div");
    make(cell, "span", "course-number", String(number));
    const letter = make(cell, "b");
    cell.onpointerenter = () => { overPage = number; mark(); };
    return { cell, letter };
  });
  pool.onpointerleave = () => { overPage = null; mark(); };
  const table = make(make(sides, "div", "course-tables"), "table"), head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  for (const name of ["", "state", "tokens", "pages in order"]) make(head, "th", "", name).scope = "col";
  head.firstChild.ariaLabel = "sequence";
  const lines = names.map((name, n) => {
    const line = make(body, "tr"), first = make(line, "th"), chip = button(first, `course-name course-of-${n}`, name, `Highlight the pages of ${name}`);
    first.scope = "row";
    chip.onclick = () => chip.focus(); // which Safari does not do by itself
    chip.onfocus = () => { focused = n; mark(); };
    chip.onblur = () => { focused = null; mark(); };
    line.onpointerenter = () => { overLine = n; mark(); };
    line.onpointerleave = () => { overLine = null; mark(); };
    return { line, parts: ["state", "tokens", "list"].map((part) => make(line, "td", `course-${part}`)) };
  });
  const inPages = drawBar(root, "course-paged"), inPieces = drawBar(root, "course-reserved");
  make(root, "p", "course-note", "The filled part of a page or piece holds tokens; the hatched part is lost. A page without a letter is free. "
    + "Move over a sequence, or focus it (Tab), to see the pages that its next token reads.");
  make(root, "p", "course-keys", "Keys: ← →, Home, End");

  let now = [], overPage = null, overLine = null, focused = null;
  function mark() {
    const whose = now[overPage]?.whose ?? overLine ?? focused;
    root.classList.toggle("course-marks", whose !== null && frames[steps.now()].rows[whose][2].length > 0);
    cells.forEach(({ cell }, number) => cell.classList.toggle("course-marked", whose !== null && now[number]?.whose === whose));
    lines.forEach(({ line }, n) => line.classList.toggle("course-marked", n === whose));
  }
  function fill(parent, whose, share) { // the part of room that holds tokens
    parent.style.setProperty("--full", `${100 * share}%`);
    parent.classList.add("course-taken", `course-of-${whose}`);
  }
  function show(step) {
    const frame = frames[step], { rows } = frame;
    now = pagesOf(frame, room, page);
    cells.forEach(({ cell, letter }, number) => {
      cell.className = "course-page";
      put(letter, now[number] ? names[now[number].whose] : "");
      if (now[number]) fill(cell, now[number].whose, now[number].tokens / page);
    });
    lines.forEach(({ line, parts }, n) => {
      const [state, length, pages] = rows[n];
      line.dataset.state = state;
      [state, length ? String(length) : "", pages.join(", ")].forEach((text, part) => put(parts[part], text));
    });
    put(words, frame.says);
    put(inPages.words, frame.used);
    put(inPieces.words, frame.reserved);
    const having = names.map((_, n) => n).filter((n) => rows[n][2].length);
    fillBar(inPages.bar, having, rows, (n) => rows[n][2].length * page);
    fillBar(inPieces.bar, having.slice(0, frame.fit), rows, () => reserve);
    pool.ariaLabel = `The pool: ${having.map((n) => `${names[n]} has pages ${rows[n][2].join(", ")}`).join("; ") || "all pages are free"}`;
    mark();
    return `step ${step} of ${last}`;
  }
  function fillBar(bar, whose, rows, roomOf) {
    bar.replaceChildren();
    for (const n of whose) {
      const has = roomOf(n), share = rows[n][1] / has, piece = make(bar, "div", "course-piece");
      piece.style.width = `${(100 * has) / all}%`;
      fill(piece, n, share);
      if ((share * has) / all < NARROWEST) continue;
      make(piece, "b", "", names[n]).style.width = `${100 * share}%`;
    }
  }
  return steps.begin(show);
}

export default { render };
