// The grid player: all drawing happens here, with no round trip to the Python kernel.

const tuple = (numbers) => `(${numbers.join(", ")}${numbers.length === 1 ? "," : ""})`;
const MOVE = {
  input: ["copied in from HBM", "still here: no copy"],
  output: ["copied back to HBM", "stays: no copy"],
};

function make(parent, tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  parent.append(element);
  return element;
}

// One operand: its blocks as buttons, and a line that says what the pipeline does with the current one.
function drawOperand(parent, operand, goTo) {
  const box = make(parent, "div", "course-operand");
  make(box, "strong", "", operand.name);
  make(box, "div", "", `${operand.dtype}[${operand.shape}], block ${tuple(operand.block)}`);
  const blocks = make(box, "div", "course-blocks");
  const rows = operand.blocks.length > 1 ? operand.blocks[0] : 1;
  const columns = operand.blocks.at(-1) ?? 1;
  blocks.style.gridTemplateColumns = `repeat(${columns}, auto)`;
  const cells = new Map();
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const index = operand.blocks.length > 1 ? [row, column] : operand.blocks.length ? [column] : [];
      const cell = make(blocks, "button", "course-block", index.join(","));
      cell.tabIndex = -1; // the slider serves the keyboard; thousands of tab stops serve nobody
      cell.title = `${operand.name} block ${tuple(index)}`;
      const step = operand.indices.findIndex((i) => String(i) === String(index));
      cell.onclick = () => step >= 0 && goTo(step);
      cells.set(String(index), cell);
    }
  }
  const status = make(box, "div", "course-status");
  return (step) => {
    const seen = new Set(operand.indices.slice(0, step + 1).map(String));
    const current = String(operand.indices[step]);
    for (const [index, cell] of cells) {
      cell.classList.toggle("seen", seen.has(index));
      cell.classList.toggle("current", index === current);
    }
    status.textContent = MOVE[operand.role][operand.copied[step] ? 0 : 1];
    status.classList.toggle("course-copied", Boolean(operand.copied[step]));
  };
}

function render({ model, el }) {
  const data = model.get("data");
  const last = data.steps.length - 1;
  const root = make(el, "div", "course-player");
  const operands = make(root, "div", "course-operands");
  const draw = data.operands.map((operand) => drawOperand(operands, operand, goTo));

  const controls = make(root, "div", "course-controls");
  const back = make(controls, "button", "course-back", "◀");
  back.title = back.ariaLabel = "One step back";
  const play = make(controls, "button", "course-play", "Play");
  const next = make(controls, "button", "course-next", "▶");
  next.title = next.ariaLabel = "One step on";
  const slider = make(controls, "input", "course-slider");
  Object.assign(slider, { type: "range", min: 0, max: last, step: 1, ariaLabel: "Grid step" });
  slider.dataset.lmSuppressShortcuts = "true"; // or JupyterLab takes the arrow keys for itself
  const words = make(root, "p", "course-caption");
  words.setAttribute("aria-live", "polite");

  function moved(step) {
    return data.operands.reduce(
      (sum, o) => sum + o.bytes.slice(0, step + 1).reduce((s, n, k) => s + (o.copied[k] ? n : 0), 0), 0);
  }
  function show() {
    const step = model.get("step");
    slider.value = step;
    draw.forEach((update) => update(step));
    words.textContent = `Step ${step + 1} of ${last + 1}, grid index ${tuple(data.steps[step])}. ` +
      `HBM traffic so far: ${moved(step).toLocaleString("en")} bytes.`;
  }
  function goTo(step) {
    model.set("step", Math.max(0, Math.min(last, step)));
    model.save_changes();
  }
  let timer = null;
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
  back.onclick = () => goTo(model.get("step") - 1);
  next.onclick = () => goTo(model.get("step") + 1);
  slider.oninput = () => goTo(Number(slider.value));
  play.onclick = () => {
    if (timer) return stop();
    if (model.get("step") === last) goTo(0);
    play.textContent = "Pause";
    timer = setInterval(() => (model.get("step") === last ? stop() : goTo(model.get("step") + 1)), 700);
  };
  model.on("change:step", show);
  show();
  return () => { stop(); model.off("change:step", show); };
}

export default { render };
