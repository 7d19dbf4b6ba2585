"""Formulas of evaluation systems: the step that each takes around a metric's own, or instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from sys import float_info
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace

from streameval.catalogue.context import Catalog
from streameval.catalogue.cumulative_gain import Gain, GainDiscount, discount, gain_value, ideal
from streameval.catalogue.items import Popularity
from streameval.catalogue.metric import Definition
from streameval.catalogue.ranked_items import Short, confusion
from streameval.catalogue.reading import Bounded, undefined
from streameval.catalogue.signature import Span, fields_of
from streameval.events import LARGEST_RANK, Event, Id
from streameval.metrics.gini import gini
from streameval.metrics.item_coverage import item_coverage
from streameval.metrics.log_loss import loss
from streameval.metrics.mcc import correlation
from streameval.metrics.ndcg import graded_ndcg, ndcg, share_of_best
from streameval.metrics.novelty import novelty
from streameval.metrics.pap import pap
from streameval.metrics.partial_auc import partial_auc
from streameval.metrics.personalization import personalization
from streameval.metrics.shannon_entropy import entropies
from streameval.metrics.unexpectedness import unexpectedness
from streameval.statistics.exposures import Exposures
from streameval.statistics.hitrows import HitRows, HitsView, Total
from streameval.statistics.lists import Lists
from streameval.statistics.pairings import Pairings
from streameval.statistics.scores import gains_of

MetricFormula: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=MetricFormula)


FORMULAS: Final[dict[tuple[str, str], tuple[MetricFormula, MetricFormula | None]]] = {}
"""Convention and metric -> the formula, and that of lists with gains."""


def instead_of(
    metric: str, *conventions: str, graded: MetricFormula | None = None
) -> Callable[[F], F]:
    """Declare what conventions have in place of a metric's formula.

    Its docstring says what it does otherwise, its signature which parameters the systems have.
    """

    def declare(formula: F) -> F:
        FORMULAS.update({(convention, metric): (formula, graded) for convention in conventions})
        return formula

    return declare


def step_of(convention: str, metric: str) -> str:
    """Difference of a convention from a metric's formula, as a phrase; "" if there is none."""
    formula, _ = FORMULAS.get((convention, metric), (None, None))
    return " ".join((getattr(formula, "__doc__", None) or "").split()).removesuffix(".")


@cache
def in_convention(definition: Definition, convention: str) -> Definition:
    """The definition of a metric with the formula of a convention."""
    formula, graded = FORMULAS.get((convention, definition.name), (None, None))
    if formula is None:
        return definition
    fields = fields_of(formula, graded)
    return replace(definition, function=formula, graded=graded, listwise={}, **fields)


def _graded_recommenders_jl_ndcg(lists: Lists, k: int | None, *, gain: Gain = "binary") -> Total:
    best = lists.best(k)
    within = (best.rank <= lists.length[best.list_index]).astype(np.int64)
    return share_of_best(lists.by_interacted(k), replace(best, hits=within), gain, "log2")


@instead_of("ndcg", "recommenders_jl", graded=_graded_recommenders_jl_ndcg)
def recommenders_jl_ndcg(hits: HitsView, k: int | None) -> Total:
    """The best order is at most as long as the list."""
    rows = hits.by_ideal(k)
    possible = rows.size if k is None else np.minimum(rows.size, k)
    return rows.total(rows.hits * discount(rows.rank) / ideal(possible))


def _graded_lenskit_ndcg(
    lists: Lists, k: int | None, *, gain: Gain = "linear", discount_by: GainDiscount = "log2_rank"
) -> Total:
    return share_of_best(lists.by_interacted(k), lists.best(None), gain, discount_by)


@instead_of("ndcg", "lenskit", graded=_graded_lenskit_ndcg)
def lenskit_ndcg(
    hits: HitsView, k: int | None, *, discount_by: GainDiscount = "log2_rank"
) -> Total:
    """`discount_by=log2_rank`; the best order has all items interacted with."""
    rows = hits.by_interacted(k)
    return rows.total(rows.hits * discount(rows.rank, discount_by) / ideal(rows.size, discount_by))


