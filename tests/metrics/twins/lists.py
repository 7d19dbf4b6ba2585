"""Twins of metrics of the items of each list."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

from tests.metrics.preparation import (
    AnyEvent,
    Id,
    by_type,
    gains_of,
    good,
    mean,
    per_event,
    placed,
    ranked,
    rows_read,
)

_Kinds: TypeAlias = Mapping[Id, Collection[str]]
_Popular: TypeAlias = tuple[Mapping[Id, float], float]


@per_event
def average_popularity(
    event: AnyEvent,
    k: int | None,
    *,
    popularity: _Popular,
    unit: str = "users",
) -> float | None:
    """Users of an item, averaged over the items of a list."""
    counts, users = popularity
    total = users if unit == "share" else 1
    items = event.recommendations[:k]
    return mean([counts.get(item, 0) / total for item in items]) if items else None


@per_event
def novelty(
    event: AnyEvent,
    k: int | None,
    *,
    popularity: _Popular,
    denominator: str = "length",
    unit: str = "bits",
    cold: str = "most",
    cut: bool = True,
    repeats: str = "every",
    rows: int = 0,
) -> float | None:
    """-log2(users of the item / users), averaged over the items of a list."""
    counts, users = popularity

    def bits(item: Id) -> float:
        exposures = counts.get(item, 0) or (1 if cold == "most" else users)
        return math.log2(users / exposures) / (math.log2(users) if unit == "share" else 1)

    items = rows_read(event.recommendations, k if cut else None, repeats, rows)
    if not items:
        return 0.0 if (denominator, cold) == ("k", "zero") else None
    return math.fsum(map(bits, items)) / ((k if denominator == "k" else None) or len(items))


@per_event
def tail_percentage(
    event: AnyEvent,
    k: int | None,
    *,
    popularity: _Popular,
    tail: float = 0.8,
    ties: str = "all",
    unknown: str = "tail",
) -> Fraction | None:
    """Share of a list's items among the least popular ones."""
    counts, _ = popularity
    ordered = sorted(counts, key=lambda item: (counts[item], str(type(item)), item))
    least = ordered[: max(1, int(Fraction(str(tail)) * len(counts)))]

    def is_rare(item: Id) -> bool:
        if item not in counts:
            return unknown == "tail"
        if tail > 1:
            return counts[item] <= tail
        return item in least if ties == "id" else counts[item] <= counts[least[-1]]

    items = event.recommendations[:k]
    return Fraction(sum(map(is_rare, items)), len(items)) if items else None


@per_event
def unexpectedness(
    event: AnyEvent,
    k: int | None,
    *,
    repeats: str = "every",
    rows: int = 0,
    missing: str = "skip",
) -> Fraction | None:
    """1 minus the items that a baseline would have shown too, over k."""
    if missing == "zero" and not event.baseline:
        return Fraction(0)
    if event.baseline is None:
        return None
    items = rows_read(event.recommendations, k, repeats, rows)
    closed = "every" if repeats == "every" else "compact_before_cut"
    both = set(items) & set(rows_read(event.baseline, k, closed, rows))
    return 1 - Fraction(len(both), k or len(items)) if items else Fraction(0)


@per_event
def overlap(event: AnyEvent, k: int | None) -> Fraction | None:
    """The distinct items that were shown all the same, over the distinct items."""
    if event.shown_instead is None:
        return None
    items = {*event.recommendations[:k]}
    return Fraction(len(items & {*event.shown_instead[:k]}), len(items) or 1)


@by_type
@per_event
def serendipity(event: AnyEvent, k: int | None, *, denominator: str = "k") -> Fraction | None:
    """Useful items without those that a baseline shows too, over k."""
    if event.baseline is None:
        return None
    items = ranked(event, k)
    over = len(items) if k is None or denominator == "length" else k
    useful = ({*items} & good(event)) - {*event.baseline[:k]}
    return Fraction(len(useful), over) if over else Fraction(0)


@per_event
def user_novelty(event: AnyEvent, k: int | None, *, gaps: str = "skip") -> Fraction | None:
    """Items that are not in the history, over the items there are."""
    if event.history is None:
        return None
    if gaps == "new":
        rows = event.recommendations[:k]
        familiar = {item for item in rows if item in event.history}
        return 1 - Fraction(len(familiar), len(rows)) if rows else Fraction(1)
    items = ranked(event, k)
    if not items:
        return None
    return Fraction(sum(item not in event.history for item in items), len(items))


@by_type
@per_event
def stratified_recall(
    event: AnyEvent, k: int | None, *, popularity: _Popular, beta: float = 0.5
) -> float | None:
    """Items interacted with that a list shows, over all of them, each weighed by its rareness."""
    counts, _ = popularity
    items = good(event)

    def weight(of: Collection[Id]) -> float:
        return math.fsum(
            math.pow(max(counts.get(item, 1), 1), -beta) for item in sorted(of, key=str)
        )

    return weight(items & {*ranked(event, k)}) / weight(items) if items else None


