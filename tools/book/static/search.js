// The search. Its index is a script that is loaded when the box first gets the focus: nothing else works from a file.

(() => {
  const MOST = 20, AROUND = 60; // hits shown; letters of a section's text on each side of the first word found
  const box = document.getElementById("query"), found = document.getElementById("found");
  const count = document.getElementById("found-count"), hits = document.getElementById("hits");
  const root = document.body.dataset.root;
  let loading;

  const load = () => (loading ??= new Promise((done) => {
    const script = document.createElement("script");
    script.src = `${root}search_index.js`;
    script.onload = done;
    document.head.append(script);
  }));

  const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

  function times(text, word) {
    let number = 0;
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) number += 1;
    return number;
  }

  // How well a section fits: 0 if a word is missing; a word counts more in a heading, and most if it is the heading.
  function score(words, [page, , heading, text]) {
    const title = window.courseIndex.pages[page][1].toLowerCase(), name = heading.toLowerCase(), body = text.toLowerCase();
    let sum = name === words.join(" ") ? 100 : 0;
    for (const word of words) {
      const here = 8 * times(name, word) + Math.min(5, times(body, word));
      if (!here && !title.includes(word)) return 0;
      sum += here + (title.includes(word) ? 2 : 0);
    }
    return sum;
  }

  function snippet(words, text) {
    const lower = text.toLowerCase();
    const at = Math.max(0, Math.min(...words.map((word) => lower.indexOf(word)).filter((place) => place >= 0), text.length));
    const from = at === text.length ? 0 : Math.max(0, at - AROUND);
    const piece = text.slice(from, from + 2 * AROUND);
    return (from ? "…" : "") + piece + (from + piece.length < text.length ? "…" : "");
  }

  // Puts text into an element, with the words that were searched for marked.
  function mark(element, text, words) {
    const lower = text.toLowerCase();
    let done = 0;
    while (done < text.length) {
      const next = words.map((word) => [lower.indexOf(word, done), word.length]).filter(([at]) => at >= 0);
      if (!next.length) break;
      const [at, length] = next.reduce((first, other) => (other[0] < first[0] ? other : first));
      const marked = document.createElement("mark");
      marked.textContent = text.slice(at, at + length);
      element.append(text.slice(done, at), marked);
      done = at + length;
    }
    element.append(text.slice(done));
  }

  function hit([page, id, heading, text], words) {
    const [path, title] = window.courseIndex.pages[page];
    const link = document.createElement("a"), where = document.createElement("span"), says = document.createElement("span");
    link.href = root + path + (id && `#${id}`);
    link.onclick = close;
    where.className = "where";
    where.textContent = heading === title ? title : `${title}: ${heading}`;
    says.className = "says";
    mark(says, snippet(words, text), words);
    link.append(where, says);
    const item = document.createElement("li");
    item.append(link);
    return item;
  }

  async function search() {
    await load();
    const words = wordsOf(box.value);
    found.hidden = !words.length;
    if (!words.length) return;
    const fits = window.courseIndex.sections.map((section) => [score(words, section), section]);
    const best = fits.filter(([points]) => points).sort(([one], [other]) => other - one);
    count.textContent = best.length > MOST ? `The best ${MOST} of ${best.length} sections` :
      best.length === 1 ? "1 section" : `${best.length || "No"} sections`;
    hits.replaceChildren(...best.slice(0, MOST).map(([, section]) => hit(section, words)));
  }

  function close() {
    found.hidden = true;
  }

  box.onfocus = load;
  box.oninput = search;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      box.focus();
      box.select();
    }
  });
  box.parentElement.addEventListener("keydown", (event) => {
    const links = [...hits.querySelectorAll("a")], here = links.indexOf(document.activeElement);
    if (event.key === "Escape") {
      close();
      box.focus();
    } else if (event.key === "ArrowDown" && here + 1 < links.length && !found.hidden) {
      links[here + 1].focus();
      event.preventDefault();
    } else if (event.key === "ArrowUp" && here >= 0) {
      (links[here - 1] ?? box).focus();
      event.preventDefault();
    } else if (event.key === "Enter" && event.target === box && links.length && !found.hidden) {
      links[0].click();
    }
  });
  document.addEventListener("click", (event) => {
    if (!box.parentElement.contains(event.target)) close();
  });
})();
