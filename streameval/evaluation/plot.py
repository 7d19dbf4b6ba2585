"""Charts of readings, also over time; needs the extra `plot`."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streameval.catalogue.reading import Reading
from streameval.events.errors import MetricError
from streameval.events.extras import import_extra
from streameval.exporters.view import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from streameval.evaluation.evaluation import Evaluation

_FIELDS: Final = frozenset({"start", "metric", "labels", "value"})
_ROWS: Final = (
    'give the result of evaluate(..., every="1h"), rows of `streameval evaluate --every 1h '
    "--format json`, or results of plot.row"
)


__all__ = ["over_time", "readings", "row"]


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
    try:
        moment = datetime.fromtimestamp(start, UTC)
    except (OSError, OverflowError, TypeError, ValueError):
        raise MetricError(f"start={start!r:.80}: give seconds since the epoch") from None
    return {
        "start": moment.isoformat(),
        "metric": reading.metric,
        "labels": labels,
        "value": reading.value if reading.defined else None,
    }


def over_time(
    rows: Iterable[Mapping[str, Any]] | Evaluation, metric: str, axes: Axes | None = None
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
    points = [point for point in _points(rows) if point.metric == metric]
    if len({point.start.tzinfo is None for point in points}) > 1:
        raise MetricError("start: some have an offset from UTC and others not; give all one")
    starts = sorted({point.start for point in points})
    lines: dict[str, dict[datetime, float]] = {}
    for point in points:
        lines.setdefault(point.labels, {})[point.start] = point.value
    for name, values in lines.items():
        # matplotlib leaves a label that begins with an underscore out of the legend.
        label = _wrap(f" {name}" if name.startswith("_") else name)
        heights = [values.get(start, math.nan) for start in starts]
        drawn.plot(starts, heights, marker=".", label=label)  # type: ignore[arg-type]  # it takes times
    drawn.set(title=metric, xlabel="event time, UTC")
    if any(lines):
        for text in drawn.legend().get_texts():
            text.set_parse_math(False)  # a dollar sign is one
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
    rows = []
    # The method `values` of an evaluation has those of its lists.
    for name, reading in values.items():
        bounded, value = reading.interval or reading, reading.value if reading.defined else None
        text = f"{name}: {'no value' if value is None else figure(value)}"
        rows.append(DrawnRow(text, value, bounded.low, bounded.high))
    draw_rows(drawn, rows)
    drawn.set(xlabel="value")
    return drawn


class DrawnRow(NamedTuple):
    """A point with its bounds and its name; None where there is none."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    colour: str = "tab:blue"


def draw_rows(axes: Axes, rows: Sequence[DrawnRow]) -> None:
    """Draw rows from top to bottom; long names on several lines, so that none is cut."""
    for index, (_, value, low, high, colour) in enumerate(rows):
        if value is not None and low is not None and high is not None:
            axes.plot([low, high], [index, index], color=colour)
        if value is not None:
            axes.plot([value], [index], marker="o", color=colour)
    axes.set_yticks(range(len(rows)), [_wrap(row.name) for row in rows], parse_math=False)
    axes.set_ylim(len(rows) - 0.5, -0.5)


def _wrap(label: str) -> str:
    return textwrap.fill(label, 36)


def axes_of(axes: Axes | None) -> Axes:
    plots = import_extra("matplotlib.pyplot", "drawing", "plot")
    if not (axes is None or hasattr(axes, "axvline")):
        raise MetricError(f"axes={axes!r:.80}: give one Axes of matplotlib")
    drawn: Axes = plots.subplots(layout="constrained")[1] if axes is None else axes
    return drawn


class _Point(NamedTuple):
    """One span of one slice; `labels`: its values, joined."""

    start: datetime
    metric: str
    labels: str
    value: float


def _points(result: Any) -> Iterator[_Point]:
    """The points of an Evaluation with spans, or of rows; refuses anything else."""
    rows = result.rows() if hasattr(result, "rows") else result
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes, Mapping)):
        raise MetricError(f"rows={rows!r:.80}: {_ROWS}")
    for index, row in enumerate(rows):
        if rows is not result and "start" not in row:
            problem = 'this evaluation has no spans; evaluate with every="1h" or similar'
            raise MetricError(f"rows: {problem}")
        if not isinstance(row, Mapping) or not row.keys() >= _FIELDS:
            raise MetricError(f"rows[{index}]={row!r:.80}: {_ROWS}")
        labels, value = row["labels"], row["value"]
        if not isinstance(labels, Mapping) or not all(isinstance(n, str) for n in labels.values()):
            raise MetricError(f"labels={labels!r:.80}: give name -> text")
        if not isinstance(value, Real | None):
            raise MetricError(f"value={value!r:.80}: give a number, or None if undefined")
        try:
            start = datetime.fromisoformat(row["start"])
        except (TypeError, ValueError):
            raise MetricError(f"start={row['start']!r:.80}: give ISO 8601 text") from None
        number = math.nan if value is None else float(value)
        yield _Point(start, row["metric"], " / ".join(labels.values()), number)
