// A picture for each combination of choices, drawn by Python; the browser shows the chosen one.
// dom.js comes before this file.

let pages = 0; // radio buttons of different widgets on a page must not share a name

function render({ model, el }) {
  const groups = model.get("groups"), drawings = model.get("drawings"), captions = model.get("captions");
  const page = pages++;
  const root = rootOf(el, "course-pick");
  make(root, "strong", "course-title", model.get("title"));
  const bar = make(root, "div", "course-bar");
  const radios = groups.map(({ name, options }, g) => {
    const field = make(bar, "fieldset", "course-group");
    make(field, "legend", "", name);
    return options.map((option, n) => {
      const label = make(field, "label"), radio = make(label, "input");
      Object.assign(radio, { type: "radio", name: `course-pick-${page}-${g}`, onchange: () => choose(g, n) });
      make(label, "span", "", option);
      return radio;
    });
  });
  const picture = make(root, "div", "course-drawing");
  const words = make(root, "p", "course-caption");
  words.setAttribute("aria-live", "polite");
  make(root, "p", "course-keys", "Keys: Tab from group to group, ← → within one.");

  const at = () => groups.map(({ options }, g) => Math.max(0, Math.min(options.length - 1, model.get("at")[g] ?? 0)));
  function choose(g, n) {
    model.set("at", at().map((old, group) => (group === g ? n : old)));
    model.save_changes();
  }
  function show() {
    const chosen = at(), number = chosen.reduce((sum, n, g) => sum * groups[g].options.length + n, 0);
    radios.forEach((group, g) => group.forEach((radio, n) => { radio.checked = n === chosen[g]; }));
    picture.innerHTML = drawings[number];
    picture.querySelector("title").remove(); // or it would be a tooltip everywhere
    picture.querySelector("svg").ariaLabel = captions[number];
    put(words, captions[number]);
  }
  model.on("change:at", show);
  show();
  return () => model.off("change:at", show);
}

export default { render };
