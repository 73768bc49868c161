// Short ways to make elements of the page. Every widget puts this file before its own.

function make(parent, tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.textContent = text;
  parent.append(element);
  return element;
}

// Keys that are typed here stay here: JupyterLab would delete a cell at "d d", and keep Enter from a number's box. But
// what has Ctrl or Cmd, and Shift+Enter, which runs a cell, is JupyterLab's.
function rootOf(el, className) {
  const root = make(el, "div", `course-card ${className}`); // draw.py says what a card is
  root.addEventListener("keydown", (event) => {
    const labs = event.ctrlKey || event.metaKey || (event.shiftKey && event.key === "Enter");
    if (!labs) event.stopPropagation();
  });
  return root;
}

function button(parent, className, text, says) {
  const element = make(parent, "button", className, text);
  element.type = "button";
  element.title = says;
  element.ariaLabel = says;
  return element;
}

const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };

// Makes an SVG element.
function draw(parent, tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// Puts a control beside its name, and returns the control.
function field(parent, label, control, className = "") {
  const box = make(parent, "label", `course-field ${className}`);
  make(box, "span", "", label);
  box.append(control);
  return control;
}

const input = (type, more) => Object.assign(document.createElement("input"), { type, ...more });

function choice(options) {
  const select = document.createElement("select");
  for (const [value, words] of options) select.append(new Option(words, value));
  return select;
}
