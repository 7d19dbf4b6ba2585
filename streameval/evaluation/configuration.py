"""The configuration that counts files and frames: that of a file, overridden by options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec

from streameval.accumulator.formulas import needed_inputs
from streameval.catalogue import parse
from streameval.config import Config, WebOptions, load
from streameval.config.checks import check_config
from streameval.config.config import relabel, with_analyses, without_formats
from streameval.engine.analysis import Analysis, configured
from streameval.engine.windows.labels import NO_CAP
from streameval.evaluation.arguments import InputError, Options, column
from streameval.evaluation.fields import check_fields, check_metrics, event_fields, is_provided
from streameval.evaluation.files import LINES, TABLES, TableInput, is_table
from streameval.evaluation.joins import JoinInputs, configured_join, event_fields_of
from streameval.evaluation.sources import CallInputs, usual_user
from streameval.events.errors import UsageError
from streameval.events.ids import IdKind
from streameval.events.spelling import suggestion
from streameval.join.attribution import AttributionOptions
from streameval.sources.settings import FilesOptions


def config_of(
    call: CallInputs,
    options: Options,
    *,
    added: Sequence[str] = (),
    analysis: Analysis[Any, Any] | None = None,
) -> Config:
    """The configuration that counts the inputs of a caller; their files replace its source.

    Args:
        call: its inputs; without files, those of the configuration are counted.
        options: of the call.
        added: metrics besides those, which an experiment names.
        analysis: the one whose table stays, unchecked: its options may change it; None keeps
            those that a report of values shows.
    """
    named = [*options.metrics, *added]
    if options.config is None:
        check_metrics(msgspec.structs.replace(options, metrics=named))
        # Files are finite, so labels need no cap.
        base = Config(metrics=["ctr"], source=_source(call), label_cap=NO_CAP, max_series=NO_CAP)
    else:
        source = _source(call) if call.names else None
        base = load(options.config, lambda config: _for_files(config, call, options), source)
        _refuse_columns_of_streams(base, call, options)
    config = _override(base, call, options, added)
    tables = configured(config)
    config = with_analyses(config, [])
    if not call.is_pair:
        check_fields(map(parse, named), config.event, call)
    # Without the metrics whose inputs are objects of the caller.
    metrics = [
        text
        for text in config.metrics
        if not any(is_provided(name, options) for name in needed_inputs(parse(text)))
    ]
    check_config("the options", msgspec.structs.replace(config, metrics=metrics or ["hits"]))
    if analysis is None and not call.is_pair:
        # A report has those that fit its labels and metrics; what needs users has a command of its
        # own, which counts them.
        fitting = [
            pair
            for pair in tables
            if pair.analysis.needs is None
            and not any(pair.analysis.check(pair.settings, config.counted_setup()))
        ]
        return with_analyses(config, fitting)
    return with_analyses(config, [pair for pair in tables if pair.analysis is analysis])


def _source(call: CallInputs) -> FilesOptions:
    if not call.names:
        raise InputError(
            "there are no files; give at least one, or {recommendations} with {truth}."
        )
    return FilesOptions(paths=list(call.names))


def _override(config: Config, call: CallInputs, options: Options, added: Sequence[str]) -> Config:
    change = msgspec.structs.replace
    if options.metrics or options.config is None:
        config = change(config, metrics=list(dict.fromkeys(options.metrics)), metric=[])
    counted = {parse(text).text for text in (*config.metrics, *(x.name for x in config.metric))}
    more = [text for text in dict.fromkeys(added) if parse(text).text not in counted]
    config = change(config, metrics=[*config.metrics, *more])
    labels = [*options.by] if options.by else config.dimensions()
    if options.combine is not None and config.attribution is not None:
        config = change(config, attribution=change(config.attribution, combine=options.combine))
        options = change(options, combine=None)
    event = event_fields(config.event, call, options, labels)
    if options.by:
        # Before the labels, one of which is that of the rankers.
        config = relabel(change(config, event=event), options.by)
        event = event_fields(config.event, call, options, config.dimensions())
    event = usual_user(call, event, config.dimensions()) if options.config is None else event
    catalog = options.inputs.get("catalog")
    if isinstance(catalog, int | str):
        config = change(config, catalog=catalog)
    if options.time_zone is not None:
        config = change(config, time_zone=options.time_zone)
    if options.intervals is not None and config.intervals is None:
        config = change(config, intervals=options.intervals)
    return change(config, event=event)


def _for_files(config: Config, call: CallInputs, options: Options) -> Config:
    """A daemon's configuration without the settings that only a daemon needs, for these files."""
    replace = msgspec.structs.replace
    config = replace(config, state=None, dead_letters=None, web=WebOptions())
    config = without_formats(config)
    if options.metrics and not config.metrics and not config.metric:
        config = replace(config, metrics=["hits"])  # until those named replace it
    if not call.names and config.source.has_files:
        return config
    if config.attribution is not None and call.kind == "joined":
        # Its tables replace the streams in `as_join`.
        paths = list(chain.from_iterable(config.attribution.streams))
        return replace(config, source=FilesOptions(paths=paths))
    config = replace(config, source=_source(call))
    if call.is_pair:
        return replace(config, attribution=None)
    if config.attribution is None:
        return config
    is_files = all(isinstance(table, str) for table in call.tables)
    if call.is_columns and not (call.kind == "tables" and is_files):
        raise InputError(
            "[attribution] joins tables; give frames as {impressions} and {interactions}."
        )
    return _streams_as_files(config, config.attribution, call.events)


