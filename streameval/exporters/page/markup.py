"""HTML elements as escaped text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

_VOID: Final = frozenset({"input", "link", "meta"})
"""Elements without content, which have no end tag."""


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def tag(name: str, /, *content: str, kind: str = "", **attributes: str) -> Markup:
    """An element; content that is not `Markup` is escaped. Without a name, only the content.

    `kind`: the class. `attributes`: `aria_label` becomes aria-label.

    Example:
        >>> tag("th", "a<b", scope="col")
        '<th scope="col">a&lt;b</th>'
        >>> tag("input", name="k", checked="")
        '<input name="k" checked="">'
    """
    inner = "".join(part if isinstance(part, Markup) else escape(part) for part in content)
    if not name:
        return Markup(inner)
    given = {"class": kind, **attributes} if kind else attributes
    written = "".join(f' {key.replace("_", "-")}="{escape(value)}"' for key, value in given.items())
    return Markup(f"<{name}{written}>" + ("" if name in _VOID else f"{inner}</{name}>"))


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
