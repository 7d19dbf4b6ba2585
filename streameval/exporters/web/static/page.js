// Updates the page without moving focus, selection or scroll position.

import { Choice } from "./choice.js";
import { morph, tag } from "./markup.js";
import { Card, View, drawings, nameOf } from "./metric.js";

const EVERY = 2000;
const responses = new Map();
const cards = new Map();
const visible = new Set();
const timeKind = document.getElementById("by");
const live = document.getElementById("live");
const grid = tag("div", { class: "cards" });
const status = tag("span", { role: "status" });
const button = tag("button", { type: "button" }, "Pause");
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) visible.add(target);
    else visible.delete(target);
  }
  if (entries.some((entry) => entry.isIntersecting)) histories();
}, { rootMargin: "200px" });
let paused = false;
let found = null;
let meanings = new Map();
let fragments = new Map();
let version = -1;
let view = null;
let timer = 0;
let order = [];

const choice = new Choice(async () => {
  render();
  await turnTo();
  histories();
});

// The server draws these, with and without scripts.
function sections(html) {
  const next = new DOMParser().parseFromString(html, "text/html");
  for (const id of ["state", "experiment", "gaps", "health"]) {
    morph(document.getElementById(id), next.getElementById(id));
  }
}

// The values of the chosen window and segment, by metric.
async function values() {
  const { shown, family } = choice;
  const query = new URLSearchParams({ window: shown, ...(family.segment ? { segment: family.segment } : {}) });
  const html = await request(`cards?${query}`, (answer) => answer.text());
  const parsed = new DOMParser().parseFromString(html, "text/html");
  if (choice.shown !== shown || choice.family.segment !== family.segment) return;
  fragments = new Map([...parsed.querySelectorAll("section[data-metric]")]
    .map((section) => [section.dataset.metric, section]));
  const [first] = fragments.values();
  version = first ? Number(first.dataset.version) : found.version;
}

async function turnTo() {
  if (found === null) return;
  try {
    await values();
  } catch (error) {
    announce(error.message, true);
  }
  render();
}

// Requests a document only if it changed, by the ETag of the last response.
async function request(path, read = (answer) => answer.json()) {
  const before = responses.get(path);
  const headers = before ? { "If-None-Match": before.tag } : {};
  const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(10000) });
  if (answer.status === 304) return before.content;
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const content = await read(answer);
  if (responses.size > 200) responses.clear();
  responses.set(path, { tag: answer.headers.get("etag"), content });
  return content;
}

const context = {
  choice,
  get document() { return found; },
  meaning: (metric) => meanings.get(metric),
  section: (metric) => fragments.get(metric),
  index: (entry) => order.indexOf(nameOf(entry)),
  picked(labels) {
    const compared = found.comparison;
    const segment = choice.family.segment;
    const variant = compared === null || choice.has(labels[compared.label]);
    return variant && (!segment || !choice.value || labels[segment] === choice.value);
  },
};

const of = (entry) => (entry.segment ?? "") === (choice.family.segment ?? "");

function offered() {
  const metrics = [...meanings.values()];
  const unique = (values) => [...new Set(values)];
  const label = found.comparison?.label ?? "";
  const family = found.metrics.filter((entry) => entry.segment === null);
  return {
    families: found.families,
    names: unique(metrics.map((each) => each.name)),
    cuts: unique(metrics.map((each) => each.k).filter((k) => k !== null)).sort((a, b) => a - b),
    segments: found.families.map((each) => each.segment).filter((each) => each !== null),
    values: choice.segment
      ? unique(found.metrics.map((entry) => entry.labels[choice.segment]).filter(Boolean)).sort()
      : [],
    variants: label ? unique(family.map((entry) => entry.labels[label])).sort() : [],
    label,
  };
}

function render() {
  if (found === null) return;
  choice.offer(offered());
  const all = found.metrics.filter((entry) => of(entry) && entry.window === choice.shown);
  order = [...new Set(all.map(nameOf))].sort();
  const shown = all.filter((entry) => context.picked(entry.labels));
  if (choice.view) single(shown.filter((entry) => entry.metric === choice.view));
  else overview(shown);
  live.dataset.version = version;
  document.title = `${choice.view ? `${choice.view}, ` : ""}${found.source}: `
    + found.state.word.toLowerCase();
}

