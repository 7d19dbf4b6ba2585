"""Quotes of text files: those of RFC 4180 or parts of the values, by the delimiter."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


UNIT_SEPARATOR: Final = "\x1f"
"""Stands for a delimiter of several characters, such as the :: of MovieLens."""


def has_quotes(delimiter: str) -> bool:
    """True if quotes enclose fields: not beside tabs or a delimiter of several characters."""
    return delimiter not in ("\t", UNIT_SEPARATOR)


class WrongQuote(NamedTuple):
    """A quote after which the fields of a file cannot be told.

    Attributes:
        line: from 1.
        text: of the field that it begins, and what is behind it.
        is_open: whether there is no quote that ends the field.
    """

    line: int
    text: str
    is_open: bool


class QuoteCheck:
    r"""Finds a quoted field that does not end at a delimiter; what reads CSV drops its quotes.

    A quote inside a field that does not begin with one is a part of it.

    Example:
        >>> check = QuoteCheck(",")
        >>> check.add(b'1,"Toy, 2"\n2,5" disc\n3,"Great" ')
        >>> check.add(b"Cats\n")
        WrongQuote(line=3, text='"Great" Cats', is_open=False)
    """

    def __init__(self, delimiter: str) -> None:
        sign = re.escape(delimiter.encode())
        field = rb'(?<![^%b\r\n])"(?:[^"]++|"")*+"' % sign
        inside = rb'(?<=[^%b\r\n])"' % sign
        # Possessive, so that no megabyte is read twice.
        self._valid = re.compile(
            rb'(?:[^"]*+%b(?=[%b\r\n]|\Z)|[^"]*+%b)*+[^"]*+' % (field, sign, inside)
        )
        self._closed = re.compile(rb'"(?:[^"]++|"")*+"[^%b\r\n]' % sign)
        self._rest, self._line = b"", 1

    def add(self, content: bytes) -> WrongQuote | None:
        """Check the next part of a file; what its end cuts is checked with the next one."""
        text = self._rest + content
        # A part begins with a line, so that its first quote begins a field; lines may end in \r.
        return self._check(text, text.rfind(b"\n") + 1 or text.rfind(b"\r", 0, -1) + 1)

    def end(self) -> WrongQuote | None:
        """Check what is left at the end of the file."""
        wrong = self._check(self._rest, len(self._rest))
        return wrong if wrong is not None or not self._rest else self.open_quote

    @property
    def open_quote(self) -> WrongQuote | None:
        """The quote that is not closed so far, if there is one."""
        is_open = self._rest.startswith(b'"')
        return self._wrong(self._rest, is_open=True) if is_open else None

    def _check(self, text: bytes, end: int) -> WrongQuote | None:
        checked = end
        if b'"' in text:
            match = self._valid.match(text, 0, end)
            checked = 0 if match is None else match.end()
        lines = (text.count(sign, 0, checked) for sign in (b"\n", b"\r"))
        self._line += next(filter(None, lines), 0)
        self._rest = text[checked:]
        if checked < end and self._closed.match(self._rest):
            return self._wrong(self._rest, is_open=False)
        return None

    def _wrong(self, rest: bytes, *, is_open: bool) -> WrongQuote:
        text = _LINE_END.split(rest, 1)[0].decode("utf-8", "replace")
        return WrongQuote(self._line, text, is_open)
