"""A metric's windows side by side, a row for each slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streameval.exporters.divisions import Division, by_slice
from streameval.exporters.figures import counted, moment
from streameval.exporters.web.markup import Markup, tag
from streameval.exporters.web.values import bar, count, most, value
from streameval.pipeline.snapshot import Series


def window_rows(division: Division, series: Sequence[Series]) -> list[Markup]:
    """Head and body of the table of one metric."""
    of_window = {
        window: [entry for entry in series if entry.window == window] for window in division.windows
    }
    longest = {window: most(entries) for window, entries in of_window.items()}
    heads = [tag("th", name, scope="col") for name in division.family.label_names]
    heads += [_head(window, entries) for window, entries in of_window.items()]
    rows = [_row(labels, found, longest) for labels, found in by_slice(series).items()]
    return [tag("thead", tag("tr", *heads)), tag("tbody", *rows)]


def _head(window: str, entries: Sequence[Series]) -> Markup:
    """The window, and since when it is complete where it does not reach back so far."""
    begun = [entry.since for entry in entries if entry.since is not None]
    since = tag("small", f"since {moment(max(begun))}") if begun else Markup()
    return tag("th", window, since, scope="col", kind="number")


def _row(
    labels: tuple[str, ...], found: Mapping[str, Series], longest: Mapping[str, float]
) -> Markup:
    heads = [tag("th", each, scope="row") for each in labels]
    cells = [_cell(found.get(window), most) for window, most in longest.items()]
    return tag("tr", *heads, *cells)


def _cell(entry: Series | None, longest: float) -> Markup:
    if entry is None:
        return tag("td")
    behind = tag("small", "of ", count(entry), title=counted(entry.metric))
    return tag("td", value(entry), bar(entry, longest), behind, kind="one")
