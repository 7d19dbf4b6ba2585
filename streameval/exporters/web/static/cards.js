// A card for each metric: each variant's value, count and difference to the control, and a chart.

import { Chart, swatch } from "./chart.js";
import { morph, tag } from "./markup.js";
import { certainty, difference, figure, moment, number, windowName } from "./words.js";

const dataOf = (value, text) => tag("data", { value: String(value) }, text);

const unseen = (text) => tag("span", { class: "unseen" }, text);

function valueOf(entry) {
  if (entry.value === null) {
    const why = entry.problem ?? "No data yet";
    return tag("span", { class: "undefined", title: why }, "\u2013", unseen(` ${why}`));
  }
  const value = dataOf(entry.value, figure(entry.value));
  const [sure, why] = [certainty(entry), entry.no_interval];
  return tag("span", {}, value, sure ? [" ", tag("small", {}, sure)] : null,
    why ? [" ", tag("small", { title: why }, "no interval", unseen(`: ${why}`))] : null);
}

export const nameOf = (entry) => Object.values(entry.labels).join(" \u00B7 ") || "all lists";

function differenceOf(entry, context) {
  const text = difference(entry, context.document.comparison);
  return text === null ? null : tag("div", { class: "difference" }, text);
}

function row(entry, index, context) {
  const counts = context.meaning(entry.metric)?.counts ?? "lists";
  return tag("tr", {},
    tag("th", { scope: "row" }, swatch(index), ` ${nameOf(entry)}`),
    tag("td", { class: "count" }, dataOf(entry.count, number(entry.count)), unseen(` ${counts}`)),
    tag("td", {}, tag("div", { class: "value" }, valueOf(entry)), differenceOf(entry, context)));
}

export function table(entries, context, caption) {
  const counts = context.meaning(entries[0].metric)?.counts ?? "lists";
  return tag("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    tag("table", { class: "variants" },
      tag("caption", { class: "unseen" }, caption),
      tag("thead", {}, tag("tr", {},
        tag("th", { scope: "col" }, Object.keys(entries[0].labels).join(" \u00B7 ") || "slice"),
        tag("th", { scope: "col", class: "number" }, counts),
        tag("th", { scope: "col", class: "number" }, "value"))),
      tag("tbody", {}, entries.map((entry) => row(entry, context.index(entry), context)))));
}

export function direction(meaning) {
  const words = { true: "Higher is better.", false: "Lower is better." };
  return words[meaning?.higher_is_better] ?? "Neither direction is better.";
}

export class Card {
  constructor(metric) {
    this.metric = metric;
    this.chart = new Chart(metric, 150);
    this.head = tag("div");
    this.body = tag("div");
    this.element = tag("article", { class: "card" }, this.head, this.body, this.chart.element);
  }

  show(entries, context) {
    const meaning = context.meaning(this.metric);
    const link = tag("a", { href: context.choice.link(this.metric), "data-view": this.metric },
      this.metric);
    morph(this.head, tag("div", {},
      tag("h3", {}, link),
      tag("p", { class: "quiet" }, `${meaning?.summary ?? ""} ${direction(meaning)}`)));
    const caption = `${this.metric}, ${windowName(context.choice.shown)}`;
    morph(this.body, tag("div", {}, table(entries, context, caption), sinceOf(entries)));
  }
}

export function sinceOf(entries) {
  const begun = entries.map((entry) => entry.since).filter((since) => since !== null);
  return begun.length
    ? tag("p", { class: "quiet" }, `Complete from ${moment(Math.max(...begun))}.`)
    : null;
}
