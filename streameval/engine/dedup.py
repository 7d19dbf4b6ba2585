"""Deduplication: remembers the ids of recent events by their digests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.engine.clock import Clocks
from streameval.engine.windows.sections import Section
from streameval.events.saved_states import damage_as_error
from streameval.statistics.relation import next_version
from streameval.statistics.user_key import UserHashKey

SEEN_PREFIX: Final = "seen/"
_AHEAD: Final = f"{SEEN_PREFIX}ahead"
_MINUTE: Final = 60_000_000
# Ids are forgotten bucket by bucket, so they are remembered up to a sixteenth longer.
_BUCKETS: Final = 16
DIGEST: Final = 8
"""Bytes of the digest of an id."""


class SeenIds:
    """Event ids of a span of event time, as 64-bit digests.

    An event is a duplicate if its id was seen, and the time of the first event with this id is
    less than the span (rounded up to a bucket) behind the clock. An event older than that
    always counts. The id of an event from the future is remembered as of the clock. With ten
    million ids, a collision is expected once in about 10^12 events.

    Args:
        span: time for which ids are remembered, microseconds of event time.
        patience: see `ClockRule`.
        user_key: of the digests, because ids of events often name users; None for none.
    """

    def __init__(self, span: int, patience: int, user_key: UserHashKey | None = None) -> None:
        self._user_key = user_key
        self._span = span
        self._patience = patience - 1
        self._ahead: deque[tuple[bytes, int, int]] = deque()
        self._ahead_version = next_version()
        self._events = 0
        self._width = max(_MINUTE, -(-span // _BUCKETS))
        self._buckets: dict[int, list[bytes]] = {}
        self._versions: dict[int, int] = {}
        self._bucket_of: dict[bytes, int] = {}

    def mark_seen(
        self, event_ids: Sequence[str], times: NDArray[np.int64], clocks: Clocks
    ) -> NDArray[np.bool_]:
        """Remember the ids of events; returns a mask of the events whose ids are new.

        `clocks`: the clock after each event, microseconds.
        """
        unseen = np.ones(len(event_ids), dtype=np.bool_)
        buckets = (times // self._width).tolist()
        rows = zip(self._digests(event_ids), buckets, clocks.tolist(), strict=True)
        for row, (digest, bucket, now) in enumerate(rows):
            unseen[row] = self._is_unseen(digest, bucket, now)
            self._flush(now)
            self._events += 1
        if len(clocks):
            now = int(clocks[-1])
            for bucket in [stale for stale in self._buckets if not self._is_remembered(stale, now)]:
                del self._versions[bucket]
                for digest in self._buckets.pop(bucket):
                    if self._bucket_of.get(digest) == bucket:
                        del self._bucket_of[digest]
            if self._ahead:
                # The content has the number of events that have followed each of them.
                self._ahead_version = next_version()
        return unseen

    def sections(self) -> Iterator[Section]:
        """One section for each bucket of time, and one for ids that may be from the future."""
        if self._ahead:
            yield Section(_AHEAD, self._ahead_version, self._ahead_content)
        for bucket in sorted(self._buckets):
            yield Section(
                f"{SEEN_PREFIX}{bucket}", self._versions[bucket], partial(self._content, bucket)
            )

    def restore(self, sections: Mapping[str, bytes], now: int) -> None:
        """Replace the content with the output of `sections`.

        Another span has other buckets; its ids are remembered as of `now`, the clock.

        Raises:
            DamagedStateError: it is something else.
        """
        same_span = True
        for name in sorted(sections, key=lambda name: name == _AHEAD):
            with damage_as_error(name):
                if name != _AHEAD:
                    same_span &= self._load_bucket(name, sections[name], now)
                    continue
                ahead = msgspec.msgpack.decode(sections[name], type=list[tuple[bytes, int, int]])
                for digest, saved, events in ahead:
                    is_current = same_span or self._is_remembered(saved, now)
                    bucket = saved if is_current else now // self._width
                    self._ahead.append((digest, bucket, self._events - events))
                    self._bucket_of[digest] = max(bucket, self._bucket_of.get(digest, bucket))

    def _load_bucket(self, name: str, content: bytes, now: int) -> bool:
        """Load a bucket; returns True if this span still remembers its time at the clock."""
        bucket, joined = (
            int(name.removeprefix(SEEN_PREFIX)),
            msgspec.msgpack.decode(content, type=bytes),
        )
        if len(joined) % DIGEST:
            raise ValueError(f"{len(joined)} bytes are not complete digests")
        is_current = bucket * self._width <= now and self._is_remembered(bucket, now)
        at = bucket if is_current else now // self._width
        starts = range(0, len(joined), DIGEST)
        digests = [joined[start : start + DIGEST] for start in starts]
        self._buckets.setdefault(at, []).extend(digests)
        self._versions[at] = next_version()
        for digest in digests:
            self._bucket_of[digest] = max(at, self._bucket_of.get(digest, at))
        return is_current

    def _is_unseen(self, digest: bytes, bucket: int, now: int) -> bool:
        if not self._is_remembered(bucket, now):
            return True
        seen_at = self._bucket_of.get(digest)
        if seen_at is not None and self._is_remembered(seen_at, now):
            return False
        if bucket * self._width > now:
            self._bucket_of[digest] = bucket
            self._ahead.append((digest, bucket, self._events))
        else:
            self._remember(digest, bucket)
        return True

    def _digests(self, event_ids: Sequence[str]) -> Iterable[bytes]:
        """A digest of each id, which takes less memory."""
        if self._user_key is not None:
            joined = self._user_key.hashes(event_ids).astype("<u8").tobytes()
            return (joined[at : at + DIGEST] for at in range(0, len(joined), DIGEST))
        return (blake2b(event_id.encode(), digest_size=DIGEST).digest() for event_id in event_ids)

    def _remember(self, digest: bytes, bucket: int) -> None:
        self._bucket_of[digest] = bucket
        self._buckets.setdefault(bucket, []).append(digest)
        self._versions[bucket] = next_version()

    def _flush(self, now: int) -> None:
        """Move ids from `_ahead` to a bucket that is not after the clock, once they are decided."""
        while self._ahead and self._ahead[0][2] + self._patience <= self._events:
            digest, bucket, _ = self._ahead.popleft()
            self._remember(digest, min(bucket, now // self._width))

    def _is_remembered(self, bucket: int, now: int) -> bool:
        return (bucket + 1) * self._width > now - self._span

    def _ahead_content(self) -> Callable[[], Iterator[bytes]]:
        entries = [(digest, bucket, self._events - event) for digest, bucket, event in self._ahead]
        return lambda: iter([msgspec.msgpack.encode(entries)])

    def _content(self, bucket: int) -> Callable[[], Iterator[bytes]]:
        digests = list(self._buckets[bucket])
        # In log order, which is canonical without sorting.
        return lambda: iter([msgspec.msgpack.encode(b"".join(digests))])
