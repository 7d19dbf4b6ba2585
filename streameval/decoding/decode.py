"""The decoder: decodes record bytes to a batch of events; reports invalid records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.general import GeneralDecoder
from streameval.decoding.row_decoder import RowDecoder, row_type
from streameval.decoding.scan import RecordScanner, is_scannable
from streameval.statistics.matching import Search

_FULL_SEARCH: Final = Search()


class Decoder:
    """Decodes records of any accepted form; compiled once from the configured fields.

    The compiled scanner reads records with lists of ids, no objects, into columns. Where it is not
    compiled, or does not read a configured field, the row decoder decodes each of them with one
    call into C. The general decoder is the fallback for all others. The result is the same.

    `search`: how lists are searched for hits; None if records hold recommendations only.

    Raises:
        ConfigError: a configured path is invalid.

    Example:
        >>> decoder = Decoder(EventFields(), ["variant"])
        >>> records = [b'{"recommendations": ["a"], "interactions": [7], "variant": "b"}', b"[]"]
        >>> decoded = decoder.decode_many(records)
        >>> decoded.batch.interactions, decoded.dimensions, decoded.invalid[0][1].reason
        ([['7']], [('b',)], 'not_an_object')
    """

    def __init__(
        self, fields: EventFields, dimensions: Sequence[str], search: Search | None = _FULL_SEARCH
    ) -> None:
        general = GeneralDecoder(fields, dimensions, recommendations_only=search is None)
        decoder: BatchDecoder[Decoded] = general
        row = row_type(fields, dimensions, recommendations_only=search is None)
        if row is not None:
            decoder = RowDecoder(fields, row, search, general)
        if search is not None and is_scannable(fields, dimensions):
            decoder = RecordScanner(fields, dimensions, search, decoder)
        self._decoder = decoder

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of records to columns."""
        return self._decoder.decode_many(values)
