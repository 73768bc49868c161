// The capability matrix: rows to tick, cells to pick. Python has the words of every cell. dom.js comes before this file.

// Returns the least that an engine can do of the needs, as capabilities.standing does.
const standing = (rows, needs, engine) => {
  const can = needs.map((need) => rows[need][1][engine][0]);
  return ["no", "partly"].find((word) => can.includes(word)) ?? "yes";
};

// Says the same as capabilities.said; the tests compare.
export function said(engines, rows, needs) {
  if (!needs.length) return "Tick what you need, and the engines that lack it fade.";
  const names = (can) => engines.map(([name]) => name).filter((_, n) => standing(rows, needs, n) === can).join("; ");
  const part = names("partly");
  return `All of it: ${names("yes") || "no engine"}.${part && ` Some of it in part: ${part}.`}`;
}

// Says the same as matrix_still.explained; the tests compare.
export function explained(engines, rows, [row, column]) {
  const [name, cells] = rows[row], [can, why, source] = cells[column];
  return `${engines[column][0]}, ${name}: ${can}. ${why} Source: ${source}.`;
}

function render({ model, el }) {
  const engines = model.get("engines"), rows = model.get("rows");
  const root = rootOf(el, "course-capabilities");
  make(root, "strong", "course-title", model.get("title"));
  const table = make(make(root, "div", "course-wide"), "table"), head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  make(head, "th", "", "I need").scope = "col";
  const heads = engines.map(([name, by]) => {
    const cell = make(head, "th", "course-engine");
    cell.scope = "col";
    make(cell, "span", "", name);
    make(cell, "small", "", by);
    return cell;
  });
  const lines = rows.map(([name, cells], row) => {
    const line = make(body, "tr"), first = make(line, "th"), label = make(first, "label"), box = make(label, "input");
    first.scope = "row";
    Object.assign(box, { type: "checkbox", onchange: () => tick(row, box.checked) });
    make(label, "span", "", name);
    const buttons = cells.map(([can], column) => {
      const cell = make(make(line, "td"), "button", `course-cell course-${can}`, can);
      Object.assign(cell, { type: "button", ariaLabel: `${engines[column][0]}, ${name}: ${can}`, onclick: () => pick(row, column) });
      return cell;
    });
    return { line, box, buttons };
  });
  const why = make(root, "p", "course-caption"), verdict = make(root, "p", "course-verdict");
  for (const words of [why, verdict]) words.setAttribute("aria-live", "polite");
  make(root, "p", "course-keys", "Keys: Space ticks a row; arrows, Home and End move from cell to cell.");

  const within = (number, last) => Math.max(0, Math.min(last, number ?? 0));
  const at = () => [within(model.get("picked")[0], rows.length - 1), within(model.get("picked")[1], engines.length - 1)];
  const needed = () => model.get("needs").filter((need) => rows[need]).sort((a, b) => a - b);
  function tell(trait, value) {
    model.set(trait, value);
    model.save_changes();
  }
  const tick = (row, on) => tell("needs", on ? [...needed(), row].sort((a, b) => a - b) : needed().filter((need) => need !== row));
  function pick(row, column) {
    const target = [within(row, rows.length - 1), within(column, engines.length - 1)];
    if (String(target) !== String(at())) tell("picked", target);
    lines[target[0]].buttons[target[1]].focus();
  }
  body.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !event.target.classList.contains("course-cell")) return;
    const [row, column] = at();
    const moves = {
      ArrowDown: [row + 1, column], ArrowUp: [row - 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, engines.length - 1],
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    pick(...moves[event.key]);
  };
  function show() {
    const needs = needed(), [row, column] = at();
    lines.forEach(({ line, box, buttons }, n) => {
      box.checked = needs.includes(n);
      line.classList.toggle("course-needed", box.checked);
      buttons.forEach((cell, m) => {
        const here = n === row && m === column;
        cell.tabIndex = here ? 0 : -1; // one stop of Tab for all cells
        cell.ariaCurrent = here ? "true" : null;
        cell.classList.toggle("course-out", needs.length > 0 && standing(rows, needs, m) === "no");
      });
    });
    heads.forEach((cell, n) => { cell.dataset.can = needs.length ? standing(rows, needs, n) : ""; });
    put(why, explained(engines, rows, [row, column]));
    put(verdict, said(engines, rows, needs));
  }
  for (const name of ["needs", "picked"]) model.on(`change:${name}`, show);
  show();
  return () => { for (const name of ["needs", "picked"]) model.off(`change:${name}`, show); };
}

export default { render };
