"""Charts of readings, also over time; needs the extra `plot`."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from streameval.catalogue.reading import Reading
from streameval.events.errors import MetricError
from streameval.events.extras import import_extra
from streameval.exporters.view import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIELDS: Final = frozenset({"start", "metric", "labels", "value"})
_ROWS: Final = (
    'give the result of evaluate(..., every="1h"), rows of `streameval evaluate --every 1h '
    "--format json`, or results of plot.row"
)


_LABEL: Final = 36
"""Characters of a line of a label."""

__all__ = ["over_time", "readings", "row"]


@runtime_checkable
class SpanRows(Protocol):
    """What `streameval.evaluate` returns, as far as it is drawn."""

    def rows(self) -> list[dict[str, Any]]:
        """The rows for `over_time`."""


def row(start: float, reading: Reading, **labels: str) -> dict[str, Any]:
    """A row for `over_time`, in the form of `streameval evaluate --every`.

    Args:
        start: start of the span, seconds since the epoch.
        reading: reading of the span; an undefined value becomes None.
        labels: labels of the slice.

    Raises:
        MetricError: an argument is not valid.

    Example:
        >>> from streameval import Accumulator
        >>> row(1_735_689_600, Accumulator("mrr").read("mrr"), variant="a")["value"] is None
        True
    """
    if not isinstance(reading, Reading):
        raise MetricError(f"reading={reading!r:.80}: give the result of Accumulator.read")
    return {
        "start": _moment(start).isoformat(),
        "metric": reading.metric,
        "labels": labels,
        "value": reading.value if reading.defined else None,
    }


def over_time(
    rows: Iterable[Mapping[str, Any]] | SpanRows, metric: str, axes: Axes | None = None
) -> Axes:
    """Draw one metric over time: of `streameval.evaluate(..., every="1h")`, or of rows.

    Every slice has a line with a point at the start of each span. A span without a value breaks
    the line, because undefined is not zero.

    Args:
        rows: the Evaluation; the JSON objects of `streameval evaluate --every 1h --format json`;
            or results of `row`: `start`, `metric`, `labels`, and `value`, which may be None.
        metric: text of the metric to draw.
        axes: matplotlib axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        MetricError: an argument or a row is not valid.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> rows = [
        ...     {"start": "2025-01-01T00:00:00Z", "metric": "mrr", "labels": {}, "value": 0.5},
        ...     {"start": "2025-01-01T01:00:00Z", "metric": "mrr", "labels": {}, "value": None},
        ... ]
        >>> (line,) = over_time(rows, "mrr").lines
        >>> line.get_ydata().tolist()
        [0.5, nan]
    """
    if not isinstance(metric, str):
        raise MetricError(f"metric={metric!r:.80}: give the text of a metric, for example 'mrr'")
    drawn = axes_of(axes)
    starts, lines = _lines(
        [metric_row for metric_row in _check_rows(_rows_of(rows)) if metric_row["metric"] == metric]
    )
    for name, values in lines.items():
        drawn.plot(starts, values, marker=".", label=name)  # type: ignore[arg-type]  # it takes times
    drawn.set(title=metric, xlabel="event time, UTC")
    if any(lines):
        drawn.legend()
    dates = import_extra("matplotlib.dates", "drawing", "plot")
    locator = dates.AutoDateLocator()
    drawn.xaxis.set_major_locator(locator)
    drawn.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    return drawn


def readings(values: Mapping[str, Reading], axes: Axes | None = None) -> Axes:
    """Draw the value of each reading with its interval, from top to bottom.

    Without an interval there is only the point, and an undefined value has only its name.

    Args:
        values: text -> reading: the result of `streameval.evaluate`, of its `slice`, or of
            `Accumulator.compute`.
        axes: matplotlib axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        MetricError: an argument is not valid.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import streameval
        >>> evaluation = streameval.evaluate([["a", "b"], ["c"]], [["b"], ["c"]], "mrr", "ctr")
        >>> drawn = readings(evaluation)
        >>> [text.get_text() for text in drawn.get_yticklabels()]
        ['mrr: 0.7500', 'ctr: 0.6667']
    """
    if not isinstance(values, Mapping):
        raise MetricError(f"values={values!r:.80}: give text -> reading, as evaluate does")
    for name, reading in values.items():
        if not isinstance(reading, Reading):
            raise MetricError(f"values[{name!r}]={reading!r:.80}: give a reading of evaluate")
    drawn = axes_of(axes)
    # The method `values` of an evaluation has those of its lists.
    for place, reading in enumerate(values[name] for name in values):
        bounded = reading.interval or reading
        if reading.defined and bounded.low is not None and bounded.high is not None:
            drawn.plot([bounded.low, bounded.high], [place, place], color="tab:blue")
        if reading.defined:
            drawn.plot([reading.value], [place], marker="o", color="tab:blue")
    names = [
        f"{name}: {figure(reading.value) if reading.defined else 'no value'}"
        for name, reading in values.items()
    ]
    name_rows(drawn, names)
    drawn.set(xlabel="value")
    return drawn


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names of rows from top to bottom; long ones on several lines, so that none is cut."""
    axes.set_yticks(range(len(names)), [textwrap.fill(name, _LABEL) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


def axes_of(axes: Axes | None) -> Axes:
    plots = import_extra("matplotlib.pyplot", "drawing", "plot")
    if not (axes is None or hasattr(axes, "axvline")):
        raise MetricError(f"axes={axes!r:.80}: give one Axes of matplotlib")
    drawn: Axes = plots.subplots(layout="constrained")[1] if axes is None else axes
    return drawn


def _moment(start: float) -> datetime:
    try:
        return datetime.fromtimestamp(start, UTC)
    except (OSError, OverflowError, TypeError, ValueError):
        raise MetricError(f"start={start!r:.80}: give seconds since the epoch") from None


def _rows_of(given: Any) -> Any:
    """The rows of an Evaluation with spans, else what is given."""
    if not isinstance(given, SpanRows):
        return given
    rows = given.rows()
    if any("start" not in span_row for span_row in rows):
        raise MetricError('rows: this evaluation has no spans; evaluate with every="1h" or similar')
    return rows


def _check_rows(rows: Any) -> Iterator[Mapping[str, Any]]:
    """The rows; refuses what is no row."""
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes, Mapping)):
        raise MetricError(f"rows={rows!r:.80}: {_ROWS}")
    for place, given_row in enumerate(rows):
        if not isinstance(given_row, Mapping) or not given_row.keys() >= _FIELDS:
            raise MetricError(f"rows[{place}]={given_row!r:.80}: {_ROWS}")
        yield given_row


