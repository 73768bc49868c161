// One operand's array on a canvas: the plane of its last two axes, block by block.

const INK = "#1f2933", MUTED = "#56616d", LINE = "#c9d1d9", BLUE = "#0072b2", GREEN = "#007a59", RED = "#d55e00";
const FILL = ["#ffffff", "#cfe3f1", "#e6eff6", "#bfe5d8", "#fbe3c0", "#f9d3c0"];
const FONT = "13px system-ui, sans-serif";
const LEAST = 4; // pixels of a block; smaller ones are drawn together
const WINDOWS = 200; // earlier windows drawn if blocks may overlap

// Makes a canvas sharp on every screen; returns its 2d context, in CSS pixels.
function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// Makes a pattern of slanted strokes: rising, falling, or both if lean is 0.
function hatching(colour, lean, gap = 6) {
  const ratio = window.devicePixelRatio || 1, side = gap * ratio;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = Math.round(side);
  const context = canvas.getContext("2d");
  context.strokeStyle = colour;
  context.lineWidth = ratio;
  context.beginPath();
  for (const shift of [-canvas.width, 0, canvas.width]) {
    for (const rises of lean ? [lean > 0] : [true, false]) {
      context.moveTo(shift, rises ? canvas.height : 0);
      context.lineTo(shift + canvas.width, rises ? 0 : canvas.height);
    }
  }
  context.stroke();
  const pattern = context.createPattern(canvas, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

class Plane {
  constructor(canvas, operand) {
    Object.assign(this, { canvas, operand });
    this.slices = new Map(); // the blocks in each slice of the leading axes
    this.leading = Math.max(0, operand.rank - 2);
    for (let block = 0; block < operand.bytes.length; block++) {
      const key = this.sliceKey(block);
      if (!this.slices.has(key)) this.slices.set(key, []);
      this.slices.get(key).push(block);
    }
  }

  sliceKey(block) {
    return this.leading ? row(this.operand.starts, block, this.operand.rank).subarray(0, this.leading).join() : "";
  }

  // Fits the plane into a width, in proportion to the number of blocks rather than elements.
  layout(room) {
    this.margin = 5;
    const wide = Math.max(46, Math.min(72, room / 5)); // most pixels of a block
    this.sides = [this.side(-2, room < 260 ? 150 : 210, 0.65 * wide), this.side(-1, room - 2 * this.margin, wide)];
    const [down, across] = this.sides;
    this.context = sharp(this.canvas, across.pixels + 2 * this.margin, down.pixels + 2 * this.margin);
    this.hatches = {
      complete: hatching("#5fb99c", 1), again: hatching(RED, -1),
      lost: hatching(RED, 0), padding: hatching("#8a94a0", -1, 5),
    };
    this.cellsOf = null;
    this.drawn = "";
  }

  // Returns, for one axis: first element drawn, pixels, pixels per element, elements per cell, cells, blocks per cell.
  side(axis, room, most) {
    const { operand } = this, at = operand.rank + axis;
    if (at < 0) return { low: 0, pixels: Math.min(room, most), scale: Math.min(room, most), bin: 1, cells: 1, of: 1 };
    const size = operand.shape[at], block = (operand.space === "hbm" ? size / 4 : operand.block[at]) || 1;
    let least = Infinity, furthest = -Infinity;
    for (let n = at; n < operand.starts.length; n += operand.rank) {
      least = Math.min(least, operand.starts[n]);
      furthest = Math.max(furthest, operand.starts[n]);
    }
    const low = Math.min(0, Math.max(least, -2 * block));
    const high = Math.max(size, Math.min(furthest + block, Math.ceil(size / block) * block + 2 * block));
    const pixels = Math.min(room, (most * (high - low)) / block);
    const scale = pixels / Math.max(high - low, 1);
    const together = Math.max(1, Math.ceil(LEAST / Math.max(scale * block, 1e-9)));
    const bin = together * block;
    return { low, pixels, scale, bin, cells: Math.ceil((high - low) / bin), of: together };
  }

  // Returns the blocks per cell along both axes.
  get together() {
    return this.operand.moving ? [1, 1] : this.sides.map((side) => side.of);
  }

  // Returns [x, y, width, height] of a block on the canvas.
  box(block) {
    const { operand } = this, start = row(operand.starts, block, operand.rank);
    const spans = this.sides.map((side, n) => {
      const axis = operand.rank - 2 + n;
      if (axis < 0) return [0, side.pixels];
      const from = Math.max(0, Math.min(side.pixels - LEAST, (start[axis] - side.low) * side.scale));
      const until = (start[axis] + operand.block[axis] - side.low) * side.scale;
      return [from, Math.max(LEAST, Math.min(side.pixels, until) - from)];
    });
    return [this.margin + spans[1][0], this.margin + spans[0][0], spans[1][1], spans[0][1]];
  }

  // Returns the part of the plane that the array covers: [x, y, width, height].
  edge() {
    const [down, across] = this.sides.map((side, n) => {
      const axis = this.operand.rank - 2 + n;
      return axis < 0 ? [0, side.pixels] : [-side.low * side.scale, this.operand.shape[axis] * side.scale];
    });
    return [this.margin + across[0], this.margin + down[0], across[1], down[1]];
  }

  // Returns the part of a block inside the array.
  inside(block) {
    const [x, y, wide, high] = this.box(block), [left, top, across, down] = this.edge();
    const from = [Math.max(x, left), Math.max(y, top)];
    const until = [Math.min(x + wide, left + across), Math.min(y + high, top + down)];
    return [...from, Math.max(0, until[0] - from[0]), Math.max(0, until[1] - from[1])];
  }

  // Returns the block at a point of the canvas, in the slice shown; -1 if there is none. Of overlapping windows, it is
  // the first still to come.
  hit(x, y, run) {
    const key = this.sliceKey(this.operand.visits[run]), shown = this.slices.get(key);
    if (!this.operand.moving) return this.byPlace(key, shown).get(this.placeAt(x, y)) ?? -1;
    const under = shown.filter((block) => {
      const [left, top, wide, high] = this.box(block);
      return x >= left && x < left + wide && y >= top && y < top + high;
    });
    return under.find((block) => this.operand.firstRun[block] > run) ?? under[0] ?? -1;
  }

  // Returns the start, along the last two axes, of the block at a point of the canvas.
  placeAt(x, y) {
    return this.sides.map((side, n) => {
      const axis = this.operand.rank - 2 + n;
      if (axis < 0) return 0;
      const element = (n ? x - this.margin : y - this.margin) / side.scale + side.low, block = this.operand.block[axis];
      return Math.floor(element / block) * block;
    }).join();
  }

  byPlace(key, shown) {
    if (this.placesOf?.key !== key) {
      const { operand } = this;
      const start = (block, n) => (operand.rank - n < 0 ? 0 : operand.starts[(block + 1) * operand.rank - n]);
      this.placesOf = { key, places: new Map(shown.map((block) => [`${start(block, 2)},${start(block, 1)}`, block])) };
    }
    return this.placesOf.places;
  }

  // Returns, for each cell, the runs that decide its state.
  cells(block) {
    const key = this.sliceKey(block);
    if (this.cellsOf?.key === key) return this.cellsOf;
    const { operand, sides: [down, across] } = this, count = down.cells * across.cells;
    const cells = {
      key,
      firstMin: new Uint32Array(count).fill(NONE),
      firstMax: new Uint32Array(count),
      lastMax: new Uint32Array(count),
      secondMin: new Uint32Array(count).fill(NONE),
    };
    for (const block of this.slices.get(key)) {
      const start = row(operand.starts, block, operand.rank);
      const [i, j] = this.sides.map((side, n) => {
        const axis = operand.rank - 2 + n;
        return axis < 0 ? 0 : Math.floor((start[axis] - side.low) / side.bin);
      });
      if (i < 0 || j < 0 || i >= down.cells || j >= across.cells) continue;
      const cell = i * across.cells + j;
      cells.firstMin[cell] = Math.min(cells.firstMin[cell], operand.firstRun[block]);
      cells.firstMax[cell] = Math.max(cells.firstMax[cell], operand.firstRun[block]);
      cells.lastMax[cell] = Math.max(cells.lastMax[cell], operand.lastRun[block]);
      cells.secondMin[cell] = Math.min(cells.secondMin[cell], operand.secondRun[block]);
    }
    this.cellsOf = cells;
    return cells;
  }

  stateOf(cells, cell, run) {
    if (cells.firstMin[cell] > run) return NEVER;
    const output = this.operand.role === "output";
    if (output && cells.secondMin[cell] <= run) return LOST;
    if (cells.firstMax[cell] > run) return PARTLY;
    if (!output) return SEEN;
    return cells.lastMax[cell] > run ? AGAIN : COMPLETE;
  }

  draw(run, windows = []) {
    const key = `${run}/${windows.length ? windows : ""}`;
    if (this.drawn === key) return;
    this.drawn = key;
    const { context, operand, sides: [down, across], margin } = this, block = operand.visits[run];
    context.clearRect(0, 0, across.pixels + 2 * margin, down.pixels + 2 * margin);
    context.fillStyle = FILL[NEVER];
    context.fillRect(margin, margin, across.pixels, down.pixels);
    if (operand.space === "hbm") this.drawWindows(windows, BLUE);
    else if (operand.moving) this.drawWindows(this.earlier(run).map((b) => this.box(b)), FILL[SEEN]);
    else {
      context.save();
      context.beginPath();
      context.rect(...this.edge());
      context.clip();
      this.drawCells(run);
      context.restore();
    }
    this.drawEdge();
    if (operand.space !== "hbm") this.drawCurrent(run, block);
  }

  earlier(run) {
    const blocks = new Set(), key = this.sliceKey(this.operand.visits[run]);
    for (let n = run - 1; n >= 0 && n > run - 10 * WINDOWS && blocks.size < WINDOWS; n--) {
      const block = this.operand.visits[n];
      if (this.sliceKey(block) === key) blocks.add(block);
    }
    return [...blocks].reverse();
  }

  drawWindows(boxes, fill) {
    const { context } = this;
    for (const [x, y, wide, high] of boxes) {
      context.globalAlpha = 0.6;
      context.fillStyle = fill;
      context.fillRect(x, y, wide, high);
      context.globalAlpha = 1;
      context.strokeStyle = MUTED;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, Math.max(1, wide - 1), Math.max(1, high - 1));
    }
  }

  drawCells(run) {
    const { context, operand, sides: [down, across], margin } = this;
    const cells = this.cells(operand.visits[run]), paths = FILL.map(() => null);
    const wide = across.bin * across.scale, high = down.bin * down.scale;
    for (let i = 0, cell = 0; i < down.cells; i++) {
      const y = i * high, tall = Math.min(high, down.pixels - y);
      for (let j = 0; j < across.cells; j++, cell++) {
        const state = this.stateOf(cells, cell, run);
        if (state === NEVER) continue;
        const x = j * wide;
        (paths[state] ??= new Path2D()).rect(margin + x, margin + y, Math.min(wide, across.pixels - x), tall);
      }
    }
    paths.forEach((path, state) => {
      if (!path) return;
      context.fillStyle = FILL[state];
      context.fill(path);
      const over = { [COMPLETE]: this.hatches.complete, [AGAIN]: this.hatches.again, [LOST]: this.hatches.lost }[state];
      if (!over) return;
      context.fillStyle = over;
      context.fill(path);
    });
    context.strokeStyle = wide > 8 && high > 8 ? "#97a2ae" : LINE;
    context.lineWidth = wide > 8 && high > 8 ? 1 : 0.5;
    context.beginPath();
    for (let j = 1; j < across.cells; j++) {
      context.moveTo(margin + j * wide, margin);
      context.lineTo(margin + j * wide, margin + down.pixels);
    }
    for (let i = 1; i < down.cells; i++) {
      context.moveTo(margin, margin + i * high);
      context.lineTo(margin + across.pixels, margin + i * high);
    }
    context.stroke();
    this.drawLabels(run);
  }

  // Writes the index in each block if all of them have room.
  drawLabels(run) {
    const { context, operand, sides: [down, across] } = this;
    if (across.bin * across.scale < 30 || down.bin * down.scale < 17 || across.cells * down.cells > 400) return;
    context.font = FONT;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const shown = this.slices.get(this.cells(operand.visits[run]).key);
    const word = (block) => Array.from(row(operand.indices, block, operand.rank)).slice(-2).join(",");
    if (shown.some((block) => context.measureText(word(block)).width > across.bin * across.scale - 6)) return;
    context.strokeStyle = "rgba(255, 255, 255, 0.85)"; // keeps letters clear of hatches
    context.lineWidth = 4;
    context.lineJoin = "round";
    for (const block of shown) {
      const [x, y, wide, high] = this.inside(block);
      if (context.measureText(word(block)).width > wide - 2 || high < 15) continue;
      context.fillStyle = INK;
      context.strokeText(word(block), x + wide / 2, y + high / 2 + 0.5);
      context.fillText(word(block), x + wide / 2, y + high / 2 + 0.5);
    }
  }

  // Draws the edge of the array, and hatches the padding beyond it.
  drawEdge() {
    const { context, margin } = this, [down, across] = this.sides.map((side) => side.pixels + margin);
    const [x, y, wide, high] = this.edge();
    context.fillStyle = this.hatches.padding;
    for (const [left, top, right, bottom] of [
      [margin, margin, x, down], [x + wide, margin, across, down], [x, margin, x + wide, y], [x, y + high, x + wide, down],
    ]) if (right - left > 0.5 && bottom - top > 0.5) context.fillRect(left, top, right - left, bottom - top);
    context.strokeStyle = INK;
    context.lineWidth = 1.5;
    context.strokeRect(x, y, wide, high);
  }

  get hasPadding() {
    const [, , wide, high] = this.edge(), [down, across] = this.sides;
    return across.pixels - wide > 0.5 || down.pixels - high > 0.5;
  }

  drawCurrent(run, block) {
    const { context, operand } = this, [x, y, wide, high] = this.box(block);
    const bad = operand.outside[block] || revisited(operand, run);
    const inside = this.inside(block);
    context.fillStyle = BLUE;
    if (operand.moving) context.globalAlpha = 0.85;
    context.fillRect(...inside);
    context.globalAlpha = 1;
    if (wide < 16 || high < 16) { // a ring helps to find a small one
      context.strokeStyle = FILL[NEVER];
      context.lineWidth = 3;
      context.strokeRect(x - 1.5, y - 1.5, wide + 3, high + 3);
      context.strokeStyle = bad ? RED : INK;
      context.lineWidth = 2;
      context.strokeRect(x - 4, y - 4, wide + 8, high + 8);
    } else {
      context.strokeStyle = bad ? RED : INK;
      context.lineWidth = bad ? 3 : 2;
      context.strokeRect(x, y, wide, high);
    }
    if (bad) this.cross(x, y, wide, high);
    else this.label(operand, block, ...inside);
  }

  cross(x, y, wide, high) {
    const { context } = this, half = Math.min(9, wide / 2, high / 2), cx = x + wide / 2, cy = y + high / 2;
    for (const [colour, width] of [["#ffffff", 5], [RED, 2.5]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(cx - half, cy - half);
      context.lineTo(cx + half, cy + half);
      context.moveTo(cx + half, cy - half);
      context.lineTo(cx - half, cy + half);
      context.stroke();
    }
  }

  label(operand, block, x, y, wide, high) {
    const { context } = this, words = Array.from(row(operand.moving ? operand.starts : operand.indices, block,
      operand.rank)).slice(-2).join(",");
    context.font = `600 ${FONT}`;
    if (high < 15 || context.measureText(words).width > wide - 4) return;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = "#ffffff";
    context.fillText(words, x + wide / 2, y + high / 2 + 0.5);
  }
}
