"""Records that came to nothing, kept for a while so that their story can be told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec.msgpack import Ext

from streameval.aggregation.section import Section, next_version
from streameval.attribution.account import Outcome
from streameval.attribution.portable import portable, restored
from streameval.errors import DamagedStateError
from streameval.events import Id

NAME: Final = "~join/told"
MOST: Final = 1_000
"""So many of each outcome in each log, the last ones."""


class Told(NamedTuple):
    """A record that came to nothing.

    Attributes:
        lane: number of its log.
        key: id of its list, or its user; empty where it has none.
        item: of an interaction; None for an impression.
        type: of an interaction.
        time: when it happened, microseconds since the epoch.
        offset: of the record in its log.
        user: who saw the list, where lists are joined by user.
    """

    lane: int
    key: str
    item: Id | None
    type: str | None
    time: int
    offset: int
    user: str = ""


class _Saved(NamedTuple):
    lane: int
    key: str
    item: str | int | Ext | None
    type: str | None
    time: int
    offset: int
    user: str


class Tales:
    """The last records of each log by each outcome that is no count."""

    def __init__(self) -> None:
        self._told: dict[tuple[Outcome, int], deque[Told]] = {}
        self._version = next_version()

    def add(self, outcome: Outcome, told: Told) -> None:
        """Keep one, in place of the oldest of its log."""
        self._told.setdefault((outcome, told.lane), deque(maxlen=MOST)).append(told)
        self._version = next_version()

    def of(self, key: str) -> list[tuple[Outcome, Told]]:
        """All that are kept of a key, by outcome."""
        return [
            (outcome, told)
            for (outcome, _), found in sorted(self._told.items())
            for told in found
            if key in {told.key, told.user}
        ]

    def sections(self) -> Iterator[Section]:
        """All of it as one."""
        yield Section(NAME, self._version, self._content)

    def restore(self, content: bytes) -> None:
        """Take the place of the content by what `sections` gave.

        Raises:
            DamagedStateError: it is not that.
        """
        try:
            saved = msgspec.msgpack.decode(content, type=list[tuple[Outcome, list[_Saved]]])
            self._told = {
                (name, found[0].lane): deque(map(_told, found), maxlen=MOST)
                for name, found in saved
            }
        except (IndexError, msgspec.MsgspecError) as error:
            raise DamagedStateError(NAME, str(error)) from error

    def _content(self) -> Callable[[], Iterator[bytes]]:
        told = [(outcome, list(found)) for (outcome, _), found in sorted(self._told.items())]
        return lambda: iter(
            [msgspec.msgpack.encode([(name, list(map(_saved, found))) for name, found in told])]
        )


def _saved(told: Told) -> _Saved:
    item = None if told.item is None else portable(told.item)
    return _Saved(told.lane, told.key, item, *told[3:])


def _told(saved: _Saved) -> Told:
    item = None if saved.item is None else restored(saved.item)
    return Told(saved.lane, saved.key, item, *saved[3:])
