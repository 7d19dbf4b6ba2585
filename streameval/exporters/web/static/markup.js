// Builds elements, and updates shown elements in place so that focus and scrolling survive.

const SVG = "http://www.w3.org/2000/svg";

export function tag(name, attributes = {}, ...content) {
  return filled(document.createElement(name), attributes, content);
}

export function drawn(name, attributes = {}, ...content) {
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

function attributes(there, next) {
  for (const { name, value } of next.attributes) {
    if (there.getAttribute(name) !== value) there.setAttribute(name, value);
  }
  for (const { name } of [...there.attributes]) {
    // A <details> that the user opened stays open.
    if (name !== "open" && !next.hasAttribute(name)) there.removeAttribute(name);
  }
}

export function become(there, next) {
  if (there.nodeName !== next.nodeName) {
    there.replaceWith(next);
  } else if (there.nodeType === Node.TEXT_NODE) {
    if (there.data !== next.data) there.data = next.data;
  } else {
    if (there.nodeType === Node.ELEMENT_NODE) attributes(there, next);
    const old = [...there.childNodes];
    const wanted = [...next.childNodes];
    wanted.forEach((child, index) => {
      if (index < old.length) become(old[index], child);
      else there.append(child);
    });
    old.slice(wanted.length).forEach((child) => child.remove());
  }
}
