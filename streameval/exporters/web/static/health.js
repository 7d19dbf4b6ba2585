// The pipeline: records read and refused, lag, checkpoints; as the page without scripts has it.

import { tag } from "./markup.js";
import { moment, number, when } from "./words.js";

const sum = (values) => Object.values(values).reduce((all, each) => all + each, 0);

function facts(found) {
  const { health } = found;
  const lags = health.partitions.map((each) => each.lag).filter((lag) => lag !== null);
  const times = health.partitions.map((each) => each.event_time).filter((at) => at !== null);
  const invalid = sum(health.invalid);
  const share = health.consumed ? ` (${(100 * invalid / health.consumed).toPrecision(2)}\u00A0%)` : "";
  const kept = health.checkpoint;
  return {
    "records read": number(health.consumed),
    events: number(health.valid),
    invalid: number(invalid) + (invalid ? share : ""),
    tombstones: number(health.tombstones),
    late: health.late,
    "from the future": health.future,
    duplicates: health.duplicates,
    "dead letters": health.dead_lettered,
    "lists not counted yet": health.join === null ? null : health.join.streams[0].open,
    "records behind": lags.length ? sum(lags) : null,
    "newest event": times.length ? when(Math.max(...times), found.taken_at) : null,
    "last checkpoint": kept === null ? null
      : kept.last_success === null ? "\u2013" : when(kept.last_success, found.taken_at),
  };
}

export function pipeline(found) {
  const known = Object.entries(facts(found)).filter(([, value]) => value !== null);
  const totals = tag("dl", { class: "totals" }, known.map(([name, value]) => tag("div", {},
    tag("dt", {}, name), tag("dd", {}, typeof value === "number" ? number(value) : value))));
  const reasons = Object.entries(found.health.invalid).filter(([, count]) => count).sort();
  return tag("div", {}, totals,
    reasons.length ? rows("Invalid records by reason", ["reason", "records"],
      reasons.map(([reason, count]) => [tag("code", {}, reason), number(count)])) : null,
    found.health.partitions.length ? partitions(found.health) : null);
}

function partitions(health) {
  const kept = health.checkpoint !== null;
  const heads = ["partition", "next offset", "records behind", "event time"];
  return rows("Partitions", kept ? [...heads, "durable to"] : heads,
    health.partitions.map((each) => [
      `${each.topic}[${each.partition}]`, number(each.position), number(each.lag),
      each.event_time === null ? "\u2013" : moment(each.event_time),
      ...(kept ? [number(each.durable)] : []),
    ]));
}

function rows(caption, heads, found) {
  return tag("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": caption },
    tag("table", { class: "rows" }, tag("caption", {}, caption),
      tag("thead", {}, tag("tr", {}, heads.map((head, place) =>
        tag("th", { scope: "col", class: place ? "number" : null }, head)))),
      tag("tbody", {}, found.map(([first, ...rest]) => tag("tr", {},
        tag("th", { scope: "row" }, first), rest.map((each) => tag("td", {}, each)))))));
}
