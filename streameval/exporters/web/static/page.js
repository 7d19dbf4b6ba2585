// Replaces the page's main part by the server's newest one, and has its charts drawn.

import { draw, drawAll } from "./chart.js";
import { morph } from "./markup.js";

const EVERY = 2000;
const MOST_ANSWERS = 200;
const answers = new Map();
const visible = new Set();
const drawn = new WeakMap();
const form = () => document.getElementById("filters");
const status = document.createElement("span");
const button = document.createElement("button");
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) visible.add(target);
    else visible.delete(target);
  }
  if (entries.some((entry) => entry.isIntersecting)) guarded(drawVisible);
}, { rootMargin: "200px" });
let paused = false;
let timer = 0;

// Requests a document only if it changed, by the ETag of the last response.
async function request(path, read) {
  const before = answers.get(path);
  const headers = before ? { "If-None-Match": before.tag } : {};
  const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(10000) });
  if (answer.status === 304) return before.content;
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const content = await read(answer);
  if (answers.size > MOST_ANSWERS) answers.clear();
  answers.set(path, { tag: answer.headers.get("etag"), content });
  return content;
}

async function refresh() {
  const { search } = location;
  const html = await request(`main${search}`, (answer) => answer.text());
  if (search !== location.search) return;
  const next = new DOMParser().parseFromString(html, "text/html").querySelector("main");
  const { title, link } = next.dataset;
  morph(document.querySelector("main"), next);
  document.title = title;
  if ((search || "./") !== link) {
    history.replaceState(null, "", link === "./" ? location.pathname : link);
  }
  document.body.classList.add("moving");
  drawAll();
  document.querySelectorAll("figure[data-points]").forEach((figure) => watcher.observe(figure));
  await drawVisible();
  await drawOthers();
}

// Charts of an overview are many: only those in view are kept up to date.
async function drawVisible() {
  await Promise.all([...visible].map(async (figure) => {
    if (figure.isConnected && figure.dataset.points) await drawPoints(figure);
    else {
      watcher.unobserve(figure);
      visible.delete(figure);
    }
  }));
}

// Each of the others is drawn once, one at a time, so that a print or a picture has no empty chart.
async function drawOthers() {
  for (const figure of document.querySelectorAll("figure[data-points]")) {
    if (figure.isConnected && drawn.get(figure) !== figure.dataset.points) await drawPoints(figure);
  }
}

async function drawPoints(figure) {
  const { points } = figure.dataset;
  const drawing = await request(points, (answer) => answer.json());
  if (figure.dataset.points !== points) return;
  draw(figure, drawing);
  drawn.set(figure, points);
}

function announce(text, old = false) {
  if (status.textContent !== text) status.textContent = text;
  status.parentElement.classList.toggle("old", old);
}

async function guarded(work) {
  try {
    await work();
    if (!paused) announce("Updates automatically.");
  } catch (error) {
    announce(error instanceof TypeError || error.name === "TimeoutError"
      ? "The daemon does not respond; these values are outdated." : error.message, true);
  }
}

// A hidden tab requests nothing; slow responses make requests less frequent.
async function turn() {
  clearTimeout(timer);
  const start = performance.now();
  if (!paused && !document.hidden) await guarded(refresh);
  timer = setTimeout(turn, Math.max(EVERY, 10 * (performance.now() - start)));
}

// The address that a form's choices have; the server leaves the usual ones out.
function address() {
  const pairs = [...new FormData(form())].filter(([, value]) => value);
  return `${location.pathname}${pairs.length ? `?${new URLSearchParams(pairs)}` : ""}`;
}

document.addEventListener("change", (event) => {
  if (event.target.form !== form()) return;
  history.replaceState(null, "", address());
  guarded(refresh);
});
document.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("a[data-page]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  await guarded(refresh);
  scrollTo(0, 0);
  document.querySelector("#live [tabindex='-1']")?.focus();
});
addEventListener("popstate", () => guarded(refresh));
button.addEventListener("click", () => {
  paused = !paused;
  button.textContent = paused ? "Resume" : "Pause";
  announce(paused ? "Paused." : "Updates automatically.");
  if (!paused) turn();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) turn(); });
status.setAttribute("role", "status");
button.type = "button";
button.textContent = "Pause";
document.getElementById("updates").append(status, button);
announce("Updates automatically.");
turn();
