"""What a reader of the page chose: the address, the form, and the series that they show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

import msgspec

from streameval.catalogue.metric import Metric
from streameval.engine.snapshot import LIFETIME, Series, Snapshot
from streameval.engine.windows.times import microseconds
from streameval.exporters.page.markup import Markup, tag
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
        chosen = [(name, changes.get(name, getattr(self, name))) for name in _FIELDS]
        pairs = [pair for pair in chosen if pair[1]]
        pairs += [("variant", name) for name in self.variants]
        return f"?{urlencode(pairs)}" if pairs else "./"


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
        places: name of each slice, chosen or not -> its number, which gives its colour.
        rows: metric -> each slice with its difference to the control.
    """

    snapshot: Snapshot
    selection: Selection
    windows: tuple[str, ...]
    window: str
    compared: Variants | None
    places: Mapping[str, int]
    rows: Mapping[Metric, Sequence[tuple[Series, float | None]]]

    @property
    def control(self) -> str | None:
        """The control of the comparison, or None."""
        return None if self.compared is None else self.compared.control

    def shows(self, labels: Mapping[str, str]) -> bool:
        """Whether a slice is chosen, by its variant and its value of the segment."""
        chosen, compared = self.selection, self.compared
        if chosen.variants and compared is not None:
            variant = labels.get(compared.label)
            if variant is not None and variant not in chosen.variants:
                return False
        return not chosen.value or labels.get(chosen.segment) == chosen.value


def excerpt(snapshot: Snapshot, selection: Selection) -> Excerpt:
    """The series that a selection shows; a choice that the snapshot does not have is the usual."""
    segments = {family.segment for family in snapshot.families}
    segment = selection.segment if selection.segment in segments else ""
    windows = _windows(snapshot, segment)
    usual = windows[max(0, (len(windows) - 2) // 2)]
    window = selection.window if selection.window in windows else usual
    compared = comparison(snapshot)
    variants = selection.variants
    if compared is not None and set(_values(snapshot, compared.label)) <= set(variants):
        variants = ()
    chosen = msgspec.structs.replace(
        selection,
        segment=segment,
        value=selection.value if segment else "",
        window="" if window == usual else window,
        variants=variants,
    )
    entries = [
        (entry, by)
        for entry, by in zip(snapshot.series, differences(snapshot), strict=True)
        if entry.window == window and _segment(snapshot, entry) == segment
    ]
    names = sorted({slice_name(entry.labels) for entry, _ in entries})
    result = Excerpt(
        snapshot=snapshot,
        selection=chosen,
        windows=windows,
        window=window,
        compared=compared,
        places={name: place for place, name in enumerate(names)},
        rows={},
    )
    rows: dict[Metric, list[tuple[Series, float | None]]] = {}
    for entry, by in entries:
        if result.shows(labels_of(snapshot, entry)):
            rows.setdefault(entry.metric, []).append((entry, by))
    return msgspec.structs.replace(result, rows=rows)


def slice_name(labels: Iterable[str]) -> str:
    """The name of a slice.

    Example:
        >>> slice_name(["treatment", "nl"]), slice_name([])
        ('treatment · nl', 'all lists')
    """
    return " · ".join(labels) or "all lists"


def labels_of(snapshot: Snapshot, entry: Series) -> dict[str, str]:
    """Label name -> value, of one series."""
    return dict(zip(snapshot.families[entry.family].label_names, entry.labels, strict=True))


def window_name(window: str) -> str:
    """A window in words.

    Example:
        >>> window_name("5m"), window_name("lifetime")
        ('last 5m', 'all time')
    """
    return "all time" if window == LIFETIME else f"last {window}"


def filters(excerpt: Excerpt) -> Markup:
    """The form with the available choices; without scripts it has a button."""
    snapshot, chosen = excerpt.snapshot, excerpt.selection
    metrics = list(dict.fromkeys(entry.metric for entry in snapshot.series))
    names = dict.fromkeys(metric.definition.name for metric in metrics)
    cuts = sorted({metric.k for metric in metrics if metric.k is not None})
    segments = dict.fromkeys(filter(None, (family.segment for family in snapshot.families)))
    values = _values(snapshot, chosen.segment) if chosen.segment else ()
    alone = bool(chosen.view)
    parts = [
        _picker("metric", "Metric", _all(names), "" if alone else chosen.metric),
        _picker("k", "Cut-off", _all(map(str, cuts)), chosen.k),
    ]
    if alone:
        hidden = {name: getattr(chosen, name) for name in ("view", "metric", "k")}
        parts = [tag("input", type="hidden", name=name, value=hidden[name]) for name in hidden]
    windows = {window: window_name(window) for window in excerpt.windows}
    parts += [
        _picker("window", "Window", windows if len(windows) > 1 else {}, excerpt.window),
        _picker("segment", "Segment", _all(segments, "none"), chosen.segment),
        _picker("value", chosen.segment, _all(values), chosen.value),
        _boxes(excerpt),
        tag("noscript", tag("button", "Show", type="submit")),
    ]
    return tag("form", *parts, id="filters", method="get", aria_label="Selection")


def _windows(snapshot: Snapshot, segment: str) -> tuple[str, ...]:
    """All windows of a segment, the shortest first."""
    names = {
        window
        for family in snapshot.families
        if (family.segment or "") == segment
        for window in family.windows
    }
    return (*sorted(names - {LIFETIME}, key=microseconds), LIFETIME)


def _segment(snapshot: Snapshot, entry: Series) -> str:
    return snapshot.families[entry.family].segment or ""


def _values(snapshot: Snapshot, label: str) -> list[str]:
    """The values of a label or segment, sorted."""
    places = {
        number: family.label_names.index(label)
        for number, family in enumerate(snapshot.families)
        if label in family.label_names
    }
    return sorted(
        {entry.labels[places[entry.family]] for entry in snapshot.series if entry.family in places}
    )


def _all(values: Iterable[str], word: str = "all") -> dict[str, str]:
    """The choices with one for all of them; none if there are none."""
    choices = {value: value for value in values}
    return {"": word} | choices if choices else {}


def _picker(name: str, title: str, choices: Mapping[str, str], chosen: str) -> Markup:
    if not choices:
        return Markup()
    options = (
        tag("option", text, value=value, **({"selected": ""} if value == chosen else {}))
        for value, text in choices.items()
    )
    select = tag("select", *options, id=name, name=name)
    return tag("label", tag("span", title), select, id=f"pick-{name}", **{"for": name})


def _boxes(excerpt: Excerpt) -> Markup:
    """A checkbox for each variant, if there are several."""
    if excerpt.compared is None:
        return Markup()
    label, chosen = excerpt.compared.label, excerpt.selection.variants
    boxes = [
        tag(
            "label",
            tag(
                "input",
                type="checkbox",
                name="variant",
                value=name,
                id=f"variant-{number}",
                **({"checked": ""} if not chosen or name in chosen else {}),
            ),
            name,
        )
        for number, name in enumerate(_values(excerpt.snapshot, label))
    ]
    return tag("fieldset", tag("legend", label), *boxes, id="pick-variant")
