// What every page does: its menu on a phone, the button for the theme, folds on paper, and wide code for the keyboard.

(() => {
  const menu = document.getElementById("contents"), opener = document.getElementById("menu-button");
  opener.onclick = () => {
    const open = menu.classList.toggle("open");
    opener.setAttribute("aria-expanded", open);
    if (open) menu.querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
  };
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.classList.contains("open")) return;
    opener.click();
    opener.focus();
  });

  const theme = document.getElementById("theme-button");
  const words = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  const name = () => { theme.textContent = words[courseTheme.name()]; };
  theme.onclick = () => { courseTheme.next(); name(); };
  name();

  // Paper is white, and has nothing to click: what was folded for a reader to think first is open, folded code is not.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main :is(.text details, .predicted):not([open])")];
    for (const fold of opened) fold.open = true;
    courseTheme.show("light");
  });
  addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
    courseTheme.show();
  });

  // The arrow keys scroll only what has the focus. So what is wider than its column can be reached with Tab.
  function reachable() {
    for (const box of document.querySelectorAll("main pre, main .scroll, main .output")) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }
  addEventListener("load", reachable);
  addEventListener("resize", reachable);
  document.addEventListener("toggle", reachable, true);
})();
