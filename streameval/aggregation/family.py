"""All that is kept of one partition's events, divided in one way by labels, and by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.aggregation.cap import Labels
from streameval.aggregation.folding import Folding, FoldingState
from streameval.aggregation.grouping import grouped
from streameval.aggregation.keys import Keys
from streameval.aggregation.lateness import PAST, borders
from streameval.aggregation.pane import Pane
from streameval.aggregation.place import BEYOND, META, Place, place_of, section_name
from streameval.aggregation.section import Section, next_version
from streameval.aggregation.seen import Seen, SeenState
from streameval.aggregation.slices import A
from streameval.aggregation.spec import FamilySpec
from streameval.aggregation.time import HOUR, Times
from streameval.errors import DamagedStateError
from streameval.events import Batch


class Held(NamedTuple, Generic[A]):
    """The accumulators of one section.

    Attributes:
        section: its name.
        version: while it stays the same, so does the content.
        items: label values and accumulators, sorted.
    """

    section: str
    version: int
    items: Sequence[tuple[Labels, A]]


class Family(Generic[A]):
    """Accumulators by pane and label values. Each event is counted in exactly one of them.

    What it holds after an `advance` is a function of the events and of the clock.

    Attributes:
        spec: what it is.
        times: how event time is divided here.
        version: while it stays the same, so does the content.
        kept: how far back from the clock it keeps panes, microseconds; 0 without windows.
        panes: accumulators by place; for reading only.
        folding: which label values are kept apart; for reading only.
        seen: when each combination was last seen; for reading only.
        clock: the one of the last `advance`, microseconds; None before the first.

    Args:
        spec: what it is.
        times: how event time is divided; the family keeps for its own longest span only.
    """

    def __init__(self, spec: FamilySpec[A], times: Times) -> None:
        self.spec = spec
        self.times = msgspec.structs.replace(times, spans=spec.spans)
        self.kept = self.times.kept if spec.spans else 0
        self.panes: dict[Place, Pane[A]] = {BEYOND: Pane(spec.new)}
        self.folding = Folding(spec.folding, len(spec.columns))
        self.seen = Seen()
        self._keys = Keys(self.folding, spec.columns)
        self._fine = self._kept = PAST
        self.clock: int | None = None
        self.version = next_version()

    @property
    def folded(self) -> int:
        """Events under `__other__` in any dimension: folded there, or come so."""
        return self.seen.folded

    def update(
        self,
        batch: Batch,
        dimensions: Sequence[tuple[str, ...]] | None,
        starts: NDArray[np.int64] | None,
        times: NDArray[np.int64] | None,
    ) -> None:
        """Count events, in the order of the log; quickest where `advance` moved the clock before.

        Args:
            batch: the events.
            dimensions: values of all dimensions of each; None where none are configured.
            starts: start of the pane of each as `late` gives it; None without event time.
            times: event time of each, microseconds; None without.
        """
        if not len(batch):
            return
        assigned = self._keys.assign(dimensions, len(batch))
        if assigned.moves:
            self._move(assigned.moves)
        if starts is None or not self.spec.spans:
            starts = np.full(len(batch), PAST)
        for start, code, rows in grouped(self._aged(starts), assigned.codes):
            pane = self._pane(self._place(start))
            pane.count(assigned.keys[code], batch if rows is None else batch.take(rows))
        self.seen.count(assigned.keys, assigned.codes, times)
        self.version = next_version()

    def advance(self, clock: int) -> None:
        """Fold panes that grew old into hours, and what is no longer kept into the past.

        Args:
            clock: of the partition, microseconds. Panes that begin after it are in no window.
        """
        pane = self.times.pane
        if self.clock is None or self.clock // pane != clock // pane:
            self.version = next_version()
        self.clock = clock
        kept, fine = borders(self.times, clock)
        if (kept, fine) == (self._kept, self._fine):
            return
        self._kept, self._fine = kept, fine
        self.version = next_version()
        for place in sorted(self.panes.keys() - {BEYOND}):
            goal = self._goal(place)
            if goal != place:
                self._pane(goal).absorb(self.panes.pop(place))

    def give_up(self, starts: Sequence[int]) -> None:
        """Events of these panes belong to no span of time: fold them into the past."""
        for start in starts:
            pane = self.panes.pop(Place(self.times.pane, start), None)
            if pane is not None:
                self.panes[BEYOND].absorb(pane)
                self.version = next_version()

    def sections(self) -> list[Section]:
        """Its content in pieces, sorted by name; equal content gives equal bytes."""
        name = self.spec.name
        found = [Section(f"{name}/{META}", self.version, self._meta)]
        for place, pane in self.panes.items():
            found.append(Section(section_name(name, place), pane.version, pane.content))
        return sorted(found, key=_name)

    def slices(self) -> Iterator[Held[A]]:
        """The accumulators of each section, for reading only."""
        for place in sorted(self.panes):
            pane = self.panes[place]
            yield Held(section_name(self.spec.name, place), pane.version, pane.items())

    def restore(self, sections: Mapping[str, bytes]) -> frozenset[str]:
        """Take the place of the content by what the sections of a family of this name hold.

        Args:
            sections: bytes by name; those of other families may be among them.

        Returns:
            Names of statistics that some of them did not hold: they are kept from now on.

        Raises:
            DamagedStateError: they are not what `sections` gave; the content stays as it was.
            UnlikeStateError: they were made with panes of another size.
        """
        fresh: Family[A] = Family(self.spec, self.times)
        new = fresh._load(sections)
        self.__dict__.update(fresh.__dict__)
        return new

    def _load(self, sections: Mapping[str, bytes]) -> frozenset[str]:
        prefix, new = f"{self.spec.name}/", set[str]()
        own = {name: data for name, data in sections.items() if name.startswith(prefix)}
        self._load_meta(prefix + META, own.pop(prefix + META, b""))
        if section_name(self.spec.name, BEYOND) not in own:
            raise DamagedStateError(section_name(self.spec.name, BEYOND), "it is missing")
        for name in sorted(own):
            pane = self._pane(place_of(name, self.times.pane))
            new |= pane.adopt(name, own[name], len(self.spec.columns))
        self._admit_loaded()
        return frozenset(new)

    def _load_meta(self, name: str, data: bytes) -> None:
        try:
            state = msgspec.msgpack.decode(data, type=tuple[FoldingState, SeenState])
            self.folding.load(state[0])
            self.seen.load(state[1])
        except (ValueError, msgspec.MsgspecError) as error:
            raise DamagedStateError(name, f"{type(error).__name__}: {error}") from error

    def _admit_loaded(self) -> None:
        """Fold what is above the caps of this family, where it was saved with larger ones."""
        found = set(self.seen.by_labels).union(*(pane.slices for pane in self.panes.values()))
        for labels in sorted(found):
            admitted = self.folding.admit(labels)
            self._move({**admitted.moves, labels: admitted.key})

    def _move(self, moves: Mapping[Labels, Labels]) -> None:
        changed = {old: new for old, new in moves.items() if old != new}
        if not changed:
            return
        for pane in self.panes.values():
            pane.move(changed)
        self.seen.move(changed)

    def _aged(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Starts of the panes that are kept for these: of an hour, or PAST, where they are old."""
        if starts.min() >= max(self._fine, self._kept):
            return starts
        hours = np.where(starts < self._fine, starts // HOUR * HOUR, starts)
        return np.where(starts < self._kept, PAST, hours)

    def _place(self, start: int) -> Place:
        """Where the pane that begins there is kept."""
        return self._goal(Place(self.times.pane, start))

    def _goal(self, place: Place) -> Place:
        if place.start < self._kept or place.start == PAST:
            return BEYOND
        if place.start < self._fine and place.size < HOUR:
            return Place(HOUR, place.start // HOUR * HOUR)
        return place

    def _pane(self, place: Place) -> Pane[A]:
        pane = self.panes.get(place)
        if pane is None:
            pane = self.panes[place] = Pane(self.spec.new)
        return pane

    def _meta(self) -> Callable[[], Iterator[bytes]]:
        state = msgspec.msgpack.encode([self.folding.state(), self.seen.state()])
        return lambda: iter([state])


def _name(section: Section) -> str:
    return section.name
