"""HTML from templates: every text is escaped, and its direction does not change its neighbours."""

from __future__ import annotations

import math
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from streameval.events.extras import imports_of
from streameval.events.printable import printable, printable_json
from streameval.exporters.page.charts import chart_line
from streameval.exporters.page.definition import facts, metric_summary
from streameval.exporters.page.selection import slice_name
from streameval.exporters.view import (
    UNDEFINED,
    beside,
    difference_text,
    figure,
    moment,
    span,
    unit_of_count,
)
from streameval.inference.words import capital, percent

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE: Final = Path(__file__).parents[2]
"""Names of templates are paths from here."""

_RTL_LETTER: Final = (
    "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
)
_RIGHT_TO_LEFT: Final = re.compile(rf"([{_RTL_LETTER}](?:[{_RTL_LETTER}\W\d]*[{_RTL_LETTER}])?)")
"""Letters from right to left, with the digits, blanks and signs between them."""


def render(template: str, **values: object) -> str:
    """A template with these values.

    Without a filter a value becomes `in_text`. The filter `plain` is for attributes that people
    read, and for elements that can have no others; `exact` for attributes that come back as they
    are; `json` for data of scripts.

    Raises:
        MissingExtraError: Jinja2 is not installed.
    """
    return _environment().get_template(template).render(values)


def in_text(text: str) -> str:
    """Text as HTML. Words that are written from right to left are wrapped in `<bdi>`.

    So a name in a sentence moves no number or word around it; characters that override the
    direction are shown escaped.

    Example:
        >>> in_text("a<b")
        'a&lt;b'
    """
    # Every other part is from right to left.
    parts = [text] if text.isascii() else _RIGHT_TO_LEFT.split(text)
    return "".join(
        f"<bdi>{html_text(part)}</bdi>" if index % 2 else html_text(part)
        for index, part in enumerate(parts)
    )


def html_text(text: str) -> str:
    """Text as HTML without elements."""
    # The ends of lines are blanks in HTML, and stand in code.
    return escape("\n".join(map(printable, text.split("\n"))))


def number(value: float | None) -> str:
    """A number of four decimals or digits, or a dash.

    Example:
        >>> number(0.25), number(None)
        ('0.2500', '\N{EN DASH}')
    """
    return figure(math.nan if value is None else value)


def keep_percent_together(text: str) -> str:
    """Prevent a line break before a percent sign on a narrow screen."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


class _Html(str):
    """Text that is already HTML."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def safe(html: str) -> str:
    """HTML that a template must not escape: what another one made, or a file of ours."""
    return _Html(html)


def _value(value: Any) -> str:
    return safe(value.__html__() if hasattr(value, "__html__") else in_text(str(value)))


def _json(value: object) -> str:
    # No text ends the script that it stands in.
    text = msgspec.json.encode(value).decode().replace("<", "\\u003c")
    return safe(printable_json(text))


@cache
def _environment() -> Environment:
    with imports_of("a page of HTML", "report"):
        from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  optional

    environment = Environment(
        loader=FileSystemLoader(PACKAGE),
        autoescape=True,
        finalize=_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "plain": lambda value: safe(html_text(str(value))),
        "exact": lambda value: safe(escape(str(value))),
        "json": _json,
        "unbroken": keep_percent_together,
        "capital": capital,
        "number": number,
        "moment": moment,
        "percent": percent,
        "span": span,
        "unit": unit_of_count,
        "slice_name": slice_name,
        "line": lambda index: chart_line("", index, ()),
        "summary": metric_summary,
        "beside": beside,
        "difference": difference_text,
        "facts": facts,
    }
    environment.globals |= {"UNDEFINED": UNDEFINED}
    return environment