function overview(shown) {
  view = null;
  const wanted = [...new Set(shown.map((entry) => entry.metric))].filter((metric) => {
    const meaning = meanings.get(metric);
    const named = !choice.metric || meaning?.name === choice.metric;
    return named && (!choice.k || String(meaning?.k) === choice.k);
  });
  for (const [metric, card] of cards) {
    if (!wanted.includes(metric)) {
      watcher.unobserve(card.element);
      visible.delete(card.element);
      card.chart.close();
      card.element.remove();
      cards.delete(metric);
    }
  }
  wanted.forEach((metric, place) => {
    const card = cards.get(metric) ?? new Card(metric);
    card.show(shown.filter((entry) => entry.metric === metric), context);
    if (grid.children[place] !== card.element) grid.insertBefore(card.element, grid.children[place]);
    if (!cards.has(metric)) watcher.observe(card.element);
    cards.set(metric, card);
  });
  put(wanted.length ? grid : tag("p", { class: "quiet" }, "No data for this selection yet."));
}

function single(entries) {
  if (view?.metric !== choice.view) view = new View(choice.view);
  view.show(entries, context);
  put(view.element);
}

function put(element) {
  if (live.firstChild !== element) live.replaceChildren(element);
}

async function histories() {
  if (found === null || paused) return;
  const segment = choice.family.segment;
  const path = (metric, window) => `api/v1/history?${new URLSearchParams({
    metric, window, ...(segment ? { segment } : {}),
  })}`;
  if (view) return whole(view, path);
  const { shown } = choice;
  await Promise.all([...cards.values()].filter((card) => visible.has(card.element)).map(async (card) => {
    const { series, time } = await request(path(card.metric, shown));
    timeKind.textContent = time === "event" ? "event time" : "processing time since this process started";
    if (choice.shown !== shown || choice.family.segment !== segment) return;
    const lines = series.filter((each) => context.picked(each.labels));
    card.chart.show(card.metric, lines.map((each) => (
      { name: nameOf(each), index: context.index(each), points: each.points })));
  }));
}

async function whole(current, path) {
  const windows = ["pane", ...choice.family.windows];
  const answers = await Promise.all(windows.map((window) => request(path(current.metric, window))));
  if (view !== current) return;
  current.draw(drawings(new Map(windows.map((window, place) => [window, answers[place].series])),
    choice.shown, context));
}

function announce(text, old = false) {
  if (status.textContent !== text) status.textContent = text;
  status.parentElement.classList.toggle("old", old);
}

async function update() {
  // Asked first and shown last, so that no part of the page is newer than the values.
  const html = await request("sections", (answer) => answer.text());
  const next = await request("api/v1/metrics");
  if (next !== found || version !== next.version) {
    if (next.metrics.some((entry) => !meanings.has(entry.metric))) {
      const { metrics } = await request("api/v1/catalogue");
      meanings = new Map(metrics.map((each) => [each.metric, each]));
    }
    if (paused) return;
    found = next;
    choice.offer(offered());
    await values();
    // A snapshot was taken between the two requests: ask again for the newer document.
    if (version !== found.version) found = await request("api/v1/metrics");
    render();
    document.getElementById("plain").replaceChildren();
    document.body.classList.add("moving");
    await histories();
  }
  sections(html);
  announce("Updates automatically.");
}

// A hidden tab requests nothing; slow responses make requests less frequent.
async function turn() {
  clearTimeout(timer);
  const start = performance.now();
  if (!paused && !document.hidden) {
    try {
      await update();
    } catch (error) {
      announce(error instanceof TypeError || error.name === "TimeoutError"
        ? "The daemon does not respond; these values are outdated." : error.message, true);
    }
  }
  timer = setTimeout(turn, Math.max(EVERY, 10 * (performance.now() - start)));
}

button.addEventListener("click", () => {
  paused = !paused;
  button.textContent = paused ? "Resume" : "Pause";
  announce(paused ? "Paused." : "Updates automatically.");
  if (!paused) turn();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) turn(); });
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-view]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  choice.open(link.dataset.view);
  document.querySelector("#live [tabindex='-1']")?.focus();
});
document.getElementById("updates").append(status, button);
announce("Updates automatically.");
turn();
