"""`streameval dlq`: shows dead letters, and replays their records after a fix."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer
from typer import Argument, Option
from typer.core import TyperGroup

from streameval.checkpoints.dead_letters.queue import dead_topics
from streameval.checkpoints.dead_letters.topic import DeadLetterReader, republish
from streameval.config import Config, load
from streameval.decoding.invalid import REASONS, InvalidEvent
from streameval.engine.dead_letters import DeadLetter, Identity, dead_letters_in
from streameval.engine.windows.times import SECOND, moment_text
from streameval.evaluation.shell.exits import config_errors_in, output, report
from streameval.evaluation.shell.flags import OutputFile, TextFormat
from streameval.evaluation.shell.terminal import Forms, quantity
from streameval.events.errors import UsageError
from streameval.events.spelling import suggestion
from streameval.inference.text_table import TextColumn, TextTable
from streameval.sources import kinds

SAMPLES: Final = 3
"""Dead letters shown for each reason: the last ones."""

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

DaemonConfigPath: TypeAlias = Annotated[
    Path, Argument(metavar="CONFIG", help="The TOML file that the daemon runs with.")
]


@dlq.command(_DEFAULT)
def show(
    config: DaemonConfigPath,
    *,
    format: TextFormat = "table",  # noqa: A002  the option is called --format
    output: OutputFile = None,
) -> None:
    """Show dead letters by reason: counts, times, and the last few records of each.

    ```
    streameval dlq streameval.toml
    streameval dlq streameval.toml --format json
    ```

    A record counts once, even if several letters were written for it.
    """
    _, where, dead_letters = _open(config)
    groups = by_reason(dead_letters)
    Forms(partial(_as_text, where, groups), partial(_as_json, where, groups)).write(format, output)
    truncated = sum(group.truncated for group in groups)
    if truncated:
        report(f"truncated: {quantity(truncated, 'letter')}; their logs have the records.")
    if dead_letters.foreign:
        report(f"{dead_letters.foreign:,} records in {where} are not dead letters.")


@dlq.command()
def replay(
    config: DaemonConfigPath,
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
    settings, where, dead_letters = _open(config)
    source = settings.source
    foreign, complete, truncated = set[str](), set[Identity](), dict[Identity, DeadLetter]()

    def replayable() -> Iterator[DeadLetter]:
        """One dead letter for each record: one that was rejected twice has several."""
        for dead_letter in dead_letters:
            if dead_letter.partition.topic not in source.logs:
                foreign.add(dead_letter.partition.topic)
            elif not reasons or dead_letter.reason in reasons:
                if dead_letter.size is not None:
                    truncated[dead_letter.original] = dead_letter
                elif dead_letter.original not in complete:
                    complete.add(dead_letter.original)
                    yield dead_letter
        for record in [record for record in truncated if record not in complete]:
            dead_letter = truncated[record]
            batch = kinds.record_at(source, os.environ, *dead_letter.identity)
            if batch is not None and dead_letter.offset in batch.offsets:
                complete.add(record)
                index = batch.offsets.index(dead_letter.offset)
                yield dead_letters_in(
                    batch, [(index, InvalidEvent("uncountable", dead_letter.message))]
                )[0]

    if dry_run:
        count, done = sum(1 for _ in replayable()), "would be"
    else:
        count = republish(replayable(), kinds.topic_client(source, os.environ))
        done = "was" if count == 1 else "were"
    with output():
        sys.stdout.write(f"{quantity(count, 'record')} of {where} {done} replayed.\n")
    if foreign:
        named = ", ".join(sorted(foreign))
        report(f"letters of {named} were skipped: [source] topics does not have them.")
    if deleted := [str(record) for record in truncated if record not in complete]:
        named = ", ".join(deleted[:SAMPLES]) + ", ..." * (len(deleted) > SAMPLES)
        report(
            "not replayed, because truncated, and their logs have deleted the records: "
            f"{quantity(len(deleted), 'letter')} ({named}); publish these records again."
        )


def _open(path: Path) -> tuple[Config, str, DeadLetterReader]:
    """A configuration, the topics of its dead letters in words, and their reader."""
    config = load(path)
    options = config.dead_letters
    if not config.source.has_topics:
        problem = "only Kafka sources have dead letters; the daemon's log has examples"
        raise UsageError(f"{path}: {problem}.")
    with config_errors_in(path):
        client = kinds.topic_client(config.source, os.environ)
        topics = dead_topics(config.source, None if options is None else options.topic)
    names = list(dict.fromkeys(topics.values()))
    reader = DeadLetterReader(client, names, list(topics))
    return config, f"topic {', '.join(names)}", reader


class ReasonGroup(msgspec.Struct, kw_only=True):
    """The dead letters of one reason."""

    reason: str
    stage: str
    count: int = 0
    truncated: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    samples: deque[DeadLetter] = msgspec.field(default_factory=lambda: deque(maxlen=SAMPLES))

    def add(self, dead_letter: DeadLetter) -> None:
        """Count one."""
        self.count += 1
        self.truncated += dead_letter.size is not None
        self.samples.append(dead_letter)
        at = dead_letter.timestamp_ms
        if at is not None:
            self.first_ms = at if self.first_ms is None else min(at, self.first_ms)
            self.last_ms = at if self.last_ms is None else max(at, self.last_ms)


def by_reason(dead_letters: Iterable[DeadLetter]) -> list[ReasonGroup]:
    """Letters by reason, the most frequent first; each record counts once."""
    seen: set[Identity] = set()
    groups: dict[tuple[str, str], ReasonGroup] = {}
    for dead_letter in dead_letters:
        if dead_letter.identity not in seen:
            seen.add(dead_letter.identity)
            group = ReasonGroup(reason=dead_letter.reason, stage=dead_letter.stage)
            groups.setdefault((dead_letter.reason, dead_letter.stage), group).add(dead_letter)
    return sorted(groups.values(), key=lambda group: (-group.count, group.reason, group.stage))


def _as_json(where: str, groups: Sequence[ReasonGroup]) -> dict[str, Any]:
    return {
        "where": where,
        "records": sum(group.count for group in groups),
        "reasons": [
            msgspec.structs.asdict(group) | {"samples": list(map(_to_builtins, group.samples))}
            for group in groups
        ],
    }


def _to_builtins(dead_letter: DeadLetter) -> dict[str, Any]:
    return {
        "record": str(dead_letter.identity),
        "timestamp_ms": dead_letter.timestamp_ms,
        "message": dead_letter.why,
        "preview": dead_letter.preview,
        "size": len(dead_letter.value) if dead_letter.size is None else dead_letter.size,
        "truncated": dead_letter.size is not None,
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
        yield from (line for dead_letter in group.samples for line in _sample(dead_letter))


_COLUMNS: Final = (
    TextColumn[ReasonGroup]("reason", lambda group: group.reason),
    TextColumn[ReasonGroup]("stage", lambda group: group.stage),
    TextColumn[ReasonGroup]("records", lambda group: f"{group.count:,}", "right"),
    TextColumn[ReasonGroup]("first", lambda group: _instant(group.first_ms)),
    TextColumn[ReasonGroup]("last", lambda group: _instant(group.last_ms)),
)


def _sample(dead_letter: DeadLetter) -> tuple[str, str]:
    """The lines about a dead letter: its origin, and the beginning of its record."""
    about = f"  {dead_letter.identity}  {_instant(dead_letter.timestamp_ms)}  {dead_letter.why}"
    if dead_letter.size is not None:
        rest = (
            f"{len(dead_letter.value):,} of {dead_letter.size:,} bytes"
            if dead_letter.size
            else "no bytes"
        )
        about += f" (truncated: {rest})"
    return about, f"      {dead_letter.preview}"


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
