"""Evaluation on Spark: executors count, and their partial results merge to the same bits.

Needs pyspark, and the extra `tables` on the driver and the executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Unpack, cast

from streameval.accumulator import Accumulator
from streameval.catalogue import parse
from streameval.catalogue.reading import Reading
from streameval.evaluation.partials import (
    Inputs,
    ItemInputs,
    arrow_table,
    merged,
    partials,
    repacked,
)
from streameval.evaluation.slice_counts import Cell
from streameval.events.columns import Columns
from streameval.events.errors import InvalidEventError, UsageError
from streameval.join.tables import Attribution, joined
from streameval.statistics.intervals import Intervals

__all__ = ["SparkEvaluation", "Value", "evaluate"]

SCHEMA: Final = "labels array<string>, start bigint, lists bigint, state binary"
"""Schema of a frame of partials."""


class Value(NamedTuple):
    """One metric of one cell.

    Attributes:
        labels: values of the columns in `by`.
        start: start of the span, microseconds since the epoch; None for all time.
        metric: text of the metric.
        reading: value, evidence and interval.

    Example:
        >>> from streameval import Accumulator
        >>> reading = Accumulator("mrr").read("mrr")
        >>> Value(("treatment",), None, "mrr", reading).labels
        ('treatment',)
    """

    labels: tuple[str, ...]
    start: int | None
    metric: str
    reading: Reading


class SparkEvaluation:
    """A lazy evaluation: Spark counts when a result is read.

    Attributes:
        partials: a frame with one row per cell, for `streameval.partials.merged`. Write it to keep
            the counts; combine frames of several runs by union.

    Example:
        >>> schema = "recommendations array<string>, interactions array<string>"
        >>> monday = evaluate(spark.createDataFrame([(["a"], ["a"])], schema), "mrr")
        >>> tuesday = evaluate(spark.createDataFrame([(["a"], [])], schema), "mrr")
        >>> from streameval.partials import Cell, merged
        >>> rows = monday.partials.union(tuesday.partials).collect()
        >>> merged(row.asDict() for row in rows)[Cell((), None)].read("mrr").value
        0.5
    """

    def __init__(self, partials: Any, inputs: ItemInputs) -> None:
        self.partials = partials
        self._inputs = inputs

    def accumulators(self) -> dict[Cell, Accumulator]:
        """The accumulator of each cell, by start and labels."""
        rows = (row.asDict() for row in self.partials.toLocalIterator())
        return merged(rows, **self._inputs)

    def collect(self) -> list[Value]:
        """All metrics of each cell, by start and labels."""
        return [
            Value(*cell, metric, reading)
            for cell, counted in self.accumulators().items()
            for metric, reading in counted.compute().items()
        ]


def evaluate(
    frame: Any,
    *metrics: Any,
    by: Sequence[str] = (),
    every: str | None = None,
    intervals: Intervals | None = None,
    attribution: Attribution | None = None,
    buckets: int = 200,
    **inputs: Unpack[Inputs],
) -> SparkEvaluation:
    """Count a frame of events, or of impressions that are joined with their interactions.

    Args:
        frame: a pyspark DataFrame with one row per event and columns named as in `Columns`:
            recommendations, interactions, and optionally the others. Or impressions, with the
            columns of `streameval.attribution.joined`; the next argument is then a DataFrame of
            interactions.
        attribution: the rules of the join.
        buckets: by which impressions and interactions are divided by key; about one for each
            1,000,000 rows.
        metrics: this and all other arguments as for `streameval.partials.partials`.
        by: columns whose values define the slices; a string is one column.
        every: length of spans, like "1h".
        intervals: settings of confidence intervals; None keeps none.
        inputs: catalog, popularity, similarity, attributes, examination, user_key, depth, max_items
            and ids. Executors read the key at its place, such as a file or a variable of theirs.

    Raises:
        InvalidEventError: the frame is not one of pyspark, or lacks a column.
        MetricError: a metric is unknown, or lacks an input.
        MissingExtraError: pyarrow is not installed.
        UsageError: `buckets` is below 1, or there is one frame to join.
        ValueError: `every` is not a duration.

    Example:
        >>> rows = [(["a", "b"], ["b"], "x"), (["a", "b"], [], "x"), (["a", "b"], ["a"], "y")]
        >>> schema = "recommendations array<string>, interactions array<string>, variant string"
        >>> evaluation = evaluate(spark.createDataFrame(rows, schema), "mrr", by=["variant"])
        >>> [(value.labels, value.metric, value.reading.value) for value in evaluation.collect()]
        [(('x',), 'mrr', 0.25), (('y',), 'mrr', 1.0)]
    """
    by = (by,) if isinstance(by, str) else by
    interactions, metrics = _frame_and_metrics(metrics)
    # Raise errors of arguments here rather than on an executor.
    partials((), *metrics, by=by, every=every, intervals=intervals, **inputs)
    if not hasattr(frame, "mapInArrow"):
        problem = f"give a DataFrame of pyspark, found {type(frame).__name__}"
        raise InvalidEventError("wrong_type", problem)
    if interactions is None and attribution is not None:
        raise UsageError(
            "attribution joins two frames: give that of interactions after the impressions."
        )
    names = [*frame.columns, *([] if interactions is None else ["interactions"])]
    for name in ["recommendations", "interactions", *by, *(["times"] if every else [])]:
        if name not in names:
            columns = ", ".join(frame.columns) or "none"
            detail = f"the frame has no column {name!r}; its columns: {columns}"
            raise InvalidEventError("missing_field", detail)
    metric_inputs = cast(
        "ItemInputs",
        {name: value for name, value in inputs.items() if name in ItemInputs.__optional_keys__},
    )
    fields = dict.fromkeys(name for name in frame.columns if name in Columns.__struct_fields__)

    # Not functools.partial, because Spark inspects the type hints of the function.
    def count(batches: Iterator[Any]) -> Iterator[Any]:
        rows = partials(batches, *metrics, by=by, every=every, intervals=intervals, **inputs)
        yield from arrow_table(rows).to_batches()

    def count_joined(impressions: Any, interactions: Any) -> Any:
        lists = joined(impressions, interactions, rule).lists
        rows = partials([lists], *metrics, by=by, every=every, intervals=intervals, **inputs)
        return arrow_table(rows)

    rule = attribution or Attribution()
    if interactions is None:
        counted = frame.select(*fields | dict.fromkeys(by)).mapInArrow(count, SCHEMA)
    else:
        groups = _bucket(frame, interactions, rule, buckets)
        counted = groups[0].cogroup(groups[1]).applyInArrow(count_joined, SCHEMA)

    def add(rows: Any) -> Any:
        # Rows load no module, and this executor may not have counted any.
        for text in metrics:
            parse(text)
        return arrow_table(repacked(rows.to_pylist(), **metric_inputs))

    added = counted.groupBy("labels", "start").applyInArrow(add, SCHEMA)
    return SparkEvaluation(added, metric_inputs)


def _frame_and_metrics(arguments: Sequence[Any]) -> tuple[Any, tuple[str, ...]]:
    """A frame of interactions, if the first argument is one, and the metrics."""
    is_join = bool(arguments) and hasattr(arguments[0], "mapInArrow")
    return (arguments[0], tuple(arguments[1:])) if is_join else (None, tuple(arguments))


def _bucket(
    impressions: Any, interactions: Any, rule: Attribution, buckets: int
) -> tuple[Any, Any]:
    """Both frames in groups of the same keys."""
    from pyspark.sql import functions  # noqa: PLC0415  for joins alone

    if buckets < 1:
        raise UsageError(f"buckets={buckets}: give 1 or more.")
    required = {"impressions": ["recommendations", "times", *rule.per]}
    required["interactions"] = ["item", "times"]
    kinds, groups = list[str](), list[Any]()
    usual = ["users", "user"] if rule.key == "user_item" else ["request_id"]
    for side, frame in (("impressions", impressions), ("interactions", interactions)):
        name = next((name for name in usual if name in frame.columns), usual[-1])
        for column in (name, *required[side]):
            if column not in frame.columns:
                columns = ", ".join(frame.columns)
                detail = f"{side} have no column {column!r}; their columns: {columns}"
                raise InvalidEventError("missing_field", detail)
        kinds.append(frame.schema[name].dataType.simpleString())
        bucket = functions.pmod(functions.xxhash64(name), functions.lit(buckets))
        groups.append(frame.groupBy(bucket.alias("bucket")))
    # Spark hashes 7 and "7" to other buckets, where nothing would match.
    if kinds[0] != kinds[1]:
        detail = f"{usual[-1]}: {kinds[0]} in impressions and {kinds[1]} in interactions"
        raise InvalidEventError("invalid_id", f"{detail}; cast one of them")
    return groups[0], groups[1]
