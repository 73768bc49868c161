// The deck: one slide at a time, keys, answers that a key reveals, notes for the speaker, and the clock of an exercise.

(() => {
  const root = document.documentElement, main = document.querySelector("main");
  const slides = [...document.querySelectorAll(".slide")];
  const SMALLEST = 11; // pixels of a letter: what is still too long is cut, and a test looks for it
  let here = 0, notes = null, running = null;
  const began = Date.now();

  // While all slides stand in a column they can be measured: letters shrink until a slide holds its content. Lines of
  // code shrink by themselves first, so that one long line does not make the whole slide small.
  function shrink(box, tooLong) {
    const outside = parseFloat(getComputedStyle(box.parentElement).fontSize);
    let size = parseFloat(getComputedStyle(box).fontSize);
    while (tooLong() && size > SMALLEST) box.style.fontSize = `${(size -= 1) / outside}em`; // what holds it may shrink too
  }
  function fit() {
    for (const pre of document.querySelectorAll(".content pre")) shrink(pre, () => pre.scrollWidth > pre.clientWidth);
    for (const box of document.querySelectorAll(".content")) {
      shrink(box, () => box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1);
    }
  }

  // A widget has the size of a page; once it is drawn, it grows to be read from the last row. If it is too high then,
  // its end can be scrolled to.
  const drawn = new MutationObserver((changes) => {
    for (const { target } of changes) {
      const live = target.querySelector(".live");
      if (!target.classList.contains("drawn") || live.style.zoom) continue;
      const room = target.closest(".content");
      const fits = (room.clientHeight - 24) / live.offsetHeight;
      live.style.zoom = Math.min(Math.max(fits, 1.2), room.clientWidth / live.scrollWidth, 1.6);
    }
  });
  for (const place of document.querySelectorAll(".widget")) drawn.observe(place, { attributeFilter: ["class"] });

  function scale() {
    const factor = Math.min(innerWidth / 1280, innerHeight / 720);
    const left = (innerWidth - 1280 * factor) / 2, top = (innerHeight - 720 * factor) / 2;
    main.style.transform = `translate(${left}px, ${top}px) scale(${factor})`;
  }

  function show(number, open = false) {
    here = Math.max(0, Math.min(slides.length - 1, number));
    slides.forEach((slide, other) => slide.classList.toggle("shown", other === here));
    slides[here].classList.toggle("open", open);
    try { history.replaceState(null, "", `#${here + 1}`); } catch { /* a browser may forbid a file to do this */ }
    tell();
  }
  const hides = () => slides[here].querySelector(".reveal") && !slides[here].classList.contains("open");
  const on = () => { if (hides()) { slides[here].classList.add("open"); tell(); } else if (here + 1 < slides.length) show(here + 1); };
  const back = () => { if (here > 0) show(here - 1, true); };

  // The window with the notes has no file of its own, so that it works from a file: this page writes into it.
  function openNotes() {
    notes = open("", "notes", "width=640,height=760");
    if (!notes) return;
    notes.document.title = "Notes";
    notes.document.head.innerHTML = `<style>body { font: 18px/1.5 system-ui, sans-serif; margin: 20px; }
      small { color: #56616d; }</style>`;
    notes.document.onkeydown = key;
    tell();
    notes.setTimeout(() => focus(), 0);
  }
  function tell() {
    if (!notes || notes.closed) return;
    const passed = Math.floor((Date.now() - began) / 60000), next = slides[here + 1]?.querySelector("h2").textContent;
    const answer = slides[here].querySelector(".reveal");
    notes.document.body.innerHTML = `<small>${slides[here].querySelector("footer").innerText}; open for ${passed} min</small>
      <h2>${slides[here].querySelector("h1, h2").innerHTML}</h2>${slides[here].querySelector(".notes").innerHTML}
      ${answer ? `<p><b>The answer:</b> ${answer.innerText}</p>` : ""}<p><small>Next: ${next ?? "the end"}</small></p>`;
  }

  function clock() {
    const face = slides[here].querySelector(".clock");
    if (!face) return;
    if (running) {
      clearInterval(running);
      running = null;
      return;
    }
    let left = face.left ?? 60 * face.dataset.minutes;
    running = setInterval(() => {
      face.left = left -= 1;
      const away = Math.abs(left);
      face.textContent = `${left < 0 ? "+" : ""}${Math.floor(away / 60)}:${String(away % 60).padStart(2, "0")}`;
      face.classList.toggle("over", left < 0);
    }, 1000);
  }

  function help() {
    const box = document.getElementById("help");
    box.hidden = !box.hidden;
    document.getElementById("keys").setAttribute("aria-expanded", !box.hidden);
  }

  const keys = {
    ArrowRight: on, PageDown: on, " ": on, ArrowLeft: back, PageUp: back,
    Home: () => show(0), End: () => show(slides.length - 1), n: openNotes, t: clock, d: () => courseTheme.next(),
    s: () => root.classList.toggle("noted"),
    f: () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen?.()),
    "?": help,
  };
  function key(event) {
    const inside = event.target.closest?.(".live, button, input, select"); // a picture or a button needs its keys itself
    const its = inside && (inside.matches(".live, input, select") || event.key === " ");
    if (its || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  document.getElementById("next").onclick = on;
  document.getElementById("back").onclick = back;
  document.getElementById("keys").onclick = help;
  for (const face of document.querySelectorAll(".clock")) face.onclick = clock;
  addEventListener("keydown", key);
  addEventListener("resize", scale);
  addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1));
  addEventListener("beforeprint", () => courseTheme.show("light"));
  addEventListener("afterprint", () => courseTheme.show());
  addEventListener("load", () => {
    fit();
    root.classList.add("deck");
    scale();
    show(Number(location.hash.slice(1)) - 1 || 0);
  });
})();
