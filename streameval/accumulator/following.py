"""Means that follow single events, for who reads after each one.

A read of the table costs a millisecond, however few events came: it works on arrays. Here a mean is
an exact sum in one integer, of which an event changes the contributions of a few rows, or to which
it adds its values. The table stays the state; what is here is dropped whenever something but a
single event comes, and made again from the table at the next pair of reads.

The formula of a metric is written once, in its function. That of events gives their values where
they are counted. That of hits runs on arrays, as the table runs it, on rows with the next counts
that a row can have: one call serves the next events.

The bits are those of the table. Its sum is `fsum` over the contributions of rows, the exact sum,
rounded once. A contribution times 2^400 is an integer, if it is not tiny; and Python divides
integers with one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec
import numpy as np

from streameval.accumulator.blocks import Blocks, interrupted
from streameval.accumulator.formulas import (
    array_of,
    call_metric,
    is_own,
    items_at,
    items_recommended,
    list_values,
    mean_counts,
)
from streameval.accumulator.kinds.events import event_values, event_values_name, overlap_metric
from streameval.accumulator.kinds.hits import hits_options, values_name
from streameval.accumulator.kinds.spec import name_of
from streameval.accumulator.make_reading import event_reading, mean_reading, sum_reading
from streameval.accumulator.overlap import bias_of, clip_note
from streameval.accumulator.table import Table
from streameval.catalogue import denominator
from streameval.catalogue.companions import CLIPPED, checks_of
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.events.batch import batch_of
from streameval.events.ragged import Ragged
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.distributions import Distribution, Values
from streameval.statistics.exact import ONE
from streameval.statistics.hitrows import FIRST, IDEAL, INTERACTED, LENGTH, HitsView
from streameval.statistics.hits import Hits
from streameval.statistics.kernel import match_of_row
from streameval.statistics.lists import Lists, lists_of
from streameval.statistics.matching import Search

MOST_BETWEEN: Final = 128
"""Single events between two reads of a metric beyond which the table is read."""

_MOST_BYTES: Final = 1 << 19
"""Of events whose outcomes are remembered, about: a list may have a million items."""

_MOST_ROWS: Final = 32_768
"""Rows beyond which a mean is not made, as that takes longer than many reads of the table."""

_AHEAD: Final = 32
"""Counts of a row, and ranks of new rows, whose contributions are computed at once."""

_BITS: Final = 400
_SCALE: Final = 2.0**_BITS
_ONE: Final = 1 << _BITS
_SMALLEST: Final = 2.0**-347
_CELL: Final = np.zeros(1, np.int64)


def _scaled(value: float) -> int:
    """The value times 2^400, exactly; raises ArithmeticError if that is not an integer."""
    if value and not _SMALLEST <= abs(value) < _SCALE:
        raise ArithmeticError(value)
    return int(value * _SCALE)


class _Sum:
    """The exact sum of the values of lists or events; it raises ArithmeticError without one.

    Attributes:
        lists, count, undefined: see `Distribution`.
    """

    def __init__(self, values: Distribution) -> None:
        self.lists, self.count, self.undefined = values.lists, values.count, values.undefined
        self._scaled, rest = divmod(values.scaled_total, ONE >> _BITS)
        # From a larger sum values as large as those that are added may lead beyond the floats.
        if rest or abs(self._scaled) >> 2 * _BITS:
            raise ArithmeticError

    @property
    def total(self) -> float:
        return self._scaled / _ONE

    def add(self, value: float) -> None:
        if math.isnan(value):
            self.undefined += 1
        else:
            self._scaled += _scaled(value)
            self.count += 1

    def add_event(self, result: float | Sequence[float] | None) -> None:
        """Add what a formula gave for an event."""
        self.lists += 1
        if isinstance(result, (int, float)):
            self.add(result)
        elif result is not None:
            for value in result:
                self.add(value)


class _HitsRow:
    """The counts of a row of the table: of hits at a rank of lists of a size."""

    __slots__ = ("graded", "hits", "ordinals", "rank", "size")

    def __init__(self, graded: int, size: int, rank: int) -> None:
        self.graded, self.size, self.rank = graded, size, rank
        self.hits = self.ordinals = 0


_Key: TypeAlias = tuple[int, int, int]
"""Whether lists have gains, size and rank: what a row of the table is, but for the cell."""


class _Outcome:
    """The changes of counts by each event with the same hits, lengths and gains.

    Attributes:
        kind: 2 * (it has items) + (it has interactions).
        changes: the rows with a hit more, and the ordinal of each hit.
        changed: meaning of size -> the rows among them, each once.
        of_means: what each mean that adds values of lists or items adds.
    """

    def __init__(self, row: bytes, search: Search, *, is_ranked: bool) -> None:
        self.row, self.search, self.is_ranked = row, search, is_ranked
        self.graded = self.kind = 0
        self.changes: list[tuple[_HitsRow, int]] = []
        self.changed: dict[int, tuple[_HitsRow, ...]] = {}
        self.of_means: dict[_HitsMean, tuple[float | None, int]] = {}

    def lists(self, outcomes: _Outcomes) -> Lists:
        """The list, as formulas read it."""
        matches, ranks = match_of_row(self.row, *self.search)
        batch = batch_of(matches)
        if self.is_ranked:
            explicit: Any = Ragged.of_lengths(ranks, matches.length)
            batch = msgspec.structs.replace(batch, positions=explicit)
        ((_, lists),) = lists_of(outcomes.options, batch, _CELL)
        return lists


class _Outcomes:
    """The counts of one statistic of hits, in the only cell of a table.

    Attributes:
        lists: number of lists.
        having: lists by `_Outcome.kind`.
    """

    def __init__(self, hits: Hits) -> None:
        self.options, self._hits = hits.options, hits
        view = hits.view(_CELL)
        self.having: list[int] = view.having.ravel().tolist()
        self.lists = sum(self.having)
        self.graded = int(view.graded[0])
        self._rows: dict[int, dict[_Key, _HitsRow]] = {}
        self._known: tuple[dict[bytes, _Outcome], ...] = ({}, {})

    def rows(self, size: int) -> dict[_Key, _HitsRow]:
        """The rows of this meaning of size, from the table if they are new."""
        if size not in self._rows:
            rows: dict[_Key, _HitsRow] = {}
            _, columns = self._hits.relations["hits"].of(_CELL)
            for kind, of_size, rank, hits, ordinals, firsts in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                if kind >> 1 != (INTERACTED if size == FIRST else size):
                    continue
                key = (0, 1, rank) if size == FIRST else (kind & 1, of_size, rank)
                row = rows.setdefault(key, _HitsRow(*key))
                row.hits += firsts if size == FIRST else hits
                row.ordinals += firsts if size == FIRST else ordinals
            self._known = ({}, {})
            self._rows[size] = rows
        return self._rows[size]

    def apply(
        self, rows: Sequence[bytes], search: Search, *, is_ranked: bool
    ) -> tuple[list[_Outcome], Mapping[int, Collection[_HitsRow]]]:
        """Count events in the form of `Block.rows`: their outcomes, and the rows changed."""
        outcome_of, outcomes = self._known[is_ranked], []
        for row in rows:
            outcome = outcome_of.get(row)
            if outcome is None:
                if len(outcome_of) * len(row) >= _MOST_BYTES:
                    outcome_of.clear()
                outcome = outcome_of[row] = self._outcome(
                    _Outcome(row, search, is_ranked=is_ranked)
                )
            self.lists += 1
            self.having[outcome.kind] += 1
            self.graded += outcome.graded
            for counts, ordinal in outcome.changes:
                counts.hits += 1
                counts.ordinals += ordinal
            outcomes.append(outcome)
        if len(outcomes) == 1:
            return outcomes, outcomes[0].changed
        changed = {
            size: {row for outcome in outcomes for row in outcome.changed[size]}
            for size in self._rows
        }
        return outcomes, changed

    def _outcome(self, outcome: _Outcome) -> _Outcome:
        interacted, length, ranks = self._quick(outcome) or self._slow(outcome)
        outcome.kind = 2 * (length > 0) + (interacted > 0)
        sizes = {INTERACTED: interacted, LENGTH: length, IDEAL: min(interacted, length)}
        for meaning, rows in self._rows.items():
            if meaning == FIRST:
                keys = [(0, 1, rank) for rank in ranks[:1]]
            else:
                keys = [(outcome.graded, sizes[meaning], rank) for rank in ranks]
            hits = [rows.setdefault(key, _HitsRow(*key)) for key in keys]
            outcome.changes += zip(hits, range(1, len(hits) + 1), strict=True)
            outcome.changed[meaning] = tuple(dict.fromkeys(hits))
        return outcome

    def _quick(self, outcome: _Outcome) -> tuple[int, int, list[int]] | None:
        """Interacted and shown items, and the ranks of the hits; None where it takes `lists_of`."""
        interacted, interaction_count, length, hits, gains, *indices = memoryview(outcome.row).cast(
            "q"
        )
        every, last = self.options.repeats == "every", self.options.last
        if gains or outcome.is_ranked or outcome.search.every != every or self.options.needs_gains:
            return None
        if self.options.counting == "every":
            interacted = interaction_count
        ranks = [index + 1 for index in indices[:hits] if index < last]
        return interacted, min(length, last), ranks

    def _slow(self, outcome: _Outcome) -> tuple[int, int, list[int]]:
        lists = outcome.lists(self)
        outcome.graded = int(lists.is_graded)
        return int(lists.interacted[0]), int(lists.length[0]), lists.rank.tolist()


class _Contributions(NamedTuple):
    """The terms of a formula of hits: a contribution of each row."""

    values: Any


class _NextRows:
    """Rows at some ranks and sizes, with counts that rows of the table may have."""

    def __init__(self, rank: IntArray, size: IntArray, hits: IntArray, ordinals: IntArray) -> None:
        self.rank, self.size, self.gain = rank, size, np.ones(rank.size)
        self.hits, self.ordinals = hits, ordinals
        for column in (rank, size, hits, ordinals):
            column.flags.writeable = False

    def total(self, contributions: Any) -> _Contributions:
        return _Contributions(contributions)


class _NextView(HitsView):
    """The argument of a formula of hits.

    Attributes:
        size: meaning of the rows' size that the formula reads, such as INTERACTED.
        k: its cut-off; None for every rank.
    """

    def __init__(self, rows: _NextRows) -> None:
        self._rows = rows
        self.size, self.k = INTERACTED, math.inf

    def rows_by(self, size: int, k: int | None) -> Any:
        self.size, self.k = size, math.inf if k is None else k
        return self._rows


class _RowFormula:
    """The contributions of rows to the sum of a metric, by its formula.

    Attributes:
        size: meaning of the rows' size that it reads.
        k: its cut-off.
        reads_hits: whether contributions depend on the hits of a row, and not on their ordinals.

    Raises:
        ArithmeticError: it is not a sum of contributions that each depend on one count.
    """

    def __init__(self, metric: Metric, context: Context) -> None:
        self._metric, self._context = metric, context
        # Which count a formula reads shows where one of them changes.
        rank, size = (axis.ravel() + 1 for axis in np.indices((4, 4)))
        ones = np.ones(rank.size, np.int64)
        self.size, self.k = INTERACTED, math.inf
        base = self.contributions(rank, size, ones, ones)
        hits, ordinals = (
            self.contributions(rank, size, ones + more, ones + 1 - more) for more in (1, 0)
        )
        self.reads_hits = bool((hits != base).any())
        if self.reads_hits and (ordinals != base).any():
            raise ArithmeticError(metric)

    def contributions(
        self, rank: IntArray, size: IntArray, hits: IntArray, ordinals: IntArray
    ) -> FloatArray:
        """The contributions of rows with these counts, shape (n,) each."""
        view = _NextView(_NextRows(rank, size, hits, ordinals))
        with suppress(TypeError, AttributeError, NotImplementedError):
            result = call_metric(self._metric, view, self._context)
            if isinstance(result, _Contributions):
                self.size, self.k = view.size, view.k
                return array_of(self._metric, result.values, rank.size)
        raise ArithmeticError(self._metric)


class _NextValues:
    """The contributions of a row at its next counts.

    Attributes:
        first: the first of these counts.
        values: the contribution at each of them.
        scaled: the one that is in the sum, see `_scaled`.
    """

    __slots__ = ("first", "scaled", "values")

    def __init__(self, first: int, values: Sequence[float], scaled: int) -> None:
        self.first, self.values, self.scaled = first, values, scaled


class _HitsMean:
    """A mean or sum of hits, or of values of lists.

    `overlap`: of lists that were not shown; None if it is not kept.

    Raises:
        ArithmeticError: it cannot be followed.
    """

    def __init__(
        self, metric: Metric, table: Table, outcomes: _Outcomes, overlap: _Sum | None
    ) -> None:
        self.metric, self.outcomes = metric, outcomes
        self._context, self._overlap, self._peers = table.context, overlap, metric.peers
        kinds = {rule: list[int]() for rule in ("zero", "skip", "nan", "error")}
        for (items, interactions), rule in metric.empty_rules.items():
            kinds[rule].append(2 * items + interactions)
        self._refused, self._left_out = kinds["nan"] + kinds["error"], kinds["skip"]
        self._is_listwise, self._needs_gains = metric.needs_values, metric.needs_gains
        self._per = metric.definition.per
        self._reads_each = self._is_listwise or self._needs_gains or self._per == "item"
        self._total = self._items = 0
        self._values: _Sum | None = None
        self._next: dict[_HitsRow, _NextValues] = {}
        self._new: dict[tuple[int, int], list[list[float]]] = {}
        self._formula: _RowFormula | None = None
        if self._is_listwise or self._needs_gains:
            kind = values_name(metric, only_graded=not self._is_listwise)
            if kind not in table.statistics:
                raise ArithmeticError(metric)
            self._values = _Sum(*cast("Values", table.statistics[kind]).view(_CELL))
        if not self._is_listwise:
            self._formula = _RowFormula(metric, self._context)
            if self._per == "item":
                hits = cast("Hits", table.statistics[name_of(outcomes.options)])
                self._items = int(items_recommended(metric, hits.view(_CELL).items)[0])
            self._begin(self._formula)

    def reading(self) -> Reading | None:
        """The reading; None if the table must be read."""
        metric, outcomes = self.metric, self.outcomes
        having, lists, note = outcomes.having, outcomes.lists, self._peers
        for kind in self._refused:
            if having[kind]:
                return None
        if self._overlap is not None:
            note = bias_of(self._overlap) or note
        if self._is_listwise and self._values is not None:
            return mean_reading(metric, self._values.total, self._values.count, lists, note)
        total, left_out = self._total / _ONE, 0
        if outcomes.graded and self._values is not None:
            total = math.fsum((total, self._values.total))
            # As `ungraded_lists` has it.
            valued, undefined = self._values.count, self._values.undefined
            empty = 0 if metric.empty_rules[0, 1] == "zero" else having[1]
            left_out = undefined + max(outcomes.graded - empty - valued - undefined, 0)
        if self._per == "total":
            return sum_reading(metric, total, lists, note)
        count = self._items if self._per == "item" else lists
        for kind in self._left_out if self._per != "item" else ():
            count -= having[kind]
        return mean_reading(metric, total, count - left_out, lists, note)

    def sums(self) -> list[_Sum]:
        """Those of `IncrementalReadings` that its reading reads."""
        return [] if self._overlap is None else [self._overlap]

    def apply(
        self, outcomes: Sequence[_Outcome], changed: Mapping[int, Iterable[_HitsRow]]
    ) -> None:
        """Count events; raises ArithmeticError if it can no longer be followed."""
        formula = self._formula
        if formula is not None:
            for row in changed[formula.size]:
                # Lists with gains have values of their own.
                if row.rank <= formula.k and not (row.graded and self._needs_gains):
                    self._follow(row, row.hits if formula.reads_hits else row.ordinals)
        for outcome in outcomes if self._reads_each else ():
            if self._is_listwise or self._per == "item" or outcome.graded:
                added = outcome.of_means.get(self)
                if added is None:
                    added = outcome.of_means[self] = self._added(outcome)
                value, items = added
                self._items += items
                if value is not None and self._values is not None:
                    self._values.add(value)

    def _begin(self, formula: _RowFormula) -> None:
        """Add the contributions of the rows that the table has."""
        rows = [
            row
            for row in self.outcomes.rows(formula.size).values()
            if row.rank <= formula.k and not (row.graded and self._needs_gains)
        ]
        counts = [(row.rank, row.size, row.hits, row.ordinals) for row in rows]
        columns = np.array(counts, np.int64).reshape(-1, 4).T.copy()
        values = formula.contributions(*columns).tolist()
        for row, value in zip(rows, values, strict=True):
            self._next[row] = _NextValues(-_AHEAD, (), _scaled(value))
            self._total += self._next[row].scaled

    def _follow(self, row: _HitsRow, count: int) -> None:
        """Replace the contribution of a row by that of its count now."""
        following = self._next.get(row)
        if following is None or not 0 <= count - following.first < _AHEAD:
            following = self._next_values(row, count, 0 if following is None else following.scaled)
        scaled = _scaled(following.values[count - following.first])
        self._total += scaled - following.scaled
        following.scaled = scaled

    def _next_values(self, row: _HitsRow, count: int, scaled: int) -> _NextValues:
        if len(self._next) >= _MOST_ROWS:
            raise ArithmeticError(self.metric)
        if count < _AHEAD:
            chunk, index = divmod(row.rank - 1, _AHEAD)
            if (row.size, chunk) not in self._new:
                ranks = np.arange(chunk * _AHEAD + 1, (chunk + 1) * _AHEAD + 1)
                values = self._values_at(np.repeat(ranks, _AHEAD), row.size, 0)
                self._new[row.size, chunk] = values.reshape(_AHEAD, _AHEAD).tolist()
            next_values = _NextValues(0, self._new[row.size, chunk][index], scaled)
        else:
            values = self._values_at(np.full(_AHEAD, row.rank), row.size, count)
            next_values = _NextValues(count, values.tolist(), scaled)
        self._next[row] = next_values
        return next_values

    def _values_at(self, ranks: IntArray, size: int, first: int) -> FloatArray:
        """The contributions at these ranks, with the next counts in turn."""
        counts = np.tile(np.arange(first, first + _AHEAD), ranks.size // _AHEAD)
        formula = cast("_RowFormula", self._formula)
        return formula.contributions(ranks, np.full_like(ranks, size), counts, counts.copy())

    def _added(self, outcome: _Outcome) -> tuple[float | None, int]:
        """The value of a list, None if it is left out, and its items."""
        metric, lists = self.metric, outcome.lists(self.outcomes)
        if self._per != "item":
            counted = int(mean_counts(metric, lists)[0])
            return (float(list_values(metric, lists, self._context)[0]) if counted else None), 0
        if outcome.is_ranked:
            _, ranks = match_of_row(outcome.row, *outcome.search)
            return None, int(items_at(metric, ranks[ranks <= self.outcomes.options.last]).sum())
        return None, int(items_recommended(metric, lists.items)[0])


class _EventMean(NamedTuple):
    """A mean of values of events, or a ratio of two sums of them.

    Attributes:
        below: the sum that divides a ratio.
        clipped: of an estimate whose weights are clipped: see `checks_of`.
        overlap: of lists that were not shown; None if it is not kept.
    """

    metric: Metric
    values: _Sum
    below: _Sum | None
    clipped: Sequence[_EventMean]
    overlap: _Sum | None

    def reading(self) -> Reading:
        below = None if self.below is None else self.below.total
        reading = event_reading(self.metric, self.values, below)
        note = clip_note([mean.reading() for mean in self.clipped])
        if note is None and self.overlap is not None:
            note = bias_of(self.overlap)
        return reading if note is None else msgspec.structs.replace(reading, note=note)

    def sums(self) -> list[_Sum]:
        """The sums that its reading reads."""
        own = [self.values, self.below, self.overlap]
        companions = [mean.sums() for mean in self.clipped]
        return [*filter(None, own), *chain.from_iterable(companions)]


class IncrementalReadings:
    """The means of one accumulator that are kept.

    `table`: it has all events whenever `record_read` is called. `changes`: of the accumulator.

    Attributes:
        state: the changes and the lists of the accumulator that the means have, without the events
            of its blocks; they are no longer valid if it has others.
    """

    def __init__(self, table: Table, changes: int, lists: int) -> None:
        self.state = changes, lists
        self._table = table
        self._columns = {metric.per_list: at for at, metric in enumerate(table.plan.formulas)}
        self._means: dict[str, _HitsMean | _EventMean] = {}
        self._hits_means: list[tuple[str, _HitsMean]] = []
        self._outcomes: dict[str, _Outcomes] = {}
        self._sums: dict[str, _Sum] = {}
        self._read_at: dict[str, int] = {}
        self._refused: set[str] = set()
        self._applied = [0, 0]
        self._is_read = False

    def __contains__(self, text: str) -> bool:
        return text in self._means

    def read(self, text: str, blocks: Blocks) -> Reading | None:
        """A mean that is kept, after the events of the blocks; None if the table must be read."""
        if len(blocks) != sum(self._applied):
            self.apply(blocks)
        self._is_read = True
        mean = self._means.get(text)
        return None if mean is None else mean.reading()

    def apply(self, blocks: Blocks) -> None:
        """Count the events that wait in the blocks."""
        for at, waiting in enumerate(blocks.waiting):
            start = self._applied[at]
            rows = waiting.block.rows(start)
            if not rows:
                continue
            for outcomes in self._outcomes.values():
                applied = outcomes.apply(rows, waiting.search, is_ranked=bool(at))
                for text, mean in self._hits_means:
                    if mean.outcomes is outcomes:
                        try:
                            mean.apply(*applied)
                        except ArithmeticError:
                            self._refuse(text)
            events = waiting.rows[start : start + len(rows)] if self._sums else []
            if self._sums and len(events) != len(rows):
                raise interrupted()
            for text, values in [*self._sums.items()]:
                column = self._columns[text]
                try:
                    for *_, of_formulas in events:
                        values.add_event(of_formulas[column])
                except ArithmeticError:
                    self._refuse(text)
            self._applied[at] += len(rows)

    def detach(self, blocks: Blocks) -> None:
        """Count the events of the blocks, which the table counts next.

        Means that nobody read or made since the last time are dropped, so that nobody pays for
        them.
        """
        if self._is_read:
            self.apply(blocks)
            applied = sum(self._applied)
        else:
            self._keep({})
            applied = len(blocks)
        self._applied, self._is_read = [0, 0], False
        self.state = self.state[0], self.state[1] + applied

    def record_read(self, text: str, metric: Metric) -> None:
        """Record that a metric was read from the table, and keep its mean if that pays."""
        lists = self.state[1]
        if any(self._applied):
            return
        before = self._read_at.get(text)
        self._read_at[text] = lists
        is_due = before is not None and 0 < lists - before <= MOST_BETWEEN
        if not is_due or text in self._refused:
            return
        mean = None
        with suppress(ArithmeticError):
            mean = self._mean(metric)
        if mean is None:
            self._refuse(text)
        else:
            self._keep({**self._means, text: mean})
            self._is_read = True

    def _mean(self, metric: Metric) -> _HitsMean | _EventMean | None:
        """The mean of a metric; None if it cannot follow events."""
        table = self._table
        if metric.definition.reads == "event":
            return self._event_mean(metric)
        if metric.definition.reads not in ("hits", "lists") or not metric.is_mean:
            return None
        options = hits_options(metric, table.limits.depth)
        if is_own(metric) or name_of(options) not in table.statistics:
            return None
        if options.among or not options.reads_hits_only:
            return None
        name = name_of(options)
        hits = cast("Hits", self._table.statistics[name])
        if hits.relations["hits"].columns[0].size > _MOST_ROWS:
            return None
        if name not in self._outcomes:
            self._outcomes[name] = _Outcomes(hits)
        return _HitsMean(metric, self._table, self._outcomes[name], self._overlap(metric))

    def _event_mean(self, metric: Metric) -> _EventMean | None:
        below = denominator(metric)
        if event_values_name(metric) not in self._table.statistics or not (
            metric.is_mean or below is not None
        ):
            return None
        checks = checks_of(metric)
        clipped = [self._event_mean(checks[name]) for name in CLIPPED if name in checks]
        return _EventMean(
            metric,
            self._sum(metric),
            None if below is None else self._sum(below),
            [mean for mean in clipped if mean is not None],
            self._overlap(metric),
        )

    def _overlap(self, metric: Metric) -> _Sum | None:
        overlap = overlap_metric(self._table.plan.specs)
        return self._sum(overlap) if overlap and metric.definition.interactions else None

    def _sum(self, metric: Metric) -> _Sum:
        text = metric.per_list
        if text in self._refused:
            raise ArithmeticError(metric)
        if text not in self._sums:
            self._sums[text] = _Sum(*event_values(metric, self._table).view(_CELL))
        return self._sums[text]

    def _refuse(self, text: str) -> None:
        """Follow no longer what cannot be followed: a mean, or the values of a metric of events."""
        self._refused.add(text)
        values = self._sums.get(text)
        self._keep(
            {
                of: mean
                for of, mean in self._means.items()
                if of != text and values not in mean.sums()
            }
        )

    def _keep(self, means: dict[str, _HitsMean | _EventMean]) -> None:
        """Forget all but these means, and what only others need."""
        self._means = means
        self._hits_means = [
            (text, mean) for text, mean in means.items() if isinstance(mean, _HitsMean)
        ]
        outcomes = [mean.outcomes for mean in means.values() if isinstance(mean, _HitsMean)]
        sums = [*chain.from_iterable(mean.sums() for mean in means.values())]
        self._outcomes = {name: each for name, each in self._outcomes.items() if each in outcomes}
        self._sums = {text: each for text, each in self._sums.items() if each in sums}
