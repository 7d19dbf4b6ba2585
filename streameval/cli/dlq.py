"""`streameval dlq`: shows dead letters, and replays their records after a fix."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
import typer
from typer import Argument, Option
from typer.core import TyperGroup

from streameval.checkpoints.letters.topic import (
    DeadLetterReader,
    republish,
    select_letters,
    topics_for,
)
from streameval.config import Config, load
from streameval.decoding.invalid import REASONS, InvalidEvent
from streameval.engine.dead_letters import DeadLetter, Identity, letters_of
from streameval.engine.windows.times import SECOND, moment_text
from streameval.evaluation.shell.errors import config_errors_in, output, report
from streameval.evaluation.shell.options import TextFormat
from streameval.evaluation.shell.terminal import Forms, quantity
from streameval.events.errors import UsageError, suggestion
from streameval.inference.table import TextColumn, TextTable
from streameval.sources import kinds
from streameval.sources.options import SourceOptions

SAMPLES: Final = 3
"""Letters shown for each reason: the last ones."""

_DEFAULT = "show"


class _ShowByDefault(TyperGroup):
    """`dlq CONFIG` is `dlq show CONFIG`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


_HELP: Final = """Show dead letters, and replay their records after a fix.

```
streameval dlq streameval.toml
streameval dlq replay streameval.toml --reason missing_field
```
"""

dlq = typer.Typer(
    help=_HELP,
    cls=_ShowByDefault,
    subcommand_metavar="CONFIG | replay CONFIG",
    rich_markup_mode="markdown",
)

ConfigPath: TypeAlias = Annotated[
    Path, Argument(metavar="CONFIG", help="The TOML file that the daemon runs with.")
]


@dlq.command(_DEFAULT)
def show(
    config: ConfigPath,
    *,
    format: TextFormat = "table",  # noqa: A002  the option is called --format
) -> None:
    """Show dead letters by reason: counts, times, and the last few records of each.

    ```
    streameval dlq streameval.toml
    streameval dlq streameval.toml --format json
    ```

    A record counts once, even if several letters were written for it.
    """
    _, letters = _open(config)
    groups = by_reason(letters.found)
    Forms(partial(_as_text, letters.where, groups), partial(_as_json, letters.where, groups)).write(
        format
    )
    truncated = sum(group.truncated for group in groups)
    if truncated:
        report(f"truncated: {quantity(truncated, 'letter')}; their logs have the records.")
    foreign = letters.foreign()
    if foreign:
        report(f"{foreign:,} records in {letters.where} are not dead letters.")


@dlq.command()
def replay(
    config: ConfigPath,
    *,
    reason: Annotated[
        list[str] | None, Option(metavar="REASON", help="Only this reason; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only print the number of records.")] = False,
) -> None:
    """Republish the records of dead letters to their original topics and partitions.

    ```
    streameval dlq replay streameval.toml
    streameval dlq replay streameval.toml --reason invalid_time --dry-run
    ```

    Key, value and headers are unchanged; the added header `streameval.original` names the original
    record. First correct the cause and restart the daemon; otherwise the records are rejected
    again. A record that is replayed twice counts twice, unless events have ids and the
    configuration has `dedup`. The records of truncated letters are read from their logs again.
    """
    reasons = frozenset(map(_reason, reason or ()))
    settings, letters = _open(config)
    source = settings.source
    topics: set[str] = set()
    truncated: dict[Identity, DeadLetter] = {}
    wanted = select_letters(_recording_topics(letters.found, topics), source.logs, reasons)
    chosen = _whole(wanted, partial(_read_again, source), truncated)
    client = kinds.topic_client(source, os.environ)
    count = sum(1 for _ in chosen) if dry_run else republish(chosen, client)
    done = "would be" if dry_run else "was" if count == 1 else "were"
    with output():
        sys.stdout.write(f"{quantity(count, 'record')} of {letters.where} {done} replayed.\n")
    others = ", ".join(sorted(topics.difference(source.logs)))
    if others:
        report(f"letters of {others} were skipped: [source] topics does not have them.")
    if truncated:
        report(_truncation_notice(truncated))


def _recording_topics(letters: Iterable[DeadLetter], topics: set[str]) -> Iterator[DeadLetter]:
    """Yield the letters, and add their topics to `topics`."""
    for letter in letters:
        topics.add(letter.partition.topic)
        yield letter


def _truncation_notice(records: Collection[Identity]) -> str:
    """The sentence about records that are not replayed."""
    named = ", ".join(map(str, [*records][:SAMPLES])) + (", ..." * (len(records) > SAMPLES))
    count = quantity(len(records), "letter")
    return (
        f"not replayed, because truncated, and their logs have deleted the records: {count} "
        f"({named}); publish these records again."
    )


def _whole(
    letters: Iterable[DeadLetter],
    read: Callable[[DeadLetter], DeadLetter | None],
    truncated: dict[Identity, DeadLetter],
) -> Iterator[DeadLetter]:
    """Yield whole letters, then those that `read` makes whole; leaves the others in `truncated`."""
    for letter in letters:
        if letter.size is None:
            truncated.pop(letter.original, None)
            yield letter
        else:
            truncated[letter.original] = letter
    for record, letter in list(truncated.items()):
        whole = read(letter)
        if whole is not None:
            del truncated[record]
            yield whole


