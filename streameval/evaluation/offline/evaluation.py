"""`streameval.evaluate`: one call for files, frames, mappings, lists and scores."""

from __future__ import annotations

import math
import os
import time as clock
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypedDict

import msgspec

from streameval.accumulator import Accumulator
from streameval.catalogue import metric_of, parse
from streameval.catalogue.context import INPUTS, Given
from streameval.catalogue.items import Popularity, Similarity
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.config import Config
from streameval.decoding.fields import TimeUnit
from streameval.engine.windows.times import moment_text
from streameval.evaluation.offline.counting import accumulator_of
from streameval.evaluation.offline.evaluating import Evaluated, chunks_of, evaluated, page_of
from streameval.evaluation.offline.given import fields_of
from streameval.evaluation.offline.request import ROLES, Form, Request, title_of
from streameval.evaluation.offline.surroundings import Surroundings
from streameval.evaluation.offline.tabular import Library, frame_of, html_of, latex_of, text_of
from streameval.evaluation.offline.values import Per, values_of
from streameval.evaluation.partials import Cell
from streameval.evaluation.tables.rows import Ties
from streameval.evaluation.tables.wording import PYTHON
from streameval.events import Id
from streameval.events.errors import MetricError, SuspiciousEventsWarning, UsageError
from streameval.exporters.view import figure
from streameval.statistics.intervals import Interval, Intervals

_INTERVALS: Final = Intervals()


