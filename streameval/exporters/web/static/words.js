// Numbers, times and differences as text, as the page without scripts writes them.

const NONE = "\u2013";

export function figure(value) {
  if (value === null || value === undefined) return NONE;
  if (Number.isInteger(value) && Math.abs(value) > 1) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size > 0 && size < 0.1) return size < 0.0001 ? value.toExponential(3) : value.toPrecision(4);
  return value.toLocaleString("en", { minimumFractionDigits: 4, maximumFractionDigits: 4 });
}

export function certainty(entry) {
  const bounds = entry.low === null ? "" : `between ${figure(entry.low)} and ${figure(entry.high)}`;
  const known = entry.estimated ? `estimated, ${bounds || "without bounds"}` : bounds;
  const { interval } = entry;
  if (!interval) return known;
  const share = Number((100 * interval.confidence).toPrecision(3));
  const sure = `${share} % interval ${figure(interval.low)} to ${figure(interval.high)}`;
  return known ? `${known}; ${sure}` : sure;
}

export const number = (count) => count === null || count === undefined
  ? NONE
  : count.toLocaleString("en");

export function moment(seconds) {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

const signed = (value, text) => (value < 0 ? `\u2212${text}` : `+${text}`);

// With its sign and without a verdict: whether it is more than chance is not known.
export function difference(entry, comparison) {
  const by = entry.difference;
  if (comparison === null || by === null) return null;
  if (by === 0) return `same as ${comparison.control}`;
  const before = entry.value - by;
  const share = before === 0 ? "" : ` (${signed(by / before, percent(by / before))})`;
  return `${signed(by, figure(Math.abs(by)))}${share} vs ${comparison.control}`;
}

const percent = (share) => `${(Math.abs(share) * 100)
  .toLocaleString("en", { maximumSignificantDigits: 2 })}\u00A0%`;

export const windowName = (window) => (window === "lifetime" ? "all time" : `last ${window}`);
