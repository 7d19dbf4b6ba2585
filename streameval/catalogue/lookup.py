"""Lookup of a metric by its text or its function."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, Final, get_args

from msgspec.structs import replace

from streameval import metrics
from streameval.catalogue import summary
from streameval.catalogue.conventions import CONVENTIONS, RULES
from streameval.catalogue.grammar import Spelling, spelling, syntax_error
from streameval.catalogue.metric import Definition, Metric, definition_of
from streameval.catalogue.signature import (
    AMONG,
    BY,
    EACH_ITEM,
    PER_USER,
    Parameter,
    ParameterValue,
    parameter_error,
)
from streameval.events import LARGEST_RANK
from streameval.events.errors import MetricTextError, OwnMetricError
from streameval.events.spelling import suggestion
from streameval.statistics.asked import BY_CELL
from streameval.statistics.intervals import LARGEST_OF_USER
from streameval.statistics.lists import Relevant

ALIASES: Mapping[str, str] = {
    "aggregate_diversity": "distinct_items",
    "arhr": "mrr",
    "arp": "average_popularity",
    "average_precision": "map",
    "average_recommendation_popularity": "average_popularity",
    "catalog_coverage": "item_coverage",
    "click_through_rate": "ctr",
    "coverage": "item_coverage",
    "cross_entropy": "log_loss",
    "ece": "expected_calibration_error",
    "entropy": "shannon_entropy",
    "expected_reciprocal_rank": "err",
    "f1_score": "f1",
    "geometric_map": "gm_map",
    "gini_index": "gini",
    "group_auc": "gauc",
    "hit": "hit_rate",
    "hit_ratio": "hit_rate",
    "hr": "hit_rate",
    "idcg": "ideal_dcg",
    "ild": "list_diversity",
    "intra_list_diversity": "list_diversity",
    "logloss": "log_loss",
    "mean_absolute_error": "mae",
    "mean_average_precision": "map",
    "mean_reciprocal_rank": "mrr",
    "ne": "normalised_entropy",
    "normalized_entropy": "normalised_entropy",
    "num_rel": "relevant",
    "num_rel_ret": "hits",
    "num_ret": "retrieved",
    "r_prec": "r_precision",
    "rank_biased_precision": "rbp",
    "recip_rank": "mrr",
    "reciprocal_rank": "mrr",
    "root_mean_squared_error": "rmse",
    "rprec": "r_precision",
    "rr": "mrr",
    "self_information": "novelty",
    "success": "hit_rate",
    "surprisal": "novelty(unit=share)",
}
"""Alias -> the catalogue's name, with the parameter values that the alias implies."""


def aliases(name: str) -> list[str]:
    """The aliases of a metric, in alphabetical order.

    Example:
        >>> aliases("hit_rate")
        ['hit', 'hit_ratio', 'hr', 'success']
    """
    return [alias for alias, text in ALIASES.items() if text.partition("(")[0] == name]


_HITS_PARAMETERS = (
    Parameter("repeats", "first", ("first", "every")),
    Parameter("min_gain", 0.0, span=(0, sys.float_info.max)),
)
_ONLY_WITH: Mapping[str, tuple[str, tuple[ParameterValue, ...]]] = {
    "q": ("statistic", ("quantile",)),
    "confidence": ("statistic", ("half_width",)),
    AMONG: ("repeats", ("first", "every")),
}
"""Shared parameter -> another one, and its values with which it has an effect."""

_MOST_TEXTS = 4_096
"""Parsed texts in the cache; a service may get any number of them from its users."""


@lru_cache(maxsize=_MOST_TEXTS)
def definition_named(name: str) -> Definition | None:
    """The metric of the catalogue with this name, or None; imports no other.

    Example:
        >>> definition_named("ndcg").bounds, definition_named("os")
        ((0, 1), None)
    """
    module = f"{metrics.__name__}.{name}"
    try:
        content = vars(importlib.import_module(module))
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        return None
    declared = filter(None, map(definition_of, content.values()))
    return next((definition for definition in declared if definition.name == name), None)


