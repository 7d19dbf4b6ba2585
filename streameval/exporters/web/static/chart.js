// Draws charts: lines over time that differ in dashes as well as in colour. Names, words and
// values come from the server; this file needs no other, so that a saved page has it inside.

const charts = new Map();

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (line) => css(`--line-${line.stroke}`);

function element(name, attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// The lines, behind them the lower and the upper end of a band.
function rows({ lines, band = [] }) {
  const ends = [1, 2].map((end) => ({ points: band.map((point) => [point[0], point[end]]) }));
  return band.length ? [...ends, ...lines] : lines;
}

// One row of times, and a row of values for each line. undefined: the line has no point at that
// time, and is drawn through; null: there was no value, and the line has a gap.
function aligned(lines) {
  const times = [...new Set(lines.flatMap((line) => line.points.map(([at]) => at)))];
  times.sort((left, right) => left - right);
  const indexes = new Map(times.map((at, index) => [at, index]));
  const rows = lines.map((line) => {
    const row = new Array(times.length).fill(undefined);
    for (const [at, value] of line.points) row[indexes.get(at)] = value;
    return row;
  });
  return [times, ...rows];
}

class Chart {
  constructor(figure) {
    // As small as on the card of a phone, where several are read one after the other.
    this.isSmall = matchMedia("(max-width: 30rem)").matches && Boolean(figure.closest(".cards:not(.wide)"));
    this.height = this.isSmall ? 64 : Number(figure.dataset.height);
    this.box = element("div", { class: "canvas", role: "img", "aria-label": "chart" });
    this.note = element("p", { class: "quiet note" });
    this.box.style.minHeight = `${this.height}px`;
    figure.prepend(this.box, this.note);
    this.key = null;
    this.plot = null;
    this.drawing = { lines: [] };
    this.resized = new ResizeObserver(() => this.fit());
    this.resized.observe(this.box);
  }

  show(drawing) {
    const { label, note, lines, band = [] } = drawing;
    this.drawing = drawing;
    this.box.setAttribute("aria-label", label);
    if (this.note.textContent !== note) this.note.textContent = note;
    const key = JSON.stringify([band.length > 0, lines.map((line) => [line.name, line.stroke])]);
    if (key !== this.key || this.plot === null) this.draw(key);
    else this.plot.setData(aligned(rows(drawing)));
  }

  draw(key = this.key) {
    this.plot?.destroy();
    this.plot = null;
    this.key = key;
    if (!globalThis.uPlot || !this.drawing.lines.length || !this.box.isConnected) return;
    this.plot = new uPlot(this.options(), aligned(rows(this.drawing)), this.box);
  }

  options() {
    const axis = { stroke: css("--quiet"), font: "12px system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: css("--line"), width: 1 };
    const { lines, band = [], ends, logarithmic } = this.drawing;
    const hidden = band.length ? [{ stroke: "transparent" }, { stroke: "transparent" }] : [];
    return {
      width: Math.max(120, this.box.clientWidth),
      height: this.height,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      // Room for half of a label at the right end of the axis.
      padding: [this.isSmall ? 4 : 10, 36, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { range: times }, y: { range: ends ?? spread, distr: logarithmic ? 3 : 1 } },
      bands: band.length ? [{ series: [2, 1], fill: `${css("--control")}40` }] : [],
      hooks: {
        drawClear: [(plot) => this.behind(plot)],
        draw: [(plot) => this.above(plot)],
      },
      axes: [
        { ...axis, grid: { show: false }, space: 70, size: this.isSmall ? 22 : 30, values: clock, ...(days(lines) ? { incrs: DAYS } : {}) },
        { ...axis, grid, size: 62, space: 34, values: (_, splits) => ticks(splits), ...(logarithmic ? DECADES : {}) },
      ],
      series: [{}, ...hidden.map((line) => ({ ...line, points: { show: false } })), ...lines.map((line) => ({
        label: line.name,
        stroke: colour(line),
        width: 2,
        dash: line.dash,
        points: { show: line.points.length < 2, size: 6, fill: colour(line) },
      }))],
    };
  }

  // The stretch that is marked.
  behind(plot) {
    const { span } = this.drawing;
    if (!span) return;
    const { left, top, width, height } = plot.bbox;
    const [first, last] = span.map((at) => Math.min(Math.max(plot.valToPos(at, "x", true), left), left + width));
    plot.ctx.fillStyle = `${css("--look")}4d`;
    plot.ctx.fillRect(first, top, last - first, height);
  }

  // A dashed line from left to right, and marks at the top.
  above(plot) {
    const { level, marks = [] } = this.drawing;
    const { ctx, bbox: { left, top, width } } = plot;
    const stroke = (colour_, dash, from, to) => {
      ctx.save();
      ctx.strokeStyle = colour_;
      ctx.lineWidth = 2 * devicePixelRatio;
      ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
      ctx.beginPath();
      ctx.moveTo(...from);
      ctx.lineTo(...to);
      ctx.stroke();
      ctx.restore();
    };
    if (level !== undefined) {
      const y = plot.valToPos(level, "y", true);
      stroke(css("--control"), [4, 4], [left, y], [left + width, y]);
    }
    for (const at of marks) {
      const x = plot.valToPos(at, "x", true);
      stroke(css("--text"), [], [x, top], [x, top + 14 * devicePixelRatio]);
    }
  }

  fit() {
    const width = Math.floor(this.box.clientWidth);
    if (width > 0 && this.plot && this.plot.width !== width) {
      this.plot.setSize({ width, height: this.height });
    } else if (!this.plot) this.draw();
  }

  close() {
    this.resized.disconnect();
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

const DAYS = [1, 2, 7, 14, 28, 91, 364].map((days_) => days_ * 86400);
const days = (lines) => lines.every((line) => line.points.every(([at]) => at % 86400 === 0));
const DECADES = {
  splits: (_plot, _axis, low, high) => {
    const powers = [];
    for (let at = low; at <= high * 1.01; at *= 10) powers.push(at);
    return powers;
  },
  filter: (_, splits) => splits,
  values: (_, splits) => splits.map((each) => Number(each.toPrecision(2)).toLocaleString("en")),
};

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

export function draw(figure, drawing) {
  if (!charts.has(figure)) charts.set(figure, new Chart(figure));
  charts.get(figure).show(drawing);
}

// The charts whose data is in the page; charts that are no longer in it are forgotten.
export function drawAll() {
  for (const [figure, chart] of charts) {
    if (!figure.isConnected) {
      chart.close();
      charts.delete(figure);
    }
  }
  for (const figure of document.querySelectorAll("figure.chart")) {
    const data = figure.querySelector("script");
    if (data) draw(figure, JSON.parse(data.textContent));
  }
}

// A print has its own colours and its own width.
for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(query).addEventListener("change", () => charts.forEach((chart) => chart.draw()));
}
