"""Numbers of records by outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from streameval.decoding.invalid import REASONS, InvalidEvent

_FEWEST = 10
"""Fewer records prove nothing."""


class Tally(msgspec.Struct, gc=False):
    """Counts of records; `consumed == valid + invalid + tombstones + duplicates`, always.

    Attributes:
        late: those among them that were too late for every window.
        future: those among them whose time is ahead of their log, and was not confirmed by it.
        engaged: valid records with interactions.
        unusable: invalid records with interactions.
        invalid: records that are no event, by reason; every known reason is present.
    """

    consumed: int = 0
    valid: int = 0
    late: int = 0
    future: int = 0
    tombstones: int = 0
    duplicates: int = 0
    engaged: int = 0
    unusable: int = 0
    invalid: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(REASONS, 0))

    def refuse(self, invalid: list[InvalidEvent]) -> None:
        """Count records that are no event."""
        for event in invalid:
            self.invalid[event.reason] = self.invalid.get(event.reason, 0) + 1
            self.unusable += event.engaged

    def suspicion(self) -> str | None:
        """A sentence when most records with interactions were invalid."""
        if self.unusable < _FEWEST or self.unusable <= self.engaged:
            return None
        reason = max(self.invalid, key=lambda each: self.invalid[each])
        return (
            f"{self.unusable:,} of {self.unusable + self.engaged:,} records with interactions are "
            f"invalid, most often {reason}, so the values are of lists that led to nothing: do "
            "interactions, interaction_item and gain in [event] name the right fields?"
        )

    def add(self, other: Tally) -> None:
        """Count what another one counted."""
        for name in self.__struct_fields__[:-1]:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if sum(other.invalid.values()):
            for reason, count in other.invalid.items():
                self.invalid[reason] = self.invalid.get(reason, 0) + count

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; reasons that never occurred are left out."""
        state: dict[str, Any] = msgspec.to_builtins(self)
        return state | {"invalid": {name: n for name, n in sorted(self.invalid.items()) if n}}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Tally:
        """What `state_dict` gave.

        Raises:
            msgspec.ValidationError: it is not that.
        """
        known = dict.fromkeys(REASONS, 0)
        return msgspec.convert({**state, "invalid": {**known, **state["invalid"]}}, cls)
