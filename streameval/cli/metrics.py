"""`streameval metrics`: lists the catalogue and describes each metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

from typer import Argument

from streameval.catalogue import catalogue, parameters, parse
from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.grammar import format_value
from streameval.catalogue.lookup import aliases
from streameval.catalogue.metric import Definition, Metric
from streameval.catalogue.signature import AMONG, BY, VALUE_KINDS
from streameval.catalogue.systems import step_of
from streameval.evaluation.shell.flags import OutputFile, TextFormat
from streameval.evaluation.shell.terminal import Forms
from streameval.exporters.page.definition import limits
from streameval.exporters.view import range_text
from streameval.inference.text_table import TextColumn, TextTable
from streameval.statistics.asked import BY_CELL


def metrics(
    name: Annotated[str | None, Argument(help="Metric, for example ndcg or recbole:gauc.")] = None,
    *,
    format: TextFormat = "table",  # noqa: A002  the option is called --format
    output: OutputFile = None,
) -> None:
    """List all metrics, or describe one of them.

    ```
    streameval metrics
    streameval metrics ndcg
    streameval metrics recbole:gauc
    streameval metrics --format json
    ```
    """
    metric = None if name is None else parse(name)
    definition = None if metric is None else metric.definition
    Forms(
        lambda: _table() if metric is None else _documentation(metric),
        lambda: _entry(definition) if definition else list(map(_entry, catalogue().values())),
    ).write(format, output)


_MEANS: Mapping[str, str] = {
    "list": "lists",
    "item": "items shown",
    "total": "nothing; it is a sum",
    "slice": "nothing; it is a property of all lists together",
}
_DIRECTIONS: Mapping[bool | None, str] = {True: "higher", False: "lower", None: "neither"}


def _table() -> Iterator[str | TextTable[Definition]]:
    columns: list[TextColumn[Definition]] = [
        TextColumn("metric", _spelling),
        TextColumn("what it is", lambda definition: definition.summary),
        TextColumn("range", lambda definition: range_text(*limits(definition))),
        TextColumn("better", lambda definition: _DIRECTIONS[definition.higher_is_better]),
        TextColumn("reads", lambda definition: definition.reads),
    ]
    yield TextTable(columns, list(catalogue().values()))
    yield "`streameval metrics NAME` describes one of them."


def _documentation(metric: Metric) -> list[str]:
    definition = metric.definition
    others = aliases(definition.name) if _is_ours(definition) else ()
    of_systems = [
        f"{system}:{their_name}"
        for system in conventions_of(definition)
        for their_name, ours in CONVENTIONS[system].spellings.items()
        if ours == definition.name and their_name != ours
    ]
    facts = {
        "range": range_text(*limits(definition)),
        "better": _DIRECTIONS[definition.higher_is_better],
        "mean over": _MEANS[definition.per],
        "reads": f"{definition.reads}: {STATISTICS[definition.reads].what}",
        "memory": STATISTICS[definition.reads].memory.replace("`", ""),
        "needs": ", ".join(name for name in definition.inputs if name != "k") or "the events only",
        "also called": ", ".join([*others, *of_systems]) or "nothing else",
        "source": definition.source,
    }
    lines = [_spelling(definition), "", *definition.documentation.split("\n"), ""]
    lines += [f"{name + ':':<12} {fact}" for name, fact in facts.items()]
    if metric.convention is not None:
        convention = CONVENTIONS[metric.convention]
        changed = [
            f"  {name} = {format_value(v)}" for name, v in convention.metrics[metric.name].items()
        ]
        changed += [f"  {step}"] if (step := step_of(metric.convention, metric.name)) else []
        lines += [
            "",
            f"as in {convention.system}, {metric.text} means:",
            *(changed or ["  the same"]),
        ]
    elif conventions := [f"{name}:{metric.name}" for name in conventions_of(definition)]:
        lines += ["", f"conventions: {', '.join(conventions)}"]
    lines += ["", "parameters, written like ndcg(gain=exp2)@10:"]
    lines += [f"  {line}" for line in _parameters(metric)]
    return lines


def conventions_of(definition: Definition) -> list[str]:
    """The conventions that define this metric of the catalogue."""
    if not _is_ours(definition):
        return []
    return [
        name for name, convention in CONVENTIONS.items() if definition.name in convention.metrics
    ]


def _is_ours(definition: Definition) -> bool:
    return definition.function.__module__.startswith("streameval.")


def _entry(definition: Definition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "aliases": aliases(definition.name),
        "summary": definition.summary,
        "documentation": definition.documentation,
        "bounds": limits(definition),
        "higher_is_better": definition.higher_is_better,
        "mean_over": definition.per,
        "cut_off": definition.takes_k,
        "reads": definition.reads,
        "needs": [name for name in definition.inputs if name != "k"],
        "conventions": conventions_of(definition),
        "source": definition.source,
        "parameters": {
            name: {"default": parameter.default, "choices": parameter.choices}
            for name, parameter in parameters(definition).items()
        },
    }


def _spelling(definition: Definition) -> str:
    return f"{definition.name}[@k]" if definition.takes_k else definition.name


_NAMES_ITEMS = {BY: "an attribute of items", AMONG: "an attribute and a value, like tier:tail"}


SHARED_PARAMETERS: Mapping[str, str] = {
    "repeats": "which rank of a repeated item counts",
    "min_gain": "smallest gain that is relevant",
    "relevant": "items with a gain above 0, with one other than 0, or with any gain; the default "
    "depends on the metric",
    "type": "type of the interactions to count; empty: all types",
    "among": "`attribute:value`, such as `tier:tail`: only its items count, at the ranks that they "
    "were shown at; empty: all items",
    "by": "the attribute whose values are counted instead of items",
    "empty": "how lists without interactions count; the default depends on the metric",
    "statistic": "statistic to report",
    "q": "the quantile",
    "confidence": "confidence level of `half_width`",
    "per": "whether it is a mean over lists, or over the means of users",
    "having": "users who were shown an item, or who had a hit",
}
"""Parameters that several metrics share -> their meaning; `empty` has another default in each."""


def _parameters(metric: Metric) -> list[str]:
    """A line for each parameter: default, allowed values, and the meaning of a shared one."""
    lines = []
    for name, parameter in parameters(metric.definition, metric.convention).items():
        shared = name not in metric.definition.parameters
        meaning = SHARED_PARAMETERS.get(name, "").replace("`", "") if shared else ""
        allowed = (
            _NAMES_ITEMS.get(name) or VALUE_KINDS[type(parameter.default)] + parameter.or_percentile
        )
        if parameter.choices is not None:
            allowed = ", ".join(map(format_value, parameter.choices))
        usual = "(empty)" if parameter.default == "" else format_value(parameter.default)
        lines.append(f"{name} = {usual} ({allowed}){meaning and ': '}{meaning}")
    return lines or ["none"]


class StatisticText(NamedTuple):
    """A statistic in words."""

    what: str
    memory: str


STATISTICS: Mapping[str, StatisticText] = {
    "hits": StatisticText(
        "hits by rank, items interacted with and length of the list; answers every cut-off up to "
        "the depth",
        "independent of the number of events: kilobytes for click traffic, below 1 MB for lists of "
        "up to 200 items",
    ),
    "lists": StatisticText(
        "how often each value of a list occurred",
        "exact to 65,536 distinct values (1.5 MB), then bins of 0.1 MB; the mean stays exact",
    ),
    "event": StatisticText(
        "how often each value of an event occurred",
        "exact to 65,536 distinct values (1.5 MB), then bins of 0.1 MB; the mean stays exact",
    ),
    **{
        name: StatisticText(statistic.what, statistic.memory) for name, statistic in BY_CELL.items()
    },
}
