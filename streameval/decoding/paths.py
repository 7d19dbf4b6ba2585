"""Reads configured fields of a record by paths like "payload.items[].id".

Reading raises `Refusal` if a record does not have the structure of the path.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from streameval.decoding.framing import HEADER, schema_id
from streameval.decoding.invalid import Refusal
from streameval.events.errors import ConfigError
from streameval.events.previews import preview

FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Everything that msgspec may raise for a record."""


class TopLevel:
    """Parses records into dicts of some keys; skips other keys unread, as compiled rows do."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = list(dict.fromkeys(keys))
        slots = [f"field_{number}" for number in range(len(self._keys))]
        rename = dict(zip(slots, self._keys, strict=True))
        record = msgspec.defstruct("Record", [(slot, Any, None) for slot in slots], rename=rename)
        self._decode = msgspec.json.Decoder(record).decode

    def parse(self, value: bytes) -> dict[str, Any]:
        """The fields of a record; None for those that are absent or null."""
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
        problem = str(failure).replace("`", "")
        is_object = value.lstrip()[:1] == b"{"
        if value.lstrip()[:1] == b'"' and _is_encoded_twice(value):
            problem += "; the text is a JSON object: the producer encodes it twice"
        return Refusal("number_too_large" if is_object else "not_an_object", problem)
    detail = next((text for mark, text in _MARKS.items() if value.startswith(mark)), None)
    if value[:1] == b"\0" and value[HEADER : HEADER + 1] == b"{":
        frame = f"a zero byte and the schema id {schema_id(value)} are before the JSON"
        detail = f'{frame}; set format = "json-schema"'
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return Refusal("not_utf8", detail or f"byte {error.start} of {len(value)} is not UTF-8")
    return Refusal("not_json", detail or f"{failure}; {len(value)} bytes")


def _is_encoded_twice(value: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(msgspec.json.decode(value)), dict)
    except (TypeError, *FAILURES):
        return False


_MARKS: Final = {
    mark: f"it begins with a byte order mark of {name}; write it in UTF-8 without a mark"
    for mark, name in (
        (codecs.BOM_UTF8, "UTF-8"),
        # Before UTF-16, whose mark begins like it.
        (codecs.BOM_UTF32_LE, "UTF-32"),
        (codecs.BOM_UTF32_BE, "UTF-32"),
        (codecs.BOM_UTF16_LE, "UTF-16"),
        (codecs.BOM_UTF16_BE, "UTF-16"),
    )
}


_SEGMENT = re.compile(r"[^.\[\]]+(\[\])?")
_UNREADABLE = re.compile(r"[\"\\\x00-\x1f]")
"""Characters that msgspec cannot match in a top-level key; deeper keys are looked up in dicts."""


class Segment(NamedTuple):
    """One step of a path; `is_list`: the path goes on in each element of its list."""

    name: str
    is_list: bool


class Path:
    """A compiled path.

    Example:
        >>> Path("payload.items[].id").of({"payload": {"items": [{"id": "a"}, {"id": "b"}]}})
        ['a', 'b']
    """

    __slots__ = ("_only", "segments", "text")

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.segments: Final = tuple(
            Segment(step.removesuffix("[]"), step.endswith("[]")) for step in text.split(".")
        )
        self._only = text if is_top_level(text) else None

    @property
    def key(self) -> str:
        """The top-level key."""
        return self.segments[0].name

    def of(self, record: dict[str, Any]) -> Any:
        """The value at the path; None if a step is absent or null."""
        if self._only is not None:
            return record.get(self._only)
        return self._walk(record, 0)

    def of_records(self, records: Sequence[dict[str, Any]]) -> list[Any]:
        """The value at the path in each record."""
        if self._only is not None:
            return [record.get(self._only) for record in records]
        return [self._walk(record, 0) for record in records]

    def _walk(self, value: Any, depth: int) -> Any:
        for number, (name, is_list) in enumerate(self.segments[depth:], depth + 1):
            if type(value) is not dict:
                raise self._refusal("an object", value, number - 1)
            value = value.get(name)
            if value is None:
                return None
            if is_list:
                return self._walk_list(value, number)
        return value

    def _walk_list(self, value: Any, depth: int) -> list[Any]:
        if type(value) is not list:
            raise self._refusal("an array", value, depth)
        lists_follow = any(segment.is_list for segment in self.segments[depth:])
        walked = [self._walk(element, depth) for element in value]
        return [inner for outer in walked for inner in outer or ()] if lists_follow else walked

    def _refusal(self, expected: str, value: object, depth: int) -> Refusal:
        steps = (name + "[]" * is_list for name, is_list in self.segments[:depth])
        where = ".".join(steps).removesuffix("[]") if expected == "an array" else ".".join(steps)
        return Refusal("wrong_type", f"{where}: found {preview(value)} instead of {expected}")


def compile_path(text: str, key: str, *, lists: bool = False) -> Path:
    """Check and compile a path.

    `key`: key of the configuration that has it. `lists`: whether `[]` is allowed.

    Raises:
        ConfigError: it is not a path, or has a `[]` that is not allowed.
    """
    if not all(_SEGMENT.fullmatch(step) for step in text.split(".")):
        problem = f"{text!r} is not a path; write it like 'items', 'payload.items' or 'items[].id'"
        raise ConfigError("[event]", key, problem)
    if _UNREADABLE.search(text.partition(".")[0]):
        problem = f"the first key of {text!r} has a quote, backslash or control character"
        raise ConfigError("[event]", key, f"{problem}; rename the key in the records")
    if "[]" in text and not lists:
        problem = f"{text!r} selects several values, and the field takes one; remove the []"
        raise ConfigError("[event]", key, problem)
    return Path(text)


def is_top_level(text: str) -> bool:
    """True if the path is a single top-level key."""
    return "." not in text and "[" not in text