def _graded_lenskit_2025_ndcg(
    lists: Lists, k: int | None, *, gain: Gain = "linear", discount_by: GainDiscount = "log2"
) -> Total:
    values = graded_ndcg(lists, k, gain=gain, discount_by=discount_by)
    return np.where(np.isnan(values), 0.0, values)


@instead_of("ndcg", "lenskit_2025", graded=_graded_lenskit_2025_ndcg)
def lenskit_2025_ndcg(
    hits: HitsView, k: int | None, *, discount_by: GainDiscount = "log2"
) -> Total:
    """0 for a list whose gains and best DCG are 0."""
    return ndcg(hits, k, discount_by=discount_by)


def _graded_rectools_ndcg(
    lists: Lists, k: int | None, *, gain: Gain = "binary", best: Literal["ranks", "cut"] = "ranks"
) -> Total:
    if best == "cut" or k is None:
        return graded_ndcg(lists, k, gain=gain)
    rows = lists.by_interacted(k)
    gained = rows.total(gain_value(rows.gain, gain) * discount(rows.rank))
    return np.where(lists.wanted() > 0, gained / ideal(np.full(len(lists), k)), 0.0)


@instead_of("ndcg", "rectools", graded=_graded_rectools_ndcg)
def rectools_ndcg(
    hits: HitsView, k: int | None, *, best: Literal["ranks", "cut"] = "ranks"
) -> Total:
    """The best order has a hit at every rank up to k."""
    if best == "cut" or k is None:
        return ndcg(hits, k)
    rows = hits.by_interacted(k)
    return rows.total(rows.hits * discount(rows.rank) / ideal(np.full_like(rows.size, k)))


@instead_of("ndcg", "capri")
def capri_ndcg(lists: Lists, k: int | None) -> Total:
    """2^gain - 1 over ln(rank + 1), in 32 bits, with 4 decimals; the best order has all items."""
    rows = lists.by_interacted(k)
    with np.errstate(over="ignore"):
        rows = replace(rows, gain=rows.gain.astype(np.float32))
    reached = _single_dcg(rows, lists.items(k).tolist())
    possible = _single_dcg(lists.best(None), [0] * len(lists))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(reached == 0, np.float32(0), reached / possible)
    return np.round(values, 4).astype(np.float64)


_WIDEST = 65_536
"""Ranks of a row with an entry for each; a huge position must not fill the memory."""