class EvaluationRow(NamedTuple):
    """The reading of one metric in one slice and span.

    Attributes:
        start: start of the span in ISO 8601; None for all time.
        labels: label -> value of the slice.
        window: window that ends at the newest event; "lifetime" for all.
        users: number of users; None if unknown.
    """

    start: str | None
    labels: Mapping[str, str]
    window: str
    reading: Reading
    users: float | None

    @property
    def key(self) -> str:
        """The text of the metric, with slice and span if there are any."""
        about = {} if self.start is None else {"start": self.start}
        about |= {**self.labels}
        if self.window != "lifetime":
            about["window"] = self.window
        inside = ",".join(f'{name}="{value}"' for name, value in about.items())
        return f"{self.reading.metric}{{{inside}}}" if inside else self.reading.metric

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The confidence interval, else the bounds of an estimate."""
        bounded: Interval | Reading = self.reading.interval or self.reading
        return bounded.low, bounded.high


class Evaluation(Mapping[str, Reading]):
    """The readings of `evaluate`: a mapping from the text of a metric to its Reading.

    Split by labels or spans, the keys name them, too: 'ctr{variant="a"}'; see `slice`.

    Example:
        >>> found = evaluate({"u1": ["a", "b"], "u2": ["c"]}, {"u1": {"b"}, "u2": {"d"}}, "mrr")
        >>> found["mrr"].value
        0.25
        >>> print(found)
        metric  value   low  high  lists  users
        mrr     0.2500             2      2
    """

    def __init__(self, request: Request, counts: Evaluated) -> None:
        self._request, self._counts = request, counts
        self._rows = list(_rows(counts))
        self._readings = {row.key: row.reading for row in self._rows}

    def __getitem__(self, key: str) -> Reading:
        try:
            return self._readings[key]
        except KeyError:
            pass
        # Another spelling of a metric, for example P@5, is found by its canonical text.
        with _metric_errors(key, self._readings):
            return self._readings[parse(key).text]

    def __iter__(self) -> Iterator[str]:
        return iter(self._readings)

    def __len__(self) -> int:
        return len(self._readings)

    @property
    def config(self) -> Config:
        """The configuration with which a daemon would count the same values."""
        return self._counts.config

    @property
    def labels(self) -> list[str]:
        """The names of the labels that split the events."""
        return list(self._rows[0].labels) if self._rows else []

    def accumulator(self, **labels: str) -> Accumulator:
        """The counts of a slice, for example to merge or to save; a copy.

        Raises:
            UsageError: there is no such slice, or the events are split by spans.
        """
        wanted = [labels.get(name, "") for name in self.labels]
        counted = accumulator_of(self._counts.counts, wanted, self._request.inputs)
        if counted is None:
            raise UsageError(
                f"no accumulator of {labels or 'all events'}: name a value of each of "
                f"{', '.join(self.labels) or 'no labels'}, without spans."
            )
        return counted

    def slice(self, **labels: str) -> dict[str, Reading]:
        """The readings of the slice with these labels, by the text of the metric.

        Raises:
            UsageError: there is no such slice.
        """
        chosen = [row for row in self._rows if labels.items() <= row.labels.items()]
        texts = {row.reading.metric: row.reading for row in chosen}
        if len(texts) != len(chosen) or not chosen:
            slices_known = sorted({str(dict(row.labels)) for row in self._rows})
            raise UsageError(f"{labels}: not one slice; the slices: {', '.join(slices_known)}.")
        return texts

    def rows(self) -> list[dict[str, Any]]:
        """The rows of `streameval evaluate --format json`, for `streameval.plot.over_time`."""
        return [
            {
                **({} if row.start is None else {"start": row.start}),
                "metric": row.reading.metric,
                "labels": dict(row.labels),
                "value": row.reading.value if row.reading.defined else None,
                "count": row.reading.count,
            }
            for row in self._rows
        ]

    def to_frame(self, library: Library | None = None) -> Any:
        """A frame: span and labels if there are any, metric, value, low, high, lists, users.

        `low` and `high` are the confidence interval, else the bounds of an estimate. What is
        undefined or unknown is missing.

        `library`: "pandas", "polars" or "pyarrow"; None for the one that is in use.

        Raises:
            MissingExtraError: no library of frames is installed.
        """
        columns = self._split_columns()
        columns["metric"] = [row.reading.metric for row in self._rows]
        columns["value"] = [
            row.reading.value if row.reading.defined else None for row in self._rows
        ]
        columns["low"] = [row.bounds[0] for row in self._rows]
        columns["high"] = [row.bounds[1] for row in self._rows]
        columns["lists"] = [row.reading.lists for row in self._rows]
        columns["users"] = [row.users for row in self._rows]
        return frame_of(columns, library)

    def values(self, per: Per = "list", library: Library | None = None) -> Any:
        """A frame with the value of each metric for each list, or for each user.

        Lists are in the order of the events, or of the first appearance of their users. An
        undefined value is NaN. Files are read again. Unlike those of other mappings, these are not
        the values of the keys; `dict(evaluation).values()` are.

        Args:
            per: "list", or "user" for all lists of a user together.
            library: as for `to_frame`.

        Raises:
            MetricError: no metric has a value for a list.
            UsageError: `per` is neither.

        Example:
            >>> found = evaluate([["a", "b"], ["c", "d"]], [["b"], ["d", "c"]], "recall@1")
            >>> found.values(library="pyarrow").to_pydict()
            {'user': [0, 1], 'recall@1': [0.0, 0.5]}
        """
        if per not in ("list", "user"):
            raise UsageError(f"per={per!r}: give 'list' or 'user'.")
        config, request = self._counts.config, self._request
        inputs = {**request.inputs, "ids": None}
        empty = msgspec.structs.replace(config, intervals=None).accumulator(inputs)
        return frame_of(values_of(empty, chunks_of(request, config), self.labels, per), library)

    def to_html(self, title: str | None = None) -> str:
        """One HTML file to send to a colleague: values with intervals, and a chart of spans.

        It loads nothing from elsewhere.

        `title`: the heading; by default the name of the file.
        """
        return page_of(title_of(self._request) if title is None else title, self._counts.spans)

    def latex(self) -> str:
        """A `tabular` in LaTeX with a row for each reading."""
        return latex_of(*self._texts())

    def __repr__(self) -> str:
        return text_of(*self._texts())

    def _repr_html_(self) -> str:
        return html_of(*self._texts(), "streameval.evaluate")

    def _split_columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        if any(row.start is not None for row in self._rows):
            columns["start"] = [row.start for row in self._rows]
        names = dict.fromkeys(name for row in self._rows for name in row.labels)
        for name in names:
            columns[name] = [row.labels.get(name) for row in self._rows]
        if any(row.window != "lifetime" for row in self._rows):
            columns["window"] = [row.window for row in self._rows]
        return columns

    def _texts(self) -> tuple[list[str], list[list[str]]]:
        columns = self._split_columns()
        heads = [*columns, "metric", "value", "low", "high", "lists", "users"]
        rows = []
        for place, row in enumerate(self._rows):
            reading = row.reading
            numbers = [reading.value if reading.defined else math.nan, *row.bounds]
            about = [str(column[place] or "") for column in columns.values()]
            texts = ["" if number is None else figure(number) for number in numbers]
            users = "" if row.users is None else f"{row.users:,.0f}"
            rows.append([*about, reading.metric, *texts, f"{reading.lists:,}", users])
        return heads, rows


@contextmanager
def _metric_errors(key: str, keys: Iterable[str]) -> Iterator[None]:
    """Say which readings there are."""
    try:
        yield
    except (KeyError, MetricError):
        raise KeyError(f"{key!r}: not evaluated; there is {', '.join(keys)}") from None


def _rows(counts: Evaluated) -> Iterator[EvaluationRow]:
    for start, snapshot in counts.spans:
        text = None if start is None else moment_text(start)
        for entry in snapshot.series:
            names = snapshot.families[entry.family].label_names
            labels = dict(zip(names, entry.labels, strict=True))
            users = counts.users.get(Cell(tuple(entry.labels), start))
            yield EvaluationRow(text, labels, entry.window, entry.reading, users)


def evaluate(  # noqa: PLR0913  each is an option
    recommendations: Any,
    truth: Any = None,
    *metrics: str | Metric | Callable[..., Any],
    by: str | Sequence[str] = (),
    every: str | None = None,
    user: str | None = None,
    item: str | None = None,
    score: str | None = None,
    rating: str | None = None,
    rank: str | None = None,
    time: str | None = None,
    time_unit: TimeUnit | None = None,
    columns: Mapping[str, str] | None = None,
    separators: Sequence[str] = (),
    ties: Ties | None = None,
    form: Form = "detect",
    exclude: Any = None,
    catalog: int | str | Collection[Id] | None = None,
    popularity: Popularity | Mapping[Any, float] | None = None,
    similarity: Similarity | None = None,
    attributes: Given | None = None,
    examination: Sequence[float] | None = None,
    intervals: Intervals | None = _INTERVALS,
    config: str | os.PathLike[str] | None = None,
    processes: int = 1,
) -> Evaluation:
    """Evaluate recommendations, with the bits and the warnings of the command of this name.

    Args:
        recommendations: a path (files, folders, patterns, s3://, gs://, az://); a frame of pandas,
            Polars or Arrow; a mapping of users as ranx, pytrec_eval and ir_measures take it; a
            list of items for each user; or scores of users (rows) for items (columns), as a matrix
            or tensor. Without a truth: events with their interactions - a path, a frame with a row
            per event, Events, pairs, `Columns` or a `Batch`.
        truth: the interactions in any of these forms, whichever the recommendations have: rows of
            users and items with or without a rating, which is the gain. Beside scores a matrix of
            the same shape, dense or sparse, whose entries are gains; or lists of items. May be left
            out: a metric here counts as the first of `metrics`.
        metrics: for example "ndcg@10"; from `config` if there are none.
        by: fields or columns of the events to split by.
        every: length of spans of event time, for example "1h".
        user: column of the user, if it has no usual name; likewise item, score, rating and rank.
        item: column of the item.
        score: column of the score; the highest comes first.
        rating: column of the rating in the truth.
        rank: column of the rank; the lowest comes first.
        time: field or column of event time.
        time_unit: unit of event time: "s", "ms", "us" or "iso8601".
        columns: field -> column for others: {"recommendations": "shown"}, {"truth.user": "member"}.
        separators: separators in lists of CSV: ";" for all columns, "clicks=;" for one.
        ties: order of equal scores: "arrival", "id_desc" or "id_asc".
        form: "trec" or "table" for files whose first lines do not tell.
        exclude: for scores: the items of each user to leave out, like a truth.
        catalog: the number of items, their ids, or a file of them.
        popularity: item -> number of users.
        similarity: of pairs of items.
        attributes: name -> (item -> its values), for metrics with `by` or `among`.
        examination: chance that users look at rank 1, 2, ..., for debiased_ctr.
        intervals: settings of confidence intervals; None for none, which is faster.
        config: a TOML file to take metrics, labels, inputs and [event] from.
        processes: number of processes that count files.

    Raises:
        UsageError: the arguments contradict each other.
        SourceError: a file cannot be read; InvalidEventError: an event is not valid.
        NoEventsError: there is no valid event.
        MetricError: a metric is unknown or lacks an input.
        MissingExtraError: frames, files and mappings need pyarrow, which is not installed.

    Example:
        >>> run = {"u1": {"tea": 0.9, "milk": 0.8}, "u2": {"jam": 0.7, "tea": 0.1}}
        >>> evaluate(run, {"u1": {"milk": 1}, "u2": {"jam": 1}}, "ndcg@2", "mrr")["mrr"].value
        0.75
        >>> import numpy as np
        >>> scores, clicked = np.array([[0.9, 0.8, 0.1], [0.2, 0.3, 0.4]]), [[1], [0]]
        >>> evaluate(scores, clicked, "hit_rate@1", "hit_rate@2")["hit_rate@2"].value
        0.5
        >>> evaluate(scores, clicked, "hit_rate@1", exclude=[[0], []])["hit_rate@1"].value
        0.5
    """
    if truth is not None and is_metric(truth):
        truth, metrics = None, (truth, *metrics)
    options = ReadingOptions(
        user=user,
        item=item,
        score=score,
        rating=rating,
        rank=rank,
        time=time,
        time_unit=time_unit,
        columns=columns,
        separators=separators,
        ties=ties,
        form=form,
        catalog=catalog,
        popularity=popularity,
        similarity=similarity,
        attributes=attributes,
        examination=examination,
        config=config,
        processes=processes,
    )
    with warned_notes() as around:
        request = Request(
            **fields_of(recommendations, truth, exclude),
            **request_fields(options),
            metrics=[metric_of(metric).text for metric in metrics],
            labels=[by] if isinstance(by, str) else list(by),
            every=every,
            intervals=intervals,
        )
        return Evaluation(request, evaluated(request, around, clock.time()))


def is_metric(given: Any) -> bool:
    """Whether it is a metric rather than a truth; a path is none."""
    if isinstance(given, Metric) or (callable(given) and not hasattr(given, "shape")):
        return True
    if not isinstance(given, str):
        return False
    try:
        parse(given)
    except MetricError:
        return False
    return True


def _inputs_of(
    catalog: Any,
    popularity: Any,
    similarity: Similarity | None,
    attributes: Given | None,
    examination: Sequence[float] | None,
) -> tuple[dict[str, Any], str | None]:
    """Inputs that are objects, by name, and the catalogue as a text if it is a number or a path."""
    given: dict[str, Any] = {}
    text = None
    if isinstance(catalog, int | str | os.PathLike):
        text = str(catalog) if isinstance(catalog, int) else os.fspath(catalog)
    elif catalog is not None:
        given["catalog"] = catalog
    if popularity is not None:
        is_ready = isinstance(popularity, Popularity)
        given["popularity"] = popularity if is_ready else Popularity(popularity)
    if similarity is not None:
        given["similarity"] = similarity
    if attributes is not None:
        given["attributes"] = attributes
    if examination is not None:
        given["examination"] = examination
    return given, text


class ReadingOptions(TypedDict, total=False):
    """How recommendations and truth are read; the arguments of `evaluate` of these names."""

    user: str | None
    item: str | None
    score: str | None
    rating: str | None
    rank: str | None
    time: str | None
    time_unit: TimeUnit | None
    columns: Mapping[str, str] | None
    separators: Sequence[str]
    ties: Ties | None
    form: Form
    catalog: int | str | Collection[Id] | None
    popularity: Popularity | Mapping[Any, float] | None
    similarity: Similarity | None
    attributes: Given | None
    examination: Sequence[float] | None
    config: str | os.PathLike[str] | None
    processes: int


def request_fields(options: ReadingOptions) -> dict[str, Any]:
    """The fields of a Request for these options."""
    fields: dict[str, Any] = {**options, "wording": PYTHON}
    named = {role: fields.pop(role, None) for role in ROLES}
    given = [fields.pop(name, None) for name in INPUTS]
    fields["inputs"], fields["catalog"] = _inputs_of(*given)
    fields["columns"] = _column_texts(named, fields.get("columns"))
    fields["separators"] = list(fields.get("separators", ()))
    config = fields.get("config")
    return fields | {"config": None if config is None else os.fspath(config)}


def _column_texts(named: Mapping[str, str | None], columns: Mapping[str, str] | None) -> list[str]:
    """The columns as the command line names them."""
    pairs = {field: name for field, name in named.items() if name is not None}
    return [f"{field}={name}" for field, name in (pairs | dict(columns or {})).items()]


@contextmanager
def warned_notes() -> Iterator[Surroundings]:
    """Surroundings whose notes become warnings of the line that called the library."""
    notes: list[str] = []

    @contextmanager
    def progress(_: int | None) -> Iterator[Callable[[int, int], None]]:
        yield lambda *_: None

    try:
        yield Surroundings(notes.append, progress)
    except BaseException:
        # Where warnings are errors, they must not hide the error.
        with suppress(SuspiciousEventsWarning):
            _warn(notes)
        raise
    _warn(notes)


def _warn(notes: Iterable[str]) -> None:
    for note in notes:
        warnings.warn(note, SuspiciousEventsWarning, stacklevel=5)
