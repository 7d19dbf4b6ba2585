"""The work of `streameval dlq replay`."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from streameval.cli.dlq_letters import letters_of
from streameval.cli.ending import WrongCallError, output, tell
from streameval.errors import nearest
from streameval.letters.replay import Choice, chosen, replay
from streameval.pipeline.invalid import REASONS
from streameval.pipeline.letters import DeadLetter, Identity
from streameval.sources.kafka.settings import source_config
from streameval.sources.options import KafkaOptions


def replayed(path: Path, reasons: Sequence[str], offsets: Sequence[str], *, dry_run: bool) -> None:
    """Send records of dead letters again, and say how many.

    Raises:
        ConfigError: the configuration does not say something that can be done.
        WrongCallError: it reads no topic, or a reason or record is not known; then what was
            known is sent nevertheless.
        SourceError: the letters cannot be read.
        DeadLetterError: likewise, of a file.
        PublishError: a record cannot be written.
    """
    wanted = _Wanted(reasons, offsets)
    config, letters = letters_of(path)
    source = config.source
    if not isinstance(source, KafkaOptions):
        raise WrongCallError(f"{path}: only records of Kafka topics can be written again.")
    picked = wanted.among(letters.found or (), source.topics)
    send = _counted if dry_run else replay
    count = send(picked, source_config(source, os.environ))
    with output():
        sys.stdout.write(_said(count, letters.where, dry_run=dry_run))
    wanted.require_found(letters.where, source.topics)


class _Wanted:
    """What was asked for, and what was met of it.

    Raises:
        WrongCallError: a reason is none, or a text names no record.
    """

    def __init__(self, reasons: Sequence[str], offsets: Sequence[str]) -> None:
        self._reasons = frozenset(map(_reason, reasons))
        self._identities = frozenset(map(_identity, offsets))
        self._met: set[Identity] = set()
        self._topics: set[str] = set()

    def among(self, letters: Iterable[DeadLetter], topics: Collection[str]) -> Iterator[DeadLetter]:
        """Those of the letters that are wanted and can be sent to one of the topics."""
        choice = Choice(topics=topics, reasons=self._reasons, identities=self._identities)
        return chosen(map(self._noted, letters), choice)

    def require_found(self, where: str, topics: Collection[str]) -> None:
        """Say what could not be done.

        Raises:
            WrongCallError: a record that was asked for has no letter.
        """
        others = ", ".join(sorted(self._topics.difference(topics)))
        if others:
            tell(f"letters of {others} were left alone: [source] topics does not name it.")
        missing = ", ".join(map(str, sorted(self._identities - self._met)))
        if missing:
            raise WrongCallError(f"there is no letter of {missing} in {where}.")

    def _noted(self, letter: DeadLetter) -> DeadLetter:
        self._topics.add(letter.partition.topic)
        if letter.identity in self._identities:
            self._met.add(letter.identity)
        return letter


def _reason(text: str) -> str:
    if text not in REASONS:
        meant = nearest(text, REASONS)
        hint = f"did you mean {' or '.join(map(repr, meant))}?" if meant else "see `dlq CONFIG`."
        raise WrongCallError(f"--reason: there is no reason {text!r}; {hint}")
    return text


def _identity(text: str) -> Identity:
    try:
        return Identity.of(text)
    except ValueError as error:
        raise WrongCallError(f"--offset: {error}, for example events/3/14.") from error


def _counted(letters: Iterable[DeadLetter], config: Mapping[str, Any]) -> int:
    """What `replay` would return."""
    del config
    return sum(1 for _ in letters)


def _said(count: int, where: str, *, dry_run: bool) -> str:
    records, were = ("record", "was") if count == 1 else ("records", "were")
    done = "would be" if dry_run else were
    return f"{count:,} {records} of {where} {done} replayed.\n"
