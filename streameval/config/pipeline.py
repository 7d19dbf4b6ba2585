"""Builds the pipeline of a configuration.

Functions raise ConfigError if fields contradict each other, MetricError if a metric lacks its
inputs, and SourceError if a file cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from streameval.accumulator.plan import ALL_LISTS
from streameval.config.config import Config
from streameval.decoding.decode import Decoder
from streameval.decoding.framing import (
    BatchDecoder,
    Encoding,
    FramedDecoder,
    ToText,
    by_function,
    remove_frame,
)
from streameval.engine.analysis import CountedFamily, configured
from streameval.engine.clock import ClockRule
from streameval.engine.dead_letters import Limits
from streameval.engine.ingest import EventFrontend, Frontend, Ingest
from streameval.engine.partition import Layout
from streameval.engine.rankers import RANKER
from streameval.engine.windows.family import FamilySpec, widest_search
from streameval.engine.windows.labels import LabelCapOptions
from streameval.engine.windows.times import duration_of
from streameval.events.extras import imports_of, load_named
from streameval.events.records import RecordBatch
from streameval.join.attribution import AttributionOptions, InteractionOptions
from streameval.join.frontend import JoinFrontend
from streameval.sources.schemas.records import Schemas
from streameval.sources.schemas.registry import Registry

T = TypeVar("T")


def new_ingest(
    config: Config,
    *,
    schemas: Schemas | None = None,
    keep_dead_letters: bool = False,
    incremental: bool = False,
    limits: Limits | None = None,
) -> Ingest:
    """An empty ingest; reads the files that the configuration names.

    Args:
        config: of the pipeline.
        schemas: of the records; None if no record will be decoded that needs one.
        keep_dead_letters: whether to keep invalid records for `take_dead_letters`.
        incremental: whether long work is left to `proceed`, a part at a time.
        limits: limits of invalid records, beyond which counting stops; None for no limit.
    """
    frontend = frontend_of(config, layout(config), schemas)
    return Ingest(
        frontend, keep_dead_letters=keep_dead_letters, incremental=incremental, limits=limits
    )


def frontend_of(config: Config, settings: Layout, schemas: Schemas | None = None) -> Frontend:
    """The frontend of a configuration, with or without a join."""
    if config.attribution is not None:
        return join_frontend(config, config.attribution, settings, schemas)
    search = widest_search(settings.families)
    decoder = Decoder(config.event, config.dimensions(), search)
    return EventFrontend(_frame_decoder(decoder, _encoding(config), schemas), settings)


def with_saved_depth(config: Config, settings: Mapping[str, Any]) -> Config:
    """The configuration with the depth of a saved state, if that is larger and `depth` is not set.

    A state with a larger depth stays readable when metrics with smaller cut-offs replace others.
    """
    if config.depth is not None or "depth" not in settings:
        return config
    needed, saved = config.counted_depth(), settings["depth"]
    if needed is None and config.reads() & {"hits", "lists"}:
        return config
    if needed is not None and saved is not None and saved <= needed:
        return config
    return msgspec.structs.replace(config, depth=ALL_LISTS if saved is None else saved)


def layout(config: Config, inputs: Mapping[str, Any] = MappingProxyType({})) -> Layout:
    """The layout of each partition's state; `inputs`: overrides of `Config.inputs`."""
    return Layout(
        families=[
            FamilySpec(
                name=group.name,
                dimensions=group.dimensions,
                columns=tuple(map(config.series_dimensions().index, group.dimensions)),
                spans=group.spans,
                metrics=group.metrics,
                table=empty.table.empty(),
                label_caps=_label_caps_of(config, group),
            )
            for group, empty in config.accumulators(inputs)
        ],
        windowing=config.windowing(),
        dedup=None if config.dedup is None else duration_of(config.dedup),
        clock=ClockRule(duration_of(config.max_ahead), user_key=config.key_of_users),
        intervals=config.intervals,
        analyses=configured(config),
        rankers=config.event.ranker_names,
    )


