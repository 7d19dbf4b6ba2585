"""Previews: the parts of a record that a message, a log line or the page may quote.

`[log] previews = false` hides all of them, for the rest of the process. Every message that quotes
a record takes the quotation from this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from traceback import format_exception, format_tb
from typing import Final, TypeVar

from streameval.events.printable import printable

T = TypeVar("T")

_BYTES: Final = 80
_LONGEST: Final = 44
_WORD: Final = re.compile(r"[A-Za-z_][\w-]*")


class _Setting:
    """The setting of this process.

    Attributes:
        hidden: True if previews are hidden.
        words: of the configuration, which are not data.
    """

    hidden = False
    words: frozenset[str] = frozenset()


def hide_previews(words: Iterable[str] = ()) -> None:
    """Hide all previews in this process from now on; nothing shows them again.

    `words`: names of configured fields, which messages may still name.
    """
    _Setting.hidden = True
    first = (_WORD.match(word) for word in words)
    _Setting.words |= {match[0] for match in first if match is not None}


def are_hidden() -> bool:
    """True if previews are hidden."""
    return _Setting.hidden


def preview(value: object) -> str:
    r"""A value of a record as messages may quote it: short JSON, or the beginning of bytes.

    Where previews are hidden, the kind of value.

    Example:
        >>> preview(True), preview([1]), preview("x" * 100)
        ('true', 'an array', '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."')
        >>> preview(1j), preview(b'{"a":\x1b\xff')
        ('"1j"', '{"a":\\x1b\\xff')
    """
    if isinstance(value, list):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    if _Setting.hidden:
        return _kind(value)
    if isinstance(value, bytes):
        text = printable(value[:_BYTES].decode("utf-8", "backslashreplace"))
        return f"{text}..." if len(value) > _BYTES else text
    import json  # noqa: PLC0415  only where something is quoted: an event needs no JSON

    text = json.dumps(value, ensure_ascii=False, default=str)
    closing = '"' if isinstance(value, str) else ""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...{closing}"


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        import json  # noqa: PLC0415  as in `preview`

        return json.dumps(value)
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, str):
        return f"a text of {len(value):,} characters"
    return "an integer" if isinstance(value, int) else "a number"


def redact_ids(ids: Sequence[T]) -> list[T | str]:
    """Ids for a report about records; where previews are hidden, the kind of each."""
    return [preview(item_id) for item_id in ids] if _Setting.hidden else [*ids]


def redact_detail(detail: str, instead: str) -> str:
    """A detail about a record; where previews are hidden, a sentence that is true of all records.

    `instead`: the sentence. A configured name at the beginning of the detail stays.
    """
    if not _Setting.hidden:
        return detail
    first = _WORD.match(detail)
    instead = instead.removesuffix(".")
    named = first is not None and first[0] in _Setting.words
    return f"{first[0]}: {instead}" if first is not None and named else instead


def describe_error(error: BaseException) -> str:
    """The type of an error with its message, which may quote a record; or the type alone.

    Example:
        >>> describe_error(KeyError("x"))
        "KeyError: 'x'"
    """
    kind = type(error).__name__
    return kind if _Setting.hidden else " ".join(f"{kind}: {error}".split())


def describe_traceback(error: BaseException | None) -> str:
    """The traceback of an error; where previews are hidden, without the messages of errors."""
    if error is None:
        return ""
    if not _Setting.hidden:
        return "".join(format_exception(error)).rstrip("\n")
    parts, link = list[str](), error
    while True:
        parts.insert(0, "".join([*format_tb(link.__traceback__), type(link).__name__]))
        earlier = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if earlier is None:
            return "\n\n".join(parts)
        link = earlier
