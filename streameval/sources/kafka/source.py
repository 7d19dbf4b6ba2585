"""Topics of a Kafka cluster as a source, read as a member of a consumer group."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError

from streameval.errors import SourceError
from streameval.events.records import Owner, Partition, RecordBatch
from streameval.sources.kafka.client import (
    UNUSABLE,
    permanent,
    silence_client_log,
    unusable,
)
from streameval.sources.kafka.cluster import start_offsets
from streameval.sources.kafka.connections import failure_of
from streameval.sources.kafka.member import GroupMember, subscribing
from streameval.sources.kafka.settings import client_of, group_config, source_topics
from streameval.sources.kafka.watchdog import ClusterMonitor, Stall, Watchdog
from streameval.sources.options import KafkaOptions, start_spec
from streameval.sources.secrets import redacted
from streameval.sources.source import Positions

T = TypeVar("T")

_POLL_INTERVAL_MS: Final = 300_000
"""Of the client, where nothing else is configured."""

_BUDGET_SHARE: Final = 0.2

_LOG: Final = logging.getLogger("streameval.sources.kafka")


class KafkaSource:
    """The partitions of some topics that a consumer group assigns to this process.

    Only committed records are delivered. Where records are missing from the log (compaction,
    aborted transactions), a batch without values moves the position over them. Partitions that
    are added, and topics that are created, are found within seconds. Where a partition does not
    advance although the broker answers and there is more, the source seeks once more, then joins
    the group once more, then fails.

    `shared`: whether to share the partitions with the other members of the group; otherwise the
    source reads all of them, in a group of its own.

    Attributes:
        recoveries: how often the watchdog did what: "seek" and "rejoin".
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
        self._subscribe = subscribing(options, environment, self._config)
        self._start, self._shared = start_spec(options.start), shared
        self._timeout = options.stall_timeout
        self._monitor = ClusterMonitor(self._topics, self._config)
        self._watchdog = Watchdog(self._timeout, time.monotonic)
        self._owner: Owner = Positions()
        self._member: GroupMember | None = None
        self._fenced: KafkaError | None = None
        self._retrying: str | None = None
        self.name = ", ".join(self._topics)
        self.joined = False
        self.recoveries = {"seek": 0, "rejoin": 0}

    @property
    def cluster(self) -> str:
        """The id of the cluster."""
        return self._monitor.cluster

    @property
    def connection_failures(self) -> Mapping[str, int]:
        """How often the cluster could not be asked since `open`, by reason."""
        return dict(self._monitor.failures)

    @property
    def budget(self) -> float:
        """Seconds within which revoked partitions should be finished."""
        longest: int = self._config.get("max_poll_interval_ms", _POLL_INTERVAL_MS)
        return _BUDGET_SHARE * longest / 1000

    @property
    def trouble(self) -> str | None:
        """Why nothing, or not everything, can be read at the moment."""
        return self._monitor.trouble or self._retrying

    def open(self, owner: Owner) -> None:
        """Look for the cluster; `poll` joins the group."""
        self.close()
        silence_client_log()
        _LOG.info(
            "reading Kafka topics %s by %s with %s", self.name, self._client, redacted(self._config)
        )
        self._owner = owner
        self._fenced, self._retrying, self.joined = None, None, False
        self._watchdog = Watchdog(self._timeout, time.monotonic)
        self._monitor = ClusterMonitor(self._topics, self._config)
        self._monitor.start()

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Tell the owner about rebalances; then records, and batches that skip a gap.

        Must be called at least every max_poll_interval_ms, or the partitions go to others.

        Raises:
            SourceError: reading starts outside a log, or retention has overtaken it where nobody
                shares the partitions; a topic was created anew; a record is corrupt; another
                process uses our member name; a partition does not advance after all remedies;
                the client refuses its settings.
            StreamevalError: an error of the owner.
        """
        self._monitor.wait_for_partitions(seconds)
        if self._monitor.failure is not None:
            raise self._monitor.failure
        if not self._monitor.looked:
            return []
        batches = self._attempt(lambda: self._read(seconds), seconds) or []
        member = self._member
        if member is None:
            return []
        member.tell()
        batches += self._start_assigned(member, seconds)
        self._look_for_stalls(member)
        return batches

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """Tell the group, a second at most; only for partitions that are ours."""
        if self._member is None:
            return f"nothing was committed to group {self._config['group_id']!r}: not joined."
        try:
            return self._member.commit(positions)
        except KafkaError as error:
            # The next `poll` fails; a commit only reports it.
            self._fenced = error
            return f"Kafka refused the commit: {type(error).__name__}."

    def pause(self, partitions: Collection[Partition]) -> None:
        """Pause these until the next call; they stay assigned to us."""
        if self._member is not None:
            self._member.pause(partitions)

    def end_offsets(self) -> Mapping[Partition, int]:
        """The offset after the last committed record of each partition, at most a second old."""
        return self._monitor.ends

    def close(self) -> None:
        """Leave the group, if not a static member, and close the connections.

        The owner is not called: its work is finished before. May be called twice.
        """
        self._monitor.stop()
        self._leave()

    def _read(self, seconds: float) -> list[RecordBatch]:
        if self._fenced is not None:
            raise self._fenced
        if self._member is None:
            self._member = self._joined_group()
        try:
            return self._member.read(seconds)
        except (OffsetOutOfRangeError, LogTruncationError):
            if not self._shared:
                raise
            self._member.hand_over_again()
            return []

    def _joined_group(self) -> GroupMember:
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
        """Hand new partitions to the owner, as soon as the cluster says where they stand."""
        if member.held is None:
            return []
        given = self._attempt(member.assignments, seconds)
        if given is None:
            return []
        batches = member.start(start_offsets(self._owner, given))
        self.joined = True
        return batches

    def _look_for_stalls(self, member: GroupMember) -> None:
        monitor = self._monitor
        reading = {p: at for p, at in member.positions.items() if p not in member.paused}
        stall = self._watchdog.look(reading, monitor.ends, answers=monitor.answers)
        if stall is not None:
            self._recover(member, stall)

    def _recover(self, member: GroupMember, stall: Stall) -> None:
        where = ", ".join(f"{p} at {offset}" for p, offset in sorted(stall.positions.items()))
        if stall.remedy == "give up":
            problem = f"{self._timeout:g} s without progress at {where}, though there is more"
            remedy = "look into the broker's log, and start anew; seeking and joining did not help"
            raise SourceError("kafka", problem, remedy)
        self.recoveries[stall.remedy] += 1
        _LOG.warning("no records from Kafka after %s; trying: %s", where, stall.remedy)
        if stall.remedy == "seek":
            member.seek(stall.positions)
            return
        self._owner.revoked(sorted(member.positions))
        self._leave()

    def _attempt(self, request: Callable[[], T], seconds: float) -> T | None:
        """The result of the request; None after a temporary error, which `trouble` describes."""
        try:
            answer = request()
        except UNUSABLE as error:
            raise unusable(error, self._config) from error
        except (KafkaError, OSError) as error:
            lasting = permanent(error)
            if lasting is not None:
                raise lasting from error
            self._retrying = f"{failure_of(error, self._config)}; still trying."
            self._monitor.sleep(seconds)
            return None
        self._retrying = None
        return answer
