// Updates shown elements in place, so that focus, scrolling, charts and opened details survive.

function attributes(shown, next) {
  for (const { name, value } of next.attributes) {
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  for (const { name } of [...shown.attributes]) {
    // A <details> that the user opened stays open.
    if (name !== "open" && !next.hasAttribute(name)) shown.removeAttribute(name);
  }
}

// What a user chose is a property, which attributes do not change any more.
function chosen(shown, next) {
  if (shown.nodeName === "OPTION" && shown.selected !== next.hasAttribute("selected")) {
    shown.selected = next.hasAttribute("selected");
  }
  if (shown.nodeName === "INPUT" && shown.checked !== next.hasAttribute("checked")) {
    shown.checked = next.hasAttribute("checked");
  }
}

export function morph(shown, next) {
  if (shown.nodeName !== next.nodeName || (shown.id ?? "") !== (next.id ?? "")) {
    shown.replaceWith(next);
  } else if (shown.nodeType === Node.TEXT_NODE) {
    if (shown.data !== next.data) shown.data = next.data;
  } else {
    attributes(shown, next);
    if (shown.matches("figure.chart")) data(shown, next);
    else children(shown, next);
    chosen(shown, next);
  }
}

// Of a chart only the data is the server's; the rest was drawn.
function data(shown, next) {
  const [before, after] = [shown, next].map((figure) => figure.querySelector("script"));
  if (before && after) before.textContent = after.textContent;
  else if (before) before.remove();
  else if (after) shown.append(after);
}

// Children with an id are found by it, others by their place.
function children(shown, next) {
  const wanted = [...next.childNodes];
  const ids = new Map([...shown.children].filter((child) => child.id).map((child) => [child.id, child]));
  wanted.forEach((child, place) => {
    const there = shown.childNodes[place];
    const same = child.id ? ids.get(child.id) : null;
    if (same && same !== there) shown.insertBefore(same, there ?? null);
    const old = shown.childNodes[place];
    if (old && (same || !old.id || child.id === old.id)) morph(old, child);
    else shown.insertBefore(child, old ?? null);
  });
  [...shown.childNodes].slice(wanted.length).forEach((child) => child.remove());
}
