"""What must come of two simulated streams: a plain join that shares nothing with the real one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from streameval.sources.simulated_streams import (
    GAINS,
    LATENESS,
    WINDOW,
    Impression,
    Interaction,
    Streams,
    T,
)
from tests.engine import slow_clock

_RECENT: Final = 21
_MAX_AHEAD: Final = 60_000
"""Milliseconds, as `max_ahead` is by default."""


class Counts(msgspec.Struct, kw_only=True, gc=False):
    """Records of a stream by what must become of them: `records` is the sum of the others.

    Attributes:
        records: all of them.
        counted: part of an event.
        duplicate: the same request within the window, or the same event id, came before.
        late: too old by the clock of its own log.
        future: ahead of the clock of its own log, and of the records after it.
        orphan: no list of its request was shown in the window before it.
        ignored: a type that does not count.
        invalid: no impression or interaction.
        outside: those of the counted whose item the list does not show; not part of the sum.
    """

    records: int = 0
    counted: int = 0
    duplicate: int = 0
    late: int = 0
    future: int = 0
    orphan: int = 0
    ignored: int = 0
    invalid: int = 0
    outside: int = 0


class Outcomes(msgspec.Struct, kw_only=True, gc=False):
    """What the events of a variant must hold.

    Attributes:
        lists: how many.
        hits: lists with an interaction that counts, with an item that they show.
        purchases: lists of which an item that they show was purchased.
        gain: of the items shown, the largest of each, added up.
    """

    lists: int = 0
    hits: int = 0
    purchases: int = 0
    gain: float = 0.0


class Truth(msgspec.Struct, kw_only=True):
    """What must come of both streams; variants by name."""

    impressions: Counts
    interactions: Counts
    variants: dict[str, Outcomes]


def truth(streams: Streams) -> Truth:
    """The join of both, when everything has come.

    Example:
        >>> from streameval.sources.simulated_streams import streams
        >>> known = truth(streams(1000, 0))
        >>> known.impressions.counted, sum(each.lists for each in known.variants.values())
        (993, 993)
    """
    impressions, interactions = Counts(), Counts()
    lists = _lists(_on_time(streams.impressions, impressions), impressions)
    found: dict[int, list[Interaction]] = defaultdict(list)
    for each in _single(_on_time(streams.interactions, interactions), interactions):
        same = lists.get(each.request_id, ())
        shown = [it for it in same if it.ts <= each.ts <= it.ts + WINDOW]
        if not shown:
            interactions.orphan += 1
            continue
        interactions.counted += 1
        interactions.outside += each.item not in shown[0].recommendations
        found[id(shown[0])].append(each)
    variants: dict[str, Outcomes] = defaultdict(Outcomes)
    for impression in (each for some in lists.values() for each in some):
        _add(variants[impression.variant], impression, found[id(impression)])
    ordered = dict(sorted(variants.items()))
    return Truth(impressions=impressions, interactions=interactions, variants=ordered)


def _on_time(log: Sequence[T | bytes], counts: Counts) -> list[T]:
    """The valid records that are neither late nor from the future, in the order of the log."""
    valid = [record for record in log if not isinstance(record, bytes)]
    counts.records, counts.invalid = len(log), len(log) - len(valid)
    found: list[T] = []
    times = [record.ts for record in valid]
    clocks: list[int] = slow_clock.clocks(times, _MAX_AHEAD, _RECENT)
    ahead = slow_clock.ahead(times, clocks, _RECENT)
    for place, record in enumerate(valid):
        before = clocks[place - 1] if place else slow_clock.NEVER
        if ahead[place]:
            counts.future += 1
        elif record.ts < before - LATENESS:
            counts.late += 1
        else:
            found.append(record)
    return found


def _lists(shown: Sequence[Impression], counts: Counts) -> dict[str, list[Impression]]:
    """Each list once, by request."""
    kept: dict[str, list[Impression]] = defaultdict(list)
    for each in shown:
        if any(abs(each.ts - other.ts) <= WINDOW for other in kept[each.request_id]):
            counts.duplicate += 1
        else:
            counts.counted += 1
            kept[each.request_id].append(each)
    return kept


def _single(done: Sequence[Interaction], counts: Counts) -> list[Interaction]:
    """Each interaction of a type that counts, once."""
    kept: dict[str, Interaction] = {}
    for each in done:
        if each.type not in GAINS:
            counts.ignored += 1
        elif each.event_id in kept:
            counts.duplicate += 1
        else:
            kept[each.event_id] = each
    return list(kept.values())


def _add(outcomes: Outcomes, shown: Impression, done: Sequence[Interaction]) -> None:
    hits = [each for each in done if each.item in shown.recommendations]
    gains = {
        item: max(GAINS[each.type] for each in hits if each.item == item)
        for item in {each.item for each in hits}
    }
    outcomes.lists += 1
    outcomes.hits += bool(hits)
    outcomes.purchases += any(each.type == "purchase" for each in hits)
    outcomes.gain += sum(gains.values())
