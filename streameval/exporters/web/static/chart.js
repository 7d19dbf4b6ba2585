// One chart: lines over time that differ in dashes as well as in colour.

import { svg, tag } from "./markup.js";
import { figure } from "./words.js";

const DASHES = [[], [9, 5], [2, 4], [10, 4, 2, 4]];
const COLOURS = 8;
export const MOST = 8;
const charts = new Set();

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (index) => css(`--line-${index % COLOURS}`);

export function swatch(index) {
  const line = svg("line", {
    x1: 0, y1: 5, x2: 30, y2: 5, class: `stroke-${index % COLOURS}`,
    "stroke-dasharray": DASHES[index % DASHES.length].join(" ") || null,
  });
  return svg("svg", { viewBox: "0 0 30 10", class: "swatch", "aria-hidden": "true" }, line);
}

// One row of times, and a row of values for each line. undefined: the line has no point at that
// time, and is drawn through; null: there was no value, and the line has a gap.
function aligned(lines) {
  const times = [...new Set(lines.flatMap((line) => line.points.map(([at]) => at)))];
  times.sort((left, right) => left - right);
  const places = new Map(times.map((at, place) => [at, place]));
  const rows = lines.map((line) => {
    const row = new Array(times.length).fill(undefined);
    for (const [at, value] of line.points) row[places.get(at)] = value;
    return row;
  });
  return [times, ...rows];
}

function said(name, lines) {
  const parts = lines.map((line) => {
    const values = line.points.map(([, value]) => value).filter((value) => value !== null);
    if (!values.length) return `${line.name}: no values`;
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return `${line.name}: now ${figure(values.at(-1))}, between ${figure(low)} and ${figure(high)}`;
  });
  return `${name} over time. ${parts.join("; ")}.`;
}

export class Chart {
  constructor(name, height) {
    this.height = height;
    this.box = tag("div", { class: "plot" });
    this.note = tag("p", { class: "quiet note" });
    this.holder = tag("div", { class: "chart", role: "img", "aria-label": `${name} over time` }, this.box);
    this.element = tag("figure", {}, this.holder, this.note);
    this.key = null;
    this.plot = null;
    this.lines = [];
    new ResizeObserver(() => this.fit()).observe(this.box);
    charts.add(this);
  }

  show(name, lines) {
    const drawnLines = lines.slice(0, MOST);
    const points = Math.max(0, ...drawnLines.map((line) => line.points.length));
    this.name = name;
    this.lines = drawnLines;
    this.holder.setAttribute("aria-label", said(name, drawnLines));
    this.note.textContent = points < 2
      ? "Not enough points for a line yet."
      : lines.length > MOST ? `Showing ${MOST} of ${lines.length} lines.` : "";
    const key = JSON.stringify(drawnLines.map((line) => [line.name, line.index]));
    if (key !== this.key || this.plot === null) this.draw(key);
    else this.plot.setData(aligned(drawnLines));
  }

  draw(key = this.key) {
    this.plot?.destroy();
    this.plot = null;
    this.key = key;
    if (!globalThis.uPlot || !this.lines.length || !this.box.isConnected) return;
    this.plot = new uPlot(this.options(), aligned(this.lines), this.box);
  }

  options() {
    const axis = { stroke: css("--quiet"), font: "12px system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: css("--line"), width: 1 };
    return {
      width: Math.max(120, this.box.clientWidth),
      height: this.height,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      padding: [10, 8, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { range: times }, y: { range: spread } },
      axes: [
        { ...axis, grid: { show: false }, space: 70, size: 30, values: clock },
        { ...axis, grid, size: 62, space: 34, values: (_, splits) => ticks(splits) },
      ],
      series: [{}, ...this.lines.map((line) => ({
        label: line.name,
        stroke: colour(line.index),
        width: 2,
        dash: DASHES[line.index % DASHES.length],
        points: { show: line.points.length < 2, size: 6, fill: colour(line.index) },
      }))],
    };
  }

  fit() {
    const width = Math.floor(this.box.clientWidth);
    if (width > 0 && this.plot && this.plot.width !== width) {
      this.plot.setSize({ width, height: this.height });
    } else if (!this.plot) this.draw();
  }

  close() {
    charts.delete(this);
    this.plot?.destroy();
  }
}

// A single point stands in the middle of a minute; uPlot would draw years around it.
const times = (plot, low, high) => (plot.data[0].length === 1 ? [low - 30, low + 30] : [low, high]);

function spread(_, low, high) {
  if (low === null || high === null) return [0, 1];
  const room = (high - low || Math.abs(high) * 0.1 || 1) * 0.08;
  return [low < 0 ? low - room : Math.max(0, low - room), high + room];
}

// As many decimals as the ticks themselves need; there may be only one.
function ticks(splits) {
  const fits = (value, digits) => Math.abs(value * 10 ** digits - Math.round(value * 10 ** digits)) < 1e-6;
  let digits = 0;
  while (digits < 8 && !splits.every((each) => fits(each, digits))) digits += 1;
  return splits.map((each) => each.toLocaleString("en", {
    minimumFractionDigits: digits, maximumFractionDigits: digits,
  }));
}

function clock(_, splits) {
  const step = splits.length > 1 ? splits[1] - splits[0] : 60;
  let day = "";
  return splits.map((at) => {
    const [date, time] = new Date(at * 1000).toISOString().split("T");
    const text = step >= 86400 ? "" : time.slice(0, step < 60 ? 8 : 5);
    const new_ = date !== day && (step >= 86400 || day !== "");
    day = date;
    return new_ ? `${date.slice(5)} ${text}`.trim() : text;
  });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  charts.forEach((chart) => chart.draw());
});
