// Light, dark, or as the system has it: chosen before the page is drawn, and remembered for all pages.

const courseTheme = (() => {
  const names = ["system", "light", "dark"];
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  let name = "system";
  try {
    name = localStorage.getItem("course-theme") ?? name;
  } catch {
    // A browser may forbid a page that is a file to remember anything.
  }

  function show(shown = name) {
    const isDark = shown === "dark" || (shown === "system" && dark.matches);
    root.classList.add("scripted");
    root.dataset.theme = isDark ? "dark" : "light";
    root.dataset.jpThemeLight = String(!isDark); // what the cards of pictures and widgets look at
  }
  function next() {
    name = names[(names.indexOf(name) + 1) % names.length];
    try {
      localStorage.setItem("course-theme", name);
    } catch {
      // Then the choice holds for this page.
    }
    show();
  }
  dark.addEventListener("change", () => show());
  show();
  return { show, next, name: () => name };
})();
