// The accumulators of a kernel: a box for each part they hold, and words. grid_accumulator.py says the same.

const CELLS = 24; // boxes of one accumulator; with more parts, a box stands for several
const FLAGS = { left: 1, begun: 2, zeroed: 4, constant: 8, added: 16, garbage: 32 };

function accumulatorWords(each, step) {
  const is = (flag) => Boolean(each.flags[step] & FLAGS[flag]), parts = each.parts[step], of = each.of[step];
  let said = is("left") ? ["garbage"] : is("begun") ? ["old value"] : [];
  if (is("zeroed")) said.push("zeroed");
  else if (is("constant")) said.push("set to a constant");
  if (is("garbage")) {
    if (!is("left") || parts) said = [`garbage and ${parts ? count(parts) : "no"} ${parts === 1 ? "part" : "parts"}`];
  } else if (parts) said.push(`${count(parts)} of ${count(of)} parts`);
  else if (!said.length) said.push("no part yet");
  const into = each.stored.filter((store) => store.steps[step]).map((store) => store.name);
  return into.length ? [...said, `stored to ${into.join(" and ")}`] : said;
}

function drawAccumulators(parent, kernel) {
  if (!kernel.accumulators.length) return { show() {} };
  const box = make(parent, "section", "course-carried");
  make(box, "div", "course-place", "Carried in VMEM from step to step");
  const rows = kernel.accumulators.map((each) => {
    const line = make(box, "div", "course-carried-row");
    make(line, "strong", "", each.name);
    const bar = make(line, "div", "course-parts"), words = make(line, "span", "course-carried-words");
    bar.ariaHidden = "true"; // the words say it
    return (step) => {
      const parts = each.parts[step], of = each.of[step], cells = Math.min(of, CELLS);
      if (bar.children.length !== cells) bar.replaceChildren(...Array.from({ length: cells }, () => document.createElement("i")));
      for (let cell = 0; cell < cells; cell++) {
        const begins = Math.floor((cell * of) / cells), ends = Math.floor(((cell + 1) * of) / cells);
        const now = begins < parts && parts <= ends && each.flags[step] & FLAGS.added;
        bar.children[cell].className = now ? "course-part-now" : parts >= ends ? "course-part-in" : "";
      }
      line.classList.toggle("course-garbage", Boolean(each.flags[step] & FLAGS.garbage));
      put(words, accumulatorWords(each, step).join(" → "));
    };
  });
  return { show: (step) => { for (const row of rows) row(step); } };
}

// Returns the next step after this one at which the accumulator holds all parts, or -1.
function nextFull(each, step) {
  for (let n = step + 1; n < each.parts.length; n++) {
    if (each.parts[n] === each.of[n] && each.flags[n] & FLAGS.added) return n;
  }
  return -1;
}

// Draws in the timeline how full the accumulator is at each step.
function drawFilling(context, each, y, width, pixels) {
  context.fillStyle = "#e69f00";
  const high = LANE - 6, steps = each.parts.length;
  if (pixels >= 2) {
    for (let step = 0; step < steps; step++) {
      const tall = (high * each.parts[step]) / Math.max(1, each.of[step]);
      context.fillRect(step * pixels + 0.5, y + 3 + high - tall, Math.max(1, pixels - (pixels > 12 ? 4 : 1)), tall);
    }
  } else {
    for (let x = 0; x < width; x++) {
      const step = Math.min(steps - 1, Math.floor(x / pixels));
      const tall = (high * each.parts[step]) / Math.max(1, each.of[step]);
      context.fillRect(x, y + 3 + high - tall, 1, tall);
    }
  }
  context.fillStyle = LINE;
  context.fillRect(0, y + LANE - 1, width, 1);
}
