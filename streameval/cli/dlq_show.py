"""The work of `streameval dlq CONFIG`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from streameval.cli.dlq_letters import letters_of
from streameval.cli.ending import output, tell
from streameval.cli.screen import printed
from streameval.cli.state_stores import moment
from streameval.letters.census import Group, census
from streameval.pipeline.examples import preview
from streameval.pipeline.letters import DeadLetter


def shown(path: Path, *, as_json: bool) -> None:
    """Write what dead letters there are.

    Raises:
        ConfigError: the configuration does not say something that can be done.
        WrongCallError: it keeps no dead letters.
        SourceError: the topic cannot be read.
        DeadLetterError: the file cannot be read.
    """
    _, letters = letters_of(path)
    groups = census(letters.found or ())
    with output():
        written = as_data(letters.where, groups) if as_json else as_text(letters.where, groups)
        sys.stdout.write(written)
    if letters.foreign:
        tell(f"{letters.foreign:,} records in {letters.where} are no dead letters.")


def as_data(where: str, groups: Sequence[Group]) -> str:
    """One JSON object: where the letters are, how many records, and each reason."""
    data = {
        "where": where,
        "records": sum(group.count for group in groups),
        "reasons": [_data(group) for group in groups],
    }
    return json.dumps(data, indent=2) + "\n"


def as_text(where: str, groups: Sequence[Group]) -> str:
    """A table of reasons, and below it the last few records of each."""
    if not groups:
        return f"no dead letters yet in {where}.\n"
    records = sum(group.count for group in groups)
    lines = [f"{records:,} {'record' if records == 1 else 'records'} in {where}\n"]
    lines.append(printed(_table(groups)))
    for group in groups:
        lines.append(f"\n{group.reason}, the last ones:\n")
        lines.extend(map(_sample, group.samples))
    return "".join(lines)


def instant(milliseconds: int | None) -> str:
    """A timestamp for a person; UTC.

    >>> instant(1_700_000_000_000), instant(None)
    ('2023-11-14T22:13:20Z', 'unknown')
    """
    return "unknown" if milliseconds is None else moment(milliseconds / 1000)


def _data(group: Group) -> dict[str, Any]:
    return {
        "reason": group.reason,
        "stage": group.stage,
        "count": group.count,
        "first_ms": group.first_ms,
        "last_ms": group.last_ms,
        "samples": [
            {
                "record": str(letter.identity),
                "timestamp_ms": letter.timestamp_ms,
                "message": letter.message,
                "preview": preview(letter.value),
            }
            for letter in group.samples
        ],
    }


def _table(groups: Sequence[Group]) -> Table:
    table = Table()
    for name in ("reason", "stage", "records", "first", "last"):
        table.add_column(name, justify="right" if name == "records" else "left")
    for group in groups:
        table.add_row(*map(Text, _cells(group)))
    return table


def _cells(group: Group) -> Iterator[str]:
    yield from (_plain(group.reason), group.stage, f"{group.count:,}")
    yield from (instant(group.first_ms), instant(group.last_ms))


def _sample(letter: DeadLetter) -> str:
    return (
        f"  {_plain(str(letter.identity))}  {instant(letter.timestamp_ms)}  "
        f"{_plain(letter.message)}\n      {preview(letter.value)}\n"
    )


def _plain(text: str) -> str:
    """Text of strangers, safe to print."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
