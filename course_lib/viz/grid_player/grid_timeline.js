// The strip across all steps: one lane per operand, a tick for each copy, and marks where something goes wrong.

const LANE = 20, MARKS = 16; // pixels
const TICK = { in: BLUE, out: GREEN };

class Timeline {
  constructor(canvas, kernel) {
    Object.assign(this, { canvas, kernel });
    this.background = document.createElement("canvas");
  }

  get top() {
    return this.kernel.problemSteps.length ? MARKS : 0;
  }

  layout(width) {
    const { kernel } = this;
    this.width = Math.max(40, width);
    this.height = this.top + LANE * (kernel.lanes.length + kernel.accumulators.length);
    this.step = this.width / kernel.steps; // pixels
    this.context = sharp(this.canvas, this.width, this.height);
    const context = sharp(this.background, this.width, this.height);
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, this.width, this.height);
    this.drawOuterAxis(context);
    kernel.lanes.forEach((lane, n) => this.drawLane(context, lane, this.top + n * LANE));
    kernel.accumulators.forEach((each, n) => {
      drawFilling(context, each, this.top + (kernel.lanes.length + n) * LANE, this.width, this.step);
    });
    this.drawMarks(context);
  }

  // Draws light bands, one per unit of the innermost axis that is wide enough to see.
  drawOuterAxis(context) {
    const { kernel } = this;
    let unit = 1;
    for (const n of kernel.grid.slice().reverse()) {
      unit *= n;
      if (unit > 1 && unit < kernel.steps && unit * this.step >= 12) break;
    }
    if (unit <= 1 || unit >= kernel.steps) return;
    context.fillStyle = "#eef1f5";
    for (let from = unit; from < kernel.steps; from += 2 * unit) {
      context.fillRect(from * this.step, this.top, unit * this.step, this.height - this.top);
    }
  }

  drawLane(context, lane, y) {
    context.fillStyle = TICK[lane.direction];
    const high = LANE - 6;
    if (this.step >= 2) {
      for (const step of lane.when) {
        context.fillRect(step * this.step + 0.5, y + 3, Math.max(1, this.step - (this.step > 12 ? 4 : 1)), high);
      }
    } else {
      for (let x = 0; x < this.width; x++) {
        const from = Math.floor(x / this.step), until = Math.max(from + 1, Math.floor((x + 1) / this.step));
        const copies = upTo(lane.when, until - 1) - (from ? upTo(lane.when, from - 1) : 0);
        if (!copies) continue;
        const tall = Math.max(3, Math.min(1, copies / (until - from)) * high);
        context.fillRect(x, y + 3 + high - tall, 1, tall);
      }
    }
    context.fillStyle = LINE;
    context.fillRect(0, y + LANE - 1, this.width, 1);
  }

  drawMarks(context) {
    context.fillStyle = RED;
    let last = -Infinity;
    for (const step of this.kernel.problemSteps) {
      const x = (step + 0.5) * this.step;
      if (x - last < 3) continue;
      last = x;
      context.beginPath();
      context.moveTo(x - 6, 2);
      context.lineTo(x + 6, 2);
      context.lineTo(x, MARKS - 2);
      context.fill();
    }
  }

  draw(step) {
    const { context, width, height } = this, x = step * this.step, wide = Math.max(2, this.step);
    context.drawImage(this.background, 0, 0, width, height);
    context.fillStyle = "rgba(255, 255, 255, 0.62)"; // what is still to come is pale
    context.fillRect(x + wide, this.top, width, height);
    context.strokeStyle = INK;
    context.lineWidth = 2;
    context.strokeRect(Math.min(x, width - 3) + 1, this.top + 1, Math.max(1, wide - 2), height - this.top - 2);
  }

  stepAt(x) {
    return Math.max(0, Math.min(this.kernel.steps - 1, Math.floor(x / this.step)));
  }

  words() {
    const { kernel } = this;
    const lanes = kernel.lanes.map((lane) =>
      `${lane.name}: ${count(lane.when.length)} ${lane.direction === "in" ? "copies in" : "copies out"}`);
    lanes.push(...kernel.accumulators.map((each) => `${each.name}: how full it is`));
    const wrong = kernel.problemSteps.length;
    const problems = wrong ? ` ${count(wrong)} of the steps ${wrong === 1 ? "is" : "are"} marked as wrong.` : "";
    const binned = this.step < 2
      ? ` One column of pixels stands for about ${count(Math.round(1 / this.step))} steps.` : "";
    return `Timeline of ${count(kernel.steps)} steps. ${lanes.join("; ")}.${problems}${binned}`;
  }
}
