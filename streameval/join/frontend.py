"""The frontend of a join: groups and checks copartitioned logs, decodes and joins them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import add
from typing import Any, TypeAlias

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded, voters_of
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.framing import BatchDecoder, with_invalid
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.dead_letters import decode_valid
from streameval.engine.ingest import RECORDS_AT_ONCE
from streameval.engine.partition import Applied, EventCounter, Layout
from streameval.engine.snapshot import JoinHealth, LogClock, StreamHealth
from streameval.engine.windows.times import SECOND
from streameval.events.errors import RefusedRecordsError, UnevenStreamsError
from streameval.events.previews import preview
from streameval.events.records import (
    Assignment,
    Partition,
    PartitionOwner,
    RecordBatch,
    group_batches,
)
from streameval.join.attribution import (
    OUTCOMES,
    AttributionOptions,
    InteractionOptions,
    OutcomeCounts,
)
from streameval.join.interactions import InteractionColumns, InteractionDecoder
from streameval.join.logs import Log
from streameval.join.state import DecodedStream, JoinedState

Framed: TypeAlias = Callable[[BatchDecoder[Any], InteractionOptions | None], BatchDecoder[Any]]
"""Wraps the decoder of a stream for its format; None: of impressions."""


class JoinFrontend:
    """Joins the logs of all streams that have the same partition number.

    `dimensions`: labels and segments. `users`: whether metrics need users.
    """

    def __init__(
        self,
        options: AttributionOptions,
        event: EventFields,
        dimensions: Sequence[str],
        layout: Layout,
        *,
        users: bool = False,
        framed: Framed = lambda decoder, _: decoder,
    ) -> None:
        self.layout = layout
        self.rules = options.rules(dimensions, users=users)
        impressions = Decoder(options.fields(event), dimensions, search=None)
        self._impressions: BatchDecoder[Decoded] = framed(impressions, None)
        self._interactions: list[BatchDecoder[InteractionColumns]] = [
            framed(InteractionDecoder(interaction, event, options.key), interaction)
            for interaction in options.interactions
        ]
        self._topic = options.names[0]
        self._by_user = self.rules.key == "user_item"
        streams = enumerate(options.streams)
        self._stream = {name: number for number, names in streams for name in names}

    def partition_of(self, log: Partition) -> Partition:
        """The partition of the first impressions topic with the number of the log."""
        return Partition(self._topic, log.number)

    def decode(self, batch: RecordBatch) -> DecodedStream:
        """Decode impressions or interactions."""
        stream = self._stream[batch.partition.topic]
        if stream:
            clicks = self._interactions[stream - 1].decode_many(batch.values)
            users = clicks.keys if self._by_user else None
            voters = voters_of(clicks.indices, batch.keys, users)
            return msgspec.structs.replace(clicks, voters=voters)
        voting = self._impressions.decode_many(batch.values).voting(batch.keys)
        return _with_users(voting) if self._by_user else voting

    def groups(self, batches: Iterable[RecordBatch]) -> Iterator[Sequence[RecordBatch]]:
        """See `Frontend`; one batch per group, because its lists are counted when they close."""
        return chain.from_iterable(group_batches([batch], RECORDS_AT_ONCE) for batch in batches)

    def apply(
        self, _: EventCounter, states: Sequence[JoinedState], batches: Sequence[RecordBatch]
    ) -> list[Applied]:
        """See `Frontend`."""
        pairs = zip(states, batches, strict=True)
        return [state.apply(batch, decode_valid(self.decode, batch)) for state, batch in pairs]

    def state(self, offsets: Mapping[Partition, int], counter: EventCounter) -> JoinedState:
        """An empty state; its logs are sorted by stream and name."""
        logs = [
            Log(partition, self._stream[partition.topic], offset)
            for partition, offset in offsets.items()
        ]
        missing = sorted(set(self._stream.values()) - {log.stream for log in logs})
        if missing:
            names = [next(n for n, at in self._stream.items() if at == log) for log in missing]
            raise uneven_streams(logs[0].partition.number, {}, names)
        ordered = sorted(logs, key=lambda log: (log.stream, log.partition))
        return JoinedState(counter, self.rules, ordered)


def _with_users(decoded: Decoded) -> Decoded:
    """The lists with a user; the others are invalid."""
    users = decoded.batch.users or [None] * len(decoded.indices)
    missing = [row for row, user in enumerate(users) if user is None]
    if not missing:
        return decoded
    reason = InvalidEvent("missing_field", "the user is absent or empty, and the join needs it")
    with_user = decoded.take(np.delete(np.arange(len(users)), missing))
    joined: Decoded = with_invalid(with_user, {decoded.indices[row]: reason for row in missing})
    return joined


class CopartitionedOwner:
    """Wraps the owner of a source: logs with the same partition number are assigned as one.

    `inspect`: called before the first assignment; may raise.
    """

    def __init__(
        self,
        owner: PartitionOwner,
        partition_of: Callable[[Partition], Partition],
        topics: Sequence[str],
        inspect: Callable[[], None] = lambda: None,
    ) -> None:
        self._inspect = inspect
        self._inspected = False
        self._owner = owner
        self._partition_of = partition_of
        self._topics = topics

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """See `PartitionOwner.assigned`."""
        groups: dict[Partition, list[Assignment]] = {}
        for assignment in assignments:
            groups.setdefault(self._partition_of(assignment.partition), []).append(assignment)
        joined = [self._group(partition, logs) for partition, logs in sorted(groups.items())]
        if joined and not self._inspected:
            self._inspect()
            self._inspected = True
        return self._owner.assigned(joined)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """See `PartitionOwner.revoked`."""
        self._owner.revoked(self._partitions(partitions))

    def lost(self, partitions: Sequence[Partition]) -> None:
        """See `PartitionOwner.lost`."""
        self._owner.lost(self._partitions(partitions))

    def _partitions(self, partitions: Sequence[Partition]) -> list[Partition]:
        return sorted({self._partition_of(partition) for partition in partitions})

    def _group(self, partition: Partition, logs: Sequence[Assignment]) -> Assignment:
        ordered = sorted(logs, key=lambda log: self._topics.index(log.partition.topic))
        counts = {log.partition.topic: log.partitions for log in ordered}
        missing = [topic for topic in self._topics if topic not in counts]
        if missing or len(set(counts.values())) > 1:
            raise uneven_streams(partition.number, counts, missing)
        return Assignment(
            partition=partition,
            identity=".".join(log.identity for log in ordered),
            begin=sum(log.begin for log in ordered),
            end=sum(log.end for log in ordered),
            start=sum(log.start for log in ordered),
            partitions=ordered[0].partitions,
            members=tuple(ordered),
        )


def uneven_streams(
    number: int, counts: Mapping[str, int | None], missing: Sequence[str]
) -> UnevenStreamsError:
    """The error for a partition that topics lack, or topics with unlike numbers of partitions."""
    difference = f"partition {number} of {', '.join(missing)} was not assigned with it"
    if not missing:
        counted = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
        difference = f"their partition counts differ: {counted}"
    return UnevenStreamsError(
        f"[attribution] joins partition {number} of all its topics, but {difference}. Give all "
        "topics the same number of partitions, write records of one key to the same one (request "
        "id or user as the record's key, the same partitioner), and use the range assignor.",
        number=number,
        counts=counts,
        missing=missing,
    )


def check_copartitioned(frontend: JoinFrontend, sample: Iterable[RecordBatch]) -> None:
    """Raise RefusedRecordsError if a key of a sample is in partitions with different numbers."""
    numbers_of: dict[str, dict[str, int]] = {}
    by_user = frontend.rules.key == "user_item"
    for batch in sample:
        # Counting reports records that cannot be decoded.
        for key in _keys(decode_valid(frontend.decode, batch), by_user=by_user):
            numbers = numbers_of.setdefault(key, {})
            numbers.setdefault(batch.partition.topic, batch.partition.number)
            if set(numbers.values()) != {batch.partition.number}:
                numbers[batch.partition.topic] = batch.partition.number
                locations = (f"partition {number} of {topic}" for topic, number in numbers.items())
                raise RefusedRecordsError(
                    f"the key {preview(key)} is in {' and '.join(locations)}, so its records are "
                    "never joined. Write all topics with the join key (request id or user) as the "
                    "record's key and with the same partitioner (murmur2 in Java and kafka-python; "
                    "partitioner=murmur2_random in librdkafka), then start over."
                )


def _keys(content: DecodedStream, *, by_user: bool) -> Iterable[str]:
    if isinstance(content, InteractionColumns):
        return content.keys
    keys = content.batch.users if by_user else content.event_ids
    return [str(key) for key in keys or () if key is not None]


class JoinStats:
    """The outcomes of all joins since the process started, including partitions that left."""

    def __init__(self, names: Sequence[str], *, by_request: bool) -> None:
        self._names = names
        self._by_request = by_request
        self._past = [OutcomeCounts() for _ in names]
        self._past_unlisted = [0 for _ in names]
        self._past_unnamed: list[dict[str, int]] = [{} for _ in names]
        self._idle_timeouts = 0
        self._current: dict[Partition, JoinedState] = {}

    def health(self, states: Mapping[Partition, object]) -> JoinHealth:
        """The health of the join, given the current states."""
        joins = {
            partition: state
            for partition, state in states.items()
            if isinstance(state, JoinedState)
        }
        for partition, state in self._current.items():
            if joins.get(partition) is not state:
                self._past = _sums(self._past, state.done())
                self._past_unlisted = [*map(add, self._past_unlisted, state.joiner.unlisted)]
                self._past_unnamed = _merged(self._past_unnamed, state.joiner.unnamed_types)
                self._idle_timeouts += state.idle_timeouts
        self._current, totals, unnamed = joins, self._past, self._past_unnamed
        for state in joins.values():
            totals = _sums(totals, state.done())
            unnamed = _merged(unnamed, state.joiner.unnamed_types)
        streams = [
            StreamHealth(
                name=name,
                outcomes={outcome: getattr(total, outcome) for outcome in OUTCOMES},
                open=sum(state.outcomes[number].open for state in joins.values()),
                outside=total.outside,
                unlisted=self._past_unlisted[number]
                + sum(state.joiner.unlisted[number] for state in joins.values()),
                unnamed_types=unnamed[number],
            )
            for number, (name, total) in enumerate(zip(self._names, totals, strict=True))
        ]
        return JoinHealth(
            streams=tuple(streams),
            bytes=sum(state.joiner.size for state in joins.values()),
            clocks=[
                LogClock(topic=log.topic, partition=log.number, event_time=at / SECOND)
                for log, at in sorted(
                    clock for state in joins.values() for clock in state.logs.clocks.items()
                )
            ],
            idle_timeouts=self._idle_timeouts
            + sum(state.idle_timeouts for state in joins.values()),
            by_request=self._by_request,
        )


def _sums(left: Sequence[OutcomeCounts], right: Sequence[OutcomeCounts]) -> list[OutcomeCounts]:
    return [total.plus(other) for total, other in zip(left, right, strict=True)]


def _merged(
    left: Sequence[Mapping[str, int]], right: Sequence[Mapping[str, int]]
) -> list[dict[str, int]]:
    """The numbers by type of both, of each stream."""
    pairs = zip(left, right, strict=True)
    return [dict(Counter(total) + Counter(other)) for total, other in pairs]
