"""A slow reference join: sort everything, then match; written without the package."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from tests.engine import slow_clock

Record = dict[str, Any]
Log = list[Record | None]
"""Impressions have "shown" and interactions "item"; None is a tombstone, {} is invalid."""


class Case(NamedTuple):
    """Streams and the rules of their join.

    Attributes:
        streams: logs of each stream; impressions first.
        key: "request_id" or "user_item".
        window: in seconds.
        lateness: in seconds.
        combine: "max" or "sum".
        per_variant: whether last touch attributes in each variant separately.
        gains: type -> gain; other types do not count.
        recent: number of voters that the clock of a log rests on.
        max_ahead: in seconds.
    """

    streams: list[list[Log]]
    key: Literal["request_id", "user_item"] = "request_id"
    window: int = 10
    lateness: int = 0
    combine: Literal["max", "sum"] = "max"
    per_variant: bool = False
    gains: Mapping[str, float] = MappingProxyType({"click": 1.0})
    recent: int = 1
    max_ahead: int = 60


class Joined(NamedTuple):
    """The result after all records.

    Attributes:
        events: time, labels, items shown, gain by item, gain by item and type.
        outcomes: outcome -> number of records, for each stream; "outside" are those of the counted
            whose item their list did not show.
    """

    events: list[tuple[Any, ...]]
    outcomes: list[Counter[str]]


def joined(case: Case) -> Joined:
    outcomes = [Counter[str]() for _ in case.streams]
    impressions = _distinct(case, outcomes[0])
    joined_records: dict[int, list[Record]] = defaultdict(list)
    for stream in range(1, len(case.streams)):
        for interaction in _unique(case, stream, outcomes[stream]):
            rows = _rows(case, impressions, interaction)
            outcomes[stream]["counted" if rows else "orphan"] += 1
            for row in rows:
                joined_records[row].append(interaction)
                outcomes[stream]["outside"] += interaction["item"] not in impressions[row]["shown"]
    outcomes[0]["counted"] += len(impressions)
    events = [
        _event(case, shown_list, joined_records[row]) for row, shown_list in enumerate(impressions)
    ]
    return Joined(sorted(events), outcomes)


def _in_time(case: Case, stream: int, counts: Counter[str]) -> list[Record]:
    """Valid records that are neither late nor from the future."""
    in_time = []
    for log in case.streams[stream]:
        counts["records"] += len(log)
        counts["tombstone"] += log.count(None)
        counts["invalid"] += log.count({})
        valid = [record for record in log if record]
        times = [record["ts"] for record in valid]
        by_user = stream == 0 or case.key == "user_item"
        voters = [record["user"] if by_user else None for record in valid]
        clocks = slow_clock.clocks(times, case.max_ahead, case.recent, voters)
        ahead = slow_clock.ahead(times, clocks, case.recent, voters, case.lateness)
        for index, record in enumerate(valid):
            before = clocks[index - 1] if index else slow_clock.NEVER
            if ahead[index]:
                counts["future"] += 1
            elif record["ts"] < before - case.lateness:
                counts["late"] += 1
            else:
                in_time.append(record)
    return in_time


def _distinct(case: Case, counts: Counter[str]) -> list[Record]:
    """Lists of one id, and user if the join is by user, are one unless their windows are apart."""
    by = ("request_id",) if case.key == "request_id" else ("user", "request_id")
    return _earliest(_in_time(case, 0, counts), by, case.window, counts)


def _unique(case: Case, stream: int, counts: Counter[str]) -> list[Record]:
    """Interactions of one key and id are one, unless further apart than a list stays open."""
    records = _in_time(case, stream, counts)
    counting = [record for record in records if record["type"] in case.gains]
    counts["ignored"] += len(records) - len(counting)
    by = ("request_id" if case.key == "request_id" else "user", "event_id")
    return _earliest(counting, by, case.window + case.lateness, counts)


def _earliest(
    records: Sequence[Record], by: Sequence[str], span: int, counts: Counter[str]
) -> list[Record]:
    kept, last = [], dict[tuple[str, ...], int]()
    for record in sorted(records, key=lambda record: (record["ts"], _content(record))):
        key = tuple(record[name] for name in by)
        if key in last and record["ts"] - last[key] <= span:
            counts["duplicate"] += 1
        else:
            last[key] = record["ts"]
            kept.append(record)
    return kept


def _content(record: Record) -> tuple[str, ...]:
    names = ("request_id", "shown", "variant") if "shown" in record else ("item", "type")
    return tuple(str(record.get(name)) for name in names)


def _rows(case: Case, shown: Sequence[Record], record: Record) -> list[int]:
    rows = [
        row
        for row, shown_list in enumerate(shown)
        if 0 <= record["ts"] - shown_list["ts"] <= case.window
        and (
            shown_list["request_id"] == record["request_id"]
            if case.key == "request_id"
            else shown_list["user"] == record["user"] and record["item"] in shown_list["shown"]
        )
    ]
    if case.key == "request_id":
        return rows
    groups: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        groups[shown[row]["variant"] if case.per_variant else ""].append(row)
    return sorted(
        max(rows, key=lambda row: (shown[row]["ts"], _content(shown[row])))
        for rows in groups.values()
    )


def _event(case: Case, shown: Record, interactions: Sequence[Record]) -> tuple[Any, ...]:
    gains: dict[Any, list[float]] = defaultdict(list)
    for interaction in interactions:
        gain = case.gains[interaction["type"]]
        gains[interaction["item"]].append(gain)
        gains[interaction["item"], interaction["type"]].append(gain)
    total = {key: max(of) if case.combine == "max" else sum(of) for key, of in gains.items()}
    by_item = sorted((key, gain) for key, gain in total.items() if isinstance(key, str))
    by_type = sorted((key, gain) for key, gain in total.items() if isinstance(key, tuple))
    return shown["ts"], (shown["variant"],), tuple(shown["shown"]), tuple(by_item), tuple(by_type)
