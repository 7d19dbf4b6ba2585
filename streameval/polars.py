"""A namespace of Polars expressions: `pl.col("shown").streameval.reading("clicked", "ndcg@10")`.

Importing this module registers it. Needs Polars, and the extra `tables`.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from streameval.evaluation.evaluation import evaluate

__all__ = ["RankingNamespace"]


@pl.api.register_expr_namespace("streameval")
class RankingNamespace:
    """Metrics of a column of lists of recommended items.

    Example:
        >>> import polars as pl
        >>> import streameval.polars
        >>> frame = pl.DataFrame(
        ...     {"arm": ["x", "x", "y"], "shown": [["a", "b"]] * 3, "clicked": [["b"], ["a"], []]}
        ... )
        >>> mrr = pl.col("shown").streameval.reading("clicked", "mrr")
        >>> frame.group_by("arm", maintain_order=True).agg(mrr)["shown"].to_list()
        [0.75, 0.0]
        >>> frame.select(pl.col("shown").streameval.values("clicked", "mrr"))["shown"].to_list()
        [0.5, 1.0, 0.0]
    """

    def __init__(self, recommendations: pl.Expr) -> None:
        self._recommendations = recommendations

    def reading(self, interactions: str | pl.Expr, metric: str) -> pl.Expr:
        """The value of a metric over all lists, or of each group; NaN without evidence.

        `interactions`: the column of lists of items that users interacted with.
        """
        columns = [self._recommendations, interactions]

        def value(series: Sequence[pl.Series]) -> float:
            return evaluate(*map(pl.Series.to_list, series), metric, intervals=None)[metric].value

        return pl.map_groups(columns, value, return_dtype=pl.Float64, returns_scalar=True)

    def values(self, interactions: str | pl.Expr, metric: str) -> pl.Expr:
        """The value of a metric for each list; NaN where it is undefined."""
        columns = [self._recommendations, interactions]

        def value(series: Sequence[pl.Series]) -> pl.Series:
            evaluation = evaluate(*map(pl.Series.to_list, series), metric, intervals=None)
            values: pl.Series = evaluation.values(library="polars").to_series(1)
            return values

        return pl.map_batches(columns, value, return_dtype=pl.Float64)
