"""Text from elsewhere, safe to print in a line for people."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_JOINERS: Final = "\u200c\u200d"
"""Without them words of Persian and some emoji read badly; they hide and reorder nothing."""

_USER_INFORMATION: Final = re.compile(r"(?<=//)[^/?#\s\"]*@")


def without_user(text: str) -> str:
    """The text with user and password of each URL replaced by ***, as in http://***@host/path."""
    return _USER_INFORMATION.sub("***@", text)


def printable(text: str) -> str:
    r"""The text with every character escaped that controls a terminal or the direction of text.

    Called where text leaves the program for people: messages of errors, lines on a terminal, HTML.
    Escaped are control characters with the ends of lines, overrides and isolates of direction and
    other invisible characters, lone surrogates, and what Unicode has not assigned. Letters of all
    languages stay.

    Example:
        >>> printable("\x1b[31mred\r\nstreameval: \u202eforged")
        '\\x1b[31mred\\r\\nstreameval: \\u202eforged'
        >>> printable("na\u00efve") == "na\u00efve"
        True
    """
    if text.isprintable():
        return text
    return "".join(char if _is_printable(char) else ascii(char)[1:-1] for char in text)


def printable_json(text: str) -> str:
    r"""JSON with those characters in the form that JSON has for them, so that it reads back equal.

    Example:
        >>> printable_json('{"label": "\u202e"}')
        '{"label": "\\u202e"}'
    """
    if text.isprintable():
        return text
    from json import dumps  # noqa: PLC0415  nothing else of what counts events needs it

    return "".join(
        char if char == "\n" or _is_printable(char) else dumps(char)[1:-1] for char in text
    )


def first_names(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first names of a list, and how many more there are.

    Example:
        >>> first_names(["a", "b", "c", "d"], 2), first_names(["a", "b"], 2)
        ('a, b and 2 more', 'a, b')
    """
    others = len(names) - most
    return separator.join(names[:most]) + (f" and {others:,} more" if others > 0 else "")


def _is_printable(char: str) -> bool:
    # Python calls a space printable only if it is that of ASCII.
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs"
