// Updates elements in place, so that focus, scrolling, charts and opened details survive.

function attributes(current, next) {
  for (const { name, value } of next.attributes) {
    if (current.getAttribute(name) !== value) current.setAttribute(name, value);
  }
  for (const { name } of [...current.attributes]) {
    // A <details> that the user opened stays open.
    if (name !== "open" && !next.hasAttribute(name)) current.removeAttribute(name);
  }
}

// What a user chose is a property, which attributes do not change any more.
function choice(current, next) {
  for (const name of ["selected", "checked"]) {
    const value = next.hasAttribute(name);
    if (name in current && current[name] !== value) current[name] = value;
  }
}

export function morph(current, next) {
  if (current.nodeName !== next.nodeName || (current.id ?? "") !== (next.id ?? "")) {
    current.replaceWith(next);
  } else if (current.nodeType === Node.TEXT_NODE) {
    if (current.data !== next.data) current.data = next.data;
  } else {
    attributes(current, next);
    if (current.matches("figure.chart")) data(current, next);
    else children(current, next);
    choice(current, next);
  }
}

// Of a chart only the data is the server's; the rest was drawn.
function data(current, next) {
  const [before, after] = [current, next].map((figure) => figure.querySelector("script"));
  if (before && after) before.textContent = after.textContent;
  else if (before) before.remove();
  else if (after) current.append(after);
}

// Children with an id are found by it, others by their position.
function children(current, next) {
  const nodes = [...next.childNodes];
  const ids = new Map([...current.children].filter((child) => child.id).map((child) => [child.id, child]));
  nodes.forEach((child, index) => {
    const sibling = current.childNodes[index];
    const same = child.id ? ids.get(child.id) : null;
    if (same && same !== sibling) current.insertBefore(same, sibling ?? null);
    const old = current.childNodes[index];
    if (old && (same || !old.id || child.id === old.id)) morph(old, child);
    else current.insertBefore(child, old ?? null);
  });
  [...current.childNodes].slice(nodes.length).forEach((child) => child.remove());
}