@cache
def catalogue() -> Mapping[str, Definition]:
    """All metrics by name, in alphabetical order.

    Example:
        >>> catalogue()["ndcg"].bounds
        (0, 1)
    """
    import pkgutil  # noqa: PLC0415  whoever names metrics needs no list of all

    names = sorted(module.name for module in pkgutil.iter_modules(metrics.__path__))
    pairs = ((name, definition_named(name)) for name in names)
    return {name: definition for name, definition in pairs if definition is not None}


def parameters(definition: Definition, convention: str | None = None) -> Mapping[str, Parameter]:
    """All parameters of a metric: its own, and those of the statistic that it reads.

    `convention`: some add parameters.

    Raises:
        MetricTextError: a parameter of the metric has the name of a shared one.
    """
    shared = {parameter.name: parameter for parameter in _shared_parameters(definition)}
    system = CONVENTIONS.get(convention or "")
    if system is not None and system.summarises and definition.reads == "exposures":
        shared |= {parameter.name: parameter for parameter in summary.SUMMARY_PARAMETERS}
    if system is not None and system.rows and definition.reads in ("hits", "lists"):
        shared["rows"] = Parameter("rows", 0, span=(0, LARGEST_RANK))
    for name in shared.keys() & definition.parameters:
        allowed = "all metrics of its kind have a parameter with this name; choose another name"
        default = definition.parameters[name].default
        raise parameter_error(definition.name, name, default, allowed)
    return {**definition.parameters, **shared}


def _shared_parameters(definition: Definition) -> Iterator[Parameter]:
    """The parameters that a metric has because of what it reads."""
    reads, ratio = definition.reads, definition.over is not None
    ranked, of_event = reads in ("hits", "lists"), reads == "event"
    if ranked:
        yield from _HITS_PARAMETERS
        yield Parameter("relevant", definition.relevant, get_args(Relevant))
    if definition.interactions if of_event else ranked or BY_CELL[reads].takes_type:
        yield Parameter("type", "")
    # A catalogue of all items does not fit a part of them, nor do weights of whole lists.
    needs_all_items = definition.weighted or ratio or "catalog" in definition.inputs
    if ranked or (of_event and not needs_all_items and AMONG not in definition.parameters):
        yield Parameter(AMONG, "")
    if definition.per == "list" and not of_event:
        yield Parameter("empty", definition.empty, ("skip", "zero", "nan", "error"))
    if (definition.per == "list" and not of_event) or (of_event and not ratio):
        yield from summary.SUMMARY_PARAMETERS
        if _no_mean_over_users(definition) is None:
            yield Parameter(PER_USER, "list", ("list", "user"))
    if reads == "exposures":
        yield Parameter(BY, EACH_ITEM)
    if reads == "users":
        yield Parameter("having", "item", ("item", "hit"))


def _no_mean_over_users(definition: Definition) -> str | None:
    """The reason that a metric is never a mean over users; None for a bounded mean over lists."""
    if definition.per != "list":
        unit = {"item": "a mean over items", "total": "a sum"}.get(definition.per)
        return f"it is {unit or 'one value of all lists together'}, not a mean over lists"
    if definition.over is not None or definition.weighted:
        return "its lists count by their weights, not alike"
    if definition.finish is not None:
        return "it is a function of the mean over all lists, which means of users do not have"
    if max(map(abs, definition.bounds)) > LARGEST_OF_USER:
        beyond = f"no bounds, or some beyond {LARGEST_OF_USER:,.0f}"
        return f"its values have {beyond}, so that sums by user would not be exact"
    return None


def parse(text: str) -> Metric:
    """The metric with this text.

    Raises:
        MetricTextError: the text does not follow the grammar; no metric, convention or module has
            that name; the module cannot be imported; the metric has no such parameter, or does not
            allow its value.

    Example:
        >>> parse("recbole:hit@10").text, parse("success@10").text, parse("trec:P_10").text
        ('recbole:hit_rate@10', 'hit_rate@10', 'trec:precision@10')
    """
    spelled = _spelling_of(text)
    if spelled.prefix is None or spelled.prefix in CONVENTIONS:
        return _built_in(text)
    # Not cached, because a notebook or importlib.reload may declare the function again.
    return _metric(text, spelled, user_definition(spelled.prefix, spelled.name))


COMPARED_PER_USER: Final = ("lists_per_user", "clicks_per_user")
"""What comparisons judge besides the metrics that are counted."""


