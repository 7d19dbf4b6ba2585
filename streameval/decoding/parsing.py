"""From bytes to plain Python objects, of only those fields that are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from streameval.decoding.invalid import Refusal

FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that msgspec may raise for the bytes it is given."""


class TopLevel:
    """Parses records into dicts of the given keys.

    Other keys are passed over without being looked at, as the compiled row does.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = list(dict.fromkeys(keys))
        slots = [f"field_{number}" for number in range(len(self._keys))]
        rename = dict(zip(slots, self._keys, strict=True))
        record = msgspec.defstruct("Record", [(slot, Any, None) for slot in slots], rename=rename)
        self._decode = msgspec.json.Decoder(record).decode

    def parse(self, value: bytes) -> dict[str, Any]:
        """The record's fields; None where one is absent or null.

        Raises:
            Refusal: the bytes are no JSON object.
        """
        try:
            record = self._decode(value)
        except FAILURES as failure:
            raise _refusal(value, failure) from None
        return dict(zip(self._keys, msgspec.structs.astuple(record), strict=True))


def _refusal(value: bytes, failure: Exception) -> Refusal:
    if isinstance(failure, RecursionError):
        return Refusal("nested_too_deeply", "arrays or objects are nested too deeply")
    if isinstance(failure, UnicodeDecodeError):
        return Refusal("not_utf8", "text that is not UTF-8")
    if isinstance(failure, msgspec.ValidationError):
        return _wrong_value(str(failure))
    return _malformed(value, str(failure))


def _wrong_value(problem: str) -> Refusal:
    if problem.startswith("Expected"):
        return Refusal("not_an_object", problem.replace("`", ""))
    return Refusal("number_too_large", problem.replace("`", ""))


def _malformed(value: bytes, problem: str) -> Refusal:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return Refusal("not_utf8", f"byte {error.start} of {len(value)} is not UTF-8")
    return Refusal("not_json", f"{problem}; {len(value)} bytes")
