"""What became of all records so far."""

from __future__ import annotations

from streameval.pipeline.decode import Decoded
from streameval.pipeline.invalid import REASONS


class Tally:
    """Counts of records; `consumed == valid + invalid + tombstones`, always.

    Attributes:
        consumed: records read, whatever became of them.
        valid: records that became events.
        invalid: records that did not, by reason; every known reason is present.
        tombstones: records without a value.
    """

    __slots__ = ("consumed", "invalid", "tombstones", "valid")

    def __init__(self) -> None:
        self.consumed = 0
        self.valid = 0
        self.invalid: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.tombstones = 0

    def add(self, decoded: Decoded, records: int) -> None:
        """Count what became of a batch of records."""
        self.consumed += records
        self.valid += decoded.valid
        self.tombstones += decoded.tombstones
        for _, event in decoded.invalid:
            self.invalid[event.reason] += 1
