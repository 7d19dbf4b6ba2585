"""Keys that are twice in one JSON object, in the first records: only the last value is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

_MOST: Final = 100
"""Records of a stream that are searched: it takes longer than to decode them."""


class RepeatedKeys:
    """The names of keys that are twice in one object of the first 100 records of a stream.

    Attributes:
        names: in the order in which they were found.

    Example:
        >>> keys = RepeatedKeys()
        >>> keys.search(0, [b'{"item": "a", "item": "b"}', b"no JSON"])
        >>> keys.names
        ['item']
        >>> print(*keys.warnings())
        'item' is twice in one object of the first records; the last value counts. Later records \
are not searched for that.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._searched = Counter[Hashable]()
        self._decode = json.JSONDecoder(object_pairs_hook=self._note).decode

    def search(self, stream: Hashable, records: Iterable[bytes | None]) -> None:
        """Search more records of a stream, until there were enough."""
        rest = _MOST - self._searched[stream]
        for record in islice(records, rest) if rest else ():
            self._searched[stream] += 1
            # The decoder of events reports what is no JSON.
            with suppress(ValueError, RecursionError):
                self._decode(str(record or b"", "utf-8"))

    def add(self, names: Iterable[str]) -> None:
        """Add names that were found elsewhere."""
        self.names += [name for name in dict.fromkeys(names) if name not in self.names]

    def warnings(self) -> Iterator[str]:
        """A sentence for each name."""
        for name in self.names:
            yield (
                f"{name!r} is twice in one object of the first records; the last value counts. "
                "Later records are not searched for that."
            )

    def _note(self, pairs: Sequence[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.add(name for name in counts if counts[name] > 1)
