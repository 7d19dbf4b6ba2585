"""The whole configuration; each component brings its own options."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from streameval.accumulator import Accumulator
from streameval.config.inputs import PopularityOptions, SimilarityOptions, popularity, similarity
from streameval.events import Id
from streameval.pipeline.fields import EventFields
from streameval.sources.files import lines
from streameval.sources.options import SourceOptions
from streameval.statistics.exposures import MAX_ITEMS


class WebOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the page, the API and /metrics are served.

    Attributes:
        listen: "HOST:PORT"; an IPv6 address in brackets: "[::1]:9877".
    """

    listen: str = "127.0.0.1:9877"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a configuration file can say; `metrics` and `source` are all it must.

    Attributes:
        metrics: what to read, for example "ndcg@10".
        source: where the records come from.
        labels: fields of a record whose values split every metric.
        catalog: how many items there are, or a file of their ids, one a line.
        popularity: how many users had to do with each item before.
        similarity: how alike two items are.
        depth: ranks kept; None means the largest cut-off asked for.
        max_items: most distinct items counted exactly for coverage.
        event: which field of a record holds what.
        web: where to listen.
    """

    metrics: Annotated[list[str], Meta(min_length=1)]
    source: SourceOptions
    labels: list[str] = []
    catalog: Annotated[int, Meta(ge=1)] | str | None = None
    popularity: PopularityOptions | None = None
    similarity: SimilarityOptions | None = None
    depth: Annotated[int, Meta(ge=1)] | None = None
    max_items: Annotated[int, Meta(ge=1)] = MAX_ITEMS
    event: EventFields = EventFields()
    web: WebOptions = WebOptions()

    def accumulator(self) -> Accumulator:
        """A new accumulator of the metrics; reads the files that the configuration names.

        Raises:
            MetricError: a metric cannot be understood, or lacks its inputs.
            SourceError: a file cannot be read.
        """
        as_id = int if self.event.ids == "integer" else str
        return Accumulator(
            *self.metrics,
            catalog=self.items(),
            popularity=popularity(self.popularity, as_id) if self.popularity else None,
            similarity=similarity(self.similarity, as_id) if self.similarity else None,
            depth=self.depth,
            max_items=self.max_items,
        )

    def items(self) -> int | frozenset[Id] | None:
        """The catalogue: how many items, or which; None where none is configured.

        Raises:
            SourceError: the file of the catalogue cannot be read.
            ValueError: an id in it is no integer where `ids` says "integer", or no text.
        """
        if not isinstance(self.catalog, str):
            return self.catalog
        ids = (line.decode().strip() for line in lines(self.catalog))
        return frozenset(map(int, ids)) if self.event.ids == "integer" else frozenset(ids)
