// The three engines: a column for each machine, and an aspect to pick. Python read the kernels and the compilers' words.
// dom.js and stepping.js come before this file.

const SPACES = 4, INDENT = 0.9, HANGING = 1.6; // spaces of a level; em of a level, and of a line that goes on
const ABOVE = 40; // pixels of context above the first marked line

// Draws a line of code; one that is too long for its column goes on below, further to the right.
function drawLine(parent, text, number) {
  const indent = text.search(/\S|$/), line = make(parent, "div", "course-line", text.trim() || " ");
  Object.assign(line.style, { paddingLeft: `${(indent / SPACES) * INDENT + HANGING + 0.4}em`, textIndent: `-${HANGING}em` });
  if (number) line.dataset.number = number;
  return line;
}

function drawColumn(parent, engine) {
  const column = make(parent, "section", "course-column");
  make(column, "strong", "course-engine", engine.name);
  const says = make(column, "p", "course-says");
  make(column, "p", "course-file", engine.file);
  const box = make(column, "div", "course-code course-kernel");
  Object.assign(box, { tabIndex: 0, role: "region", ariaLabel: `The kernel in ${engine.file}` });
  const lines = new Map(engine.lines.map(([number, text]) => [number, drawLine(box, text, number)]));
  const heading = make(column, "p", "course-file"), program = make(column, "div", "course-code course-program");
  return (cell) => {
    put(says, cell.says);
    for (const [number, line] of lines) {
      const marked = cell.marks.includes(number);
      line.classList.toggle("course-marked", marked);
      line.ariaCurrent = marked ? "true" : null;
    }
    box.scrollTop = cell.marks.length ? lines.get(Math.min(...cell.marks)).offsetTop - ABOVE : 0;
    put(heading, cell.heading);
    program.replaceChildren();
    for (const text of cell.program) drawLine(program, text);
    program.hidden = !cell.program.length;
  };
}

function render({ model, el }) {
  const engines = model.get("engines"), aspects = model.get("aspects");
  const root = rootOf(el, "course-engines");
  make(root, "strong", "course-title", model.get("title"));
  const bar = make(root, "div", "course-picks");
  const picks = aspects.map(({ name }, n) => {
    const pick = make(bar, "button", "course-pick-aspect", name);
    pick.type = "button";
    pick.onclick = () => steps.goTo(n);
    return pick;
  });
  const steps = stepping(model, root, "aspect", aspects.length - 1);
  const sides = make(root, "div", "course-sides"), columns = engines.map((engine) => drawColumn(sides, engine));
  make(root, "p", "course-note", model.get("note"));
  make(root, "p", "course-keys", "Keys: ← →, Home, End; in a kernel ↑ ↓ scroll.");
  return steps.begin((step) => {
    picks.forEach((pick, n) => { pick.ariaPressed = String(n === step); });
    columns.forEach((show, n) => show(aspects[step].cells[n]));
    return `${step + 1} of ${aspects.length}: ${aspects[step].name}`;
  });
}

export default { render };
