// The selection of what is shown. It is part of the URL, so that a link shows the same.

import { tag } from "./markup.js";
import { windowName } from "./words.js";

const NAMES = ["metric", "k", "window", "segment", "value"];

export class Choice {
  constructor(changed) {
    this.changed = changed;
    this.form = document.getElementById("filters");
    this.read();
    addEventListener("popstate", () => { this.read(); changed(); });
    this.form.addEventListener("change", () => this.take());
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  read() {
    const asked = new URLSearchParams(location.search);
    for (const name of NAMES) this[name] = asked.get(name) ?? "";
    this.variants = asked.getAll("variant");
    this.view = asked.get("view") ?? "";
    this.shape = "";
  }

  take() {
    for (const name of NAMES) this[name] = this.form.elements[name]?.value ?? "";
    if (!this.segment) this.value = "";
    if (this.window === this.usual) this.window = "";
    const boxes = [...this.form.querySelectorAll("[name=variant]")];
    const on = boxes.filter((box) => box.checked).map((box) => box.value);
    this.variants = on.length === boxes.length ? [] : on;
    history.replaceState(null, "", this.link(this.view));
    this.shape = "";
    this.changed();
  }

  open(view) {
    history.pushState(null, "", this.link(view));
    this.view = view;
    this.changed();
    scrollTo(0, 0);
  }

  link(view) {
    const asked = new URLSearchParams();
    for (const name of NAMES) if (this[name]) asked.set(name, this[name]);
    this.variants.forEach((each) => asked.append("variant", each));
    if (view) asked.set("view", view);
    return `${location.pathname}${asked.size ? `?${asked}` : ""}`;
  }

  // The form with the available choices; rebuilt only when these change.
  offer(known) {
    this.family = known.families.find((each) => (each.segment ?? "") === this.segment)
      ?? known.families[0];
    const windows = [...this.family.windows];
    this.usual = windows[Math.max(0, Math.floor((windows.length - 2) / 2))];
    this.shown = windows.includes(this.window) ? this.window : this.usual;
    const shape = JSON.stringify([known, this.segment, this.view !== ""]);
    if (shape === this.shape) return;
    this.shape = shape;
    const active = document.activeElement?.id;
    this.form.replaceChildren(
      ...(this.view ? [] : [
        picker("metric", "Metric", known.names, this.metric, "all"),
        picker("k", "Cut-off", known.cuts, this.k, "all"),
      ]),
      picker("window", "Window", windows, this.shown, null, windowName),
      picker("segment", "Segment", known.segments, this.segment, "none"),
      this.segment ? picker("value", this.segment, known.values, this.value, "all") : "",
      this.boxes(known),
    );
    document.getElementById(active)?.focus();
  }

  boxes(known) {
    if (known.variants.length < 2) return "";
    const each = known.variants.map((name, index) => tag("label", {},
      tag("input", {
        type: "checkbox", name: "variant", value: name, id: `variant-${index}`,
        checked: this.has(name),
      }), name));
    return tag("fieldset", {}, tag("legend", {}, known.label), ...each);
  }

  has(variant) {
    return !this.variants.length || this.variants.includes(variant);
  }
}

function picker(name, title, values, chosen, all, worded = String) {
  if (!values.length || (all === null && values.length < 2)) return "";
  const options = values.map((value) => tag("option", {
    value, selected: String(value) === String(chosen),
  }, worded(value)));
  if (all !== null) options.unshift(tag("option", { value: "", selected: !chosen }, all));
  return tag("label", { for: name }, tag("span", {}, title), tag("select", { id: name, name }, options));
}
