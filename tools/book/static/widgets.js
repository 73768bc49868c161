// Gives each widget of a page a model, as Jupyter would, and draws it when it comes near the window. No kernel answers:
// the widgets of this course need none. Until one is drawn, if it fails, and on paper, its still image stands there.

(() => {
  const bytes = (text) => new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  const modules = new Map();

  // A module cannot be imported from a file, but from a Blob it can. The style sheet of its kind comes with it.
  function moduleOf(kind) {
    if (!modules.has(kind)) {
      const { module, style } = window.courseWidgets[kind];
      const sheet = document.createElement("style");
      sheet.textContent = style;
      document.head.append(sheet);
      modules.set(kind, import(URL.createObjectURL(new Blob([module], { type: "text/javascript" }))));
    }
    return modules.get(kind);
  }

  function modelOf(values) {
    const listeners = new Map();
    const of = (event) => listeners.get(event) ?? [];
    const tell = (event, ...more) => of(event).forEach((call) => call(...more));
    const model = {
      get: (name) => values[name],
      set(name, value) {
        if (values[name] === value) return;
        values[name] = value;
        tell(`change:${name}`, model, value);
        tell("change", model);
      },
      save_changes() {},
      on: (event, call) => listeners.set(event, [...of(event), call]),
      off: (event, call) => listeners.set(event, of(event).filter((other) => call && other !== call)),
      send() { throw new Error("No kernel is here to answer a message."); },
    };
    return model;
  }

  async function draw(place) {
    const { values, buffers } = JSON.parse(place.querySelector("script").textContent);
    for (const [path, text] of buffers) { // binary values, each at its path among the values
      const owner = path.slice(0, -1).reduce((value, name) => value[name], values);
      owner[path.at(-1)] = bytes(text);
    }
    const exported = (await moduleOf(place.dataset.kind)).default;
    const widget = typeof exported === "function" ? await exported() : exported;
    const el = document.createElement("div"), model = modelOf(values);
    el.className = "live";
    await widget.initialize?.({ model });
    place.append(el); // before it is drawn, because it may ask how wide it is
    await widget.render({ model, el });
    place.classList.add("drawn");
  }

  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target).catch((error) => {
        target.querySelector(".live")?.remove();
        console.error(error);
        target.classList.add("failed");
      });
    }
  }, { rootMargin: "800px" });
  for (const place of document.querySelectorAll(".widget")) near.observe(place);
})();
