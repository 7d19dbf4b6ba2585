"""A slow join of complete rows, with one loop for each rule; written without the package."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Rule(NamedTuple):
    """The rules of a join; durations in microseconds."""

    key: str
    window: int
    lateness: int
    combine: str
    per: Sequence[str]
    types: Mapping[str, float]
    ignore: Sequence[str]


class SlowJoined(NamedTuple):
    """Events as (number of the impression, gain by item, gain by item and type), and outcomes."""

    events: list[tuple[int, dict[Any, float], dict[Any, float]]]
    impressions: list[str]
    interactions: list[str]
    outside: int


def slow_join(impressions: Sequence[Row], interactions: Sequence[Row], rule: Rule) -> SlowJoined:
    key = "request_id" if rule.key == "request_id" else "users"
    shown_outcomes = _copies(
        impressions,
        [None if _is_absent(row, key, "times", "recommendations") else "" for row in impressions],
        [(row.get(key), row.get("request_id")) for row in impressions],
        rule.window,
        shown_content,
    )
    outcomes = _copies(
        interactions,
        [_own_outcome(row, key, rule) for row in interactions],
        [
            (row.get(key), row.get("stream"), row.get("event_id"))
            if row.get("event_id") is not None
            else (None, None)
            for row in interactions
        ],
        rule.window + rule.lateness,
        lambda row: (repr(row["item"]), repr(row["type"]), repr(_gain(row, rule))),
    )
    retained = [number for number, outcome in enumerate(shown_outcomes) if outcome == "counted"]
    gains: dict[int, dict[Any, list[float]]] = {number: defaultdict(list) for number in retained}
    typed: dict[int, dict[Any, list[float]]] = {number: defaultdict(list) for number in retained}
    outside = 0
    for at, row in enumerate(interactions):
        if outcomes[at] != "counted":
            continue
        lists = [
            number
            for number in retained
            if impressions[number][key] == row[key]
            and 0 <= row["times"] - impressions[number]["times"] <= rule.window
            and (key == "request_id" or row["item"] in impressions[number]["recommendations"])
        ]
        latest: dict[Any, int] = {}
        for number in sorted(lists, key=lambda n: _touch(impressions[n])):
            latest[tuple(impressions[number][name] for name in rule.per)] = number
        if not latest:
            outcomes[at] = "orphan"
        for number in latest.values():
            outside += row["item"] not in impressions[number]["recommendations"]
            gains[number][row["item"]].append(_gain(row, rule))
            typed[number][row["item"], row["type"]].append(_gain(row, rule))
    events = [
        (number, _combined(gains[number], rule), _combined(typed[number], rule))
        for number in retained
    ]
    return SlowJoined(events, shown_outcomes, outcomes, outside)


def shown_content(row: Row) -> tuple[str, ...]:
    others = {"recommendations", "times", "request_id", "users"}
    rest = [str(row[name]) for name in sorted(row) if name not in others]
    user = "" if row.get("users") is None else str(row["users"])
    return str(row.get("request_id") or ""), repr(row["recommendations"]), repr(tuple(rest)), user


def _touch(row: Row) -> tuple[Any, ...]:
    return row["times"], shown_content(row)


def _own_outcome(row: Row, key: str, rule: Rule) -> str | None:
    """None for an invalid row, "ignored", or "" for one to decide by the others."""
    if _is_absent(row, key, "times", "item") or not abs(_gain(row, rule)) <= 2.0**1000:
        return None
    if rule.types and row["type"] is None:
        return None
    counts = row["type"] not in rule.ignore and (not rule.types or row["type"] in rule.types)
    return "" if counts else "ignored"


def _is_absent(row: Row, *names: str) -> bool:
    return any(row.get(name) is None for name in names)


def _gain(row: Row, rule: Rule) -> float:
    inputs: float | None = row.get("gain")
    return rule.types.get(row["type"] or "", 1.0) if inputs is None else inputs


def _copies(
    rows: Sequence[Row],
    own: Sequence[str | None],
    ids: Sequence[tuple[Any, ...]],
    span: int,
    content: Callable[[Row], Any],
) -> list[str]:
    outcomes = ["invalid" if of is None else of or "counted" for of in own]
    decide = [number for number, of in enumerate(own) if of == ""]
    last: dict[Any, int] = {}
    for number in sorted(decide, key=lambda n: (rows[n]["times"], content(rows[n]))):
        if ids[number][-1] is None:
            continue
        time = rows[number]["times"]
        if ids[number] in last and time - last[ids[number]] <= span:
            outcomes[number] = "duplicate"
        else:
            last[ids[number]] = time
    return outcomes


def _combined(gains: Mapping[Any, Sequence[float]], rule: Rule) -> dict[Any, float]:
    if rule.combine == "max":
        return {key: max(of) for key, of in gains.items()}
    most = 2.0**1000
    return {key: max(-most, min(most, math.fsum(of))) for key, of in gains.items()}
