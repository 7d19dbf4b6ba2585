// Builds elements, and updates shown elements in place so that focus and scrolling survive.

const SVG = "http://www.w3.org/2000/svg";

export function tag(name, attributes = {}, ...content) {
  return filled(document.createElement(name), attributes, content);
}

export function svg(name, attributes = {}, ...content) {
  return filled(document.createElementNS(SVG, name), attributes, content);
}

function filled(element, attributes, content) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? "" : value);
    }
  }
  element.append(...content.flat().filter((part) => part !== null && part !== undefined));
  return element;
}

function attributes(shown, next) {
  for (const { name, value } of next.attributes) {
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  for (const { name } of [...shown.attributes]) {
    // A <details> that the user opened stays open.
    if (name !== "open" && !next.hasAttribute(name)) shown.removeAttribute(name);
  }
}

export function morph(shown, next) {
  if (shown.nodeName !== next.nodeName) {
    shown.replaceWith(next);
  } else if (shown.nodeType === Node.TEXT_NODE) {
    if (shown.data !== next.data) shown.data = next.data;
  } else {
    if (shown.nodeType === Node.ELEMENT_NODE) attributes(shown, next);
    const old = [...shown.childNodes];
    const children = [...next.childNodes];
    children.forEach((child, index) => {
      if (index < old.length) morph(old[index], child);
      else shown.append(child);
    });
    old.slice(children.length).forEach((child) => child.remove());
  }
}