def _streams_as_files(
    config: Config, attribution: AttributionOptions, paths: Sequence[str]
) -> Config:
    """Files replace the stream of their name, or of that of their folder.

    "clicks.ndjson.gz" belongs to the topic "clicks", as do "clicks/part-0.parquet" and others.
    """
    by_stem = {_stem(name): name for stream in attribution.streams for name in stream}
    files: dict[str, list[str]] = {}
    for path in paths:
        stems = [stem for stem in (_stem(path), Path(path).parent.name) if stem in by_stem]
        if not stems:
            stream_names, hint = ", ".join(by_stem), suggestion(_stem(path), by_stem)
            problem = f"[attribution] joins no stream of this name, only {stream_names}.{hint}"
            raise UsageError(f"{path}: {problem}")
        files.setdefault(by_stem[stems[0]], []).append(path)
    missing = [name for name in by_stem.values() if name not in files]
    if missing:
        names = ", ".join(map(repr, missing))
        problem = f"[attribution] also joins {names}; give a file of that name, like"
        raise UsageError(f"{problem} {_stem(missing[0])}.ndjson.")
    return msgspec.structs.replace(config, attribution=attribution.with_sources(files))


def _refuse_columns_of_streams(config: Config, call: CallInputs, options: Options) -> None:
    """Refuse to name fields that a join does not read, or that streams of it have of their own.

    Of JSON lines, labels and event time may be named: a name of time that no record has leaves no
    event. Of tables, what the join makes or [attribution] names may not.
    """
    if config.attribution is None:
        return
    labels = {*options.by, *config.dimensions()}
    is_lines = call.kind != "joined" and not _has_only_tables(config, call)
    for field, name in options.columns.items():
        if field not in labels and (
            field != "time" if is_lines else field in ("interactions", "event_id")
        ):
            raise InputError(
                "{column}: [event] and [attribution] of {config} name the fields of streams that "
                "are joined; name it there.",
                column=column(field, name or ""),
            )


def _has_only_tables(config: Config, call: CallInputs) -> bool:
    return all(map(is_table, call.names or config.source.logs))


def as_join(call: CallInputs, config: Config) -> tuple[CallInputs, Config]:
    """The inputs as a join of tables, if a configuration joins its files.

    The configuration then counts the lists of the join.
    """
    attribution = config.attribution
    if attribution is not None and call.kind == "joined":
        call = call._replace(events=_as_configured(call.events, attribution, config))
    elif attribution is not None and _has_only_tables(config, call):
        paths = list(call.names or config.source.logs)
        tables: Mapping[str, Sequence[TableInput]] = {
            stream[0]: stream for stream in attribution.streams
        }
        call = CallInputs("joined", paths, configured_join(attribution, config.event, tables))
    if call.kind != "joined":
        return call, config
    call = call._replace(events=call.events._replace(config=config))
    event = event_fields_of(config.event)
    return call, msgspec.structs.replace(config, attribution=None, event=event)


def _as_configured(
    inputs: JoinInputs, attribution: AttributionOptions, config: Config
) -> JoinInputs:
    """The tables that a caller gave, joined as a configuration says."""
    if inputs.has_rule:
        raise InputError("{attribution} and [attribution] of {config}; give one of them.")
    first, *others = attribution.names
    streams = {
        _stem(name): stream.tables
        for name, stream in zip(inputs.names[1:], inputs.interactions, strict=True)
    }
    if len(others) == len(streams) == 1:
        streams = {_stem(others[0]): inputs.interactions[0].tables}
    by_stem = {_stem(name): name for name in others}
    if {*by_stem} != {*streams}:
        raise InputError(
            "[attribution] joins {wanted}; give {interactions} as a mapping with these names.",
            wanted=", ".join(map(repr, by_stem)),
        )
    tables = {by_stem[stem]: of for stem, of in streams.items()}
    return configured_join(attribution, config.event, {first: inputs.impressions.tables, **tables})


def _stem(path: str) -> str:
    """The name of a file without folder and extensions; a topic's name is unchanged.

    >>> _stem("logs/shop.clicks.ndjson.gz"), _stem("shop.clicks")
    ('shop.clicks', 'shop.clicks')
    """
    name = Path(path).name
    for ending in (".gz", ".zst", *LINES, *TABLES):
        name = name.removesuffix(ending)
    return name


def with_ids(config: Config, ids: IdKind) -> Config:
    """The configuration with ids of this kind."""
    kinds: Mapping[IdKind, Literal["integer", "string"]] = {"integer": "integer", "text": "string"}
    event = msgspec.structs.replace(config.event, ids=kinds[ids])
    return msgspec.structs.replace(config, event=event)


def of_rows(config: Config, labels: Sequence[str] = ()) -> Config:
    """The configuration without what rows of items have not; `labels`: of their users."""
    how = config.event if config.attribution is None else config.attribution
    event = msgspec.structs.replace(config.event, rankers=None, combine=how.combine)
    rest = msgspec.structs.replace(config, event=event, windows=None, segments=[], dedup=None)
    return relabel(rest, labels=[*labels])
