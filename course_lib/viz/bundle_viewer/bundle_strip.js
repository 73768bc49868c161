// The strip above the table shows the whole program: a lane for each unit, darker where fuller, and loop brackets.

const LANE = 16, LOOP = 7; // pixels
const SHADES = ["#eef1f5", "#c6dcec", "#86b7da", "#3d8dc4", "#0072b2"]; // for 0 to 4 quarters of a unit's slots
const VIEW = "#e69f00", BRACKET = "#56616d";

// Returns, for every bundle and unit in turn, the quarters in use (as bundle_data.use) and the operations started.
export function usesOf(data) {
  const width = data.units.length, uses = new Uint8Array(data.rows.length * width), own = new Uint8Array(uses.length);
  data.rows.forEach(([slots, operations], row) => {
    for (const [column] of operations) own[row * width + column] += 1;
    for (let column = 0; column < width; column++) {
      const most = Math.max(slots[column], own[row * width + column]);
      if (most) uses[row * width + column] = Math.min(4, Math.ceil((4 * most) / (data.offered[column] || most)));
    }
  });
  return { uses, own };
}
const depthOf = (data, loop) => data.loops.filter(([f, l]) => f <= loop[0] && loop[1] <= l).length;

class Strip {
  constructor(canvas, data, uses) {
    Object.assign(this, { canvas, data, uses, depths: data.loops.map((loop) => depthOf(data, loop)) });
    this.background = document.createElement("canvas");
  }

  layout(width) {
    const { data } = this, scale = window.devicePixelRatio || 1;
    this.width = Math.max(40, width);
    this.top = LOOP * Math.max(0, ...this.depths);
    this.height = this.top + LANE * data.units.length + 2;
    for (const canvas of [this.canvas, this.background]) {
      Object.assign(canvas, { width: this.width * scale, height: this.height * scale });
      Object.assign(canvas.style, { width: `${this.width}px`, height: `${this.height}px` });
      canvas.getContext("2d").scale(scale, scale);
    }
    this.drawProgram(this.background.getContext("2d"));
  }

  at(row) {
    return (row / this.data.rows.length) * this.width;
  }

  rowAt(x) {
    const { length } = this.data.rows;
    return Math.max(0, Math.min(length - 1, Math.floor((x / this.width) * length)));
  }

  drawProgram(context) {
    const { data, uses } = this, columns = data.units.length;
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, this.width, this.height);
    data.loops.forEach(([first, last], n) => {
      context.fillStyle = BRACKET;
      context.fillRect(this.at(first), (this.depths[n] - 1) * LOOP + 1, Math.max(2, this.at(last + 1) - this.at(first)), LOOP - 3);
    });
    const wide = this.width / data.rows.length, pixels = wide >= 1 ? data.rows.length : this.width;
    for (let n = 0; n < pixels; n++) {
      const from = wide >= 1 ? n : this.rowAt(n), until = wide >= 1 ? n + 1 : Math.max(from + 1, this.rowAt(n + 1));
      for (let column = 0; column < columns; column++) {
        let sum = 0;
        for (let row = from; row < until; row++) sum += uses[row * columns + column];
        context.fillStyle = SHADES[Math.ceil(sum / (until - from))]; // rounded up, so that any use is visible
        const x = wide >= 1 ? n * wide : n;
        context.fillRect(x, this.top + column * LANE, Math.max(1, wide) + 0.3, LANE - 1);
      }
    }
  }

  // `first` to `last` are the rows visible below.
  draw(first, last, row) {
    const context = this.canvas.getContext("2d");
    context.drawImage(this.background, 0, 0, this.width, this.height);
    context.strokeStyle = VIEW;
    context.lineWidth = 2;
    context.strokeRect(this.at(first) + 1, this.top, Math.max(4, this.at(last + 1) - this.at(first)) - 2, this.height - this.top - 1);
    context.fillStyle = "#1f2933";
    context.fillRect(this.at(row + 0.5) - 1, this.top - 2, 2, this.height - this.top + 2);
  }
}
