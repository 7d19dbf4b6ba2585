"""Topics of a Kafka cluster as a source: the partitions that a consumer group gives us."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from kafka.errors import KafkaError

from streameval.errors import SourceError
from streameval.records import Owner, Partition, RecordBatch
from streameval.sources.kafka_assignments import places
from streameval.sources.kafka_base import KafkaBase
from streameval.sources.kafka_listener import Happening
from streameval.sources.kafka_member import KafkaMember
from streameval.sources.kafka_settings import group_config, source_topics
from streameval.sources.kafka_start import start_spec
from streameval.sources.options import KafkaOptions
from streameval.sources.owning import Positions
from streameval.sources.stalling import Stall, StallWatch

_POLL_INTERVAL_MS: Final = 300_000
"""Of the client, where nothing else is configured."""

_BUDGET_SHARE: Final = 0.2

_LOG: Final = logging.getLogger("streameval.sources.kafka")


class KafkaGroupSource:
    """Our share of the partitions of some topics, as a member of a consumer group.

    Delivers as KafkaSource does. Partitions come and go; those that are added to a topic, and
    topics that are made, are found within seconds. Where a partition stands although
    the broker answers and there is more, it is sought anew, then the group is joined anew, then
    it is an error.

    Args:
        options: the topics, the group, where to begin, and settings of the client.
        environment: what ${NAME} in the settings refers to.
        clock: seconds that only grow, for noticing that nothing moves.

    Attributes:
        recoveries: how often reading was begun anew: "seek" and "rejoin".

    Raises:
        ConfigError: a setting is unknown or not a user's to set, or `start` is no such thing.
        SourceError: no topic is named.
    """

    def __init__(
        self,
        options: KafkaOptions,
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base = KafkaBase(
            source_topics(options), group_config(options, environment), start_spec(options.start)
        )
        self._timeout, self._clock = options.stall_timeout, clock
        self._stalls = StallWatch(self._timeout, clock)
        self._owner: Owner = Positions()
        self._member: KafkaMember | None = None
        self._fenced: KafkaError | None = None
        self.recoveries = {"seek": 0, "rejoin": 0}
        self._joined = False

    @property
    def joined(self) -> bool:
        """Whether the group has given us our share once, be it nothing."""
        return self._joined

    @property
    def name(self) -> str:
        """The topics."""
        return self._base.name

    @property
    def cluster(self) -> str:
        """The id of the cluster."""
        return self._base.watch.cluster

    @property
    def budget(self) -> float:
        """Seconds in which partitions that are taken away should be finished."""
        longest: int = self._base.config.get("max_poll_interval_ms", _POLL_INTERVAL_MS)
        return _BUDGET_SHARE * longest / 1000

    @property
    def ended(self) -> Collection[Partition]:
        """None: a topic has no end."""
        return ()

    @property
    def finished(self) -> bool:
        """Never: a topic has no end."""
        return False

    @property
    def trouble(self) -> str | None:
        """Why nothing, or not everything, can be read at the moment."""
        return self._base.trouble

    def open(self, owner: Owner) -> None:
        """Begin to look for the cluster; `poll` joins the group."""
        self.close()
        self._owner = owner
        self._stalls = StallWatch(self._timeout, self._clock)
        self._fenced, self._joined = None, False
        self._base.begin()

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Tell the owner what has happened in the group; then records, as of KafkaSource.

        Must be called at least every max_poll_interval_ms, or the partitions go to others.

        Raises:
            SourceError: reading begins outside a log, or retention has overtaken it; a topic was
                made again; a record is corrupt; another process has our name; nothing moves,
                whatever was tried; the client refuses its settings.
            StreamevalError: whatever the owner raises.
        """
        self._base.watch.await_found(seconds)
        self._base.require_sound()
        if not self._base.watch.looked:
            return []
        member, batches = self._member, []
        with self._base.guard(seconds):
            if self._fenced is not None:
                raise self._fenced
            member = self._member = member or KafkaMember(self._base)
            batches = member.read(seconds)
        if member is None:
            return []
        for happening in member.happenings():
            self._happen(member, happening)
        batches += self._begin(member, seconds)
        self._look_for_stalls(member)
        return batches

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """Tell the group, a second at most; only for partitions that are ours."""
        if self._member is None:
            return f"nothing was committed to group {self._base.config['group_id']!r}: not joined."
        try:
            return self._member.commit(positions)
        except KafkaError as error:
            # It is the next `poll` that ends: a commit only tells.
            self._fenced = error
            return f"Kafka refused the commit: {type(error).__name__}."

    def pause(self, partitions: Collection[Partition]) -> None:
        """Leave these alone until told otherwise; the group keeps them ours."""
        if self._member is not None:
            self._member.hold(partitions)

    def end_offsets(self) -> Mapping[Partition, int]:
        """The offset after the last committed record of each partition, at most a second old."""
        return self._base.watch.ends

    def close(self) -> None:
        """Leave the group, if not a static member, and let go of the connections.

        The owner is not called: whoever closes has finished before. May be called twice.
        """
        self._base.watch.end()
        self._leave()

    def _leave(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            member.close()

    def _happen(self, member: KafkaMember, happening: Happening) -> None:
        """An owner's error leaves everything as it was: the next `poll` tells it again."""
        mine = [each for each in happening.partitions if each in member.positions]
        if happening.what == "assigned":
            member.wait(happening.partitions)
            return
        if mine:
            tell = self._owner.revoked if happening.what == "revoked" else self._owner.lost
            tell(mine)
        member.give_up(happening.partitions)

    def _begin(self, member: KafkaMember, seconds: float) -> list[RecordBatch]:
        """Hand over what waits, as soon as the cluster tells what it is."""
        given = None
        with self._base.guard(seconds):
            given = member.described()
        if given is None:
            return []
        batches = member.begin(places(self._owner, given))
        self._joined = True
        return batches

    def _look_for_stalls(self, member: KafkaMember) -> None:
        watch = self._base.watch
        reading = {p: at for p, at in member.positions.items() if p not in member.held}
        stall = self._stalls.look(reading, watch.ends, answers=watch.answers)
        if stall is not None:
            self._recover(member, stall)

    def _recover(self, member: KafkaMember, stall: Stall) -> None:
        where = ", ".join(f"{p} at {offset}" for p, offset in sorted(stall.positions.items()))
        if stall.remedy == "give up":
            problem = f"{self._timeout:g} s without progress at {where}, though there is more"
            remedy = "look into the broker's log, and start anew; seeking and joining did not help"
            raise SourceError("kafka", problem, remedy)
        self.recoveries[stall.remedy] += 1
        _LOG.warning("nothing comes from Kafka after %s; trying: %s", where, stall.remedy)
        if stall.remedy == "seek":
            member.seek(stall.positions)
            return
        self._owner.revoked(sorted(member.positions))
        self._leave()
