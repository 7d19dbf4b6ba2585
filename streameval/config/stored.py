"""The states of all partitions of a store at their newest checkpoints, read again where changed.

The state of a partition is a function of its log up to its offset. So the newest checkpoints are
together the state of one process that has counted each partition to its offset; no consistent cut
is needed, and any mix of offsets is such a process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final, NamedTuple

from streameval.checkpoints.format import Claim, Entry, Header, Place
from streameval.checkpoints.restore import offsets_saved, resume
from streameval.checkpoints.store import Listing, Location, SavedCheckpoint, Store, skipped
from streameval.config.config import Config, without_formats
from streameval.config.pipeline import new_ingest, with_saved_depth
from streameval.config.states import newest_identities, other_counting
from streameval.engine.analysis import UnreadPartitions
from streameval.engine.ingest import Ingest, IngestCopy
from streameval.engine.partition import Tally
from streameval.engine.snapshot import StoredPartition
from streameval.engine.stored import StoredStates
from streameval.events.errors import (
    DamagedStateError,
    StateVersionError,
    StreamevalError,
    UnlikeStateError,
    damage_as_error,
)
from streameval.events.records import Partition

_AT_ONCE: Final = 8
"""Checkpoints of a bucket that are read at once, and whose bytes are in memory."""


class _Shown(NamedTuple):
    """A checkpoint whose counts are shown, and the digest of each of its parts."""

    location: Location
    header: Header
    digests: Mapping[str, str]


class _Refusal(NamedTuple):
    """Why a checkpoint is not shown.

    Attributes:
        damaged: whether an older one is shown instead, if there is any.
    """

    problem: str
    damaged: bool


class StoreReader:
    """Reads the newest state of each partition of a store; writes nothing.

    A refresh takes one listing, and reads a checkpoint where its location has changed, but only
    the parts that are new by their digests. Tables that have not changed stay the same objects,
    so that sums over partitions need not be computed again.

    Args:
        store: one for the life of the reader.
        config: what is shown. Where its metrics need fewer ranks than the states have, the states'
            depth is kept.

    Attributes:
        config: with the depth of the states.
        ingest: the counts; another one when that depth grows.
        trouble: why the store cannot be read, in a sentence; None if it was.
        owner: cluster and group of the store; None before it was read.
    """

    def __init__(self, store: Store, config: Config) -> None:
        self._store, self._base = store, config
        self._topics = {*config.source.logs}
        self.trouble: str | None = None
        self.owner: Claim | None = None
        self._highest: dict[Place, tuple[int, int]] = {}
        self._known: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._identities: dict[str, str] = {}
        self._refusals: dict[Location, _Refusal] = {}
        self._written: dict[Location, float] = {}
        self._problems: dict[Place, str] = {}
        self._begin(config)

    def _begin(self, config: Config) -> None:
        """Hold nothing."""
        self.config = config
        self.ingest: Ingest = new_ingest(without_formats(config))
        self._states = StoredStates(self.ingest.layout)
        self._shown: dict[Place, _Shown] = {}

    def refresh(self) -> None:
        """Read what has changed; what cannot be read stays as it was, and says so."""
        try:
            listing = self._store.listing()
            if self.owner is None or not listing.places:
                # Raises an error for a store that is absent, or on a disk that is not mounted.
                self.owner = self._store.owner()
            self._read(listing)
        except StreamevalError as error:
            self.trouble = str(error)
        else:
            self.trouble = None

    def copied(self) -> IngestCopy:
        """The counts, as one process has them that has counted all of it."""
        tally = Tally()
        for state in self.ingest.partitions.values():
            tally.add(state.tally)
        return self.ingest.copied()._replace(tally=tally)

    def stored(self, ends: Mapping[Partition, int]) -> tuple[StoredPartition, ...]:
        """Each partition that the store has or should have, sorted.

        `ends`: offset after the last record of each log, as far as known.
        """
        stored = []
        for (topic, identity), count in sorted(self._known.items()):
            for number in range(count if self._identities.get(topic) == identity else 0):
                place = Place(topic, identity, number)
                shown, problem = self._shown.get(place), self._problems.get(place)
                if shown is None:
                    problem = problem or "the store has no checkpoint of it"
                    stored.append(StoredPartition(topic=topic, partition=number, problem=problem))
                    continue
                header = shown.header
                offsets = offsets_saved(header, Partition(topic, number))
                lags = [max(0, ends[log] - at) for log, at in offsets.items() if log in ends]
                stored.append(
                    StoredPartition(
                        topic=topic,
                        partition=number,
                        written_at=header.written_at,
                        offset=header.offset,
                        lag=sum(lags) if len(lags) == len(offsets) else None,
                        problem=problem,
                    )
                )
        return tuple(stored)

    @staticmethod
    def unread(stored: Sequence[StoredPartition]) -> UnreadPartitions:
        """Those of these partitions that have no values."""
        missing = [entry for entry in stored if entry.offset is None]
        if not missing:
            return UnreadPartitions()
        return UnreadPartitions(len(missing), f"{missing[0].log}: {missing[0].problem}")

    def _read(self, listing: Listing) -> None:
        places = self._current(listing)
        hidden = {
            place
            for place in self._shown.keys() - listing.places.keys()
            # Of a topic that was created again, damage hides only what has its present identity.
            if self._identities.get(place.topic) == place.identity and listing.damage(place)
        }
        for place in self._shown.keys() - places.keys() - hidden:
            self._drop(place)
        listed = {location for locations in places.values() for location in locations}
        self._refusals = {at: known for at, known in self._refusals.items() if at in listed}
        waiting = [*places.items()]
        for begin in range(0, len(waiting), _AT_ONCE):
            some = waiting[begin : begin + _AT_ONCE]
            found = self._store.gather(lambda item: self._newest(*item), some)
            headers = [read[1].header for read in found if read is not None]
            if self._deepen(headers):
                self._read(listing)
                return
            for (_, locations), read in zip(some, found, strict=True):
                self._show(locations, read)
        self._problems = {}
        for place, locations in (*places.items(), *((place, ()) for place in sorted(hidden))):
            self._note(place, locations, listing.damage(place))

    def _current(self, listing: Listing) -> dict[Place, Sequence[Location]]:
        """The places of the configured logs; of a topic that was recreated, those written last."""
        places = {
            place: locations
            for place, locations in listing.places.items()
            if not self._topics or place.topic in self._topics
        }
        several = len({place[:2] for place in places}) > len({place.topic for place in places})
        self._identities |= newest_identities(
            (place.topic, place.identity, self._written_at(place, locations) if several else 0.0)
            for place, locations in places.items()
        )
        there = {location for locations in places.values() for location in locations}
        self._written = {at: when for at, when in self._written.items() if at in there}
        return {
            place: locations
            for place, locations in places.items()
            if place.identity == self._identities[place.topic]
        }

    def _written_at(self, place: Place, locations: Sequence[Location]) -> float:
        """When the newest checkpoint of a place was written that has a readable header."""
        if place in self._shown:
            return self._shown[place].header.written_at
        for location in locations:
            if location not in self._written:
                with suppress(DamagedStateError, StateVersionError, FileNotFoundError):
                    header = self._store.read(location, lambda _: False).header
                    self._written[location] = header.written_at
            if location in self._written:
                return self._written[location]
        return 0.0

    def _newest(
        self, place: Place, locations: Sequence[Location]
    ) -> tuple[Location, SavedCheckpoint] | None:
        """Read the parts that are needed of the newest valid checkpoint of a place.

        None if none is newer than what is shown.
        """
        shown = self._shown.get(place)
        for location in locations:
            if shown is not None and location == shown.location:
                return None
            # An older checkpoint counts where it is the newest, not where a newer one is damaged.
            is_newest = location == locations[0]
            if shown is not None and not is_newest and location.order < shown.location.order:
                return None
            if location not in self._refusals:
                try:
                    needs = partial(self._needs, place)
                    saved = self._store.read_valid(location, needs)
                except DamagedStateError as error:
                    self._refusals[location] = _Refusal(skipped(location, error), damaged=True)
                except StateVersionError as error:
                    self._refusals[location] = _Refusal(str(error).rstrip("."), damaged=False)
                except FileNotFoundError:
                    # Superseded since the listing, which is old where there is much to read. What
                    # is shown stays until the next look.
                    listed = self._store.listing().places.get(place, ())
                    return self._newest(place, listed) if shown is None else None
                else:
                    return location, saved
            if not self._refusals[location].damaged:
                return None
        return None

    def _needs(self, place: Place, entry: Entry) -> bool:
        """Whether a part must be read."""
        return self._states.reads(entry.name) and not self._has(place, entry)

    def _has(self, place: Place, entry: Entry) -> bool:
        """Whether a part is loaded as it is saved."""
        shown = self._shown.get(place)
        if shown is None or shown.digests.get(entry.name) != entry.digest:
            return False
        families = self.ingest.partitions[_partition(place)].families.values()
        return any(entry.name in family.loaded for family in families)

    def _deepen(self, headers: Sequence[Header]) -> bool:
        """Begin again with the depth of a state that is deeper; returns whether one is."""
        for header in headers:
            config = self.config
            # Settings that nobody wrote are found damaged when the state is loaded.
            with suppress(DamagedStateError), damage_as_error(str(header.place)):
                config = with_saved_depth(self._base, header.settings)
            if (config.kept_depth() or inf) > (self.config.kept_depth() or inf):
                self._begin(config)
                return True
        return False

    def _show(
        self, locations: Sequence[Location], read: tuple[Location, SavedCheckpoint] | None
    ) -> None:
        """Load the checkpoint that was read; an older one where its content is damaged."""
        while read is not None:
            location, saved = read
            try:
                problem = self._load(location, saved)
            except DamagedStateError as error:
                self._refusals[location] = _Refusal(skipped(location, error), damaged=True)
                read = self._newest(location.place, locations)
                continue
            if problem is not None:
                self._refusals[location] = _Refusal(problem, damaged=False)
                self._drop(location.place)
            return

    def _load(self, location: Location, saved: SavedCheckpoint) -> str | None:
        """Replace the counts of a partition by those of a checkpoint, or say why they differ.

        Raises:
            DamagedStateError: its content is damaged; nothing has changed.
        """
        place = location.place
        with damage_as_error(saved.path):
            difference = other_counting(self.config, saved.header)
        if difference is not None:
            return difference
        unchanged = [entry.name for entry in saved.entries if self._has(place, entry)]
        try:
            resume(self.ingest, _partition(place), saved, states=self._states, unchanged=unchanged)
        except UnlikeStateError as error:
            return str(error).rstrip(".")
        self._shown[place] = _Shown(location, saved.header, saved.digests)
        order = saved.header.generation, saved.header.offset
        self._highest[place] = max(order, self._highest.get(place, order))
        return None

    def _drop(self, place: Place) -> None:
        if self._shown.pop(place, None) is not None:
            self.ingest.drop(_partition(place))

    def _note(self, place: Place, locations: Sequence[Location], damage: Sequence[str]) -> None:
        """Note why a place does not show its newest checkpoint, and the partitions of its topic.

        A partition whose checkpoints vanish later stays known.
        """
        shown = self._shown.get(place)
        count = 0 if shown is None else shown.header.partitions or 0
        topic = place.topic, place.identity
        self._known[topic] = max(self._known[topic], place.number + 1, count)
        refusals = []
        for location in locations:
            if location not in self._refusals:
                break
            refusals.append(self._refusals[location])
        problems = [*damage, *(refusal.problem for refusal in refusals)]
        if problems:
            text = "; ".join(problems)
            if all(refusal.damaged for refusal in refusals):
                instead = "no checkpoint of it is valid"
                if shown is not None:
                    instead = f"its checkpoint of offset {shown.header.offset:,} is shown"
                text = f"{instead}: {text}"
            self._problems[place] = text
        elif shown is not None and (vanished := self._vanished(place, shown.header)):
            self._problems[place] = vanished

    def _vanished(self, place: Place, header: Header) -> str | None:
        """What is wrong if less is shown than before, although the state did not start over."""
        generation, offset = self._highest[place]
        if (header.generation, header.offset) >= (generation, offset):
            return None
        return (
            f"its checkpoint of offset {offset:,} has been shown and is gone, so that of offset "
            f"{header.offset:,} is: were files of the store deleted, or an older copy restored"
        )


def _partition(place: Place) -> Partition:
    return Partition(place.topic, place.number)
