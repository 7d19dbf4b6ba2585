// Numbers, times and windows of charts as text.

const NONE = "\u2013";

export function figure(value) {
  if (value === null || value === undefined) return NONE;
  if (Number.isInteger(value) && Math.abs(value) > 1) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size > 0 && size < 0.1) return size < 0.0001 ? value.toExponential(3) : value.toPrecision(4);
  return value.toLocaleString("en", { minimumFractionDigits: 4, maximumFractionDigits: 4 });
}

export function moment(seconds) {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export const windowName = (window) => (window === "lifetime" ? "all time" : `last ${window}`);
