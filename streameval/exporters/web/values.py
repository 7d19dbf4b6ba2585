"""A reading as the page shows it: its value, what is behind it, and a bar to compare by."""

from __future__ import annotations

import math
from collections.abc import Iterable

from streameval.exporters.figures import figure
from streameval.exporters.web.markup import Markup, tag
from streameval.pipeline.snapshot import Series
from streameval.reading import UndefinedReading


def most(series: Iterable[Series]) -> float:
    """The largest value; 0 where none is defined."""
    return max((entry.reading.value for entry in series if entry.reading.defined), default=0.0)


def value(entry: Series) -> Markup:
    """The value, or a dash that says why there is none."""
    reading = entry.reading
    if not reading.defined:
        why = reading.problem if isinstance(reading, UndefinedReading) else "No evidence yet"
        return tag("span", figure(math.nan), kind="undefined", title=why)
    about = "~" if reading.estimated else ""
    return tag("data", about + figure(reading.value), value=repr(reading.value))


def count(entry: Series) -> Markup:
    """What is behind the value."""
    return tag("data", f"{entry.reading.count:,}", value=str(entry.reading.count))


def bar(entry: Series, longest: float) -> Markup:
    """A bar as long as the value; nothing where it cannot be one.

    Args:
        entry: whose value.
        longest: value of a whole bar.
    """
    found = entry.reading.value if entry.reading.defined else math.nan
    if not (0 <= found <= longest and 0 < longest < math.inf):
        return Markup()
    return tag("meter", min="0", max=repr(longest), value=repr(found), aria_hidden="true")