def _unknown(text: str, available: Iterable[str]) -> MetricTextError:
    names = sorted(available)
    if text in COMPARED_PER_USER:
        remedy = "remove it here, and name it in primary or guardrails if it decides"
        problem = f"{text!r} is not a metric to count: every comparison of users has it; {remedy}."
        return MetricTextError(problem, metric=text, known=names)
    # The whole catalogue would fill the screen.
    choices = (
        f"Known: {', '.join(names)}." if len(names) <= 40 else "`streameval metrics` lists all."
    )
    bare = re.split(r"[(@]", text.rpartition(":")[2])[0]
    hint = suggestion(text, names) or suggestion(bare, names)
    return MetricTextError(f"unknown metric {text!r}.{hint} {choices}", metric=text, known=names)


@lru_cache(maxsize=_MOST_TEXTS)
def _built_in(text: str) -> Metric:
    spelled = _spelling_of(text)
    definition = definition_named(spelled.name)
    if spelled.prefix is None:
        if spelled.name in CONVENTIONS:
            names = [f"{spelled.name}:{name}" for name in CONVENTIONS[spelled.name].metrics]
            raise _unknown(spelled.name, names)
        if definition is None:
            raise _unknown(spelled.name, {*catalogue(), *ALIASES})
        return _metric(text, spelled, definition)
    convention = CONVENTIONS[spelled.prefix]
    if definition is None or spelled.name not in convention.metrics:
        raise _unknown(text, {*convention.metrics, *convention.spellings})
    from streameval.catalogue.systems import in_convention  # noqa: PLC0415  imports many metrics

    return _metric(text, spelled, in_convention(definition, spelled.prefix))


@lru_cache(maxsize=_MOST_TEXTS)
def _spelling_of(text: str) -> Spelling:
    """The spelling with aliases and names of systems replaced by the catalogue's name."""
    spelled = spelling(text)
    name, k, parameters = spelled.name, spelled.k, dict(spelled.parameters)
    if spelled.prefix is None and name in ALIASES:
        meant = spelling(ALIASES[name])
        name, parameters = meant.name, {**dict(meant.parameters), **parameters}
    elif (convention := CONVENTIONS.get(spelled.prefix or "")) is not None:
        stem, _, number = name.rpartition("_")
        holds = convention.suffixes.get(stem)
        if holds == "k" and number.isdecimal() and k is None:
            name, k = stem, spelling(f"{stem}@{number}").k
        elif holds is not None and holds != "k" and holds not in parameters:
            name = stem
            parameters |= dict(spelling(f"{stem}({holds}={number})").parameters)
        name = convention.spellings.get(name, name)
    return replace(spelled, name=name, parameters=tuple(sorted(parameters.items())), k=k)


def metric_at(
    function: Callable[..., Any], k: int | None = None, **parameters: ParameterValue
) -> Metric:
    """The metric of a function decorated with `@metric`, with a cut-off and parameters.

    Its canonical text is `module:name(parameters)@k`, the same as in a configuration.

    Args:
        function: the function itself.
        k: cut-off from 1; None for the whole list.
        parameters: values of the metric's parameters.

    Raises:
        OwnMetricError: the function is not decorated with `@metric`.
        MetricError: the metric has no such cut-off or parameter.

    Example:
        >>> from streameval.metrics.ndcg import ndcg
        >>> metric_at(ndcg, k=10, gain="exp2").text
        'ndcg(gain=exp2)@10'
    """
    definition = definition_of(function)
    if definition is None:
        raise _undeclared_error(function)
    built_in = definition_named(definition.name) is definition
    # A spawned process of multiprocessing imports the program under the other name.
    module = "__main__" if function.__module__ == "__mp_main__" else function.__module__
    prefix = None if built_in else module
    text = str(Spelling(prefix, definition.name, tuple(sorted(parameters.items())), k))
    return _metric(text, spelling(text), definition)