def _lines(rows: Sequence[Mapping[str, Any]]) -> tuple[list[datetime], dict[str, list[float]]]:
    """The starts of all spans, and the values of each slice in them, by its label values."""
    starts = list(map(_start, rows))
    if len({start.tzinfo is None for start in starts}) > 1:
        raise MetricError("start: some have an offset from UTC and others not; give all one")
    spans = sorted(set(starts))
    places = {start: place for place, start in enumerate(spans)}
    lines: dict[str, list[float]] = {}
    for start, row in zip(starts, rows, strict=True):
        line = lines.setdefault(_name(row), [math.nan] * len(spans))
        line[places[start]] = math.nan if row["value"] is None else _value(row)
    return spans, lines


def _start(row: Mapping[str, Any]) -> datetime:
    try:
        return datetime.fromisoformat(row["start"])
    except (TypeError, ValueError):
        raise MetricError(f"start={row['start']!r:.80}: give ISO 8601 text") from None


def _name(row: Mapping[str, Any]) -> str:
    labels = row["labels"]
    if not isinstance(labels, Mapping) or not all(isinstance(n, str) for n in labels.values()):
        raise MetricError(f"labels={labels!r:.80}: give name -> text")
    return " / ".join(labels.values())


def _value(row: Mapping[str, Any]) -> float:
    if not isinstance(row["value"], Real):
        raise MetricError(f"value={row['value']!r:.80}: give a number, or None if undefined")
    return float(row["value"])
