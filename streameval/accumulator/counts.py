"""Counts of one accumulator since its last reset, and everything that changes with them.

A lock keeps other threads out. It lets the same thread in again: a signal handler, which may run
between any two instructions of a change. A change that finds another in progress is refused.

A change uses one `Counts` from its beginning to its end, and `reset` replaces the object. So a
change that a handler interrupts to reset ends in counts that nobody reads any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from streameval.accumulator.blocks import Adder, Blocks, add_nothing, half_counted, interrupted
from streameval.accumulator.event_checks import FIRST_OBSERVED, EventChecks
from streameval.accumulator.intake import (
    checked_batch,
    checked_event,
    kind_of_users,
    refuse_unshown,
)
from streameval.accumulator.table import Table
from streameval.catalogue import metric_of
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.events import Event
from streameval.events.extras import LazyModule
from streameval.statistics.relation import next_version

if TYPE_CHECKING:
    from streameval.accumulator import following, readings
    from streameval.accumulator.reading_intervals import IntervalMethod
else:
    # A loop that only counts needs none of it.
    following = LazyModule("streameval.accumulator.following")
    readings = LazyModule("streameval.accumulator.readings")

CELL: Final = np.array([0])
"""The only cell of the table."""


class Counts:
    """Counts of an accumulator; as a context, a change of them.

    Args:
        table: the events of these counts.
        lists: number of these events.
        event_checks: of these events; new ones by default.
        lists_before: events that some statistics lack, as they were not kept then.
        resets: how often earlier counts were discarded.

    Attributes:
        changes: number of changes other than single events.
        next_check: changes at the last check for a warning, lists at the next one, lists between
            both, and the warning.
    """

    add: Adder
    add_ranked: Adder
    add_event: Adder
    """Append an event that needs no check; False for one that `check_and_add` must take."""

    _means: following.IncrementalReadings | None
    """Means that follow the events; None while something else than a single event is counted."""

    def __init__(
        self,
        table: Table,
        lists: int = 0,
        event_checks: EventChecks | None = None,
        lists_before: int = 0,
        resets: int = 0,
    ) -> None:
        self.table, self.blocks = table, Blocks(table.plan)
        self.lists_before, self.resets = lists_before, resets
        context = table.context
        self.event_checks = event_checks or EventChecks(context.attributes, context.popularity)
        self.next_check: tuple[int, int, int, str | None] = (0, -1, 0, None)
        self.changes, self._in_table = 0, 0
        self._means = None
        self._number = next_version()
        self._is_changing, self._cause = False, ""
        self._note_change(lists)

    def __enter__(self) -> None:
        self._check_sound()
        if self._is_changing:
            raise interrupted()
        self._is_changing = True

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self._cause = f"{error!r:.200}"
            self._check_each()
        self._is_changing = False

    @property
    def lists(self) -> int:
        """Number of events counted."""
        return self._in_table + len(self.blocks)

    @property
    def version(self) -> int:
        """A number that changes with every change, and that no other counts in the process have."""
        return (self._number << 64) + self.changes + self.lists

    def count(self, raw: Any) -> None:
        """Count a batch, see `Accumulator.update_many`."""
        self._require_key()
        table = self.table
        kind, checked = checked_batch(table.ids, raw, table.search)
        refuse_unshown(checked, table.plan)
        users, values = kind_of_users(table.users, checked.users), table.event_values(checked)
        if kind != table.ids:
            self._move_to_table()
        with self:
            self.changes, self._means = self.changes + 1, None  # Also if it fails.
            table.count(checked, values=values, borrowed=True)
            self.event_checks.observe_batch(checked)
            table.users, table.ids = users, kind
            self._note_change(len(checked))

    def check_and_add(self, raw: Event) -> None:
        """Append an event; the first ones, and the first after a full block, are observed."""
        self._check_sound()
        self._require_key()
        table = self.table
        kind, event = checked_event(table.ids, raw)
        refuse_unshown(event, table.plan)
        users = table.users
        if event.user is not None:
            users = kind_of_users(users, [event.user])
        values = table.values_of(event)
        if kind != table.ids or users != table.users:
            if kind != table.ids:
                self._move_to_table()
            with self:
                table.ids, table.users = kind, users
                self._note_change(0)
        is_first = self.event_checks.lists < FIRST_OBSERVED
        if not self.blocks.add_checked(event, values):
            self._move_to_table()
            is_first = True
            if not self.blocks.add_checked(event, values):
                raise interrupted()
        if is_first:
            self.event_checks.observe(event)
            self._choose_adder()

    def flush(self) -> Table:
        """The table, after it has counted all events."""
        if len(self.blocks):
            self._move_to_table()
        with self:
            self.table.flush()
        return self.table

    def merge(self, other: Counts) -> None:
        """Add other counts, which do not change.

        Raises:
            UnlikeStateError: their statistics or kind of ids differ; nothing was added.
        """
        table, added = self.flush(), other.flush()
        table.kinds_with(added)
        with self:
            self.changes, self._means = self.changes + 1, None  # Also if it fails.
            table.add(added)
            self.event_checks.add(other.event_checks)
            self.lists_before += other.lists_before
            self._note_change(other.lists)

    def copy(self) -> Counts:
        """Independent counts with the same content."""
        table = self.flush()
        version, copy = table.copied(None)
        # A signal handler may have counted a batch after some statistics were copied.
        while version != table.version:
            version, copy = table.copied(None)
        lists, checks = int(copy.lists(CELL)[0]), self.event_checks.copy()
        return Counts(copy, lists, checks, self.lists_before, self.resets)

    def read(
        self, metric: str | Metric, named: Sequence[Metric], method: IntervalMethod | None
    ) -> Reading:
        """A reading; without an interval, of a mean that follows the events if there is one.

        `_means` is None while a mean is used, so that an interrupt leaves none half-way; a signal
        handler that counts meanwhile changes the state that it must have.

        `named`: the metrics of the accumulator.
        """
        text = metric if method is None and isinstance(metric, str) else None
        means = self._means
        if means is not None and text is not None and text in means:
            self._means = None
            if means.state == (self.changes, self._in_table):
                followed = means.read(text, self.blocks)
                self._means = means
                if followed is not None and means.state == (self.changes, self._in_table):
                    return followed
        parsed = metric_of(metric, named)
        (reading,) = readings.readings_of(parsed, self.flush(), CELL, method)
        if text is not None:
            state = self.changes, self._in_table
            means, self._means = self._means, None
            if means is None:
                means = following.IncrementalReadings(self.table, *state)
            if means.state == state:
                means.record_read(text, parsed)
                self._means = means
        return reading

    def _move_to_table(self) -> None:
        """Empty the blocks: their events wait in the table, to be counted with others."""
        # Before anything changes: the event that is being appended can then be completed.
        self.blocks.check_rows()
        means, self._means = self._means, None
        if means is not None:
            means.detach(self.blocks)
        with self:
            for batch, values in self.blocks.take():
                # The version goes back for a moment, not ahead: a concurrent scrape then repeats.
                self.table.count(batch, values=values)
                self._in_table += len(batch)
        self._means = means

    def _check_sound(self) -> None:
        """Refuse a change after an exception has stopped one half-way."""
        if self._cause:
            problem = f"it stopped with {self._cause}"
            raise half_counted(problem, "call reset(), or load a saved state")

    def _require_key(self) -> None:
        """Refuse to count with a key of users that is not at hand, before anything is counted."""
        if self.table.context.user_key is not None:
            self.table.context.user_key.require()

    def _note_change(self, lists: int) -> None:
        self.blocks.begin(self.table.ids, self.table.users)
        self._choose_adder()
        self._in_table += lists
        self.changes += 1

    def _choose_adder(self) -> None:
        """Set what appends an event without a check, if none needs one."""
        self._check_each()
        key = self.table.context.user_key
        few = self.event_checks.lists < FIRST_OBSERVED or self.table.ids is None
        few |= key is not None and not key.is_loaded
        if not (few or self.table.plan.formulas):
            self.add, self.add_ranked = self.blocks.add, self.blocks.add_ranked
            self.add_event = self.blocks.add_event

    def _check_each(self) -> None:
        """Check each event from now on."""
        self.add = self.add_ranked = self.add_event = add_nothing