def metric_of(metric: object, among: Iterable[Metric] = ()) -> Metric:
    """The metric of a text or of a decorated function; a Metric is returned unchanged.

    `among`: metrics that a text names first, as a user's function may be declared again.

    Raises:
        MetricError: it is none of these, or the text is not valid.
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return next((member for member in among if member.text == metric), None) or parse(metric)
    if callable(metric):
        return metric_at(metric)
    raise _undeclared_error(metric)


def _undeclared_error(argument: object) -> OwnMetricError:
    remedy = "give its text, for example 'ndcg@10', or a function decorated with"
    how = "@streameval.metric(...), with a cut-off as metric_at(function, k=10)"
    return OwnMetricError(f"{argument!r} is not a metric; {remedy} {how}.", metric="")


def _metric(text: str, spelled: Spelling, definition: Definition) -> Metric:
    if spelled.k is not None and not definition.takes_k:
        raise syntax_error(text, f"{definition.name} has no cut-off")
    convention = spelled.prefix if spelled.prefix in CONVENTIONS else None
    accepted = parameters(definition, convention)
    for name, value in spelled.parameters:
        if name not in accepted:
            reason = _no_mean_over_users(definition) if (name, value) == (PER_USER, "user") else ""
            allowed = reason or f"it has {', '.join(sorted(accepted)) or 'no parameters'}"
            raise parameter_error(text, name, value, allowed)
    values = {name: accepted[name].check(text, value) for name, value in spelled.parameters}
    among = str(values.get(AMONG, ":"))
    if ":" not in among:
        allowed = "give attribute:value, for example tier:tail"
        raise parameter_error(text, AMONG, among, allowed)
    usual = {name: parameter.default for name, parameter in accepted.items()}
    rules = dict(RULES)
    if convention is not None:
        for name, value in CONVENTIONS[convention].metrics[definition.name].items():
            (rules if name in rules else usual)[name] = value
    options = {name: value for name, value in values.items() if value != usual[name]}
    canonical = Spelling(spelled.prefix, definition.name, tuple(options.items()), spelled.k)
    values = usual | options
    for name in sorted(options.keys() & _ONLY_WITH.keys() - definition.parameters.keys()):
        other, needed = _ONLY_WITH[name]
        if values.get(other, needed[0]) not in needed:
            having = " or ".join(map(str, needed))
            remedy = f"it has an effect only with {other}={having}"
            raise parameter_error(text, name, options[name], remedy)
    return Metric(
        definition=definition,
        values=values,
        rules=rules,
        options=options,
        k=spelled.k,
        convention=convention,
        text=str(canonical),
        alias=None if spelling(text).name == canonical.name else text.strip(),
    )


def absent_module(text: str) -> str | None:
    """The module of a user's own metric that this process has not loaded, or None.

    Imports nothing: with this, text from a file of somebody else is looked at before it is parsed.

    Raises:
        MetricTextError: the text does not follow the grammar.

    Example:
        >>> absent_module("payload:clicks@10"), absent_module("recbole:hit@10")
        ('payload', None)
    """
    spelled = _spelling_of(text)
    if spelled.prefix is None or spelled.prefix in CONVENTIONS:
        return None
    loaded = sys.modules.get(spelled.prefix)
    return None if loaded and spelled.name in _definitions_in(loaded) else spelled.prefix


def _definitions_in(module: ModuleType) -> Mapping[str, Definition]:
    content = vars(module).values()
    return {definition.name: definition for definition in filter(None, map(definition_of, content))}


def user_definition(module: str, name: str) -> Definition:
    """The metric with this name in a user's module."""
    try:
        by_name = _definitions_in(importlib.import_module(module))
    except Exception as error:  # the import of a user's module may raise anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            problem = f"unknown convention {module!r}, and no module of that name can be found."
            problem += f"{suggestion(module, CONVENTIONS)} Known conventions: "
            problem += f"{', '.join(sorted(CONVENTIONS))}."
            raise MetricTextError(problem, metric=module, known=sorted(CONVENTIONS)) from None
        what = f"{type(error).__name__}: {str(error).rstrip('.')}"
        problem = f"module {module!r} cannot be imported: {what}"
        problem = f"{problem}. Import it in Python to see where it fails."
        raise MetricTextError(problem, metric=module) from error
    if name not in by_name:
        names = [f"{module}:{metric_name}" for metric_name in by_name]
        raise _unknown(f"{module}:{name}", names)
    return by_name[name]
