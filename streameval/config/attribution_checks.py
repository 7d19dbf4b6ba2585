"""Whether what is said of streams that are joined makes sense together."""

from __future__ import annotations

from collections.abc import Iterator

from streameval.attribution.interactions import InteractionDecoder
from streameval.attribution.rules import Key
from streameval.config.attribution import AttributionOptions, InteractionOptions
from streameval.config.joining import impression_fields, interaction_fields
from streameval.config.labels import Problem, absence
from streameval.config.settings import Config
from streameval.errors import ConfigError
from streameval.events import LARGEST_GAIN
from streameval.pipeline.decode import Decoder
from streameval.sources.options import FilesOptions, KafkaOptions


def attribution_problems(config: Config) -> Iterator[Problem]:
    """Streams that are not read or read twice, and fields that a join cannot do without."""
    options = config.attribution
    if options is None:
        return
    yield from _stream_problems(config, options)
    if config.event.time is None:
        yield "event.time", "missing: a join is by event time; name its field and unit."
    if config.dedup is not None:
        problem = "with [attribution] the lists are told apart by request_id, and interactions by"
        yield "dedup", f"{problem} event_id in [[attribution.interactions]]; leave dedup out."
    for index, name in enumerate(options.per):
        if problem_ := absence(name, config.labels, "`labels`"):
            yield f"attribution.per[{index}]", problem_
    if options.per and options.key == "request_id":
        yield "attribution.per", 'a request id names one list; per is for key = "user_item".'
    if config.event.time is not None:
        yield from _impression_problems(config, options)
        for index, each in enumerate(options.interactions):
            yield from _field_problems(config, each, f"attribution.interactions[{index}]")


def _stream_problems(config: Config, options: AttributionOptions) -> Iterator[Problem]:
    source = config.source
    if isinstance(source, KafkaOptions):
        key, read = "source.topics", source.topics
    elif isinstance(source, FilesOptions):
        key, read = "source.paths", source.paths
    else:
        yield "attribution", "the simulator has joined events; read a topic or files in [source]."
        return
    named = [each for stream in options.streams for each in stream]
    for index, stream in enumerate(options.streams):
        where = f"attribution.interactions[{index - 1}].source" if index else ""
        if not stream:
            yield where or "attribution.impressions", "names nothing; give a topic or a file."
        for each in stream:
            if each not in read:
                known = ", ".join(map(repr, read))
                problem = f"{each!r} is not among {key} ({known}); name it there too."
                yield where or "attribution.impressions", problem
            if named.count(each) > 1:
                problem = f"{each!r} stands in two streams; each topic or file belongs to one."
                yield where or "attribution.impressions", problem
    for each in read:
        if each not in named:
            problem = f"{each!r} is in no stream of [attribution]; add it there or leave it out."
            yield key, problem


def _impression_problems(config: Config, options: AttributionOptions) -> Iterator[Problem]:
    try:
        fields = impression_fields(config.event, options)
        Decoder(fields, config.dimensions(), shown_only=True)
    except ConfigError as error:
        own = error.key == "event_id"
        yield "attribution.request_id" if own else f"event.{error.key}", error.problem


def _field_problems(config: Config, each: InteractionOptions, where: str) -> Iterator[Problem]:
    if (each.time is None) != (each.time_unit is None):
        yield f"{where}.time", "give time and time_unit together, or neither."
    for name, gain in each.types.items():
        if not abs(gain) <= LARGEST_GAIN:
            yield f"{where}.types.{name}", f"found {gain}; a gain is a number up to 2^1000."
    for name in each.ignore:
        if name in each.types:
            yield f"{where}.ignore", f"{name!r} has a gain in types; it cannot do both."
    try:
        InteractionDecoder(interaction_fields(config, each), _key(config))
    except ConfigError as error:
        yield f"{where}.{error.key}", error.problem


def _key(config: Config) -> Key:
    return config.attribution.key if config.attribution else "request_id"
