// Elements of the page, made short. Every widget puts this file before its own.

function make(parent, tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.textContent = text;
  parent.append(element);
  return element;
}

function button(parent, className, text, says) {
  const element = make(parent, "button", className, text);
  element.type = "button";
  element.title = says;
  element.ariaLabel = says;
  return element;
}

const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