def _read_again(options: SourceOptions, letter: DeadLetter) -> DeadLetter | None:
    """The letter with the record of its log; None if the log has deleted it."""
    batch = kinds.record_at(options, os.environ, *letter.identity)
    if batch is None or letter.offset not in batch.offsets:
        return None
    place = batch.offsets.index(letter.offset)
    (record,) = letters_of(batch, [(place, InvalidEvent("uncountable", letter.message))])
    return msgspec.structs.replace(record, stage=letter.stage, reason=letter.reason)


class _Letters(NamedTuple):
    """The dead letters of a configuration."""

    where: str
    found: Iterable[DeadLetter]
    foreign: Callable[[], int] = lambda: 0


def _open(path: Path) -> tuple[Config, _Letters]:
    """A configuration and its dead letters."""
    config = load(path)
    options = config.dead_letters
    if not config.source.has_topics:
        problem = "only Kafka sources have dead letters; the daemon's log has examples"
        raise UsageError(f"{path}: {problem}.")

    with config_errors_in(path):
        client = kinds.topic_client(config.source, os.environ)
        inputs = kinds.topic_names(config.source)
        names = topics_for(inputs, None if options is None else options.topic)
    reader = DeadLetterReader(client, names, inputs)
    where = f"topic {', '.join(names)}"
    return config, _Letters(where, reader if reader.present else (), lambda: reader.foreign)


class ReasonGroup(msgspec.Struct, kw_only=True):
    """The letters of one reason."""

    reason: str
    stage: str
    count: int = 0
    truncated: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    samples: deque[DeadLetter] = msgspec.field(default_factory=lambda: deque(maxlen=SAMPLES))

    def add(self, letter: DeadLetter) -> None:
        """Count one."""
        self.count += 1
        self.truncated += letter.size is not None
        self.samples.append(letter)
        at = letter.timestamp_ms
        if at is not None:
            self.first_ms = at if self.first_ms is None else min(at, self.first_ms)
            self.last_ms = at if self.last_ms is None else max(at, self.last_ms)


def by_reason(letters: Iterable[DeadLetter]) -> list[ReasonGroup]:
    """Letters by reason, the most frequent first; each record counts once."""
    seen: set[Identity] = set()
    groups: dict[tuple[str, str], ReasonGroup] = {}
    for letter in letters:
        if letter.identity not in seen:
            seen.add(letter.identity)
            group = ReasonGroup(reason=letter.reason, stage=letter.stage)
            groups.setdefault((letter.reason, letter.stage), group).add(letter)
    return sorted(groups.values(), key=lambda group: (-group.count, group.reason, group.stage))


def _as_json(where: str, groups: Sequence[ReasonGroup]) -> dict[str, Any]:
    return {
        "where": where,
        "records": sum(group.count for group in groups),
        "reasons": [
            msgspec.structs.asdict(group) | {"samples": list(map(_plain, group.samples))}
            for group in groups
        ],
    }


def _plain(letter: DeadLetter) -> dict[str, Any]:
    return {
        "record": str(letter.identity),
        "timestamp_ms": letter.timestamp_ms,
        "message": letter.message,
        "preview": letter.preview,
        "size": len(letter.value) if letter.size is None else letter.size,
        "truncated": letter.size is not None,
    }


def _as_text(where: str, groups: Sequence[ReasonGroup]) -> Iterator[str | TextTable[ReasonGroup]]:
    """A table of reasons, then the last few records of each."""
    if not groups:
        yield f"no dead letters yet in {where}."
        return
    yield f"{quantity(sum(group.count for group in groups), 'record')} in {where}"
    yield TextTable(_COLUMNS, groups)
    for group in groups:
        yield from ("", f"{group.reason}, the last ones:")
        yield from (line for letter in group.samples for line in _sample(letter))


_COLUMNS: Final = (
    TextColumn[ReasonGroup]("reason", lambda group: group.reason),
    TextColumn[ReasonGroup]("stage", lambda group: group.stage),
    TextColumn[ReasonGroup]("records", lambda group: f"{group.count:,}", "right"),
    TextColumn[ReasonGroup]("first", lambda group: _instant(group.first_ms)),
    TextColumn[ReasonGroup]("last", lambda group: _instant(group.last_ms)),
)


def _sample(letter: DeadLetter) -> tuple[str, str]:
    """The lines about a letter: which one it is, and its beginning."""
    kept = None
    if letter.size is not None:
        kept = f"{len(letter.value):,} of {letter.size:,} bytes" if letter.size else "no bytes"
    said = f"{letter.message}{f' (truncated: {kept})' if kept else ''}"
    about = f"  {letter.identity}  {_instant(letter.timestamp_ms)}  {said}"
    return about, f"      {letter.preview}"


def _instant(milliseconds: int | None) -> str:
    """A timestamp in UTC.

    >>> _instant(1_700_000_000_000), _instant(None)
    ('2023-11-14T22:13:20Z', 'unknown')
    """
    return "unknown" if milliseconds is None else moment_text(milliseconds // 1000 * SECOND)


def _reason(text: str) -> str:
    if text not in REASONS:
        hint = suggestion(text, REASONS)
        raise UsageError(f"--reason: unknown reason {text!r}; see `streameval dlq CONFIG`.{hint}")
    return text
