"""Means that follow single events, for who reads after each one.

A read of the table costs a millisecond, however few events came: it works on arrays. Here a mean is
an exact sum in one integer, of which an event changes the contributions of a few rows. The table
stays the state; what is here is dropped whenever something but a single event comes, and made again
from the table at the next pair of reads.

The formula of a metric is written once, in its function, which runs on rows whose counts are not
numbers but record the operations. Each is of IEEE 754, so that Python's floats give the bits of
NumPy's.

The bits are those of the table. Its sum is `fsum` over the contributions of rows, the exact sum,
rounded once. A contribution times 2^400 is an integer, if it is not tiny; and Python divides
integers with one rounding.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import msgspec
import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from streameval.accumulator.blocks import Blocks
from streameval.accumulator.formulas import (
    call_metric,
    is_own,
    items_at,
    items_shown,
    list_values,
    mean_counts,
)
from streameval.accumulator.plan import hits_options, name_of
from streameval.accumulator.readings import mean_reading, sum_reading
from streameval.accumulator.table import Table
from streameval.catalogue.context import Context
from streameval.catalogue.lookup import checks_of
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.events.batch import IntArray, batch_of
from streameval.events.ragged import Ragged
from streameval.statistics.distributions import Values
from streameval.statistics.exact import ONE
from streameval.statistics.hitrows import FIRST, IDEAL, INTERACTED, LENGTH, HitsView
from streameval.statistics.hits import Hits
from streameval.statistics.kernel import match_of_row
from streameval.statistics.lists import Lists, lists_of
from streameval.statistics.matching import Search

MOST_BETWEEN: Final = 128
"""Single events between two reads of a metric beyond which the table is read."""

_MOST_OUTCOMES: Final = 8_192
_MOST_LOGGED: Final = 512
_RANKS: Final = 32
"""Ranks whose formula is traced at once."""

_BITS: Final = 400
_SCALE: Final = 2.0**_BITS
_WHOLE: Final = 1 << _BITS
_SMALLEST: Final = 2.0**-347
_HERE: Final = np.zeros(1, np.int64)

Steps: TypeAlias = tuple[tuple[Callable[[Any, Any], Any], Any], ...]
"""Operators with their right operands, in order."""

RowCount: TypeAlias = Literal["hits", "ordinals"]

_OPERATORS: Final[Mapping[np.ufunc, Callable[[Any, Any], Any]]] = {
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.add: operator.add,
    np.subtract: operator.sub,
}
_COMMUTE: Final = (np.multiply, np.add)

_Key: TypeAlias = tuple[int, int, int]
"""Whether lists have gains, size and rank: what a row of the table is, but for the cell."""


def _scaled(value: float) -> int:
    """The value times 2^400, exactly; raises ArithmeticError if that is no integer."""
    if value and not _SMALLEST <= abs(value) < _SCALE:
        raise ArithmeticError(value)
    return int(value * _SCALE)


class _RowCounts:
    """The counts of a row."""

    __slots__ = ("hits", "ordinals", "rank", "size")

    def __init__(self, size: int, rank: int, hits: int = 0, ordinals: int = 0) -> None:
        self.size, self.rank, self.hits, self.ordinals = size, rank, hits, ordinals


class _Outcome:
    """What all events with the same hits, lengths and gains do to the counts."""

    def __init__(self, row: bytes, search: Search, *, is_ranked: bool) -> None:
        self.row, self.search, self.is_ranked = row, search, is_ranked
        self.graded = self.kind = 0
        self.rows: dict[int, list[tuple[_RowCounts, int]]] = {}
        self.of_means: dict[_Mean, Any] = {}

    def ranks(self) -> IntArray:
        """The explicit ranks of the items shown."""
        return match_of_row(self.row, *self.search)[1]

    def lists(self, outcomes: _Outcomes) -> Lists:
        """The list, as formulas read it."""
        matches, ranks = match_of_row(self.row, *self.search)
        batch = batch_of(matches)
        if self.is_ranked:
            explicit: Any = Ragged.of_lengths(ranks, matches.length)
            batch = msgspec.structs.replace(batch, positions=explicit)
        ((_, lists),) = lists_of(outcomes.options, batch, _HERE)
        return lists


class _Outcomes:
    """The counts of one statistic of hits, in the only cell of a table.

    Attributes:
        having: lists by 2 * (it has items) + (it has interactions).
        log: the outcomes of events, in order.
    """

    def __init__(self, hits: Hits) -> None:
        self.options, self._hits = hits.options, hits
        view = hits.view(_HERE)
        self.having: list[int] = view.having.ravel().tolist()
        self.graded = int(view.graded[0])
        self.log: list[_Outcome] = []
        self._rows: dict[int, dict[_Key, _RowCounts]] = {}
        self._known: tuple[dict[bytes, _Outcome], ...] = ({}, {})

    def rows(self, size: int) -> dict[_Key, _RowCounts]:
        """The rows of this meaning of size, from the table if they are new."""
        if size not in self._rows:
            rows: dict[_Key, _RowCounts] = {}
            _, columns = self._hits.relations["hits"].of(_HERE)
            for kind, of_size, rank, hits, ordinals, firsts in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                if kind >> 1 != (INTERACTED if size == FIRST else size):
                    continue
                key = (0, 1, rank) if size == FIRST else (kind & 1, of_size, rank)
                row = rows.setdefault(key, _RowCounts(*key[1:]))
                row.hits += firsts if size == FIRST else hits
                row.ordinals += firsts if size == FIRST else ordinals
            self._known = ({}, {})
            self._rows[size] = rows
        return self._rows[size]

    def take(self, rows: Sequence[bytes], *, is_ranked: bool, search: Search) -> None:
        """Count events, given as `Block.rows` gives them."""
        known = self._known[is_ranked]
        for row in rows:
            outcome = known.get(row)
            if outcome is None:
                if len(known) >= _MOST_OUTCOMES:
                    known.clear()
                outcome = known[row] = self._outcome(_Outcome(row, search, is_ranked=is_ranked))
            self.having[outcome.kind] += 1
            self.graded += outcome.graded
            for touched in outcome.rows.values():
                for counts, ordinal in touched:
                    counts.hits += 1
                    counts.ordinals += ordinal
            self.log.append(outcome)

    def _outcome(self, outcome: _Outcome) -> _Outcome:
        interacted, length, ranks = self._quick(outcome) or self._slow(outcome)
        outcome.kind = 2 * (length > 0) + (interacted > 0)
        sizes = {INTERACTED: interacted, LENGTH: length, IDEAL: min(interacted, length)}
        for meaning, rows in self._rows.items():
            keys = [(0, 1, ranks[0])] if meaning == FIRST and ranks else []
            if meaning != FIRST:
                keys = [(outcome.graded, sizes[meaning], rank) for rank in ranks]
            outcome.rows[meaning] = [
                (rows.setdefault(key, _RowCounts(*key[1:])), ordinal)
                for ordinal, key in enumerate(keys, start=1)
            ]
        return outcome

    def _quick(self, outcome: _Outcome) -> tuple[int, int, list[int]] | None:
        """Interacted and shown items, and the ranks of the hits; None where it takes `lists_of`."""
        interacted, given, length, hits, gains, *places = memoryview(outcome.row).cast("q")
        every, last = self.options.repeats == "every", self.options.last
        if gains or outcome.is_ranked or outcome.search.every != every or self.options.needs_gains:
            return None
        if self.options.counting == "every":
            interacted = given
        ranks = [place + 1 for place in places[:hits] if place < last]
        return interacted, min(length, last), ranks

    def _slow(self, outcome: _Outcome) -> tuple[int, int, list[int]]:
        lists = outcome.lists(self)
        outcome.graded = int(lists.is_graded)
        return int(lists.interacted[0]), int(lists.length[0]), lists.rank.tolist()


class _Mean:
    """A metric whose value follows the events."""

    def __init__(self, metric: Metric, table: Table, outcomes: _Outcomes) -> None:
        self.metric, self._context, self.outcomes = metric, table.context, outcomes
        self._note = metric.peers
        self._counted = [
            2 * items + acts for (items, acts), rule in metric.empty_rules.items() if rule == "zero"
        ]
        self._refused = [
            2 * items + acts
            for (items, acts), rule in metric.empty_rules.items()
            if rule in ("nan", "error")
        ]
        self._is_listwise, self._per = metric.needs_values, metric.definition.per
        self._needs_gains = metric.needs_gains
        self._total = self._of_values = self._valued = self._undefined = self._items = 0
        self._contributions: dict[_RowCounts, int] = {}
        self._steps: dict[_RowCounts, Steps] = {}
        self._size: int | None = None
        self._k: int | None = None
        self._counted_by: RowCount = "hits"
        self._chunks: dict[tuple[int, int], list[Steps]] = {}
        self._begin(table)
        self.at = len(outcomes.log)

    def _begin(self, table: Table) -> None:
        """Take over what the table has; raises ArithmeticError if that cannot be followed."""
        metric = self.metric
        kind = f"values:{metric.per_list}" if self._is_listwise else f"graded:{metric.text}"
        if self._is_listwise or (self._needs_gains and kind in table.statistics):
            (values,) = cast("Values", table.statistics[kind]).view(_HERE)
            self._of_values, rest = divmod(values.scaled_total, ONE >> _BITS)
            if rest:
                raise ArithmeticError(metric)
            self._valued, self._undefined = values.count, values.undefined
        if self._is_listwise:
            return
        formula = row_formula(metric, self._context, 1, range(1, 2))
        if formula is None or (self._needs_gains and kind not in table.statistics):
            raise ArithmeticError(metric)
        self._size, self._k, self._counted_by, _ = formula
        hits = table.statistics[name_of(self.outcomes.options)]
        if self._per == "item":
            shown = cast("Hits", hits).view(_HERE).items
            self._items = int(items_shown(metric, shown)[0])
        for (graded, _, _), row in self.outcomes.rows(self._size).items():
            if not (graded and self._needs_gains):
                self._follow(row)

    def reading(self) -> Reading | None:
        """The reading; None if the table must be read."""
        outcomes = self.outcomes
        if self.at != len(outcomes.log) and not self.catch_up():
            return None
        having, metric = outcomes.having, self.metric
        lists = sum(having)
        for kind in self._refused:
            if having[kind]:
                return None
        if self._is_listwise:
            total = self._of_values / _WHOLE
            return mean_reading(metric, total, self._valued, lists, self._note)
        total = self._total / _WHOLE
        left_out = 0
        if outcomes.graded and self._needs_gains:
            total = math.fsum((total, self._of_values / _WHOLE))
            left_out = self._undefined + self._ungraded()
        if self._per == "total":
            return sum_reading(metric, total, lists)
        count = self._items if self._per == "item" else sum(map(having.__getitem__, self._counted))
        return mean_reading(metric, total, count - left_out, lists, self._note)

    def _ungraded(self) -> int:
        """See `ungraded_lists`."""
        empty = 0 if self.metric.empty_rules[0, 1] == "zero" else self.outcomes.having[1]
        valued = self._valued + self._undefined
        return max(self.outcomes.graded - empty - valued, 0)

    def catch_up(self, most: float = math.inf) -> bool:
        """Count the events since the last reading; False if they are more than `most`.

        It counts none after an interrupt has stopped it half-way.
        """
        log, start, self.at = self.outcomes.log, self.at, -1
        end = len(log)
        if start < 0 or end - start > most:
            return False
        for outcome in log[start:end]:
            self._take(outcome)
        self.at = end
        return True

    def _take(self, outcome: _Outcome) -> None:
        needs_value = self._is_listwise or (outcome.graded and self._needs_gains)
        if self._size is not None and (self._size == FIRST or not needs_value):
            for row, _ in outcome.rows[self._size]:
                self._follow(row)
        if needs_value or self._per == "item":
            self._add(outcome)

    def _follow(self, row: _RowCounts) -> None:
        """Replace the contribution of a row by that of its counts now."""
        if self._k is not None and row.rank > self._k:
            return
        steps = self._steps.get(row)
        if steps is None:
            steps = self._steps[row] = self._steps_of(row)
        contribution: Any = row.hits if self._counted_by == "hits" else row.ordinals
        for apply, operand in steps:
            contribution = apply(contribution, operand)
        scaled = _scaled(contribution)
        self._total += scaled - self._contributions.get(row, 0)
        self._contributions[row] = scaled

    def _steps_of(self, row: _RowCounts) -> Steps:
        chunk, place = divmod(row.rank - 1, _RANKS)
        key = (row.size, chunk)
        if key not in self._chunks:
            ranks = range(chunk * _RANKS + 1, (chunk + 1) * _RANKS + 1)
            formula = row_formula(self.metric, self._context, row.size, ranks)
            if formula is None:
                raise ArithmeticError(self.metric)
            self._chunks[key] = formula.steps
        return self._chunks[key][place]

    def _add(self, outcome: _Outcome) -> None:
        """Add the items shown of a list, or its value."""
        added = outcome.of_means.get(self)
        if added is None:
            added = outcome.of_means[self] = self._added(outcome)
        value, valued, undefined, items = added
        self._of_values += value
        self._valued += valued
        self._undefined += undefined
        self._items += items

    def _added(self, outcome: _Outcome) -> tuple[int, int, int, int]:
        metric, lists = self.metric, outcome.lists(self.outcomes)
        if self._per == "item" and outcome.is_ranked:
            ranks = outcome.ranks()
            return 0, 0, 0, int(items_at(metric, ranks[ranks <= self.outcomes.options.last]).sum())
        if self._per == "item":
            return 0, 0, 0, int(items_shown(metric, lists.items)[0])
        value = float(list_values(metric, lists, self._context)[0])
        counted = int(mean_counts(metric, lists)[0])
        if not counted:
            return 0, 0, 0, 0
        return (0, 0, 1, 0) if math.isnan(value) else (_scaled(value), 1, 0, 0)


class Running:
    """The means of one accumulator that are kept.

    `table`: it has all events whenever `note_read` is called. `changes`: of the accumulator.

    Attributes:
        state: the changes and the lists of the accumulator that the means have, without the events
            of its blocks; they are no longer valid if it has others.
    """

    def __init__(self, table: Table, changes: int, lists: int) -> None:
        self.state = changes, lists
        self._table = table
        self._means: dict[str, _Mean] = {}
        self._outcomes: dict[str, _Outcomes] = {}
        self._read_at: dict[str, int] = {}
        self._refused: set[str] = set()
        self._seen = [0, 0]
        self._is_read = False

    def __contains__(self, text: str) -> bool:
        return text in self._means

    def read(self, text: str, blocks: Blocks) -> Reading | None:
        """A mean that is kept, after the events of the blocks; None if the table must be read."""
        if len(blocks) != self._seen[0] + self._seen[1]:
            self.take(blocks)
        mean = self._means.get(text)
        if mean is None:
            return None
        self._is_read = True
        try:
            reading = mean.reading()
        except ArithmeticError:
            reading = None
            self._refused.add(text)
        if mean.at < 0:
            del self._means[text]
        return reading

    def take(self, blocks: Blocks) -> None:
        """Count the events that wait in the blocks."""
        for at, waiting in enumerate(blocks.waiting):
            rows = waiting.block.rows(self._seen[at])
            for outcomes in self._outcomes.values():
                outcomes.take(rows, is_ranked=bool(at), search=waiting.search)
            self._seen[at] += len(rows)
        for outcomes in self._outcomes.values():
            if len(outcomes.log) > _MOST_LOGGED:
                self._shorten(outcomes)

    def leave(self, blocks: Blocks) -> None:
        """Count the events of the blocks, which the table counts next.

        Means that nobody read since the last time are dropped, so that nobody pays for them.
        """
        if self._is_read:
            self.take(blocks)
            taken = sum(self._seen)
        else:
            self._means, self._outcomes = {}, {}
            taken = len(blocks)
        self._seen, self._is_read = [0, 0], False
        self.state = self.state[0], self.state[1] + taken

    def note_read(self, text: str, metric: Metric) -> None:
        """Note that a metric was read from the table, and keep its mean if that is worth it."""
        lists = self.state[1]
        if any(self._seen):
            return
        before = self._read_at.get(text)
        self._read_at[text] = lists
        is_due = before is not None and 0 < lists - before <= MOST_BETWEEN
        if not is_due or text in self._refused or not _can_follow(metric, self._table):
            return
        name = name_of(hits_options(metric, self._table.plan.depth))
        try:
            hits = cast("Hits", self._table.statistics[name])
            if name not in self._outcomes:
                self._outcomes[name] = _Outcomes(hits)
            self._means[text] = _Mean(metric, self._table, self._outcomes[name])
        except ArithmeticError:
            self._refused.add(text)

    def _shorten(self, outcomes: _Outcomes) -> None:
        """Forget the events that every mean has counted, and the means that lag behind."""
        for text, mean in [*self._means.items()]:
            if mean.outcomes is outcomes and not mean.catch_up(MOST_BETWEEN):
                del self._means[text]
        outcomes.log.clear()
        for mean in self._means.values():
            mean.at = 0 if mean.outcomes is outcomes else mean.at


def _can_follow(metric: Metric, table: Table) -> bool:
    """Whether a metric is a mean or sum of hits or listwise values, of the package."""
    if metric.definition.reads not in ("hits", "lists") or not metric.is_mean:
        return False
    options = hits_options(metric, table.plan.depth)
    if is_own(metric) or not options.reads_hits_only or options.among:
        return False
    return checks_of(metric) is None and options in table.plan.needs


class RowFormula(NamedTuple):
    """The contributions of rows to the sum of a metric.

    Attributes:
        size: the meaning of the rows' size, such as INTERACTED.
        k: the cut-off; None for every rank.
        counted: the count that the steps begin with.
        steps: those of each rank.
    """

    size: int
    k: int | None
    counted: RowCount
    steps: list[Steps]


def row_formula(metric: Metric, context: Context, size: int, ranks: range) -> RowFormula | None:
    """The formula at rows of this size and each of these ranks; None if it is no chain of steps.

    Example:
        >>> from streameval.catalogue import parse
        >>> from streameval.catalogue.context import Context
        >>> found = row_formula(parse("precision@4"), Context(), 20, range(1, 3))
        >>> found.counted, found.steps[0]
        ('hits', ((<built-in function truediv>, 4),))
    """
    if is_own(metric) or metric.definition.reads != "hits":
        return None
    try:
        result = call_metric(metric, _TracedView(size, np.array(ranks)), context)
        return result.formula(len(ranks)) if isinstance(result, _Sum) else None
    except (TypeError, AttributeError, NotImplementedError):
        return None


class _Unknown(NDArrayOperatorsMixin):
    """A count of each row, and what was done to it."""

    def __init__(self, counted: RowCount, steps: tuple[tuple[np.ufunc, Any], ...] = ()) -> None:
        self.counted, self.steps = counted, steps

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> _Unknown:
        left, other = inputs if len(inputs) == 2 else (None, None)
        if left is not self and ufunc in _COMMUTE:
            left, other = other, left
        wrong = left is not self or isinstance(other, _Unknown) or ufunc not in _OPERATORS
        if wrong or method != "__call__" or named:
            raise TypeError(ufunc)
        return _Unknown(self.counted, (*self.steps, (ufunc, other)))

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise TypeError(function)

    def __array__(self, *_: Any) -> Any:
        raise TypeError


class _Sum(NamedTuple):
    """A sum of contributions over rows."""

    size: int
    k: int | None
    contributions: _Unknown

    def formula(self, ranks: int) -> RowFormula | None:
        columns = []
        for ufunc, operand in self.contributions.steps:
            values = np.broadcast_to(np.asarray(operand), ranks)
            if values.dtype.kind not in "bif" or values.dtype.itemsize not in (1, 8):
                return None
            columns.append([(_OPERATORS[ufunc], value) for value in values.tolist()])
        steps = [*zip(*columns, strict=True)] if columns else [()] * ranks
        return RowFormula(self.size, self.k, self.contributions.counted, steps)


class _TracedRows:
    """Rows of one size, one for each rank."""

    def __init__(self, axis: int, k: int | None, size: int, ranks: Any) -> None:
        self._axis, self._k = axis, k
        self.rank, self.size, self.gain = ranks, np.full_like(ranks, size), np.ones(ranks.size)
        self.hits, self.ordinals = _Unknown("hits"), _Unknown("ordinals")

    def total(self, contributions: Any) -> _Sum:
        if not isinstance(contributions, _Unknown):
            raise TypeError(contributions)
        return _Sum(self._axis, self._k, contributions)


class _TracedView(HitsView):
    def __init__(self, size: int, ranks: Any) -> None:
        self._size, self._ranks = size, ranks

    def rows_by(self, size: int, k: int | None) -> Any:
        return _TracedRows(size, k, self._size, self._ranks)
