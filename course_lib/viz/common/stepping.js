// Buttons, a slider and keys that step through what is numbered 0 to last, and the model's trait "step", which follows.
// dom.js comes before this file.

// Makes the controls. begin(show) shows the first step and returns what ends it; show(step) draws a step and returns its
// name in words. ``name`` is what one is called: "step".
function stepping(model, root, name, last) {
  const controls = make(root, "div", "course-controls");
  const back = button(controls, "course-back", "◀", `One ${name} back (left arrow)`);
  const next = button(controls, "course-next", "▶", `One ${name} forward (right arrow)`);
  const slider = make(controls, "input", "course-slider"), at = make(controls, "span", "course-at");
  Object.assign(slider, { type: "range", min: 0, max: last, step: 1, ariaLabel: name[0].toUpperCase() + name.slice(1) });
  const within = (number) => Math.max(0, Math.min(last, number));
  let step = within(model.get("step")), show;

  function update() {
    const words = show(step);
    put(at, words);
    slider.value = step;
    slider.setAttribute("aria-valuetext", words);
    back.ariaDisabled = step === 0;
    next.ariaDisabled = step === last;
  }
  function goTo(target, tells = true) {
    target = within(target);
    if (target === step) return;
    step = target;
    update();
    if (!tells) return;
    model.set("step", step);
    model.save_changes();
  }
  back.onclick = () => goTo(step - 1);
  next.onclick = () => goTo(step + 1);
  slider.oninput = () => goTo(Number(slider.value));
  root.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const moves = { ArrowRight: step + 1, ArrowLeft: step - 1, Home: 0, End: last };
    if (event.target === slider) Object.assign(moves, { ArrowUp: step + 1, ArrowDown: step - 1 });
    if (moves[event.key] === undefined) return;
    event.preventDefault();
    goTo(moves[event.key]);
  };
  const heard = () => goTo(model.get("step"), false);
  function begin(shown) {
    show = shown;
    update();
    model.on("change:step", heard);
    return () => model.off("change:step", heard);
  }
  return { begin, goTo, now: () => step };
}
