"""Checks of a configuration: rules between its tables."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from streameval.catalogue import parameters, parse
from streameval.catalogue.context import USER_KEY, check_attribute_name
from streameval.catalogue.metric import Metric
from streameval.config.config import LABELS, Config
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import LISTS_OF_EVENTS, EventFields, encoding_problems
from streameval.engine.analysis import KeyProblem, configured
from streameval.engine.rankers import RANKER
from streameval.engine.windows.times import duration_of
from streameval.events.errors import (
    ConfigError,
    MetricError,
    MissingInputError,
    NotKeptError,
    SourceError,
    StreamevalError,
)
from streameval.events.spelling import suggestion, unknown_name_problem
from streameval.exporters.names import family_name, same_name
from streameval.join.interactions import InteractionDecoder
from streameval.statistics.user_key import UserKeyError

_REMEDIES = {
    "a catalogue": "add catalog = number of items, or a file of their ids",
    "the items' popularity": 'add popularity = { path = "popularity.csv", users = 1000 }',
    "the items' similarity": 'add similarity = { vectors = "vectors.csv" }',
    "the chance that users look at each rank": "add examination = [1, 0.6, 0.4], from rank 1 on",
}

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

_RESERVED = frozenset({"k", "le", "quantile", "window", "job", "instance", "convention", "metric"})
_SUMMED_AWAY = frozenset({"pod", "container", "endpoint"})


def check_config(path: str, config: Config) -> Config:
    """Check rules that the types of the tables cannot express; returns the configuration.

    Raises:
        ConfigError: all problems; of each key those that the first check finds.
    """
    problems: list[KeyProblem] = []
    for check in _CHECKS:
        reported = {key for key, _ in problems}
        try:
            problems += [problem for problem in check(config) if problem[0] not in reported]
        except StreamevalError:
            # The check relies on what an earlier one refuses.
            if not problems:
                raise
    if problems:
        first, *others = problems
        raise ConfigError(path, *first, *(ConfigError(path, *other) for other in others))
    return config


def metric_problems(config: Config) -> Iterator[KeyProblem]:
    """No metric, an unknown metric, the same metric twice, or two with one name in Prometheus."""
    if not config.metrics and not config.metric:
        yield "metrics", 'no metric is configured; add some, for example metrics = ["ndcg@10"].'
    seen: dict[str, str] = {}
    parsed: list[Metric] = []
    for key_path, text in _texts_by_key(config).items():
        key = f"{key_path}.name" if key_path.startswith("metric[") else key_path
        try:
            metric = parse(text)
            metric.require_numbers()
        except MetricError as error:
            yield key, str(error)
            continue
        field, what = LISTS_OF_EVENTS.get(metric.name, ("", ""))
        if field and getattr(config.event, field) is None:
            example = repr(field) if field != "rankers" else "{ challenger = 'challenger' }"
            yield key, f"{text!r} needs {what}; name its field: [event] {field} = {example}."
        for name in metric.item_values_without(config.event.per_item or ()):
            yield key, f"{text!r} needs {name!r} of each item; name its field in [event] per_item."
        canonical = metric.text
        if canonical in seen:
            yield key, f"{text!r} repeats {seen[canonical]}; remove one."
        seen.setdefault(canonical, key_path)
        parsed.append(metric)
        if alike := same_name(parsed):
            both = f"{alike[0].text!r} and {text!r} are both {family_name(metric)} in Prometheus"
            yield key, f"{both}; rename one."


def _texts_by_key(config: Config) -> dict[str, str]:
    texts = {f"metrics[{index}]": text for index, text in enumerate(config.metrics)}
    return texts | {f"metric[{index}]": options.name for index, options in enumerate(config.metric)}


def analysis_problems(config: Config) -> Iterator[KeyProblem]:
    """Problems in the tables of analyses, as each analysis finds them."""
    for analysis, settings in configured(config):
        yield from analysis.check(settings, config.counted_setup())


def extent_problems(config: Config) -> Iterator[KeyProblem]:
    """A [[metric]] with windows, labels or segments that are not configured."""
    windows = [] if config.windows is None else config.windows.spans
    spans = {duration_of(text) for text in windows}
    for number, metric in enumerate(config.metric):
        for what, names, allowed, where in (
            ("windows", metric.windows, windows, "[windows] spans"),
            ("labels", metric.labels, config.series_labels(), "`labels`"),
            ("segments", metric.segments, config.segments, "`segments`"),
        ):
            for index, name in enumerate(names or []):
                # A window is known by its length, however it is written.
                is_window = what == "windows" and duration_of(name) in spans
                if not is_window and (problem := unknown_name_problem(name, allowed, where)):
                    yield f"metric[{number}].{what}[{index}]", f"{name!r} is {problem}"


def input_problems(config: Config) -> Iterator[KeyProblem]:
    """An unreadable catalogue; metrics without the catalogue, file or ranks that they need."""
    try:
        items = config.items()
    except SourceError as error:
        yield "catalog", str(error)
        return
    if isinstance(items, frozenset) and not items:
        yield "catalog", f"{config.catalog} has no ids; give one id per line."
    try:
        _ = config.key_of_users
    except UserKeyError as error:
        yield USER_KEY, error.problem
        return
    if unusable := list(_attribute_problems(config)):
        yield from unusable
        return
    try:
        config.accumulator()
    except SourceError as error:
        yield "popularity, similarity or attributes", str(error)
    except MetricError as error:
        key_of = {parse(text).text: key_path for key_path, text in _texts_by_key(config).items()}
        yield key_of.get(getattr(error, "metric", ""), "metrics"), _key_problem(error)


def _attribute_problems(config: Config) -> Iterator[KeyProblem]:
    """Attributes with a name that no metric can have, and tiers without popularity."""
    for name, options in config.attributes.items():
        try:
            check_attribute_name(name)
        except MetricError as error:
            yield f"attributes.{name}", str(error)
        if options.popularity is not None and config.popularity is None:
            example = 'popularity = { path = "popularity.csv" }'
            yield (
                f"attributes.{name}.popularity",
                f"tiers need the items' popularity; add {example}.",
            )


def _key_problem(error: MetricError) -> str:
    """The error of an Accumulator, in terms of configuration keys."""
    if isinstance(error, NotKeptError) and error.depth:
        needed = "the whole list" if error.k is None else f"rank {error.k}"
        problem = f"but depth = {error.depth} keeps fewer ranks; raise or remove it"
        return f"{error.metric!r} needs {needed}, {problem}."
    if isinstance(error, MissingInputError) and error.attribute is not None:
        table = f'[attributes.{error.attribute}] path = "{error.attribute}.csv"'
        return f"{error.metric!r} needs {error.needs}; add {table}."
    if isinstance(error, MissingInputError):
        return f"{error.metric!r} needs {error.needs}; {_REMEDIES.get(error.needs, error.remedy)}."
    return str(error)


def label_problems(config: Config) -> Iterator[KeyProblem]:
    """Labels and segments that are repeated or have invalid names."""
    named = [
        (f"{table}[{index}]", name)
        for table, names in (("labels", config.labels), ("segments", config.segments))
        for index, name in enumerate(names)
    ]
    metric_of_parameter: dict[str, str] = {}
    for text in _texts_by_key(config).values():
        # Unknown metrics are reported elsewhere.
        with contextlib.suppress(MetricError):
            definition = parse(text).definition
            for parameter in parameters(definition):
                metric_of_parameter.setdefault(parameter, definition.name)
    first: dict[str, str] = {}
    for key, name in named:
        if name in first:
            yield key, f"{name!r} repeats {first[name]}; remove one."
        problem = _label_name_problem(name)
        if problem is None and (metric := metric_of_parameter.get(name)):
            problem = f"{name!r} is a parameter of the metric {metric!r}, exported as a label"
        if problem is not None:
            yield key, f"{problem}; choose another name and map it under [event.labels]."
        if name == RANKER and config.event.rankers:
            yield key, f"{name!r} is the label of the lists of [event] rankers; remove it."
        first.setdefault(name, key)
    needed = len(config.named_values(RANKER))
    if needed > config.label_cap and config.event.rankers:
        problem = f"{needed - 1} rankers and the list shown are {needed} values of {RANKER!r}"
        yield "event.rankers", f"{problem}, and label_cap = {config.label_cap}; raise it."
    if LABELS in config.segments:
        problem = f"{LABELS!r} is reserved for the series without a segment"
        key = f"segments[{config.segments.index(LABELS)}]"
        yield key, f"{problem}; choose another name and map it under [event.labels]."


def _label_name_problem(name: str) -> str | None:
    if not _LABEL.fullmatch(name):
        return f"{name!r} is not a label name (letters, digits and _, not starting with a digit)"
    if name.startswith("__"):
        return f"{name!r} starts with __, which Prometheus reserves"
    if name in _RESERVED:
        return f"{name!r} is reserved: streameval or Prometheus sets this label"
    if name in _SUMMED_AWAY:
        return f"{name!r} is a label of Kubernetes targets, which the recording rules sum away"
    return None


def mapping_problems(config: Config) -> Iterator[KeyProblem]:
    """Names in [event.labels] and label_values that are neither labels nor segments."""
    allowed = "`labels` and `segments`" if config.segments else "`labels`"
    for table, mapping in (
        ("event.labels", config.event.labels),
        ("label_values", config.label_values),
    ):
        for name in mapping:
            if problem := unknown_name_problem(name, config.dimensions(), allowed):
                yield f"{table}.{name}", problem


def time_problems(config: Config) -> Iterator[KeyProblem]:
    """Fields that contradict each other; windows or deduplication without event time."""
    event = config.event
    if event.time is not None and event.time_unit is None:
        units = "'s', 'ms', 'us' or 'iso8601'"
        yield "event.time_unit", f"missing; time = {event.time!r} needs it: give {units}."
    if event.time is None and event.time_unit is not None:
        yield "event.time", f"missing; time_unit = {event.time_unit!r} needs it: name the field."
    try:
        Decoder(event, config.dimensions())
    except ConfigError as error:
        yield f"event.{error.key}", error.problem
    if config.windows is not None and event.time is None:
        yield "windows", "windows need event time; name the field in event.time."
    if config.dedup is not None:
        for name, what in (("event_id", "the event's id"), ("time", "event time")):
            if getattr(event, name) is None:
                problem = f"missing; dedup = {config.dedup!r} needs it: name the field of {what}."
                yield f"event.{name}", problem


def source_problems(config: Config) -> Iterator[KeyProblem]:
    """A member without [state]; a topic of dead letters that is read, or without Kafka."""
    for key, problem in config.source.problems(stateful=config.state is not None):
        yield f"source.{key}", problem
    options = config.dead_letters
    if options is None:
        return
    if config.source.has_topics:
        if options.topic in config.source.logs:
            problem = f"{options.topic!r} is a topic of [source]; give another one."
            yield "dead_letters.topic", problem
    elif options.topic is not None:
        problem = "only Kafka sources have dead letters; remove it: examples are logged."
        yield "dead_letters.topic", problem


def format_problems(config: Config) -> Iterator[KeyProblem]:
    """Formats of sources other than Kafka; schemas without a registry, and the reverse."""
    streams = {"event": config.event.encoding}
    for index, stream in enumerate(config.attribution.interactions if config.attribution else ()):
        where = f"attribution.interactions[{index}]"
        streams[where] = stream.encoding(config.event)
        for key, problem in encoding_problems(*streams[where]):
            yield f"{where}.{key}", problem
    for where, (format_, _, decoder) in streams.items():
        if not config.source.has_topics and (format_ != "json" or decoder):
            key, value = ("format", format_) if format_ != "json" else ("decoder", decoder)
            problem = f"found {value!r}; only Kafka records can have this {key}; remove it."
            yield f"{where}.{key}", problem
        if format_ == "avro" and config.registry is None:
            yield "registry", f"missing; {where}.format = 'avro' needs it: give its url."
    if config.registry and not any(format_ == "avro" for format_, _, _ in streams.values()):
        problem = "no stream has its schemas; give event.format = 'avro', or remove it."
        yield "registry", problem


def attribution_problems(config: Config) -> Iterator[KeyProblem]:
    """Streams that are not read, or not joined; missing fields that a join needs."""
    options, source, event = config.attribution, config.source, config.event
    if options is None:
        return
    if source.logs_key is None:
        yield "attribution", "the simulator makes joined events; read topics or files in [source]."
        return
    read = {name: f"attribution.{key}" for key, names in options.named_streams() for name in names}
    key, choices = f"source.{source.logs_key}", ", ".join(map(repr, source.logs))
    for name in (name for name in read if name not in source.logs):
        meant = suggestion(name, [log for log in source.logs if log not in read])
        yield read[name], f"{name!r} is not among {key} ({choices}); add it there.{meant}"
    for name in (name for name in source.logs if name not in read):
        yield key, f"{name!r} is in no stream of [attribution]; add it there or remove it here."
    if config.dedup is not None:
        problem = "with [attribution], lists are deduplicated by request_id, and interactions by"
        yield "dedup", f"{problem} event_id in [[attribution.interactions]]; remove dedup."
    defaults = EventFields()
    for name in ("types", "combine"):
        if getattr(event, name) != getattr(defaults, name):
            where = "[attribution]" if name == "combine" else "[[attribution.interactions]]"
            yield f"event.{name}", f"lists have no interactions of their own; give it in {where}."
    for index, name in enumerate(options.per):
        if label_problem := unknown_name_problem(name, config.labels, "`labels`"):
            yield f"attribution.per[{index}]", label_problem
    if event.time is None:
        yield "event.time", "missing; a join needs event time: name its field and unit."
        return
    try:
        Decoder(options.fields(event), config.dimensions(), search=None)
    except ConfigError as error:
        path = "attribution.request_id" if error.key == "event_id" else f"event.{error.key}"
        yield path, error.problem
    for index, interaction in enumerate(options.interactions):
        try:
            InteractionDecoder(interaction, event, options.key)
        except ConfigError as error:
            yield f"attribution.interactions[{index}].{error.key}", error.problem


_CHECKS: tuple[Callable[[Config], Iterator[KeyProblem]], ...] = (
    metric_problems,
    label_problems,
    mapping_problems,
    time_problems,
    extent_problems,
    analysis_problems,
    source_problems,
    format_problems,
    attribution_problems,
    input_problems,
)