@per_event
def list_diversity(
    event: AnyEvent,
    k: int | None,
    *,
    similarity: Mapping[Id, Sequence[float]],
    attribute: _Kinds,
    by: str = "similarity",
) -> float:
    """1 minus the cosine of any two items' vectors, averaged over pairs."""
    items = event.recommendations[:k]
    of_items = similarity if by == "similarity" else _indicators(attribute)
    if len(items) < 2 or not {*items} <= {*of_items}:
        return math.nan
    vectors = [of_items[item] for item in items]
    return mean([1 - _cosine(left, other) for left, other in combinations(vectors, 2)])


def _indicators(attribute: _Kinds) -> dict[Id, list[float]]:
    """Item -> 1 for each kind that it is of, 0 for the others."""
    kinds = sorted({kind for of_item in attribute.values() for kind in of_item})
    return {
        item: [float(kind in kinds_of_item) for kind in kinds]
        for item, kinds_of_item in attribute.items()
    }


def _cosine(left: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*left) * math.hypot(*other)
    return sum(a * b for a, b in zip(left, other, strict=True)) / lengths if lengths else 0.0


@by_type
@per_event
def judged(event: AnyEvent, k: int | None, *, denominator: str = "length") -> Fraction:
    """Items that anything is known of, over k or the items there are."""
    items = ranked(event, k)
    over = len(items) if k is None or denominator == "length" else k
    return Fraction(len({*items} & {*event.interactions}), over or 1)


@by_type
@per_event
def bpref(
    event: AnyEvent, k: int | None, *, min_gain: float = 0.0, empty: str = "skip"
) -> Fraction | None:
    """For each relevant item the share of the first R others that stand below it."""
    gains = gains_of(event.interactions)
    relevant = {item for item, gain in gains.items() if gain > 0 and gain >= min_gain}
    bad = {item for item, gain in gains.items() if gain >= 0} - relevant
    if not relevant:
        return Fraction(0) if empty == "zero" else None
    judged = [item for item in ranked(event, k) if item in relevant | bad]
    preferences = Fraction(0)
    for index, item in enumerate(judged):
        if item in relevant:
            above = len(bad & {*judged[:index]})
            preferences += 1 - Fraction(
                min(above, len(relevant)), min(len(bad), len(relevant)) or 1
            )
    return preferences / len(relevant)


def _confusion(
    event: AnyEvent,
    k: int | None,
    catalog: Collection[Id],
    unknown: str,
    *,
    relevant: str = "positive",
    repeats: str = "first",
) -> tuple[int, int, int, int]:
    """True and false positives, false and true negatives; the last below 0 where there is no room.

    Where unknown items count, they take the place of as many others of the catalogue.
    """
    liked = good(event) if relevant == "positive" else {*event.interactions}
    recommended, total = ranked(event, k), ranked(event, None)
    if repeats == "every":
        recommended, total = placed(event, k), placed(event, None)
    items = {*catalog} if unknown == "ignore" else {*recommended} | liked
    tp = sum(recommended.count(item) for item in liked & items)
    fp = sum(recommended.count(item) for item in {*recommended} & items - liked)
    fn = sum(max(1, total.count(item)) for item in liked & items) - tp
    return tp, fp, fn, len(catalog) - tp - fp - fn


@by_type
@per_event
def fallout(
    event: AnyEvent, k: int | None, *, catalog: frozenset[Id], unknown: str = "ignore"
) -> Fraction | None:
    """False positives over all negatives."""
    _, fp, _, tn = _confusion(event, k, catalog, unknown)
    return Fraction(fp, fp + tn) if tn >= 0 and fp + tn else None


@by_type
@per_event
def mcc(
    event: AnyEvent,
    k: int | None,
    *,
    catalog: frozenset[Id],
    unknown: str = "ignore",
    denominator: str = "length",
    relevant: str = "positive",
    repeats: str = "first",
    empty: str = "skip",
) -> float | None:
    """Correlation of shown with interacted, item by item."""
    tp, fp, fn, tn = _confusion(event, k, catalog, unknown, relevant=relevant, repeats=repeats)
    padded = denominator == "k" and k is not None
    if padded and k is not None:
        missing = k - tp - fp
        fp, tn = fp + missing, tn - missing
    if tn < 0 and not padded:
        return None
    if tp + fn == 0:
        return 0.0 if empty == "zero" else None
    if padded and tp + fn == len(catalog):
        return 0.0
    if tn < 0:
        return None
    shown = [1.0] * (tp + fp) + [0.0] * (fn + tn)
    interacted = [1.0] * tp + [0.0] * fp + [1.0] * fn + [0.0] * tn
    return _correlation(shown, interacted)


def _correlation(left: list[float], right: list[float]) -> float:
    if len({*left}) < 2 or len({*right}) < 2:
        return 0.0
    a, b = (math.fsum(column) / len(column) for column in (left, right))
    together = math.fsum((x - a) * (y - b) for x, y in zip(left, right, strict=True))
    apart = (math.fsum((x - mean) ** 2 for x in column) for column, mean in ((left, a), (right, b)))
    return together / math.sqrt(math.prod(apart))
