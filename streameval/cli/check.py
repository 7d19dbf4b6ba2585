"""`streameval check`: validates a configuration and prints what `run` would do with it."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import starmap
from pathlib import Path
from typing import Annotated, Final

import msgspec
from typer import Argument, Exit, Option

from streameval.catalogue.items import Attribute
from streameval.checkpoints.restore import has_no_valid_record, other_settings, resume, same_shape
from streameval.checkpoints.settings import is_url
from streameval.checkpoints.storage import try_folder
from streameval.checkpoints.store import refuse_foreign
from streameval.config import Config, load
from streameval.config.field_check import FieldCheck, streams_of
from streameval.config.loading import text_of
from streameval.config.pipeline import (
    check_decoders,
    decodable_batches,
    frontend_of,
    layout,
    new_ingest,
    schemas_of,
    with_saved_depth,
)
from streameval.config.tables import StateOptions
from streameval.config.web_file import web_security
from streameval.daemon.assembly import checkpoint_store, dead_letter_topics
from streameval.engine.analysis import configured
from streameval.engine.dead_letters import DeadLetter, dead_letters_in, decode_valid
from streameval.engine.first_records import FirstRecords
from streameval.engine.snapshot import LIFETIME
from streameval.evaluation.shell.exits import FAILED, config_errors_in, output, report
from streameval.evaluation.shell.terminal import draw_text, quantity
from streameval.events.errors import (
    ConfigError,
    SourceError,
    StateVersionError,
    StreamevalError,
    UnlikeStateError,
)
from streameval.events.printable import without_user
from streameval.events.records import Partition
from streameval.events.secrets import redact
from streameval.exporters.web import try_address
from streameval.join.attribution import AttributionOptions
from streameval.sources import kinds
from streameval.sources.schemas.registry import Registry, RegistryOptions
from streameval.sources.settings import SourceOptions


def check(
    config: Annotated[Path, Argument(metavar="CONFIG", help="A TOML file.")],
    *,
    connect: Annotated[
        bool,
        Option(
            "--connect",
            help="Also try the source, the state and the web address, and whether this user may "
            "read, commit and write where the daemon does; nothing is written.",
        ),
    ] = False,
) -> None:
    """Check a configuration, and print what `run` would do with it.

    ```
    streameval check streameval.toml --connect
    ```

    A minimal configuration:

    ```
    metrics = ["ctr", "ndcg@10"]
    labels = ["variant"]

    [source]
    type = "kafka"
    topics = ["recommendation-events"]
    [source.kafka]
    bootstrap_servers = "127.0.0.1:9092"
    ```
    """
    settings = _load(config)
    web_security(settings.web)
    with config_errors_in(config):
        source = kinds.build(settings.source, os.environ, shared=settings.state is not None)
        check_decoders(settings)
        schemas_of(settings, os.environ)
        dead_letters = dead_letter_topics(settings)
        if settings.state is not None:
            checkpoint_store(settings.state)
    with output():
        sys.stdout.write(configuration_lines(config, settings, dead_letters))
    if connect:
        _connect(settings, settings.source.group_of(source.cluster))
    elif not settings.source.has_topics:
        # A file that is not there yet is reported by --connect.
        with suppress(SourceError):
            _check_fields(settings)


def _load(path: Path) -> Config:
    """The configuration; the problems of the source's own settings are reported with the others."""
    try:
        return load(path)
    except ConfigError as error:
        if (further := _source_problem(path)) is None:
            raise
        raise ConfigError(error.path, error.key, error.problem, *error.others, further) from error


def _source_problem(path: Path) -> ConfigError | None:
    """Problems in the settings of a source whose table is well-formed."""
    try:
        source = msgspec.convert(tomllib.loads(text_of(path))["source"], SourceOptions)
    except (KeyError, tomllib.TOMLDecodeError, msgspec.ValidationError, ConfigError):
        # Loading reports these.
        return None
    try:
        with config_errors_in(path):
            kinds.build(source, os.environ)
    except ConfigError as error:
        return error
    return None


