"""Evaluation on Beam: a transform of Arrow tables to rows of partials, which merge exactly.

Needs the extra `beam`, on the machine that builds the pipeline and on its workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Unpack

from streameval.catalogue import parse
from streameval.evaluation.partials import Inputs, ItemInputs, arrow_table, partials, repacked
from streameval.events.errors import UsageError
from streameval.events.extras import import_extra
from streameval.join.tables import Attribution, joined, pieces, sides
from streameval.statistics.intervals import Intervals

__all__ = ["evaluate"]


def evaluate(
    *metrics: str,
    by: Sequence[str] = (),
    every: str | None = None,
    intervals: Intervals | None = None,
    attribution: Attribution | None = None,
    buckets: int = 200,
    **inputs: Unpack[Inputs],
) -> Any:
    """Make a PTransform that counts Arrow tables of events, or joins impressions with interactions.

    Apply it to a PCollection of tables as `ReadFromParquetBatched` reads them; for a join, to
    `(impressions, interactions)`, with the columns of `streameval.attribution.joined`. Its output
    has a mapping for each cell, for `streameval.partials.merged` and for `WriteToParquet` with
    `arrow_table([]).schema`.

    Args:
        metrics: this and all other arguments as for `streameval.partials.partials`.
        by: columns whose values define the slices.
        every: length of spans, like "1h"; these are windows of event time, not of Beam.
        intervals: settings of confidence intervals; None keeps none.
        attribution: the rules of the join.
        buckets: by which both sides of a join are divided by key.
        inputs: catalog, popularity, similarity, attributes, examination, user_key, depth,
            max_items, ids. Workers read the key at its place, such as a file of theirs.

    Raises:
        MetricError: a metric is unknown, or lacks an input.
        MissingExtraError: Beam is not installed.
        UsageError: `buckets` is below 1, or there is one collection to join.

    Example:
        >>> import apache_beam, pyarrow
        >>> shown = {"request_id": ["r"], "recommendations": [["b", "a"]], "times": [0]}
        >>> clicks = {"request_id": ["r"], "item": ["a"], "times": [60_000_000]}
        >>> with apache_beam.Pipeline() as pipeline:
        ...     both = (
        ...         pipeline | "Shown" >> apache_beam.Create([pyarrow.table(shown)]),
        ...         pipeline | "Clicks" >> apache_beam.Create([pyarrow.table(clicks)]),
        ...     )
        ...     rows = both | evaluate("mrr", buckets=4)
        ...     _ = rows | apache_beam.Map(lambda row: print(row["lists"]))
        1
    """
    beam = import_extra("apache_beam", "streameval.beam", "beam")
    rule = attribution or Attribution()
    named_inputs: Any = {
        name: of for name, of in inputs.items() if name in ItemInputs.__optional_keys__
    }
    # Raise errors of arguments here rather than on a worker.
    if buckets < 1:
        raise UsageError(f"buckets={buckets}: give 1 or more.")
    partials((), *metrics, by=by, every=every, intervals=intervals, **inputs)

    def count(table: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        rows = partials([table], *metrics, by=by, every=every, intervals=intervals, **inputs)
        for row in arrow_table(rows).to_pylist():
            yield (tuple(row["labels"]), row["start"]), row

    def add(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
        # Rows load no module, and this worker may not have counted any.
        for text in metrics:
            parse(text)
        (row,) = arrow_table(repacked(rows, **named_inputs)).to_pylist()
        added: Mapping[str, Any] = row
        return added

    def divide(table: Any, side: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for row in pieces(table, side, rule, buckets).to_pylist():
            yield row["bucket"], row

    def join(group: tuple[int, Mapping[str, Iterable[Any]]]) -> Any:
        return joined(*sides(chain(*group[1].values())), rule).lists

    def expand(tables: Any) -> Any:
        if isinstance(tables, tuple):
            named = zip(("impressions", "interactions"), tables, strict=True)
            both = {side: of | f"Divide {side}" >> beam.FlatMap(divide, side) for side, of in named}
            tables = both | beam.CoGroupByKey() | "Join" >> beam.Map(join)
        elif attribution is not None:
            raise UsageError(
                "attribution joins two collections: apply it to (impressions, clicks)."
            )
        counted = tables | "Count" >> beam.FlatMap(count)
        return counted | beam.CombinePerKey(beam.CombineFn.from_callable(add)) | beam.Values()

    return beam.ptransform_fn(expand)()
