"""Selection by a reader of the page: the address, the form, and the series that they show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

import msgspec

from streameval.catalogue.metric import Metric
from streameval.engine.snapshot import LIFETIME, Series, Snapshot
from streameval.engine.windows.times import duration_of
from streameval.exporters.view import Variants, comparison, differences

_FIELDS: Final = ("metric", "k", "window", "segment", "value", "view")
"""Fields with one value, in the order of the address."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The choices in the address of the page; "" or () stands for the usual one.

    Attributes:
        metric: name of the metrics, without convention and cut-off.
        k: cut-off.
        window: a window's name.
        segment: name of a segment.
        value: value of the segment.
        view: text of the metric that is shown alone.
        variants: the variants shown.
    """

    metric: str = ""
    k: str = ""
    window: str = ""
    segment: str = ""
    value: str = ""
    view: str = ""
    variants: tuple[str, ...] = ()

    def link(self, **changes: str) -> str:
        """The address of this selection with other choices, relative to the page.

        Example:
            >>> Selection(window="1h", variants=("a", "b")).link(view="ndcg@10")
            '?window=1h&view=ndcg%4010&variant=a&variant=b'
            >>> Selection().link()
            './'
        """
        fields = [(name, changes.get(name, getattr(self, name))) for name in _FIELDS]
        pairs = [pair for pair in fields if pair[1]]
        pairs += [("variant", name) for name in self.variants]
        return f"?{urlencode(pairs)}" if pairs else "./"

    def includes(self, labels: Mapping[str, str], compared: Variants | None) -> bool:
        """True if it shows a slice with these labels, by its variant and its value of the segment.

        `compared`: the comparison in the snapshot.
        """
        if self.variants and compared is not None:
            variant = labels.get(compared.label)
            if variant is not None and variant not in self.variants:
                return False
        return not self.value or labels.get(self.segment) == self.value


def selection_of(query: Iterable[tuple[str, str]]) -> Selection:
    """The selection in the query of an address; other fields are ignored.

    Example:
        >>> selection_of([("window", "1h"), ("variant", "a"), ("utm", "x")]).window
        '1h'
    """
    pairs = list(query)
    fields = {name: value for name, value in pairs if name in _FIELDS}
    variants = tuple(dict.fromkeys(value for name, value in pairs if name == "variant"))
    return Selection(**fields, variants=variants)


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """The series of a snapshot that a selection shows.

    Attributes:
        selection: without choices that are the usual ones.
        windows: the windows to choose from, lifetime last.
        window: the window shown.
        compared: label and control of the comparison; None with fewer than two variants.
        names: of all slices, selected or not, sorted; the index of each gives its colour.
        rows: metric -> each slice with its difference to the control.
    """

    snapshot: Snapshot
    selection: Selection
    windows: tuple[str, ...]
    window: str
    compared: Variants | None
    names: Sequence[str]
    rows: Mapping[Metric, Sequence[tuple[Series, float | None]]]

    @property
    def control(self) -> str | None:
        """The control of the comparison, or None."""
        return None if self.compared is None else self.compared.control

    @property
    def window_name(self) -> str:
        """The window shown in words."""
        return window_name(self.window)

    def metrics(self) -> list[Metric]:
        """The metrics of the chosen name and cut-off."""
        name, k = self.selection.metric, self.selection.k
        return [
            metric
            for metric in self.rows
            if name in ("", metric.definition.name) and k in ("", str(metric.k))
        ]

    def index_of(self, labels: Iterable[str]) -> int:
        """The number of a slice, which gives its colour."""
        name = slice_name(labels)
        return self.names.index(name) if name in self.names else len(self.names)

    def values_of(self, label: str) -> list[str]:
        """The values of a label or segment, sorted."""
        labels = map(self.snapshot.labels_of, self.snapshot.series)
        return sorted({values[label] for values in labels if label in values})

    def pickers(self) -> Iterator[tuple[str, str, Mapping[str, str], str]]:
        """Name, title, choices and choice of each list of the form."""
        selection, metrics = self.selection, [entry.metric for entry in self.snapshot.series]
        if not selection.view:
            names = dict.fromkeys(metric.definition.name for metric in metrics)
            cuts = sorted({metric.k for metric in metrics if metric.k is not None})
            yield "metric", "Metric", _all(names), selection.metric
            yield "k", "Cut-off", _all(map(str, cuts)), selection.k
        windows = {window: window_name(window) for window in self.windows}
        segments = dict.fromkeys(family.segment for family in self.snapshot.families)
        yield "window", "Window", windows if len(windows) > 1 else {}, self.window
        yield "segment", "Segment", _all(filter(None, segments), "none"), selection.segment
        values = self.values_of(selection.segment) if selection.segment else ()
        yield "value", selection.segment, _all(values), selection.value


def excerpt(snapshot: Snapshot, selection: Selection) -> Excerpt:
    """The series that a selection shows; a choice that the snapshot does not have is the usual."""
    segments = {family.segment for family in snapshot.families}
    segment = selection.segment if selection.segment in segments else ""
    of_segment = (family for family in snapshot.families if (family.segment or "") == segment)
    named = {window for family in of_segment for window in family.windows} - {LIFETIME}
    windows = (*sorted(named, key=duration_of), LIFETIME)
    usual = windows[max(0, (len(windows) - 2) // 2)]
    window = selection.window if selection.window in windows else usual
    compared, variants = comparison(snapshot), selection.variants
    labels = [snapshot.labels_of(entry) for entry in snapshot.series]
    if compared is not None:
        values = {of_series.get(compared.label) for of_series in labels} - {None}
        variants = () if values <= set(variants) else variants
    selection = msgspec.structs.replace(
        selection,
        segment=segment,
        value=selection.value if segment else "",
        window="" if window == usual else window,
        variants=variants,
    )
    names: set[str] = set()
    rows: dict[Metric, list[tuple[Series, float | None]]] = {}
    entries = zip(snapshot.series, labels, differences(snapshot), strict=True)
    for entry, of_series, difference in entries:
        in_segment = (snapshot.families[entry.family].segment or "") == segment
        if entry.window == window and in_segment:
            names.add(slice_name(entry.labels))
            if selection.includes(of_series, compared):
                rows.setdefault(entry.metric, []).append((entry, difference))
    return Excerpt(
        snapshot=snapshot,
        selection=selection,
        windows=windows,
        window=window,
        compared=compared,
        names=sorted(names),
        rows=rows,
    )


def slice_name(labels: Iterable[str]) -> str:
    """The name of a slice.

    Example:
        >>> slice_name(["treatment", "nl"]), slice_name([])
        ('treatment · nl', 'all lists')
    """
    return " · ".join(labels) or "all lists"


def window_name(window: str) -> str:
    """A window in words.

    Example:
        >>> window_name("5m"), window_name("lifetime")
        ('last 5m', 'all time')
    """
    return "all time" if window == LIFETIME else f"last {window}"


def _all(values: Iterable[str], word: str = "all") -> dict[str, str]:
    """The choices with one for all of them; none if there are none."""
    choices = {value: value for value in values}
    return {"": word} | choices if choices else {}
