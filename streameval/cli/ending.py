"""Exit status of a command, and its error in one line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from typer import Exit, TyperException

from streameval.errors import (
    AddressInUseError,
    ConfigError,
    ForeignStoreError,
    MetricError,
    MissingExtraError,
    RefusedMemberError,
    RefusedStateError,
    SplitKeyError,
    StateVersionError,
    StreamevalError,
    TooManyInvalidError,
    TooManyOpenError,
    UncountableRecordError,
    UnevenStreamsError,
)

DONE: Final = 0
FAILED: Final = 1
WRONG_CALL: Final = 2


class WrongCallError(StreamevalError):
    """The arguments of a command are wrong."""


class OutputError(StreamevalError):
    """Standard output cannot be written."""

    def __init__(self, error: OSError) -> None:
        problem = (error.strerror or str(error)).lower()
        super().__init__(f"cannot write to standard output: {problem}; write somewhere else.")


_CALLERS = (
    AddressInUseError,
    ConfigError,
    ForeignStoreError,
    MetricError,
    MissingExtraError,
    RefusedMemberError,
    RefusedStateError,
    SplitKeyError,
    StateVersionError,
    TooManyInvalidError,
    TooManyOpenError,
    UncountableRecordError,
    UnevenStreamsError,
    WrongCallError,
)
"""Errors that starting again cannot help: a person must decide first."""


def status_of(error: StreamevalError) -> int:
    """2 if the caller must change something first, else 1."""
    return WRONG_CALL if isinstance(error, _CALLERS) else FAILED


def sentence(error: TyperException) -> str:
    """What was wrong with the call, in one line, and where to read on."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "streameval"
    found = " ".join(error.format_message().split()).rstrip(".")
    return f"{found[:1].lower()}{found[1:]}; see `{command} --help`."


def tell(text: str) -> None:
    """Write a line for the person who called, on standard error."""
    sys.stderr.write(f"streameval: {text}\n")


@contextmanager
def wrong_call_where(*kinds: type[StreamevalError]) -> Iterator[None]:
    """Turn these errors into wrong calls: a missing file, for example."""
    try:
        yield
    except kinds as error:
        raise WrongCallError(str(error)) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Add the name of the file to errors in a part of a configuration."""
    try:
        yield
    except ConfigError as error:
        where = f"{error.path}.{error.key}" if error.key else error.path
        raise ConfigError(str(path), where, error.problem) from error


@contextmanager
def output() -> Iterator[None]:
    """Around writing to standard output, whose reader may leave early (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        abandon()
        raise Exit(DONE) from None
    except OSError as error:
        abandon()
        raise OutputError(error) from error


def abandon() -> None:
    """Discard buffered standard output, which Python would complain of at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare_streams() -> None:
    """Make writing safe: closed streams discard, and every character can be written."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            descriptor = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(descriptor, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
