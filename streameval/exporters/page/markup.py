"""HTML elements as escaped text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

from streameval.events.printable import printable
from streameval.inference.table import TextTable

_VOID: Final = frozenset({"input", "link", "meta"})
"""Elements without content, which have no end tag."""


_TEXT_ONLY: Final = frozenset({"option", "title"})
"""Elements that can have no others."""

_READ: Final = frozenset({"aria_label", "data_head", "title"})
"""Attributes that people read; others, such as the value of an input, come back as they are."""

_LETTER: Final = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_RIGHT_TO_LEFT: Final = re.compile(rf"([{_LETTER}](?:[{_LETTER}\W\d]*[{_LETTER}])?)")
"""Letters from right to left, with the digits, blanks and signs between them."""


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def tag(name: str, /, *content: str, kind: str = "", **attributes: str) -> Markup:
    """An element; content that is not `Markup` is escaped. Without a name, only the content.

    Words that are written from right to left stand in a `<bdi>`, so that a name in a sentence moves
    no number or word around it; characters that override the direction are shown escaped.

    `kind`: the class. `attributes`: `aria_label` becomes aria-label.

    Example:
        >>> tag("th", "a<b", scope="col")
        '<th scope="col">a&lt;b</th>'
        >>> tag("input", name="k", checked="")
        '<input name="k" checked="">'
    """
    as_html = _plain if name in _TEXT_ONLY else _isolated
    inner = "".join(part if isinstance(part, Markup) else as_html(part) for part in content)
    if not name:
        return Markup(inner)
    given = {"class": kind, **attributes} if kind else attributes
    written = "".join(
        f' {key.replace("_", "-")}="{_plain(value) if key in _READ else escape(value)}"'
        for key, value in given.items()
    )
    return Markup(f"<{name}{written}>" + ("" if name in _VOID else f"{inner}</{name}>"))


def _plain(text: str) -> str:
    # The ends of lines are blanks in HTML, and stand in code.
    return escape("\n".join(map(printable, text.split("\n"))))


def _isolated(text: str) -> str:
    # Every other part is from right to left.
    parts = [text] if text.isascii() else _RIGHT_TO_LEFT.split(text)
    return "".join(
        f"<bdi>{_plain(part)}</bdi>" if place % 2 else _plain(part)
        for place, part in enumerate(parts)
    )


def plain_grid(
    caption: str, table: TextTable[Any], *, frame: str = "card scroll", seen: bool = True
) -> Markup:
    """A table of texts, whose first column heads the rows."""
    columns = {column.name: "number" * (column.align == "right") for column in table.columns}
    rows = (
        tag("tr", tag("th", head, scope="row"), *(tag("td", text) for text in texts))
        for head, *texts in table.texts
    )
    return grid(caption, columns, rows, frame=frame, seen=seen)


def grid(
    caption: str,
    columns: Mapping[str, str],
    rows: Iterable[Markup],
    *,
    frame: str = "card scroll",
    kind: str = "rows",
    seen: bool = True,
) -> Markup:
    """A table that scrolls by itself; `columns`: name -> class."""
    heads = (tag("th", name, scope="col", kind=of) for name, of in columns.items())
    table = tag(
        "table",
        tag("caption", caption, kind="" if seen else "unseen"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
        kind=kind,
    )
    return tag("div", table, kind=frame, tabindex="0", role="region", aria_label=caption)
