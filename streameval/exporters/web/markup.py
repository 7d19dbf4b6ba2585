"""HTML elements as text, with what they contain escaped."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def tag(name: str, *content: str, kind: str = "", **attributes: str) -> Markup:
    """An element; content that is not `Markup` is escaped. Without a name, the content alone.

    `kind`: its class. `attributes`: `aria_label` becomes aria-label, `class_` becomes class.

    Example:
        >>> tag("th", "a<b", scope="col")
        '<th scope="col">a&lt;b</th>'
    """
    inner = "".join(part if isinstance(part, Markup) else escape(part) for part in content)
    if not name:
        return Markup(inner)
    given = {"class": kind, **attributes} if kind else attributes
    written = "".join(f' {_name(key)}="{escape(value)}"' for key, value in given.items())
    return Markup(f"<{name}{written}>{inner}</{name}>")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