def _single_dcg(
    rows: HitRows, widths: Sequence[int]
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """DCG of each list as numpy sums a row of 32-bit floats with one entry per rank.

    `widths`: ranks of each list; hits at higher ranks are added too.
    """
    ends = np.cumsum(np.bincount(rows.list_index, minlength=rows.lists)).tolist()
    totals = np.zeros(rows.lists, np.float32)
    for index, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        rank, gains = rows.rank[start:end], rows.gain[start:end]
        width = max(widths[index], int(rank.max(initial=0)))
        if width <= _WIDEST:
            row = np.zeros(width, gains.dtype)
            row[rank - 1] = gains
            rank, gains = np.arange(1, width + 1), row
        with np.errstate(over="ignore", invalid="ignore"):
            terms = (np.power(2, gains) - 1) / np.log(rank.astype(np.float32) + 1)
            totals[index] = np.sum(terms, dtype=np.float32)
    return totals


@instead_of("map", "lenskit_2025")
def lenskit_2025_map(lists: Lists, k: int | None) -> Total:
    """As many hits are possible as the list has items, at most."""
    rows = lists.by_ideal(k)
    possible = rows.size if k is None else np.minimum(rows.size, k)
    return rows.total(rows.ordinals / rows.rank / possible)


@instead_of("map", "torchmetrics")
def torchmetrics_map(lists: Lists, k: int | None) -> Total:
    """The sum is divided by the hits."""
    rows = lists.by_interacted(k)
    return rows.total(rows.ordinals / rows.rank / rows.total(rows.hits)[rows.list_index])


@instead_of("map", "capri")
def capri_map(
    hits: HitsView, k: int | None, *, normalizer: Annotated[int, Span(1, LARGEST_RANK)] = 10
) -> Total:
    """As many hits are possible as `normalizer` says, at most, whatever k is."""
    rows = hits.by_interacted(k)
    return rows.total(rows.ordinals / rows.rank / np.minimum(rows.size, normalizer))


@instead_of("item_coverage", "recbole")
def recbole_item_coverage(exposures: Exposures, catalog: Catalog) -> Bounded:
    """The catalogue has one more item, and unknown items count."""
    return item_coverage(exposures, _size(catalog) + 1, unknown="count")


@instead_of("item_coverage", "replay", "replay_0_11", "replay_0_9")
def replay_item_coverage(exposures: Exposures, catalog: Catalog) -> Bounded:
    """Unknown items count; 0 without lists."""
    coverage = item_coverage(exposures, catalog, unknown="count")
    return coverage if exposures.lists else Bounded(0.0, 0.0, 0.0)


@instead_of("item_coverage", "capri")
def capri_item_coverage(exposures: Exposures, catalog: Catalog) -> Bounded:
    """In percent with 2 decimals; unknown items count; 0 without lists."""
    shares = replay_item_coverage(exposures, catalog)
    return Bounded(*(round(100.0 * share, 2) for share in shares))


@instead_of("gini", "recbole")
def recbole_gini(exposures: Exposures, catalog: Catalog) -> float | Bounded:
    """Over the catalogue and one more item; unknown items count."""
    return gini(exposures, _size(catalog) + 1, over="catalog", unknown="count")


def _size(catalog: Catalog) -> int:
    return catalog if isinstance(catalog, int) else len(catalog)


@instead_of("shannon_entropy", "recbole")
def recbole_shannon_entropy(exposures: Exposures) -> float | Bounded:
    """In nats, divided by the items shown."""
    value, low, high = entropies(exposures, "nats")
    distinct, fewest, most = exposures.bounded()
    if not exposures.estimated:
        return value / distinct if distinct else math.nan
    low, value, high = low / most, value / distinct, high / fewest
    return Bounded(min(max(value, low), high), low, high)


@instead_of("tail_percentage", "recbole")
def recbole_tail_percentage(
    event: Event,
    k: int | None,
    popularity: Popularity,
    *,
    tail: Annotated[float, Span(0, float_info.max)] = 0.1,
) -> float | None:
    """Of items as popular, those with the smallest ids are in the tail; unknown ones never are."""
    items = event.recommendations[:k]
    if not items:
        return None
    if tail <= 1:
        rare = popularity.least(tail)
        return sum(item in rare for item in items) / len(items)
    counted = [item for item in items if item in popularity.counts]
    return sum(popularity.of(item) <= tail for item in counted) / len(items)


@instead_of("log_loss", "recbole")
def recbole_log_loss(event: Event) -> Iterator[float]:
    """The outcome is the gain."""
    gains = gains_of(event.interactions)
    for item, score in zip(event.recommendations, event.scores or (), strict=False):
        yield loss(score, gains.get(item, 0.0))


@instead_of("novelty", "replay", "replay_0_11")
def replay_novelty(
    event: Event, k: int | None, popularity: Popularity, *, rows: int = 0
) -> float | None:
    """`denominator=k` and `unit=share`; without repeats in the first `rows` items, or k."""
    items = _without_repeats(event.recommendations, rows or k)[:k]
    recommended = replace(event, recommendations=items)
    return novelty(recommended, k, popularity, denominator="k", unit="share")


@instead_of("novelty", "replay_0_9")
def replay_0_9_novelty(event: Event, k: int | None, popularity: Popularity) -> float | None:
    """`denominator=k` and `unit=share`; without repeats."""
    return replay_novelty(event, k, popularity, rows=LARGEST_RANK)


@instead_of("unexpectedness", "replay", "replay_0_11")
def replay_unexpectedness(event: Event, k: int | None, *, rows: int = 0) -> float | None:
    """Without repeats in the first `rows` items, or k, and in the baseline."""
    if event.baseline is None:
        return None
    items = _without_repeats(event.recommendations, rows or k)[:k]
    # Repeats are removed from the whole baseline, whatever the rows.
    baseline = _without_repeats(event.baseline, None)
    return unexpectedness(replace(event, recommendations=items, baseline=baseline), k)


@instead_of("unexpectedness", "replay_0_9")
def replay_0_9_unexpectedness(event: Event, k: int | None) -> float | None:
    """Without repeats in list and baseline."""
    return replay_unexpectedness(event, k, rows=LARGEST_RANK)


def _without_repeats(items: Sequence[Id], rows: int | None) -> list[Id]:
    return list(dict.fromkeys(items[:rows]))


@instead_of("unexpectedness", "replay_0_22")
def replay_0_22_unexpectedness(event: Event, k: int | None) -> float | None:
    """0 without a baseline."""
    return unexpectedness(event, k) if event.baseline else 0.0


@instead_of("user_novelty", "replay_0_22")
def replay_0_22_user_novelty(event: Event, k: int | None) -> float | None:
    """Repeats and empty lists count as new."""
    if event.history is None:
        return None
    rows = event.recommendations[:k]
    return 1.0 - len(set(rows).intersection(event.history)) / max(len(rows), 1)


@instead_of("novelty", "capri")
def capri_novelty(event: Event, k: int | None, popularity: Popularity) -> float | None:
    """Of the whole list, divided by k; an unknown item counts 0."""
    items = event.recommendations
    bits = math.fsum(_bits_of_capri(item, popularity) for item in items)
    return bits / (k or len(items)) if items else 0.0


def _bits_of_capri(item: Id, popularity: Popularity) -> float:
    share = popularity.share(item)
    if share > 0:
        return -math.log2(share)
    if item not in popularity.counts:
        return 0.0
    return math.inf if popularity.users else math.nan


@instead_of("personalization", "capri")
def capri_personalization(pairings: Pairings) -> float:
    """An error for lists of different lengths, empty or with repeats, or for one alone."""
    unequal = len(pairings.lengths) > 1 or pairings.empty
    if unequal or pairings.repeating or pairings.lists == 1:
        why = "lists of different lengths, empty or with repeats, or only one"
        raise undefined("personalization", why)
    return personalization(pairings)


@instead_of("mcc", "rectools")
def rectools_mcc(event: Event, k: int | None, catalog: Catalog) -> float | None:
    """Any gain and unknown items count, an item as often as the list has it; a list has k items."""
    tp, fp, fn, tn = confusion(_as_joined(event), k, _size(catalog), "count")
    if k is not None:
        # A shorter list counts as if it showed k items.
        fp, tn = k - tp, tn - (k - tp - fp)
    elif tn < 0:
        return None
    return correlation(tp, fp, fn, tn) if tp + fn else None


@instead_of("pap", "rectools")
def rectools_pap(event: Event, k: int | None, *, short: Short = "count") -> float | None:
    """Any gain is an interaction; an item counts as often as the list has it."""
    return pap(_as_joined(event), k, short=short)


@instead_of("partial_auc", "rectools")
def rectools_partial_auc(event: Event, k: int | None, *, short: Short = "count") -> float | None:
    """Any gain is an interaction; an item counts as often as the list has it."""
    return partial_auc(_as_joined(event), k, short=short)


def _as_joined(event: Event) -> Event:
    """The event as a join of two tables has it: each place of the list is an item of its own."""
    items, relevant = event.recommendations, set(event.interactions)
    hits = [index for index, item in enumerate(items) if item in relevant]
    missed = range(len(items), len(items) + len(relevant.difference(items)))
    return replace(event, recommendations=range(len(items)), interactions=[*hits, *missed])
