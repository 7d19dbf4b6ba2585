"""`streameval.evaluate`: one call for files, frames, mappings, lists and scores."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from inspect import Parameter, signature
from operator import itemgetter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, overload

from streameval.accumulator import Accumulator
from streameval.catalogue import metric_of, parse
from streameval.catalogue.context import USER_KEY
from streameval.catalogue.context import AttributeInputs as Attributes
from streameval.catalogue.items import Popularity, Similarity
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.decoding.fields import TimeUnit
from streameval.decoding.values import MISSING_LABEL
from streameval.evaluation.arguments import (
    Form,
    InputError,
    Note,
    Options,
    Surroundings,
    Ties,
    column,
)
from streameval.evaluation.result import EvaluationRow, FileCounts, ValuePer, count, note_idle
from streameval.evaluation.setup import Request, refuse_idle, setup_of
from streameval.evaluation.sources import Tabular, field_suggestion, inputs_of, inputs_of_join
from streameval.evaluation.span_readings import label_column, page_of, records_of
from streameval.evaluation.tabular import Library, aligned_text, frame_of, html_of, latex_of
from streameval.events import Combine, Id
from streameval.events.errors import (
    MetricError,
    MetricTextError,
    SuspiciousEventsWarning,
    UsageError,
)
from streameval.events.spelling import nearest, refuse_unknown
from streameval.exporters.view import figure
from streameval.inference.text_table import TextColumn, TextTable
from streameval.join.attribution import OUTCOMES
from streameval.join.tables import Attribution
from streameval.statistics.intervals import Intervals
from streameval.statistics.user_key import UserHashKey
from streameval.statistics.user_key import user_key as key_of_users

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from streameval.config import Config

_INTERVALS: Final = Intervals()
_LIKE_A_METRIC: Final = re.compile(r"[\w:]+(\(.*\))?(@\w+)?")


class Evaluation(Mapping[str, Reading]):
    """The readings of `evaluate`: a mapping from the text of a metric to its Reading.

    If split by labels or spans, the keys also name these: 'ctr{variant="a"}'; see `slice`.

    Example:
        >>> found = evaluate({"u1": ["a", "b"], "u2": ["c"]}, {"u1": {"b"}, "u2": {"d"}}, "mrr")
        >>> found["mrr"].value
        0.25
        >>> print(found)
        metric  value   low  high  count  lists  users
        mrr     0.2500             2      2      2
    """

    def __init__(self, counted: FileCounts) -> None:
        self._counted, self._rows = counted, counted.rows
        self._readings = {_key(row): row.reading for row in self._rows}

    def __getitem__(self, key: str) -> Reading:
        try:
            # Another spelling of a metric, for example P@5, is found by its canonical text.
            return self._readings[key if key in self._readings else parse(key).text]
        except (KeyError, MetricError):
            available = ", ".join(self._readings)
            raise KeyError(f"{key!r}: not evaluated; there is {available}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._readings)

    def __len__(self) -> int:
        return len(self._readings)

    @property
    def config(self) -> Config:
        """The configuration with which a daemon would count the same values."""
        from streameval.evaluation.configuration import (  # noqa: PLC0415  large
            config_of,
            of_rows,
            with_ids,
        )

        setup = self._counted.setup
        if setup.call.kind == "joined":
            config_of_join: Config | None = setup.call.events.config
            if config_of_join is None:
                raise UsageError(
                    "a join of tables has no configuration; write [attribution] for a daemon."
                )
            return config_of_join
        config = setup.config or config_of(setup.call, setup.options)
        return with_ids(
            of_rows(config, setup.labels) if setup.call.is_pair else config,
            self._counted.ids or "text",
        )

    @property
    def labels(self) -> list[str]:
        """The names of the labels that split the events."""
        return list(self._rows[0].labels) if self._rows else []

    @property
    def outcomes(self) -> Mapping[str, Mapping[str, int]]:
        """Rows of a join by stream and outcome, impressions first; empty without a join.

        Example:
            >>> import pyarrow
            >>> at = 1_767_225_600_000_000
            >>> shown = {"request_id": ["r"], "recommendations": [["a"]], "times": [at]}
            >>> clicks = {"request_id": ["q"], "item": ["a"], "times": [at + 60_000_000]}
            >>> shown, clicks = pyarrow.table(shown), pyarrow.table(clicks)
            >>> found = evaluate("mrr", impressions=shown, interactions=clicks)
            >>> found.outcomes["interactions"]["orphan"]
            1
        """
        return {
            name: {outcome: getattr(counts, outcome) for outcome in ("records", *OUTCOMES)}
            for name, counts in self._counted.outcomes.items()
        }

    def accumulator(self, **labels: str) -> Accumulator:
        """The counts of a slice, for example to merge or to save; a copy.

        Raises:
            UsageError: there is no such slice, or the events are split by spans.
        """
        names = self.labels
        is_cell = labels.keys() == {*names}
        counted = self._counted.accumulator([labels[name] for name in names]) if is_cell else None
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
        # Beside the slices of segments there is that of all their values.
        matching = [row for row in self._rows if row.labels == labels]
        selected = matching or [row for row in self._rows if labels.items() <= row.labels.items()]
        texts = {row.reading.metric: row.reading for row in selected}
        if len(texts) != len(selected) or not selected:
            available = sorted({str(dict(row.labels)) for row in self._rows})
            raise UsageError(f"{labels}: not one slice; the slices: {', '.join(available)}.")
        return texts

    def rows(self) -> list[dict[str, Any]]:
        """The rows of `streameval evaluate --format json`, for `streameval.plot.over_time`."""
        return list(records_of(self._counted.spans))

    @overload
    def to_frame(self, library: Literal["pandas"]) -> pd.DataFrame: ...
    @overload
    def to_frame(self, library: Literal["polars"]) -> pl.DataFrame: ...
    @overload
    def to_frame(self, library: Library | None = None) -> Any: ...
    def to_frame(self, library: Library | None = None) -> Any:
        """A frame: span and labels if there are any, metric, value, low, high, count, lists, users.

        `low` and `high` are the confidence interval, else the bounds of an estimate. `count` is
        what the value is divided by, such as lists, or items with interactions. What is undefined
        or unknown is missing.

        `library`: "pandas", "polars" or "pyarrow"; None for the one that is in use.

        Raises:
            MissingExtraError: no library of frames is installed.
        """
        return frame_of(self._columns(), library)

    @overload
    def values(self, per: ValuePer, library: Literal["pandas"]) -> pd.DataFrame: ...
    @overload
    def values(self, per: ValuePer, library: Literal["polars"]) -> pl.DataFrame: ...
    @overload
    def values(self, per: ValuePer = "list", library: Library | None = None) -> Any: ...
    def values(self, per: ValuePer = "list", library: Library | None = None) -> Any:
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
        return frame_of(self._counted.values(per), library)

    def to_html(self, title: str | None = None) -> str:
        """One HTML file to send to a colleague: values with intervals, and a chart of spans.

        It loads nothing from elsewhere.

        `title`: the heading; by default the name of the file.

        Raises:
            MissingExtraError: Jinja2 is not installed (the extra `report`).
        """
        heading = title_of(self._counted.names) if title is None else title
        return page_of(heading, self._counted.spans)

    def latex(self) -> str:
        """A `tabular` in LaTeX with a row for each reading."""
        return latex_of(self._table())

    def __repr__(self) -> str:
        return aligned_text(self._table())

    def _repr_html_(self) -> str:
        return html_of(self._table(), "streameval.evaluate")

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        rows, readings = self._rows, [row.reading for row in self._rows]
        if any(row.begin is not None for row in rows):
            columns["start"] = [row.begin for row in rows]
        for name in dict.fromkeys(name for row in rows for name in row.labels):
            columns[label_column(name)] = [row.labels.get(name) for row in rows]
        if any(row.window != "lifetime" for row in rows):
            columns["window"] = [row.window for row in rows]
        # The confidence interval, else the bounds of an estimate.
        bounds = [reading.interval or reading for reading in readings]
        return columns | {
            "metric": [reading.metric for reading in readings],
            "value": [reading.value if reading.defined else None for reading in readings],
            "low": [bounded.low for bounded in bounds],
            "high": [bounded.high for bounded in bounds],
            "count": [reading.count for reading in readings],
            "lists": [reading.lists for reading in readings],
            "users": [row.users for row in rows],
        }

    def _table(self) -> TextTable[list[str]]:
        columns = self._columns()
        texts = {name: [str(cell or "") for cell in cells] for name, cells in columns.items()}
        texts["value"] = [figure(math.nan if x is None else x) for x in columns["value"]]
        for name in ("low", "high"):
            texts[name] = ["" if x is None else figure(x) for x in columns[name]]
        for name in ("count", "lists", "users"):
            texts[name] = ["" if x is None else f"{x:,.0f}" for x in columns[name]]
        heads = [TextColumn[list[str]](name, itemgetter(at)) for at, name in enumerate(texts)]
        return TextTable(heads, [list(row) for row in zip(*texts.values(), strict=True)])


def _key(row: EvaluationRow) -> str:
    """The text of the metric, with slice and span if there are any."""
    about = {} if row.begin is None else {"start": row.begin}
    about |= {**row.labels}
    if row.window != "lifetime":
        about["window"] = row.window
    inside = ",".join(f'{name}="{value}"' for name, value in about.items())
    return f"{row.reading.metric}{{{inside}}}" if inside else row.reading.metric


def title_of(names: Sequence[str]) -> str:
    """The heading of a file about the inputs."""
    first, *others = names or ["recommendations"]
    name = PurePath(first).name or first
    return f"{name} and {len(others):,} more" if others else name


class NoOptions(TypedDict):
    """Type of no argument, so that a misspelt one gets an error that names the arguments."""


class ReadingOptions(TypedDict, total=False):
    """Options for reading recommendations and truth: the arguments of `evaluate` of these names."""

    columns: Mapping[str, str | None] | None
    time_unit: TimeUnit | None
    time_zone: str | None
    separator: str | Mapping[str, str] | None
    form: Form | None
    header: Sequence[str] | None
    delimiter: str | None
    ties: Ties | None
    combine: Combine | None
    catalog: int | str | os.PathLike[str] | Collection[Id] | None
    popularity: Popularity | Mapping[Any, float] | None
    similarity: Similarity | None
    attributes: Attributes | None
    examination: Sequence[float] | None
    user_key: UserHashKey | str | None
    config: str | os.PathLike[str] | None
    processes: int


def evaluate(  # noqa: PLR0913  each is an option
    recommendations: Tabular | Metric | Callable[..., Any] | None = None,
    truth: Tabular | Metric | Callable[..., Any] | None = None,
    *metrics: str | Metric | Callable[..., Any] | Sequence[Any],
    by: str | Sequence[str] = (),
    every: str | None = None,
    columns: Mapping[str, str | None] | None = None,
    time_unit: TimeUnit | None = None,
    time_zone: str | None = None,
    separator: str | Mapping[str, str] | None = None,
    form: Form | None = None,
    header: Sequence[str] | None = None,
    delimiter: str | None = None,
    ties: Ties | None = None,
    combine: Combine | None = None,
    exclude: Tabular | None = None,
    users: Tabular | None = None,
    impressions: Tabular | None = None,
    interactions: Tabular | None = None,
    attribution: Attribution | None = None,
    catalog: int | str | os.PathLike[str] | Collection[Id] | None = None,
    popularity: Popularity | Mapping[Any, float] | None = None,
    similarity: Similarity | None = None,
    attributes: Attributes | None = None,
    examination: Sequence[float] | None = None,
    user_key: UserHashKey | str | None = None,
    intervals: Intervals | None = _INTERVALS,
    config: str | os.PathLike[str] | None = None,
    processes: int = 1,
    **unknown: Unpack[NoOptions],
) -> Evaluation:
    """Evaluate recommendations, with the values and warnings of the command of this name.

    Args:
        recommendations: a path (files, folders, patterns, s3://, gs://, az://); a frame of pandas,
            Polars, Arrow or DuckDB; a mapping of users as ranx, pytrec_eval, Surprise and
            ir_measures have it; a list of items for each user; or scores of users (rows) for items
            (columns), as a matrix or tensor. Without a truth: events with their interactions - a
            path, a frame with a row per event, Events, pairs, `Columns` or a `Batch`.
        truth: the interactions, in any of these forms: rows of users and items with or without a
            rating, which is the gain. For scores: a matrix of the same shape, dense or sparse,
            whose entries are gains; or lists of items, or item -> gain. May be left out: a metric
            here counts as the first of `metrics`.
        metrics: for example "ndcg@10", or lists of them; from `config` if there are none.
        by: fields or columns of the events to split by; with a truth, columns of the
            recommendations, the truth or `users` that give the user group.
        every: length of spans of event time, for example "1h"; "1d" are days of `time_zone`.
        columns: field -> column, if its name is unusual: {"item": "sku", "rating": "stars"},
            {"recommendations": "shown"}, {"truth.user": "member"}, {"time": "ts"}. None for no
            column: {"rating": None} counts every row alike.
        time_unit: unit of event time: "s", "ms", "us" or "iso8601".
        time_zone: time zone of the days, like "Europe/Berlin"; UTC by default.
        separator: between the ids of a cell: ";" for all columns, {"clicks": ";"} for one. ""
            keeps a cell as one id.
        form: "csv", "json", "parquet", "arrow", "trec" or "mind", if names and first lines of files
            do not tell.
        header: column names of text files without a header line.
        delimiter: between the fields of text, such as "::"; by default tab, comma or semicolon.
        ties: order of equal scores: "arrival", "id_desc" or "id_asc"; "worst" puts larger gains
            last, "random" shuffles reproducibly.
        combine: how to combine several gains of an item in one list: "max", the largest, or "sum",
            so that a refund offsets its sale.
        exclude: items of each user to leave out of the lists, in the forms of a truth.
        users: a table of users and the labels to split by: a path, a frame, a mapping of users;
            for lists and matrices, also one label for each.
        impressions: instead of recommendations and truth, a path or a frame of lists shown, to
            join with `interactions`; all positional arguments are then metrics. See
            `streameval.attribution.joined` for the columns; `columns` names others.
        interactions: a path or a frame of interactions; several streams by name.
        attribution: the rules of the join; those of [attribution] in `config`, or the defaults.
        catalog: the number of items, their ids, or a file of them.
        popularity: item -> number of users.
        similarity: of pairs of items.
        attributes: name -> (item -> its values), for metrics with `by` or `among`.
        examination: chance that users look at rank 1, 2, ..., for debiased_ctr.
        user_key: where the key for hashing users is, "${file:PATH}" or "${NAME}".
        intervals: settings of confidence intervals; None for none, which is faster.
        config: a TOML file with metrics, labels, inputs and [event]; events are counted as by a
            daemon.
        processes: number of processes that count files.
        unknown: unknown arguments, which are refused.

    Raises:
        UsageError: the arguments contradict each other or are ambiguous.
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
        >>> import pyarrow
        >>> at = 1_767_225_600_000_000
        >>> shown = pyarrow.table(
        ...     {"request_id": ["r1", "r2"], "recommendations": [["a", "b"]] * 2, "times": [at, at]}
        ... )
        >>> clicks = {"request_id": ["r1"], "item": ["b"], "times": [at + 60_000_000]}
        >>> clicks = pyarrow.table(clicks)
        >>> evaluate("mrr", impressions=shown, interactions=clicks)["mrr"].value
        0.25
    """
    requested: tuple[Any, ...] = metrics
    is_join = any(of is not None for of in (impressions, interactions, attribution))
    if is_join:
        requested = (*(of for of in (recommendations, truth) if of is not None), *metrics)
        if not all(map(is_metric, requested)) or exclude is not None or users is not None:
            raise InputError(
                "{impressions} and {interactions} stand for recommendations, truth, exclude and "
                "users; give metrics beside them."
            )
        truth = None
    if truth is not None and is_metric(truth):
        truth, requested = None, (truth, *metrics)
    reading = ReadingOptions(
        columns=columns,
        time_unit=time_unit,
        time_zone=time_zone,
        separator=separator,
        form=form,
        header=header,
        delimiter=delimiter,
        ties=ties,
        combine=combine,
        catalog=catalog,
        popularity=popularity,
        similarity=similarity,
        attributes=attributes,
        examination=examination,
        user_key=user_key,
        config=config,
        processes=processes,
    )
    with warned_notes() as around:
        options = options_of(
            {**reading, **unknown},
            evaluate,
            metrics=metric_texts(requested),
            by=(by,) if isinstance(by, str) else by,
            every=every,
            intervals=intervals,
        )
        if is_join:
            call = inputs_of_join(impressions, interactions, attribution, options)
        else:
            call = inputs_of(recommendations, truth, exclude, options, users)
        return Evaluation(count_call(Request(call, options), around))


def count_call(request: Request, around: Surroundings) -> FileCounts:
    """Count what a caller gave; a label that no event has is refused, or noted if configured.

    Raises:
        UsageError: options do nothing, or the events cannot be read as they are.
        NoEventsError: there is no valid event.
    """
    refuse_idle(request.options, request.call)
    counted = count(setup_of(request), around)
    note_idle(around, counted)
    values: dict[str, set[str]] = {}
    for row in counted.rows:
        for name, value in row.labels.items():
            values.setdefault(name, set()).add(value)
    for name in [name for name, present in values.items() if present == {MISSING_LABEL}]:
        text = (
            "no event has the label {name}; name its field with {by}, {column} or [event.labels]."
            "{hint}"
        )
        hint = field_suggestion(request.call, name)
        field = column(name, "FIELD")
        if name in request.options.by:
            raise InputError(text, name=repr(name), column=field, hint=hint)
        around.note(Note(text, name=repr(name), column=field, hint=hint))
    return counted


def is_metric(value: Any) -> bool:
    """True if it is a metric, or a list of them, rather than a truth; a path is not.

    A misspelt metric is one, so that its error names it.
    """
    if isinstance(value, Metric) or (callable(value) and not hasattr(value, "shape")):
        return True
    if isinstance(value, list | tuple):
        return bool(value) and all(
            isinstance(item, Metric) or (isinstance(item, str) and _problem_of(item) is None)
            for item in value
        )
    if not isinstance(value, str):
        return False
    problem = _problem_of(value)
    return problem is None or _is_misspelt(value, problem)


def _problem_of(text: str) -> MetricError | None:
    try:
        parse(text)
    except MetricError as error:
        return error
    return None


def _is_misspelt(text: str, problem: MetricError) -> bool:
    """True if a text that names no file is written like a metric, or near the name of one."""
    if not isinstance(problem, MetricTextError) or not _LIKE_A_METRIC.fullmatch(text):
        return False
    is_near = "@" in text or bool(nearest(problem.metric, problem.known))
    return is_near and not Path(text).exists()


def metric_texts(metrics: Iterable[Any]) -> list[str]:
    """The texts of metrics, some of which may be in lists."""
    flat = [entry for of in metrics for entry in (of if isinstance(of, list | tuple) else [of])]
    return [metric_of(metric).text for metric in flat]


def options_of(reading: Mapping[str, Any], function: Callable[..., Any], **others: Any) -> Options:
    """The options of a call.

    Args:
        reading: the arguments of `ReadingOptions`; Python takes any keyword, so another is refused.
        function: that was called; the refusal names its arguments, too.
        others: fields of `Options` besides those about reading.
    """
    remedies = {
        "metrics": "give metrics by position, one or a list.",
        "k": 'a cut-off is part of a metric: "ndcg@10".',
    }
    allowed = ReadingOptions.__optional_keys__
    if not reading.keys() <= allowed:
        parameters = signature(function).parameters.values()
        names = [entry.name for entry in parameters if entry.kind is Parameter.KEYWORD_ONLY]
        refuse_unknown(reading, allowed.union(names), remedies)
    explicit = {name: of for name, of in reading.items() if of is not None}
    separator = explicit.pop("separator", {})
    separator = {"": separator} if isinstance(separator, str) else separator
    inputs: dict[str, Any] = {name: explicit.pop(name) for name in _INPUTS if name in explicit}
    if USER_KEY in inputs:
        inputs[USER_KEY] = key_of_users(inputs[USER_KEY])
    if "popularity" in inputs and not isinstance(inputs["popularity"], Popularity):
        inputs["popularity"] = Popularity(inputs["popularity"])
    if isinstance(inputs.get("catalog"), os.PathLike):
        inputs["catalog"] = os.fspath(inputs["catalog"])
    if isinstance(explicit.get("config"), os.PathLike):
        explicit["config"] = os.fspath(explicit["config"])
    return Options(separator=separator, inputs=inputs, **explicit, **others)


_INPUTS: Final = ("catalog", "popularity", "similarity", "attributes", "examination", USER_KEY)


@contextmanager
def warned_notes() -> Iterator[Surroundings]:
    """Surroundings whose notes become warnings of the line that called the library."""
    notes: list[str] = []

    def note(warning: Note | str) -> None:
        notes.append(str(warning))

    @contextmanager
    def progress(_: int | None) -> Iterator[Callable[[int, int], None]]:
        yield lambda *_: None

    try:
        yield Surroundings(note, progress)
    except BaseException:
        # Where warnings are errors, they must not hide the error.
        with suppress(SuspiciousEventsWarning):
            _warn(notes)
        raise
    _warn(notes)


def _warn(notes: Iterable[str]) -> None:
    for note in notes:
        warnings.warn(note, SuspiciousEventsWarning, stacklevel=5)
