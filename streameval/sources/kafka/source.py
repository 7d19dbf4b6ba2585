"""Kafka topics as a source, read as a member of a consumer group."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError

from streameval.errors import SourceError, UnevenStreamsError
from streameval.events.records import Owner, Partition, RecordBatch
from streameval.sources.kafka.client import (
    SETTINGS_ERRORS,
    permanent_error,
    settings_error,
    silence_client_log,
)
from streameval.sources.kafka.cluster import start_offsets
from streameval.sources.kafka.connections import failure_of
from streameval.sources.kafka.member import GroupMember, consumer_factory
from streameval.sources.kafka.settings import client_of, group_config, source_topics
from streameval.sources.kafka.watchdog import ClusterMonitor, Stall, Watchdog
from streameval.sources.options import KafkaOptions, start_spec
from streameval.sources.secrets import redact
from streameval.sources.source import Positions

T = TypeVar("T")

_POLL_INTERVAL_MS: Final = 300_000
"""Default of the client."""

_BUDGET_SHARE: Final = 0.2

_JOIN_SECONDS: Final = 10.0
"""Seconds after which joining the group counts as trouble; usually it takes at most 3."""

_LOG: Final = logging.getLogger("streameval.sources.kafka")


class KafkaSource:
    """The partitions of topics that a consumer group assigns to this process.

    Only committed records are delivered. An empty batch moves the position over offsets without
    records (compaction, aborted transactions). Added partitions and created topics are found within
    seconds. If a partition stalls although the broker answers and records wait, the source first
    seeks again, then rejoins the group, then fails.

    `shared`: whether to share the partitions with other members of the group; otherwise the source
    reads all of them in a separate group.

    Attributes:
        recoveries: remedy of the watchdog ("seek", "rejoin") -> how often it was applied.
    """

    # A topic has no end.
    ended: Collection[Partition] = ()
    finished = False

    def __init__(
        self,
        options: KafkaOptions,
        environment: Mapping[str, str],
        *,
        shared: bool,
    ) -> None:
        self._topics = source_topics(options)
        self._config = group_config(options, environment, shared=shared)
        self._client = client_of(options)
        self._subscribe = consumer_factory(options, environment, self._config)
        self._start, self._shared = start_spec(options.start), shared
        self._timeout = options.stall_timeout
        self._monitor = ClusterMonitor(self._topics, self._config)
        self._watchdog = Watchdog(self._timeout, time.monotonic)
        self._owner: Owner = Positions()
        self._member: GroupMember | None = None
        self._fenced: KafkaError | None = None
        self._retrying: str | None = None
        self._joining_since = math.inf
        self.name = ", ".join(self._topics)
        self.joined = False
        self.recoveries = {"seek": 0, "rejoin": 0}

    @property
    def cluster(self) -> str:
        """The id of the cluster."""
        return self._monitor.cluster

    @property
    def connection_failures(self) -> Mapping[str, int]:
        """Number of failed connections since `open`, by reason."""
        return dict(self._monitor.failures)

    @property
    def budget(self) -> float:
        """Seconds within which revoked partitions should be finished."""
        interval: int = self._config.get("max_poll_interval_ms", _POLL_INTERVAL_MS)
        return _BUDGET_SHARE * interval / 1000

    @property
    def trouble(self) -> str | None:
        """Why records cannot be read at the moment, or not all of them; else None."""
        return self._monitor.trouble or self._retrying or self._waiting

    @property
    def _waiting(self) -> str | None:
        """Why joining the group takes long, although the broker answers; else None."""
        if self.joined or time.monotonic() - self._joining_since < _JOIN_SECONDS:
            return None
        return (
            f"waiting to join group {self._config['group_id']!r}: Kafka first waits for its other "
            "members, and for a member that was killed until session_timeout_ms (45 s) has passed."
        )

    def open(self, owner: Owner) -> None:
        """Start to connect; `poll` joins the group."""
        self.close()
        silence_client_log()
        _LOG.info(
            "reading Kafka topics %s by %s with %s", self.name, self._client, redact(self._config)
        )
        self._owner = owner
        self._fenced, self._retrying, self.joined = None, None, False
        self._joining_since = math.inf
        self._watchdog = Watchdog(self._timeout, time.monotonic)
        self._monitor = ClusterMonitor(self._topics, self._config)
        self._monitor.start()

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Call the owner for rebalances; then return records, and batches that skip gaps.

        Must be called at least every max_poll_interval_ms; otherwise the group reassigns the
        partitions.

        Raises:
            SourceError: reading starts outside a log, or retention has overtaken it and partitions
                are not shared; a topic was recreated; a record is corrupt; another process uses
                our member name; a partition is stalled after all remedies; the client rejects its
                settings.
            StreamevalError: an error of the owner.
        """
        self._monitor.wait_for_partitions(seconds)
        if self._monitor.failure is not None:
            raise self._monitor.failure
        if not self._monitor.ready:
            return []
        batches = self._attempt(lambda: self._read(seconds), seconds) or []
        member = self._member
        if member is None:
            return []
        member.dispatch()
        batches += self._start_assigned(member, seconds)
        self._check_for_stalls(member)
        # After a rejoin the owner has given up the partitions, and reads these records again.
        return batches if self._member is member else []

    def commit(self, positions: Mapping[Partition, int], *, wait: bool = True) -> str | None:
        """Commit to the group, for assigned partitions only; takes a second at most."""
        if self._member is None:
            return f"nothing was committed to group {self._config['group_id']!r}: not joined."
        try:
            return self._member.commit(positions, wait=wait)
        except KafkaError as error:
            # A commit only reports the error; the next `poll` raises it.
            self._fenced = error
            return f"Kafka refused the commit: {type(error).__name__}."

    def pause(self, partitions: Collection[Partition]) -> None:
        """Pause these partitions until the next call; they stay assigned."""
        if self._member is not None:
            self._member.pause(partitions)

    def end_offsets(self) -> Mapping[Partition, int]:
        """The offset after the last committed record of each partition, at most a second old."""
        return self._monitor.ends

    def close(self) -> None:
        """Leave the group, unless a static member, and close the connections.

        The owner is not called; it must have finished before. May be called twice.
        """
        self._monitor.stop()
        self._leave()

    def _read(self, seconds: float) -> list[RecordBatch]:
        if self._fenced is not None:
            raise self._fenced
        if self._member is None:
            self._member, self._joining_since = self._join_group(), time.monotonic()
        try:
            return self._member.read(seconds)
        except (OffsetOutOfRangeError, LogTruncationError):
            if not self._shared:
                raise
            self._member.reassign()
            return []

    def _join_group(self) -> GroupMember:
        return GroupMember(
            self._topics,
            self._subscribe,
            config=self._config,
            start=self._start,
            monitor=self._monitor,
            owner=self._owner,
        )

    def _leave(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            member.close()

    def _start_assigned(self, member: GroupMember, seconds: float) -> list[RecordBatch]:
        """Hand new partitions to the owner, once the cluster has answered with their offsets."""
        if member.unstarted is None:
            return []
        assignments = self._attempt(member.assignments, seconds)
        if assignments is None:
            return []
        try:
            starts = start_offsets(self._owner, assignments)
        except UnevenStreamsError:
            missing = self._attempt(member.missing_topics, seconds)
            if missing is not None and not missing:
                raise
            if missing:
                # `trouble` names them; the group assigns again once they are created.
                member.start({})
            return []
        self.joined = True
        return member.start(starts)

    def _check_for_stalls(self, member: GroupMember) -> None:
        monitor = self._monitor
        reading = {p: at for p, at in member.positions.items() if p not in member.paused}
        stall = self._watchdog.check(reading, monitor.ends, answers=monitor.answers)
        if stall is not None:
            self._recover(member, stall)

    def _recover(self, member: GroupMember, stall: Stall) -> None:
        where = ", ".join(f"{p} at {offset}" for p, offset in sorted(stall.positions.items()))
        if stall.remedy == "give up":
            problem = f"no progress for {self._timeout:g} s at {where}, although records wait"
            remedy = "check the broker's log, then restart; seeking and rejoining did not help"
            raise SourceError("kafka", problem, remedy)
        self.recoveries[stall.remedy] += 1
        _LOG.warning("no records from Kafka after %s; trying: %s", where, stall.remedy)
        if stall.remedy == "seek":
            member.seek(stall.positions)
            return
        self._owner.revoked(sorted(member.positions))
        self._leave()

    def _attempt(self, request: Callable[[], T], seconds: float) -> T | None:
        """The result of a request; None after a temporary error, which `trouble` describes."""
        try:
            answer = request()
        except SETTINGS_ERRORS as error:
            raise settings_error(error, self._config) from error
        except (KafkaError, OSError) as error:
            permanent = permanent_error(error)
            if permanent is not None:
                raise permanent from error
            self._retrying = f"{failure_of(error, self._config)}; still trying."
            self._monitor.sleep(seconds)
            return None
        self._retrying = None
        return answer