def configuration_lines(path: Path, config: Config, dead_letters: Sequence[str]) -> str:
    """Describe what `run` would do with a configuration, a line for each part.

    `dead_letters`: the topics of dead letters.
    """
    return draw_text(*(f"{name:<10} {what}" for name, what in _plan(path, config, dead_letters)))


def _plan(path: Path, config: Config, dead_letters: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "valid", str(path)
    yield "source", _source(config.source)
    if config.attribution is not None:
        yield "join", _join(config.attribution)
    accumulator = config.accumulator()
    yield "metrics", ", ".join(metric.text for metric in accumulator.metrics)
    yield "labels", ", ".join(config.series_labels()) or "none: one value per metric"
    if config.segments:
        yield "segments", ", ".join(config.segments)
    if config.windows is not None:
        windowing = config.windowing()
        yield "windows", ", ".join([*map(windowing.name, windowing.spans), LIFETIME])
    families = config.families()
    if len(families) > 1 + len(config.segments):
        yield "families", ", ".join(family.name for family in families)
    for analysis, settings in configured(config):
        if (line := analysis.line(settings)) is not None:
            yield analysis.table, line
    items = config.items()
    if items is not None:
        yield "catalog", f"{items if isinstance(items, int) else len(items):,} items"
    if accumulator.context.attributes:
        yield "attributes", "; ".join(starmap(_attribute, accumulator.context.attributes))
    event = config.event
    days = f"; days of {config.time_zone}" if config.time_zone else ""
    yield "time", f"{event.time} as {event.time_unit}{days}" if event.time else "not read"
    if config.registry is not None:
        yield "schemas", f"from the registry at {without_user(config.registry.url)}"
    if config.state is not None:
        yield "state", f"in {config.state.path}, every {config.state.interval}"
    counted = "none: invalid records are counted, and examples logged"
    yield "letters", f"to topic {', '.join(dead_letters)}" if dead_letters else counted
    if (limits := config.dead_letters) is not None:
        share = f"{limits.max_ratio * 100:g} % invalid records"
        yield "stops", f"above {share}, or {limits.max_run:,} of them in a row"
    web, security = config.web, web_security(config.web)
    scheme = "http" if security.context is None else "https"
    addresses = ", ".join(f"{scheme}://{address}{web.prefix}/" for address in web.addresses)
    users = f" for {len(security.users)} users" if security.users else ""
    yield "serves", f"{addresses} with {web.prefix}/metrics and {web.prefix}/api/v1/metrics{users}"


def _join(options: AttributionOptions) -> str:
    """Describe the role of each topic or file, and how they are joined."""
    (impressions, *_), key = options.streams, options.key.replace("_", " ")
    streams = [f"impressions {', '.join(impressions)}"]
    for interaction in options.interactions:
        gains = ", ".join(f"{name} = {gain:g}" for name, gain in interaction.types.items())
        types = f" ({gains})" if gains else ""
        streams.append(f"interactions {', '.join(interaction.sources)}{types}")
    return f"{' with '.join(streams)}; by {key}, within {options.window}"


_MOST_VALUES: Final = 8
"""Most values of an attribute that are listed; of more, only the number is printed."""


def _attribute(name: str, attribute: Attribute) -> str:
    values = attribute.values
    few = len(values) <= _MOST_VALUES
    return f"{name} = {', '.join(values) if few else f'{len(values):,} values'}"


def _source(options: SourceOptions) -> str:
    table = redact(msgspec.to_builtins(options))
    kind = table.pop("type")
    client = table.pop("kafka", {})
    values = {name: value for name, value in (table | client).items() if value is not None}
    texts = {
        name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        for name, value in values.items()
    }
    return f"{kind}: " + "; ".join(f"{name} = {text}" for name, text in texts.items())


def _connect(config: Config, group: str) -> None:
    registry, state, web = config.registry, config.state, config.web

    def addresses() -> str:
        security = web_security(web)
        tried = (f"{try_address(address, security)}{web.prefix}/" for address in web.addresses)
        return ", ".join(tried)

    def schemas(options: RegistryOptions) -> str:
        with closing(Registry(options, os.environ)) as opened:
            return opened.check()

    attempts: dict[str, Callable[[], str]] = {
        "connected": lambda: kinds.probe(config.source, os.environ),
        "free": addresses,
    }
    if state is not None:
        attempts["state"] = lambda: _try_state(config, state, group)
    if registry is not None:
        attempts["schemas"] = lambda: schemas(registry)
    failed = [name for name, attempt in attempts.items() if not _succeeds(name, attempt)]
    # Without a connection, each right would fail with the same sentence.
    if "connected" not in failed:
        topics, shared = dead_letter_topics(config), state is not None
        rights = kinds.rights(config.source, os.environ, topics, shared=shared)
        failed += ["allowed" for right in rights if not _succeeds("allowed", right)]
        failed += [] if _check_fields(config) else ["fields"]
    if failed:
        raise Exit(FAILED)


def _check_fields(config: Config) -> bool:
    """True if a sample of real records has every configured name; prints a line for each."""
    schemas = schemas_of(config, os.environ)
    frontend = frontend_of(config, layout(config), schemas)
    first, fields = FirstRecords(streams_of(config)), FieldCheck(config, schemas)
    invalid = list[DeadLetter]()
    try:
        for batch in decodable_batches(kinds.sample(config.source, os.environ), schemas):
            refused = decode_valid(frontend.decode, batch).invalid
            first.add(batch, refused)
            invalid += dead_letters_in(batch, refused[:1])
    finally:
        if schemas is not None:
            schemas.close()
    fields.add(first.take())
    lines = [*fields.lines(), *(f"an invalid record: {dead_letter}" for dead_letter in invalid[:1])]
    with output():
        sys.stdout.write(draw_text(*(f"{'found':<10} {line}" for line in lines)))
    absent = [entry.text for entry in fields.absent()]
    report(*absent, *fields.repeated())
    return not absent


def _succeeds(name: str, attempt: Callable[[], str]) -> bool:
    """True if an attempt succeeds; prints its result."""
    try:
        text = attempt()
    except StreamevalError as error:
        report(*error.lines)
        return False
    with output():
        sys.stdout.write(draw_text(f"{name:<10} {text}"))
    return True


def _try_state(config: Config, options: StateOptions, group: str) -> str:
    if not is_url(options.path):
        report = try_folder(options.path)
    else:
        partitions = quantity(len(checkpoint_store(options).shards()), "partition")
        report = f"{options.path} is readable and has checkpoints of {partitions}"
    _check_state(config, options, group)
    return report


def _check_state(config: Config, options: StateOptions, group: str) -> None:
    """Load one checkpoint as a start would; those of its logs have the same settings."""
    checkpoints = checkpoint_store(options)
    if checkpoints.exists():
        store_identity = checkpoints.identity()
        refuse_foreign(options.path, store_identity, store_identity.cluster, group)
    # A former topic, or the state of a topic before it was recreated, may have other settings.
    last = checkpoints.last(config.source.logs)
    if last is None:
        # What another release wrote is refused, as by a start.
        logs = config.source.logs
        for shard, header in checkpoints.headers().items():
            if header is None and (not logs or shard.topic in logs):
                try:
                    checkpoints.newest(shard)
                except StateVersionError as error:
                    options.enforce("on_unknown_version", str(shard), str(error).rstrip("."))
        new_ingest(config)
        return
    config = with_saved_depth(config, last.state.settings)
    ingest, settings, saved = new_ingest(config), config.settings(), last.state.settings
    differing = other_settings(settings, saved)
    decoding_only = options.on_other_settings == "accept" and same_shape(settings, saved)
    checkpoint = checkpoints.newest(last.shard).saved
    if differing is not None and not decoding_only:
        if checkpoint is None or not has_no_valid_record(checkpoint):
            options.enforce("on_other_settings", options.path, differing)
        return
    if checkpoint is None:
        return
    shard = checkpoint.header.shard
    try:
        resume(ingest, Partition(shard.topic, shard.number), checkpoint, policies=options)
    except UnlikeStateError as error:
        problem = f"its state cannot be loaded: {error}".rstrip(".")
        options.enforce("on_other_settings", str(shard), problem)
