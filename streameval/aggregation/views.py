"""Several partitions' families read as one: windows, and the lifetime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic

from streameval.aggregation.blocks import Block, Blocks
from streameval.aggregation.cap import Labels
from streameval.aggregation.family import Family
from streameval.aggregation.folding import OTHER, Folding
from streameval.aggregation.lateness import PAST, unit
from streameval.aggregation.leaves import Leaf, Settling
from streameval.aggregation.place import BEYOND, Place
from streameval.aggregation.seen import Seen
from streameval.aggregation.slices import A
from streameval.aggregation.spec import FamilySpec
from streameval.aggregation.time import HOUR

_MOVING: Final = 3
"""So many of the newest panes still change often: they are merged last, one by one."""

_LIFETIME: Final = 0
_END: Final = -PAST


class _View(Generic[A]):
    """The merges behind one window, what hardly changes first."""

    __slots__ = ("hours", "moving", "older", "whole")

    def __init__(self, new: Callable[[], A]) -> None:
        self.hours = Block(new)
        self.older = Block(new)
        self.moving = [Block(new) for _ in range(_MOVING)]
        self.whole = Block(new)


class Views(Generic[A]):
    """Merges the families of several partitions for reading; what did not change stays merged.

    Accumulators are for reading only, and the very same objects while nothing changed in them.
    Each window is merged of the next shorter one and of what lies before that.

    Attributes:
        spec: of all the families.
        families: one of each partition; to be set whenever there are others.

    Args:
        spec: of all the families.
    """

    def __init__(self, spec: FamilySpec[A]) -> None:
        self.spec = spec
        self.families: Sequence[Family[A]] = ()
        self._settling = Settling(spec)
        self._read: Sequence[tuple[Family[A], int]] = ()
        # Copies of an empty one, which are quicker than new ones.
        self._new: Callable[[], A] = spec.new().copy
        self._past = Block(self._new)
        self._hours = Blocks(HOUR, self._new)
        self._panes = Blocks(HOUR, self._new)
        self._views: dict[int, _View[A]] = {}
        self._clock: int | None = None
        self._seen = Seen()

    def lifetime(self) -> list[tuple[Labels, A]]:
        """All events: label values and accumulators, sorted."""
        self._refresh(self._clock)
        view = self._view(_LIFETIME)
        if self._clock is None or not self.spec.spans:
            return view.whole.join([self._past, self._before(view, PAST, _END)]).sorted()
        longest = self.spec.spans[-1]
        before = self._before(view, PAST, self._start(longest, self._clock))
        newest = self._window(longest, self._clock)
        return view.whole.join([self._past, before, newest]).sorted()

    def window(self, span: int, clock: int) -> list[tuple[Labels, A]]:
        """Events of the last span before the clock: label values and accumulators, sorted.

        It begins at a whole pane, above two hours at a whole hour, so it has all of the span or
        more. What is ahead of the clock, or of that of its partition, is in the lifetime only.

        Args:
            span: of the window, microseconds; at most the longest of the spec.
            clock: of all partitions, microseconds; lateness less at least.
        """
        self._refresh(clock)
        return self._window(span, clock).sorted()

    def panes(self) -> list[tuple[Place, Block[A]]]:
        """What is kept of event time, the newest first; blocks for reading only."""
        self._refresh(self._clock)
        return [
            (Place(blocks.size, start), block)
            for blocks in (self._panes, self._hours)
            for start in reversed(blocks.starts)
            for block in blocks.between(start, start + 1)
        ]

    def seen(self) -> Mapping[Labels, int | None]:
        """Largest event time of each combination, microseconds; None where there is no time."""
        self._refresh(self._clock)
        return {labels: sight.latest for labels, sight in self._seen.by_labels.items()}

    def folded(self) -> Mapping[str, int]:
        """For each dimension the events of all history under `__other__`."""
        self._refresh(self._clock)
        sights = self._seen.by_labels.items()
        return {
            name: sum(sight.events for labels, sight in sights if labels[place] == OTHER)
            for place, name in enumerate(self.spec.dimensions)
        }

    @property
    def folding(self) -> Folding:
        """Which label values all partitions together keep apart; for reading only."""
        self._refresh(self._clock)
        return self._settling.folding

    def _window(self, span: int, clock: int) -> Block[A]:
        view, start = self._view(span), self._start(span, clock)
        shorter = max((each for each in self.spec.spans if each < span), default=None)
        if shorter is None:
            return self._newest(view, start)
        before = self._before(view, start, self._start(shorter, clock))
        return view.whole.join([before, self._window(shorter, clock)])

    def _newest(self, view: _View[A], start: int) -> Block[A]:
        newest = [at for at in self._panes.starts[-_MOVING:] if at >= start]
        found = self._before(view, start, _END, panes=newest[0] if newest else _END)
        for at, joined in zip(newest, view.moving, strict=False):
            found = joined.join([found, *self._panes.between(at, at + 1)])
        return found

    def _before(self, view: _View[A], low: int, high: int, panes: int | None = None) -> Block[A]:
        """What begins in this span of time; panes may end earlier than hours."""
        last = self._hours.starts[-1] if self._hours.starts else high
        settled = self._hours.between(low, min(high, last))
        filling = self._hours.between(max(low, last), high)
        fine = self._panes.between(low, high if panes is None else panes)
        return view.older.join([view.hours.join(settled), *filling, *fine])

    def _start(self, span: int, clock: int) -> int:
        size = unit(span, self._panes.size)
        return (clock - span) // size * size

    def _view(self, span: int) -> _View[A]:
        return self._views.setdefault(span, _View(self._new))

    def _refresh(self, clock: int | None) -> None:
        read = [(family, family.version) for family in self.families]
        if (read, clock) == (self._read, self._clock):
            return
        self._read, self._clock = read, clock
        self._settling.follow([family.folding for family in self.families])
        self._seen = Seen()
        for family in self.families:
            self._seen.merge(self._settling.settled(family.seen.by_labels.items()))
        self._divide()

    def _divide(self) -> None:
        found: dict[Place, list[Leaf[A]]] = {}
        for family in self.families:
            self._panes.size = family.times.pane
            clocks = [clock for clock in (self._clock, family.clock) if clock is not None]
            newest = min(clocks, default=_END)
            for place, pane in family.panes.items():
                at = place if place.start <= newest else BEYOND
                found.setdefault(at, []).append(Leaf(pane, self._settling))
        self._past.join(found.pop(BEYOND, []))
        for blocks in (self._hours, self._panes):
            sized = {at.start: found[at] for at in found if at.size == blocks.size}
            blocks.set(sized if blocks is self._hours or blocks.size < HOUR else {})
