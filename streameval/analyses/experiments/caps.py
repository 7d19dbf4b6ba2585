"""Caps by percentile: one number for all arms, found in a first pass over their lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import msgspec
import numpy as np

from streameval.accumulator.kinds.hits import values_name
from streameval.analyses.experiments.settings import Experiment, metric_name
from streameval.catalogue import parse
from streameval.catalogue.grammar import format_value, spelling
from streameval.catalogue.metric import Metric
from streameval.engine.rankers import slices_by
from streameval.engine.windows.times import parse_spans
from streameval.engine.windows.views import SliceTable
from streameval.evaluation.arguments import Note, Surroundings
from streameval.evaluation.result import FileCounts, count
from streameval.evaluation.setup import Request, Setup
from streameval.events.errors import MetricTextError, StreamevalError
from streameval.inference.days import calendar_of, number_of_day
from streameval.statistics.distributions import Distribution

if TYPE_CHECKING:
    from streameval.statistics.distributions import Values

FEWEST_LISTS: Final = 20
"""Lists with a value from which on a percentile is found."""

T = TypeVar("T")


class PercentileCap(msgspec.Struct, frozen=True, kw_only=True):
    """The cap that a percentile of a metric stands for.

    Attributes:
        metric: canonical text, with the percentile.
        parameter: that has the percentile.
        percentile: of the values other than 0, above 50 and below 100.
        cap: the largest value of a list; None if too few lists have a value, so that none is
            capped.
        lists: lists of all arms with a value other than 0.
        capped: how many of them have a larger value.
    """

    metric: str
    parameter: str
    percentile: float
    cap: float | None
    lists: int
    capped: int = 0

    @property
    def counted(self) -> str:
        """The text of the metric with the number, or without a cap."""
        spelled = spelling(self.metric).without([self.parameter])
        number = () if self.cap is None else ((self.parameter, self.cap),)
        parameters = tuple(sorted((*spelled.parameters, *number)))
        return parse(str(msgspec.structs.replace(spelled, parameters=parameters))).text

    @property
    def text(self) -> str:
        """Limit to what each list counts, in a sentence without a full stop.

        Example:
            >>> found = PercentileCap(
            ...     metric="dcg(cap=p99)",
            ...     parameter="cap",
            ...     percentile=99,
            ...     cap=12.5,
            ...     lists=400,
            ...     capped=4,
            ... )
            >>> found.text[:43], found.counted
            ('dcg(cap=p99): a list counts at most 12.5, p', 'dcg(cap=12.5)')
        """
        lists = "list" if self.lists == 1 else "lists"
        if self.cap is None:
            return (
                f"{self.metric} has no cap: {self.lists:,} {lists} of all variants "
                f"{'has' if self.lists == 1 else 'have'} a value other than 0, and finding one "
                f"needs {FEWEST_LISTS}"
            )
        return (
            f"{self.metric}: a list counts at most {format_value(self.cap)}, percentile "
            f"{format_value(self.percentile)} of the {self.lists:,} values other than 0 of all "
            f"variants; {self.capped:,} {'is' if self.capped == 1 else 'are'} larger"
        )


def percentile_metrics(texts: Iterable[str]) -> list[Metric]:
    """The metrics of these texts that have a percentile in place of a number."""
    return [metric for metric in dict.fromkeys(map(parse, texts)) if metric.percentiles]


def without_cap(metric: Metric) -> Metric:
    """The metric whose values of lists are counted without the cap.

    Example:
        >>> without_cap(parse("value_per_list(cap=p99.5,type=sale)@10")).text
        'value_per_list(statistic=quantile,type=sale)@10'
    """
    spelled = spelling(metric.per_list).without(metric.percentiles)
    parameters = tuple(sorted((*spelled.parameters, ("statistic", "quantile"))))
    return parse(str(msgspec.structs.replace(spelled, parameters=parameters)))


def find_caps(
    metrics: Sequence[Metric],
    setups: Iterable[Setup],
    around: Surroundings,
    experiment: Experiment | None = None,
) -> tuple[PercentileCap, ...]:
    """The number of each percentile, from all lists that a comparison reads.

    Args:
        metrics: each with a percentile.
        setups: with the metrics of `without_cap`; of each model of a comparison.
        around: told how far the counting is; its warnings are those of the comparison that follows.
        experiment: of whose variants and days the lists are; None for all lists.

    Raises:
        MetricTextError: a percentile is not above 0, so it cannot be a cap.
        StreamevalError: what counting raises, after its warnings.
    """
    notes: list[Note | str] = []
    values: dict[Metric, Values] = {}
    days = (None, None) if experiment is None else (experiment.begins, experiment.until)
    for setup in setups:
        try:
            counted = count(_values_alone(setup, days), around._replace(note=notes.append))
        except StreamevalError:
            for note in notes:
                around.note(note)
            raise
        for metric in metrics:
            counted_values = _values(without_cap(metric), counted, experiment, days)
            if counted_values is None:
                continue
            if metric in values:
                values[metric].merge(counted_values)
            else:
                values[metric] = counted_values
    distributions = {
        metric: counted_values.view(np.array([0]))[0] for metric, counted_values in values.items()
    }
    nothing = Distribution.of_all(np.zeros(0))
    return tuple(_cap(metric, distributions.get(metric, nothing)) for metric in metrics)


def _values_alone(setup: Setup, days: tuple[date | None, date | None]) -> Setup:
    """The setup without users and days, unless some days do not count."""
    config = setup.config
    if config is not None:
        from streameval.config.config import with_analyses  # noqa: PLC0415  large

        config = with_analyses(msgspec.structs.replace(config, intervals=None), [])
    time_zone = setup.options.time_zone if config is None else config.time_zone
    every = None if days == (None, None) else parse_spans("1d", time_zone)
    return setup._replace(config=config, intervals=None, experiment=False, every=every)


def _values(
    metric: Metric,
    counted: FileCounts,
    experiment: Experiment | None,
    days: tuple[date | None, date | None],
) -> Values | None:
    """The values of the lists of the variants on these days, as one cell; None without any."""
    label = None if experiment is None else experiment.label
    first, last = (None if day is None else number_of_day(day) for day in days)
    calendar = calendar_of(None if counted.setup.every is None else counted.setup.every.time_zone)
    by_family: dict[int, tuple[SliceTable, list[int]]] = {}
    for start, families in counted.families_by_start:
        day = 0 if start is None else calendar.day(start)
        if (first is not None and day < first) or (last is not None and day > last):
            continue
        for number, family in enumerate(families):
            if family.segment is not None or metric not in family.metrics:
                continue
            if label is not None and label not in family.names:
                continue
            slices = slices_by(family, None, label)
            arms = experiment.arms(name for _, name in slices) if experiment and label else [""]
            _, cells = by_family.setdefault(number, (family, []))
            cells += [cell for (_, name), of in slices.items() if name in arms for cell in of]
    for family, cells in by_family.values():
        table = family.table.select(np.array(sorted(cells), np.int64))
        values = cast("Values", table.statistics[values_name(metric)])
        values.rename(dict.fromkeys(cells, 0))
        return values
    return None


def _cap(metric: Metric, distribution: Distribution) -> PercentileCap:
    ((parameter, percentile),) = metric.percentiles.items()
    values = distribution.nonzero
    if values.count < FEWEST_LISTS:
        return PercentileCap(
            metric=metric.text,
            parameter=parameter,
            percentile=percentile,
            cap=None,
            lists=values.count,
        )
    cap = values.quantile(percentile / 100.0)
    if not cap > 0.0 or math.isinf(cap):
        raise MetricTextError(
            f"metric {metric.text!r}: percentile {format_value(percentile)} of the "
            f"{values.count:,} values other than 0 is {format_value(cap)}, and a cap is above 0; "
            "give a number.",
            metric=metric.text,
            parameter=parameter,
        )
    return PercentileCap(
        metric=metric.text,
        parameter=parameter,
        percentile=percentile,
        cap=cap,
        lists=values.count,
        capped=values.above(cap),
    )


class RequestedNames(NamedTuple):
    """Texts that are counted for metrics with percentiles, and their names in a report.

    Attributes:
        counted: name of a metric -> the text that is counted.
        names: text that is counted -> the requested names.
    """

    counted: Mapping[str, str]
    names: Mapping[str, Sequence[str]]

    @classmethod
    def of(
        cls, caps: Sequence[PercentileCap], request: Request, others: Iterable[str] = ()
    ) -> RequestedNames:
        """The names of the metrics of a request; `others`: that it names besides."""
        counted = {cap.metric: cap.counted for cap in caps}
        requested = {metric_name(text) for text in (*request.options.metrics, *others)}
        if request.options.config is not None and not request.options.metrics:
            # A configuration may have the metric without a cap.
            requested |= {cap.counted for cap in caps if cap.cap is None}
        names = {
            text: [
                *([text] if text in requested else []),
                *(n for n, of in counted.items() if of == text),
            ]
            for text in counted.values()
        }
        return cls(counted, names)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """The texts that are counted for these."""
        return [self.counted.get(metric_name(text), text) for text in texts]

    def request(self, request: Request) -> Request:
        """The request for what is counted."""
        metrics = list(dict.fromkeys(self.texts(request.options.metrics)))
        return request.with_options(metrics=metrics)._replace(added=self.texts(request.added))

    def keys(self, data: Mapping[str, T]) -> dict[str, T]:
        """Data by name of a metric, by the text that is counted."""
        return dict(zip(self.texts(data), data.values(), strict=True))

    def metrics(self, metrics: Iterable[Metric]) -> list[Metric]:
        """The metrics that were counted, by the requested names."""
        return [
            metric if name == metric.text else msgspec.structs.replace(metric, text=name)
            for metric in metrics
            for name in self.names.get(metric.text, [metric.text])
        ]