def _label_caps_of(config: Config, group: CountedFamily) -> LabelCapOptions:
    # Lists that were shown are read alone, also of the combinations above the cap.
    rankers = {at for at, name in enumerate(group.dimensions) if name == RANKER}
    return LabelCapOptions(
        cap=config.label_cap,
        named=tuple(map(config.named_values, group.dimensions)),
        max_series=config.max_series,
        preserved=frozenset(rankers if config.event.rankers else ()),
    )


def join_frontend(
    config: Config, options: AttributionOptions, layout: Layout, schemas: Schemas | None = None
) -> JoinFrontend:
    """The frontend that joins impressions and interactions."""

    def framed(decoder: BatchDecoder[T], stream: InteractionOptions | None) -> BatchDecoder[T]:
        return _frame_decoder(decoder, _encoding(config, stream), schemas)

    return JoinFrontend(
        options, config.event, config.dimensions(), layout, users=config.by_user, framed=framed
    )


def texts_of(config: Config, schemas: Schemas | None = None) -> list[ToText | None]:
    """The converter to JSON of each stream's records; None for plain JSON."""
    streams = () if config.attribution is None else config.attribution.interactions
    encodings = (_encoding(config), *(_encoding(config, stream) for stream in streams))
    return [_converter(encoding, schemas) for encoding in encodings]


def _converter(encoding: Encoding, schemas: Schemas | None) -> ToText | None:
    if encoding.has_schemas and schemas is not None:
        return schemas.to_text(encoding)
    return _to_text(encoding)


def _frame_decoder(
    decoder: BatchDecoder[T], encoding: Encoding, schemas: Schemas | None
) -> BatchDecoder[T]:
    to_text = _converter(encoding, schemas)
    return decoder if to_text is None else FramedDecoder(decoder, to_text)


def _to_text(encoding: Encoding) -> ToText | None:
    """The converter of records that need no registry; None for plain JSON."""
    if encoding.decoder is not None:
        decode = load_named(encoding.decoder, "decoder", "function")
        return by_function(decode, encoding.decoder)
    if encoding.message is not None:
        with imports_of("format = 'protobuf'", "schemas"):
            from streameval.sources import protobuf  # noqa: PLC0415  needs an extra
        message = load_named(encoding.message, "message", "generated class of Protobuf")
        return protobuf.reader(message, encoding.time_unit)
    return remove_frame if encoding.format == "json-schema" else None


def _encoding(config: Config, stream: InteractionOptions | None = None) -> Encoding:
    """The encoding of a stream of interactions; without one, of events."""
    event = config.event
    format_, message, decoder = event.encoding if stream is None else stream.encoding(event)
    unit = (stream and stream.time_unit) or event.time_unit or "iso8601"
    return Encoding(format_, unit, message, decoder)


def _encodings(config: Config) -> dict[str, Encoding]:
    """Topic -> encoding of its records."""
    source, options = config.source, config.attribution
    if not source.has_topics:
        return {}
    by_topic = dict.fromkeys(source.logs, _encoding(config))
    for stream in () if options is None else options.interactions:
        by_topic |= dict.fromkeys(stream.sources, _encoding(config, stream))
    return by_topic


def check_decoders(config: Config) -> None:
    """Load the classes and functions that decode records.

    Raises:
        ConfigError: one cannot be loaded.
    """
    for encoding in _encodings(config).values():
        _to_text(encoding)


def schemas_of(config: Config, environment: Mapping[str, str]) -> Schemas | None:
    """The schemas of the records, fetched when first needed; None if no record needs any."""
    encodings = {
        topic: encoding for topic, encoding in _encodings(config).items() if encoding.has_schemas
    }
    if config.registry is None or not encodings:
        return None
    return Schemas(Registry(config.registry, environment), encodings)


def decodable_batches(
    sample: Iterable[RecordBatch], schemas: Schemas | None
) -> Iterator[RecordBatch]:
    """The batches of a sample whose schemas, if they need any, the registry gives now."""
    for batch in sample:
        if schemas is None or schemas.prepare(batch)[0] == len(batch.values):
            yield batch
