// A card of the overview, and one metric with its definition and its windows over time. The values
// are fragments of HTML from the server; here are charts, and the rows that are picked.

import { Chart, MOST, swatch } from "./chart.js";
import { morph, tag } from "./markup.js";
import { figure, moment, windowName } from "./words.js";

export const nameOf = (entry) => Object.values(entry.labels).join(" \u00B7 ") || "all lists";

// The server's section of a metric with the picked rows only.
function values(metric, entries, context, summary = true) {
  const section = context.section(metric)?.cloneNode(true);
  if (!section) return tag("p", { class: "quiet" }, "No data for this selection.");
  section.querySelector(".definition").remove();
  if (!summary) section.querySelector("p").remove();
  const picked = new Set(entries.map(nameOf));
  for (const row of section.querySelectorAll("tr[data-name]")) {
    if (picked.has(row.dataset.name)) row.firstChild.prepend(swatch(Number(row.dataset.place)));
    else row.remove();
  }
  return section;
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
    const link = tag("a", { href: context.choice.link(this.metric), "data-view": this.metric },
      this.metric);
    morph(this.head, tag("div", {}, tag("h3", {}, link)));
    morph(this.body, tag("div", {}, values(this.metric, entries, context)));
  }
}

export class View {
  constructor(metric) {
    this.metric = metric;
    this.head = tag("div");
    this.body = tag("div");
    this.charts = new Map();
    this.drawings = tag("div", { class: "cards wide" });
    this.recent = tag("div");
    this.details = tag("details", { class: "card" },
      tag("summary", {}, "Values over time as a table"), this.recent);
    this.details.addEventListener("toggle", () => this.tabulate());
    this.element = tag("div", {}, this.head, this.body, this.drawings, this.details);
  }

  show(entries, context) {
    morph(this.head, tag("div", {},
      tag("p", {}, tag("a", { href: context.choice.link(""), "data-view": "" }, "\u2190 All metrics")),
      tag("h3", { class: "large", tabindex: "-1" }, this.metric),
      context.section(this.metric)?.querySelector(".definition").cloneNode(true) ?? null));
    morph(this.body, tag("div", { class: "card" },
      tag("h4", {}, `Now: ${windowName(context.choice.shown)}`),
      values(this.metric, entries, context, false)));
  }

  // `found`: chart title -> lines.
  draw(found) {
    for (const [title, chart] of this.charts) {
      if (!found.has(title)) {
        chart.article.remove();
        chart.close();
        this.charts.delete(title);
      }
    }
    for (const [title, lines] of found) {
      const chart = this.charts.get(title) ?? this.add(title);
      morph(chart.legend, legend(lines));
      chart.show(`${this.metric}, ${title}`, lines);
    }
    this.found = found;
    this.tabulate();
  }

  tabulate() {
    if (this.details.open && this.found) morph(this.recent, recent(this.found));
  }

  add(title) {
    const chart = new Chart(`${this.metric}, ${title}`, 240);
    chart.legend = tag("ul");
    chart.article = tag("article", { class: "card" }, tag("h4", {}, title), chart.legend, chart.element);
    this.charts.set(title, chart);
    this.drawings.append(chart.article);
    return chart;
  }
}

const legend = (lines) => tag("ul", { class: "legend" }, lines.slice(0, MOST).map((line) => {
  const last = line.points.at(-1)?.[1] ?? null;
  return tag("li", {}, swatch(line.index), ` ${line.name} `, tag("strong", {}, figure(last)));
}));

function recent(found) {
  return tag("div", {}, [...found].map(([title, lines]) => {
    const times = [...new Set(lines.flatMap((line) => line.points.map(([at]) => at)))];
    const last = times.sort((left, right) => right - left).slice(0, 30);
    const at = lines.map((line) => new Map(line.points.map(([when, value]) => [when, value])));
    return tag("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      tag("table", { class: "rows" }, tag("caption", {}, title),
        tag("thead", {}, tag("tr", {}, tag("th", { scope: "col" }, "time"),
          lines.map((line) => tag("th", { scope: "col", class: "number" }, line.name)))),
        tag("tbody", {}, last.map((when) => tag("tr", {},
          tag("th", { scope: "row" }, moment(when)),
          at.map((values) => tag("td", {}, values.has(when) ? figure(values.get(when)) : "")))))));
  }));
}

// The charts of one metric: all variants in the selected window, then each variant in all windows.
export function drawings(histories, picked, context) {
  const found = new Map();
  const lines = (window) => (histories.get(window) ?? [])
    .filter((series) => context.picked(series.labels))
    .map((series) => ({ name: nameOf(series), index: context.index(series), points: series.points }));
  found.set(`${windowName(picked)}, side by side`, lines(picked));
  const panes = lines("pane").filter((line) => line.points.length);
  if (panes.length) found.set("by pane", panes);
  const windows = [...histories.keys()].filter((window) => window !== "pane");
  if (windows.length < 2) return found;
  for (const { name } of lines(picked).slice(0, MOST)) {
    found.set(`${name}, all windows`, windows.map((window, index) => ({
      name: windowName(window), index,
      points: lines(window).find((line) => line.name === name)?.points ?? [],
    })));
  }
  return found;
}
