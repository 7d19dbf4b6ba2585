"""`streameval explain`: joins the logs again and traces the records of one key."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec
from typer import Argument, Exit, Option

from streameval.config import Config, load
from streameval.config.pipeline import join_frontend, layout, schemas_of
from streameval.engine.ingest import Ingest
from streameval.engine.partition import EventCounter
from streameval.engine.windows.times import moment_text
from streameval.evaluation.engine_counts import ingest_records, owner_from_start
from streameval.evaluation.shell.exits import FAILED, report
from streameval.evaluation.shell.flags import OutputFile, TextFormat
from streameval.evaluation.shell.terminal import Forms
from streameval.events.errors import ConfigError, UsageError
from streameval.events.previews import redact_ids
from streameval.events.records import Partition
from streameval.join.explanation import (
    ExplainedList,
    ExplainedRecord,
    Explanation,
    KeyListener,
)
from streameval.join.frontend import JoinFrontend
from streameval.join.state import JoinedState
from streameval.sources.kinds import build, probe
from streameval.sources.schemas.records import Schemas
from streameval.sources.source import Source

_CONNECT_SECONDS = 5.0
"""Seconds before a failing connection is reported."""


def explain(
    key: Annotated[
        str, Argument(metavar="KEY", help="A request id, or a user if lists are joined by user.")
    ],
    *,
    config: Annotated[
        Path, Option("--config", metavar="CONFIG", help="The TOML file that the daemon runs with.")
    ],
    since: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help='Time from which to read Kafka topics, like "2026-01-31T08:00:00+00:00"; by '
            "default their beginning.",
        ),
    ] = None,
    format: TextFormat = "table",  # noqa: A002  the option is called --format
    output: OutputFile = None,
) -> None:
    """Explain how one request or user was counted, or why it was not.

    ```
    streameval explain 7f3a-22 --config streameval.toml --format json
    streameval explain 7f3a-22 --config streameval.toml --since 2026-01-31T08:00:00+00:00
    ```

    The command reads the logs of [source] to their ends and joins them as the daemon does. It needs
    no state and changes nothing. The exit status is 1 if the logs have no record of the key.
    """
    settings = load(config)
    if settings.attribution is None:
        raise UsageError(f"{config} has no [attribution]: every record is a complete event.")
    schemas = schemas_of(settings, os.environ)
    frontend = join_frontend(settings, settings.attribution, layout(settings), schemas)
    traced = _ListenedJoins(frontend, key)
    with nullcontext() if schemas is None else closing(schemas):
        _read(_source(settings, since, schemas), settings, traced)
    explanations = dict(traced.explanations())
    if not explanations:
        logs = ", ".join(chain.from_iterable(settings.attribution.streams))
        report(f"no record of {redact_ids([key])[0]!r} in {logs}.")
        raise Exit(FAILED)
    names = settings.dimensions()
    forms = Forms(
        lambda: chain.from_iterable(
            _lines(partition, explanation, names) for partition, explanation in explanations.items()
        ),
        lambda: {
            str(partition): msgspec.to_builtins(explanation)
            for partition, explanation in explanations.items()
        },
    )
    forms.write(format, output)


class _ListenedJoins:
    """A frontend whose joins are listened to for the records of a key, and count nothing."""

    def __init__(self, join: JoinFrontend, key: str) -> None:
        self.layout, self.partition_of = join.layout, join.partition_of
        self.groups, self.apply, self.decode = join.groups, join.apply, join.decode
        self.joins: dict[Partition, tuple[JoinedState, KeyListener]] = {}
        self._join = join
        self._key = key

    def state(self, offsets: Mapping[Partition, int], counter: EventCounter) -> JoinedState:
        """See `Frontend.state`."""
        state = self._join.state(offsets, counter)
        self.joins[self.partition_of(next(iter(offsets)))] = state, KeyListener(self._key, state)
        return state

    def have_read(self, ends: Mapping[Partition, int]) -> bool:
        """True if every log has been read up to its end offset.

        A log that leads is paused, so its end does not count.
        """
        return all(
            log in state.backpressured or offset >= ends.get(log, 0)
            for state, _ in self.joins.values()
            for log, offset in state.logs.expected.items()
        )

    def explanations(self) -> Iterator[tuple[Partition, Explanation]]:
        """Explanations of the key, by partition."""
        for partition, (state, listener) in sorted(self.joins.items()):
            state.confirm()
            explanation = listener.explanation()
            if explanation is not None:
                yield partition, explanation


def _source(config: Config, since: str | None, schemas: Schemas | None) -> Source:
    """The source, read from its beginning or from `since` on."""
    try:
        options = config.source.since(since)
    except ConfigError as error:
        raise UsageError(f"--since: {error.problem}") from error
    probe(options, os.environ)
    return build(options, os.environ, schemas=schemas)


def _read(source: Source, config: Config, joins: _ListenedJoins) -> None:
    ends: Mapping[Partition, int] = {}
    reported, deadline = None, time.monotonic() + _CONNECT_SECONDS
    ingest = Ingest(joins, sink=lambda _: None)
    source.open(owner_from_start(config, ingest))
    try:
        for _ in ingest_records(source, ingest):
            status = source.status
            if time.monotonic() > deadline and status.problem not in {None, reported}:
                reported = status.problem
                report(str(reported))
            if config.source.has_topics and status.joined:
                ends = ends or status.ends
                if joins.have_read(ends):
                    return
    finally:
        source.close()


def _lines(partition: Partition, explanation: Explanation, names: list[str]) -> Iterator[str]:
    for list_ in explanation.lists:
        yield from _list(partition, list_, names)
    if not explanation.lists:
        yield f"{partition}: no list"
    for record in explanation.records:
        yield _record(record)


def _list(partition: Partition, explained: ExplainedList, names: list[str]) -> Iterator[str]:
    labels = ", ".join(
        f"{name}={value}" for name, value in zip(names, explained.labels, strict=True)
    )
    yield f"{partition}: shown {moment_text(explained.time)}{f' ({labels})' if labels else ''}"
    yield f"  items   {', '.join(map(str, explained.items)) or 'none'}"
    if explained.outcome == "counted":
        yield "  counted after the end of its window"
    else:
        yield f"  open    until every log has passed {moment_text(explained.complete_at)}"


def _record(record: ExplainedRecord) -> str:
    what = "list" if record.item is None else f"{record.type or ''} {record.item}".lstrip()
    where = f"{record.log} offset {record.offset}"
    return f"  {moment_text(record.time)} {what}: {record.outcome}. {record.why} ({where})"
