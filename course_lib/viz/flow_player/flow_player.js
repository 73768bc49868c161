// The flow player: shows the stages so far in pictures drawn by Python. dom.js comes before this file.

const PLAY_MS = 1200; // per stage
const PALE = 0.22; // opacity of a stage to come

function drawFlow(parent, flow) {
  const box = make(parent, "div", "course-flow");
  flow.drawings.forEach((svg, n) => {
    const holder = make(box, "div", flow.drawings.length === 1 ? "" : n ? "course-narrow" : "course-broad");
    holder.innerHTML = svg;
    holder.querySelector("svg > title").remove(); // or it would be a tooltip everywhere
  });
  const stages = [...box.querySelectorAll("[data-stage]")], lines = [...box.querySelectorAll("[data-at]")];
  const pictures = [...box.querySelectorAll("svg")], last = flow.says.length - 1;
  return {
    box,
    show(step) {
      const at = Math.min(step, last);
      for (const each of stages) {
        const number = Number(each.dataset.stage);
        each.style.opacity = number <= at ? 1 : PALE;
        each.classList.toggle("course-now", number === step);
      }
      for (const each of lines) each.style.display = Number(each.dataset.at) === at ? "" : "none";
      for (const each of pictures) each.ariaLabel = `${flow.name}: ${flow.says[at]}`;
      return flow.says[at];
    },
  };
}

function render({ model, el }) {
  const flows = model.get("flows"), together = model.get("together");
  const last = Math.max(...flows.map((flow) => flow.says.length)) - 1;
  const root = rootOf(el, "course-flows");
  make(root, "strong", "course-title", model.get("title"));
  const choices = together ? [] : drawChoices(root, flows, choose);
  const stage = make(root, "div", "course-stage");
  const views = flows.map((flow) => drawFlow(stage, flow));
  const legend = make(root, "div", "course-legend");
  for (const [colour, meaning] of model.get("legend")) {
    const entry = make(legend, "span");
    make(entry, "i").style.backgroundColor = colour;
    entry.append(meaning);
  }
  const bar = make(root, "div", "course-controls");
  const play = button(bar, "course-play", "Play", "Play or pause (space)");
  play.removeAttribute("aria-label"); // its text names it
  const back = button(bar, "course-back", "◀", "One stage back (left arrow)");
  const next = button(bar, "course-next", "▶", "One stage forward (right arrow)");
  const slider = make(bar, "input", "course-slider");
  Object.assign(slider, { type: "range", min: 0, max: last, step: 1, ariaLabel: "Stages so far" });
  const words = make(root, "div", "course-caption");
  words.setAttribute("aria-live", "polite");
  make(root, "p", "course-note", model.get("note"));
  make(root, "p", "course-keys", `Keys: ← →, Home, End, space${choices.length > 1 ? `, 1 to ${choices.length}` : ""}`);

  const end = () => (together ? last : flows[shown()].says.length - 1);
  const shown = () => Math.max(0, Math.min(flows.length - 1, model.get("shown")));
  let step = Math.max(0, Math.min(last, model.get("step"))), timer = 0;
  function show() {
    step = Math.min(step, end());
    const said = views.map((view) => view.show(step)).filter((_, n) => together || n === shown());
    views.forEach((view, n) => { view.box.hidden = !together && n !== shown(); });
    choices.forEach((choice, n) => { choice.checked = n === shown(); });
    words.replaceChildren();
    for (const sentence of said) make(words, "p", "", sentence);
    Object.assign(slider, { max: end(), value: step });
    slider.setAttribute("aria-valuetext", `${step} of ${end()} stages`);
    [back.disabled, next.disabled] = [step === 0, step === end()];
  }
  function goTo(target, tells = true) {
    target = Math.max(0, Math.min(end(), target));
    if (target === step) return;
    step = target;
    show();
    if (tells) tell("step", step);
  }
  function tell(name, value) {
    model.set(name, value);
    model.save_changes();
  }
  function choose(number) {
    stop();
    const complete = step === end();
    tell("shown", number);
    if (complete) step = end();
    show();
  }
  function stop() {
    clearInterval(timer);
    timer = 0;
    put(play, "Play");
    words.setAttribute("aria-live", "polite");
  }
  function start() {
    if (step === end()) goTo(0);
    put(play, "Pause");
    words.setAttribute("aria-live", "off"); // too fast to listen to
    timer = setInterval(() => {
      if (!root.isConnected) return stop();
      goTo(step + 1);
      if (step === end()) stop();
    }, PLAY_MS);
  }
  const toggle = () => (timer ? stop() : start());
  function byHand(target) {
    stop();
    goTo(target);
  }
  play.onclick = toggle;
  back.onclick = () => byHand(step - 1);
  next.onclick = () => byHand(step + 1);
  slider.oninput = () => byHand(Number(slider.value));
  root.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.type === "radio") return;
    const moves = { ArrowRight: step + 1, ArrowUp: step + 1, ArrowLeft: step - 1, ArrowDown: step - 1, Home: 0, End: end() };
    const plays = event.key === " " && event.target.tagName !== "BUTTON", choice = Number(event.key) - 1;
    if (plays) toggle();
    else if (event.key !== " " && choices[choice]) choose(choice);
    else if (moves[event.key] !== undefined) byHand(moves[event.key]);
    else return;
    event.preventDefault();
  };
  stage.onmousedown = (event) => { // so that the keys continue from the click
    event.preventDefault();
    slider.focus({ preventScroll: true });
  };
  const heard = () => { if (!timer) goTo(model.get("step"), false); };
  model.on("change:step", heard);
  model.on("change:shown", show);
  show();
  return () => {
    stop();
    model.off("change:step", heard);
    model.off("change:shown", show);
  };
}

// Makes a radio button for each flow.
function drawChoices(parent, flows, choose) {
  if (flows.length < 2) return [];
  const group = make(parent, "fieldset", "course-choices"), name = `course-flow-${Math.random()}`;
  make(group, "legend", "", "Variant");
  return flows.map((flow, n) => {
    const label = make(group, "label"), choice = make(label, "input");
    Object.assign(choice, { type: "radio", name, onchange: () => choose(n) });
    label.append(` ${flow.name}`);
    return choice;
  });
}

export default { render };
