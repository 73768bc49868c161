// The cost bars: Python counts and words everything; the browser chooses and sorts rows. dom.js comes before this file.

function render({ model, el }) {
  const root = rootOf(el, "course-costs");
  make(root, "strong", "course-title", "What an operation costs");
  const bar = make(root, "div", "course-bar");
  const named = make(bar, "label", "", "dtype and chip "), column = make(named, "select", "course-column");
  column.ariaLabel = "dtype and chip";
  for (const name of model.get("columns")) make(column, "option", "", name).value = name;
  const ticked = make(bar, "label", "course-all"), all = make(ticked, "input");
  all.type = "checkbox";
  ticked.append(" also what JAX's page does not classify");
  const table = make(root, "table"), head = make(make(table, "thead"), "tr");
  for (const name of ["operation", "JAX's page", "cycles for 1,024 elements", "on a v5e in f32"]) make(head, "th", "", name).scope = "col";
  const body = make(table, "tbody");
  make(root, "p", "course-note", model.get("note"));
  const status = make(root, "p", "course-status");
  status.setAttribute("aria-live", "polite");

  function show() {
    const wanted = model.get("column"), every = model.get("all_rows");
    column.value = wanted;
    all.checked = every;
    const rows = model.get("rows").filter((row) => row.cells[wanted] && (every || row.says));
    rows.sort((a, b) => a.cells[wanted].cycles - b.cells[wanted].cycles);
    body.replaceChildren();
    for (const row of rows) {
      const line = make(body, "tr"), cell = row.cells[wanted];
      make(line, "th", "course-name", row.name).scope = "row";
      make(line, "td", "course-says", row.says);
      const field = make(make(line, "td", "course-cost"), "div", "course-field");
      for (const share of model.get("lines")) make(field, "i", "course-ten").style.left = `${85 * share}%`;
      const drawn = make(field, "span", `course-price course-${row.says || "unsorted"}`);
      drawn.style.width = `${85 * cell.share}%`;
      make(field, "b", "", cell.words).style.left = `${85 * cell.share}%`;
      make(line, "td", "course-slots", row.slots);
    }
    put(status, `${wanted}: ${rows.length} operations, the cheapest first.`);
  }
  function tell(name, value) {
    model.set(name, value);
    model.save_changes();
  }
  column.onchange = () => tell("column", column.value);
  all.onchange = () => tell("all_rows", all.checked);
  for (const name of ["column", "all_rows"]) model.on(`change:${name}`, show);
  show();
  return () => { for (const name of ["column", "all_rows"]) model.off(`change:${name}`, show); };
}

export default { render };
