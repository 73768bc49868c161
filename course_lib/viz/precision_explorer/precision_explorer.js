// The precision explorer: a cursor over K on a plot drawn by Python, and each curve's figures there.
// dom.js comes before this file.

function render({ model, el }) {
  const curves = model.get("curves"), sizes = model.get("sizes"), last = sizes.length - 1;
  const root = rootOf(el, "course-precision");
  make(root, "strong", "course-title", model.get("title"));
  const plots = model.get("drawings").map(({ svg, x, width }, n) => {
    const holder = make(root, "div", n ? "course-plot course-narrow" : "course-plot course-broad");
    holder.innerHTML = svg;
    const picture = holder.querySelector("svg");
    picture.querySelector("title").remove(); // or it would be a tooltip everywhere
    const point = (event) => {
      const box = picture.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * width;
      goTo(x.reduce((best, each, k) => (Math.abs(each - at) < Math.abs(x[best] - at) ? k : best), 0));
    };
    picture.onpointerdown = (event) => {
      event.preventDefault();
      picture.setPointerCapture(event.pointerId);
      slider.focus({ preventScroll: true }); // so that the keys continue from the click
      point(event);
    };
    picture.onpointermove = (event) => { if (event.buttons & 1) point(event); };
    return { picture, x, cursor: picture.querySelector("[data-cursor]") };
  });
  const bar = make(root, "label", "course-k");
  const name = make(bar, "span", "course-at"), slider = make(bar, "input", "course-slider");
  Object.assign(slider, { type: "range", min: 0, max: last, step: 1, ariaLabel: "K" });
  const { rows, figures } = drawFigures(root, curves, (number, on) => {
    const others = model.get("hidden").filter((each) => each !== number);
    tell("hidden", on ? others : [...others, number]);
    show();
  });
  const status = make(root, "p", "course-status");
  status.setAttribute("aria-live", "polite");
  if (model.get("note")) make(root, "p", "course-note", model.get("note"));
  make(root, "p", "course-keys", "Keys: ← →, Home, End. Or drag in the plot.");

  const at = () => Math.max(0, Math.min(last, model.get("cursor")));
  function show() {
    const k = at(), hidden = model.get("hidden");
    put(name, `K = ${sizes[k]}`);
    slider.value = k;
    slider.setAttribute("aria-valuetext", `K = ${sizes[k]}`);
    figures(k);
    rows.forEach(({ box, line }, n) => {
      box.checked = !hidden.includes(n);
      line.classList.toggle("course-off", hidden.includes(n));
    });
    const seen = curves.filter((_, n) => !hidden.includes(n));
    const said = `K = ${sizes[k]}. ${seen.map((c) => `${c.name}: ${c.errors[k]} ${c.digits[k]}`).join("; ")}`;
    put(status, said);
    for (const { picture, x, cursor } of plots) {
      picture.ariaLabel = `Error against K. ${said}`;
      cursor.setAttribute("transform", `translate(${x[k]} 0)`);
      for (const ring of picture.querySelectorAll("[data-at]")) ring.style.display = Number(ring.dataset.at) === k ? "" : "none";
      for (const curve of picture.querySelectorAll("[data-curve]")) {
        curve.style.display = hidden.includes(Number(curve.dataset.curve)) ? "none" : "";
      }
    }
  }
  function tell(trait, value) {
    model.set(trait, value);
    model.save_changes();
  }
  function goTo(target) {
    target = Math.max(0, Math.min(last, target));
    if (target !== at()) tell("cursor", target);
  }
  slider.oninput = () => goTo(Number(slider.value));
  root.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const k = at(), moves = { ArrowRight: k + 1, ArrowUp: k + 1, ArrowLeft: k - 1, ArrowDown: k - 1, Home: 0, End: last };
    if (moves[event.key] === undefined) return;
    event.preventDefault();
    goTo(moves[event.key]);
  };
  model.on("change:cursor", show);
  model.on("change:hidden", show);
  show();
  return () => {
    model.off("change:cursor", show);
    model.off("change:hidden", show);
  };
}

// Draws a row for each curve: whether it is shown, its figures at K, its cost.
function drawFigures(parent, curves, toggle) {
  const table = make(parent, "table"), head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  const costs = curves.some((curve) => curve.cycles);
  for (const words of ["curve", "error", "correct", ...(costs ? ["cycles"] : [])]) make(head, "th", "", words).scope = "col";
  const rows = curves.map((curve, n) => {
    const line = make(body, "tr"), first = make(line, "th"), label = make(first, "label"), box = make(label, "input");
    first.scope = "row";
    Object.assign(box, { type: "checkbox", onchange: () => toggle(n, box.checked) });
    make(label, "span", "course-swatch").innerHTML = curve.swatch;
    label.querySelector("svg").ariaHidden = "true";
    make(label, "span", "", curve.name);
    const error = make(line, "td", "course-error"), digits = make(line, "td", "course-digits");
    if (costs) {
      const cost = make(line, "td", "course-cost");
      if (curve.cycles) make(make(cost, "span", "course-track"), "i").style.width = `${100 * curve.share}%`;
      make(cost, "span", "", curve.cycles);
    }
    return { line, box, error, digits };
  });
  return {
    rows,
    figures(k) {
      rows.forEach(({ error, digits }, n) => {
        put(error, curves[n].errors[k]);
        put(digits, curves[n].digits[k]);
      });
    },
  };
}

export default { render };
