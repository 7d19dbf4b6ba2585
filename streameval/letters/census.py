"""What there is among dead letters: reasons, how many, and a few to look at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from streameval.pipeline.letters import DeadLetter, Identity

SAMPLES: Final = 3
"""So many letters of each reason are kept to be looked at: the last ones."""


class Seen:
    """Which records were met before; letters come at least once, and count once."""

    def __init__(self) -> None:
        self._identities: set[Identity] = set()

    def novel(self, identity: Identity) -> bool:
        """Whether it was never asked about before."""
        known = identity in self._identities
        self._identities.add(identity)
        return not known


class Group(msgspec.Struct, kw_only=True):
    """The letters of one reason.

    Attributes:
        reason: the reason.
        stage: what failed.
        count: how many records.
        first_ms: least timestamp of them; None where none has one.
        last_ms: greatest timestamp of them; None where none has one.
        samples: the last few.
    """

    reason: str
    stage: str
    count: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    samples: deque[DeadLetter] = msgspec.field(default_factory=lambda: deque(maxlen=SAMPLES))

    def add(self, letter: DeadLetter) -> None:
        """Count one."""
        self.count += 1
        self.samples.append(letter)
        at = letter.timestamp_ms
        if at is not None:
            self.first_ms = at if self.first_ms is None else min(at, self.first_ms)
            self.last_ms = at if self.last_ms is None else max(at, self.last_ms)


def novel(letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
    """Each record's letter once, however often it was written."""
    seen = Seen()
    return (letter for letter in letters if seen.novel(letter.identity))


def census(letters: Iterable[DeadLetter]) -> list[Group]:
    """The letters by reason, the most frequent first; each record counts once."""
    groups: dict[tuple[str, str], Group] = {}
    for letter in novel(letters):
        kind = (letter.reason, letter.stage)
        group = groups.setdefault(kind, Group(reason=letter.reason, stage=letter.stage))
        group.add(letter)
    return sorted(groups.values(), key=lambda group: (-group.count, group.reason, group.stage))
