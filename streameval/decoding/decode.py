"""The decoder: decodes record bytes to a batch of events; reports invalid records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.general import GeneralDecoder
from streameval.decoding.row_decoder import RowDecoder, plain_row
from streameval.decoding.scan import RecordScanner, is_scannable
from streameval.statistics.matching import Search

_WHOLE: Final = Search()


class Decoder:
    """Decodes records of any accepted form; compiled once from the configured fields.

    The compiled scanner reads plain records (lists of ids, no objects) into columns; without it,
    and with fields that it does not read, they take one call into C each. The general decoder
    decodes all others, with the same result.

    `search`: how lists are searched for hits; None if records hold recommendations only.

    Raises:
        ConfigError: a configured path is invalid.

    Example:
        >>> decoder = Decoder(EventFields(), ["variant"])
        >>> records = [b'{"recommendations": ["a"], "interactions": [7], "variant": "b"}', b"[]"]
        >>> found = decoder.decode_many(records)
        >>> found.batch.interactions, found.dimensions, found.invalid[0][1].reason
        ([['7']], [('b',)], 'not_an_object')
    """

    def __init__(
        self, fields: EventFields, dimensions: Sequence[str], search: Search | None = _WHOLE
    ) -> None:
        general = GeneralDecoder(fields, dimensions, shown_only=search is None)
        decoder: BatchDecoder[Decoded] = general
        row = plain_row(fields, dimensions, shown_only=search is None)
        if row is not None:
            decoder = RowDecoder(fields, row, search, general)
        if search is not None and is_scannable(fields, dimensions):
            decoder = RecordScanner(fields, dimensions, search, decoder)
        self._decoder = decoder

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of records to columns."""
        return self._decoder.decode_many(values)
