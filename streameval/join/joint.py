"""The first stage of a pipeline that joins streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from streameval.decoding.decode import Decoded
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.partition import Layout
from streameval.errors import UnevenStreamsError
from streameval.events.records import Partition, RecordBatch
from streameval.join.interactions import InteractionColumns
from streameval.join.joiner import Trace
from streameval.join.logs import Log
from streameval.join.rules import Rules
from streameval.join.state import Content, JoinedState


class Joint:
    """Joins the logs of equal number of all streams, and counts them as one."""

    def __init__(
        self,
        impressions: BatchDecoder[Decoded],
        interactions: Sequence[BatchDecoder[InteractionColumns]],
        streams: Sequence[Sequence[str]],
        rules: Rules,
        layout: Layout,
    ) -> None:
        self.layout = layout
        self.rules = rules
        self._impressions = impressions
        self._interactions = interactions
        self._home = streams[0][0]
        self._stream = {name: number for number, names in enumerate(streams) for name in names}

    def home(self, partition: Partition) -> Partition:
        """The partition of that number of the first topic of impressions."""
        return Partition(self._home, partition.number)

    def decode(self, batch: RecordBatch) -> Content:
        """The impressions or the interactions in it."""
        stream = self._stream[batch.partition.topic]
        if stream:
            return self._interactions[stream - 1].decode_many(batch.values)
        decoded = self._impressions.decode_many(batch.values)
        return _with_users(decoded) if self.rules.key == "user_item" else decoded

    def state(
        self,
        offsets: Mapping[Partition, int],
        sink: Callable[[Decoded], object] | None = None,
        trace: Trace | None = None,
    ) -> JoinedState:
        """One that has counted nothing; the logs in the order of their streams and names.

        `sink`: handed the events that are complete; None counts them.

        Raises:
            UnevenStreamsError: a stream has no log among them.
        """
        logs = [
            Log(partition, self._stream[partition.topic], offset)
            for partition, offset in offsets.items()
        ]
        missing = sorted(set(self._stream.values()) - {log.stream for log in logs})
        if missing:
            names = [next(n for n, at in self._stream.items() if at == each) for each in missing]
            raise UnevenStreamsError(logs[0].partition.number, {}, names)
        ordered = sorted(logs, key=lambda log: (log.stream, log.partition))
        return JoinedState(self.layout, self.rules, ordered, sink, trace)


def _with_users(decoded: Decoded) -> Decoded:
    """The same, with lists that nobody is known to have seen among the invalid."""
    users = decoded.users or ()
    missing = [row for row, user in enumerate(users) if user is None]
    if not missing:
        return decoded
    rows = np.ones(len(users), dtype=np.bool_)
    rows[missing] = False
    reason = InvalidEvent("missing_field", "the user is absent or null, and lists are joined by it")
    found = [(decoded.places[row], reason) for row in missing]
    invalid = sorted([*decoded.invalid, *found], key=lambda each: each[0])
    return msgspec.structs.replace(decoded.keep(rows), invalid=invalid)
