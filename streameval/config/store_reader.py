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

from streameval.checkpoints.format import Entry, Header, Shard, StoreIdentity
from streameval.checkpoints.restore import offsets_saved, resume
from streameval.checkpoints.store import Listing, Location, SavedCheckpoint, Store, skip_message
from streameval.config.config import Config, without_formats
from streameval.config.pipeline import new_ingest, with_saved_depth
from streameval.config.states import newest_identities, other_counting
from streameval.engine.analysis import UnreadPartitions
from streameval.engine.ingest import Ingest, IngestCopy
from streameval.engine.partition import Tally
from streameval.engine.snapshot import StoredPartition
from streameval.engine.stored_states import StoredStates
from streameval.events.errors import (
    DamagedStateError,
    StateVersionError,
    StreamevalError,
    UnlikeStateError,
)
from streameval.events.records import Partition
from streameval.events.saved_states import damage_as_error

_AT_ONCE: Final = 8
"""Checkpoints of a bucket that are read at once, and whose bytes are in memory."""


class _Loaded(NamedTuple):
    """A checkpoint whose counts are shown, and the digest of each of its parts."""

    location: Location
    header: Header
    digests: Mapping[str, str]


class _Refusal(NamedTuple):
    """Reason why a checkpoint is not shown.

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
        problem: why the store cannot be read, in a sentence; None if it was.
        store_identity: cluster and group of the store; None before it was read.
    """

    def __init__(self, store: Store, config: Config) -> None:
        self._store, self._base = store, config
        self._topics = {*config.source.logs}
        self.problem: str | None = None
        self.store_identity: StoreIdentity | None = None
        self._highest: dict[Shard, tuple[int, int]] = {}
        self._partition_counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._identities: dict[str, str] = {}
        self._refusals: dict[Location, _Refusal] = {}
        self._written: dict[Location, float] = {}
        self._problems: dict[Shard, str] = {}
        self._begin(config)

    def _begin(self, config: Config) -> None:
        """Hold nothing."""
        self.config = config
        self.ingest: Ingest = new_ingest(without_formats(config))
        self._states = StoredStates(self.ingest.layout)
        self._loaded: dict[Shard, _Loaded] = {}

    def refresh(self) -> None:
        """Read what has changed; what cannot be read stays as it was, and says so."""
        try:
            listing = self._store.listing()
            if self.store_identity is None or not listing.shards:
                # Raises an error for a store that is absent, or on a disk that is not mounted.
                self.store_identity = self._store.identity()
            self._read(listing)
        except StreamevalError as error:
            self.problem = str(error)
        else:
            self.problem = None

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
        for (topic, identity), count in sorted(self._partition_counts.items()):
            for number in range(count if self._identities.get(topic) == identity else 0):
                shard = Shard(topic, identity, number)
                loaded, problem = self._loaded.get(shard), self._problems.get(shard)
                if loaded is None:
                    problem = problem or "the store has no checkpoint of it"
                    stored.append(StoredPartition(topic=topic, partition=number, problem=problem))
                    continue
                header = loaded.header
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
        """Partitions of these that have no values."""
        missing = [entry for entry in stored if entry.offset is None]
        if not missing:
            return UnreadPartitions()
        return UnreadPartitions(len(missing), f"{missing[0].log}: {missing[0].problem}")

    def _read(self, listing: Listing) -> None:
        shards = self._current(listing)
        hidden = {
            shard
            for shard in self._loaded.keys() - listing.shards.keys()
            # Of a topic that was created again, damage hides only what has its present identity.
            if self._identities.get(shard.topic) == shard.identity and listing.damage(shard)
        }
        for shard in self._loaded.keys() - shards.keys() - hidden:
            self._drop(shard)
        locations_now = {location for locations in shards.values() for location in locations}
        self._refusals = {
            at: refusal for at, refusal in self._refusals.items() if at in locations_now
        }
        waiting = [*shards.items()]
        for begin in range(0, len(waiting), _AT_ONCE):
            some = waiting[begin : begin + _AT_ONCE]
            newest = self._store.gather(lambda item: self._newest(*item), some)
            headers = [read[1].header for read in newest if read is not None]
            if self._deepen(headers):
                self._read(listing)
                return
            for (_, locations), read in zip(some, newest, strict=True):
                self._show(locations, read)
        self._problems = {}
        for shard, locations in (*shards.items(), *((shard, ()) for shard in sorted(hidden))):
            self._note(shard, locations, listing.damage(shard))

    def _current(self, listing: Listing) -> dict[Shard, Sequence[Location]]:
        """The shards of the configured logs; of a topic that was recreated, those written last."""
        shards = {
            shard: locations
            for shard, locations in listing.shards.items()
            if not self._topics or shard.topic in self._topics
        }
        several = len({shard[:2] for shard in shards}) > len({shard.topic for shard in shards})
        self._identities |= newest_identities(
            (shard.topic, shard.identity, self._written_at(shard, locations) if several else 0.0)
            for shard, locations in shards.items()
        )
        current = {location for locations in shards.values() for location in locations}
        self._written = {at: when for at, when in self._written.items() if at in current}
        return {
            shard: locations
            for shard, locations in shards.items()
            if shard.identity == self._identities[shard.topic]
        }

    def _written_at(self, shard: Shard, locations: Sequence[Location]) -> float:
        """Time of the newest checkpoint of a shard that has a readable header."""
        if shard in self._loaded:
            return self._loaded[shard].header.written_at
        for location in locations:
            if location not in self._written:
                with suppress(DamagedStateError, StateVersionError, FileNotFoundError):
                    header = self._store.read(location, lambda _: False).header
                    self._written[location] = header.written_at
            if location in self._written:
                return self._written[location]
        return 0.0

    def _newest(
        self, shard: Shard, locations: Sequence[Location]
    ) -> tuple[Location, SavedCheckpoint] | None:
        """Read the parts that are needed of the newest valid checkpoint of a shard.

        None if none is newer than what is shown.
        """
        loaded = self._loaded.get(shard)
        for location in locations:
            if loaded is not None and location == loaded.location:
                return None
            # An older checkpoint counts where it is the newest, not where a newer one is damaged.
            is_newest = location == locations[0]
            if loaded is not None and not is_newest and location.order < loaded.location.order:
                return None
            if location not in self._refusals:
                try:
                    needs = partial(self._needs, shard)
                    saved = self._store.read_valid(location, needs)
                except DamagedStateError as error:
                    self._refusals[location] = _Refusal(skip_message(location, error), damaged=True)
                except StateVersionError as error:
                    self._refusals[location] = _Refusal(str(error).rstrip("."), damaged=False)
                except FileNotFoundError:
                    # Superseded since the listing, which is old where there is much to read. What
                    # is shown stays until the next look.
                    locations_now = self._store.listing().shards.get(shard, ())
                    return self._newest(shard, locations_now) if loaded is None else None
                else:
                    return location, saved
            if not self._refusals[location].damaged:
                return None
        return None

    def _needs(self, shard: Shard, entry: Entry) -> bool:
        """True if a part must be read."""
        return self._states.reads(entry.name) and not self._has(shard, entry)

    def _has(self, shard: Shard, entry: Entry) -> bool:
        """True if a part is loaded as it is saved."""
        loaded = self._loaded.get(shard)
        if loaded is None or loaded.digests.get(entry.name) != entry.digest:
            return False
        families = self.ingest.partitions[_partition(shard)].families.values()
        return any(entry.name in family.loaded for family in families)

    def _deepen(self, headers: Sequence[Header]) -> bool:
        """Begin again with the depth of a state that is deeper; returns whether one is."""
        for header in headers:
            config = self.config
            # Settings that nobody wrote are found damaged when the state is loaded.
            with suppress(DamagedStateError), damage_as_error(str(header.shard)):
                config = with_saved_depth(self._base, header.state.settings)
            if (config.counted_depth() or inf) > (self.config.counted_depth() or inf):
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
                self._refusals[location] = _Refusal(skip_message(location, error), damaged=True)
                read = self._newest(location.shard, locations)
                continue
            if problem is not None:
                self._refusals[location] = _Refusal(problem, damaged=False)
                self._drop(location.shard)
            return

    def _load(self, location: Location, saved: SavedCheckpoint) -> str | None:
        """Replace the counts of a partition by those of a checkpoint, or say why they differ.

        Raises:
            DamagedStateError: its content is damaged; nothing has changed.
        """
        shard = location.shard
        with damage_as_error(saved.path):
            difference = other_counting(self.config, saved.header)
        if difference is not None:
            return difference
        unchanged = [entry.name for entry in saved.entries if self._has(shard, entry)]
        try:
            resume(self.ingest, _partition(shard), saved, states=self._states, unchanged=unchanged)
        except UnlikeStateError as error:
            return str(error).rstrip(".")
        self._loaded[shard] = _Loaded(location, saved.header, saved.digests)
        order = saved.header.generation, saved.header.offset
        self._highest[shard] = max(order, self._highest.get(shard, order))
        return None

    def _drop(self, shard: Shard) -> None:
        if self._loaded.pop(shard, None) is not None:
            self.ingest.drop(_partition(shard))

    def _note(self, shard: Shard, locations: Sequence[Location], damage: Sequence[str]) -> None:
        """Note why a shard does not show its newest checkpoint, and the partitions of its topic.

        A partition whose checkpoints vanish later stays known.
        """
        loaded = self._loaded.get(shard)
        count = 0 if loaded is None else loaded.header.partitions or 0
        topic = shard.topic, shard.identity
        self._partition_counts[topic] = max(self._partition_counts[topic], shard.number + 1, count)
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
                if loaded is not None:
                    instead = f"its checkpoint of offset {loaded.header.offset:,} is shown"
                text = f"{instead}: {text}"
            self._problems[shard] = text
        elif loaded is not None and (loss := self._describe_loss(shard, loaded.header)):
            self._problems[shard] = loss

    def _describe_loss(self, shard: Shard, header: Header) -> str | None:
        """Describe a loss: fewer values than before, although the state did not start over."""
        generation, offset = self._highest[shard]
        if (header.generation, header.offset) >= (generation, offset):
            return None
        return (
            f"its checkpoint of offset {offset:,} has been shown and is gone, so that of offset "
            f"{header.offset:,} is: were files of the store deleted, or an older copy restored"
        )


def _partition(shard: Shard) -> Partition:
    return Partition(shard.topic, shard.number)
