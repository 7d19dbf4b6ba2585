"""Errors of the command line: one line on standard error, and the exit status."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import clear_frames
from typing import Final

from typer import Exit, TyperException

from streameval.events.errors import ConfigError, OwnStatisticError, PermanentError, StreamevalError
from streameval.events.out_of_memory import REMEDY
from streameval.events.printable import printable

DONE: Final = 0
FAILED: Final = 1
USAGE_ERROR: Final = 2


class OutputError(StreamevalError):
    """Standard output cannot be written."""


def output_error(error: OSError) -> OutputError:
    """The error for standard output that takes no more."""
    problem = (error.strerror or str(error)).lower()
    return OutputError(f"cannot write to standard output: {problem}; redirect it elsewhere.")


def status_of(error: StreamevalError) -> int:
    """2 if the caller must change something first, else 1."""
    # With [state], a restart tries each record alone, and makes a dead letter of one that fails.
    may_isolate = isinstance(error, OwnStatisticError) and error.function == "count"
    return USAGE_ERROR if isinstance(error, PermanentError) and not may_isolate else FAILED


def out_of_memory(error: BaseException) -> str:
    """A sentence about an error for want of memory; frees what its frames hold."""
    clear_frames(error.__traceback__)
    # numpy says how much it wanted.
    size = f" ({error})" if isinstance(error, MemoryError) and str(error) else ""
    return f"no memory is left{size}; {REMEDY}."


def usage_message(error: TyperException) -> str:
    """One line: what is wrong with the arguments, and which help explains them."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "streameval"
    # Typer names the type of an error in front of its text.
    message = " ".join(error.format_message().split()).replace("Value error, ", "").rstrip(".")
    see = f" See `{command} --help`." if message.endswith("?") else f"; see `{command} --help`."
    return f"{message[:1].lower()}{message[1:]}{see}"


def report(*problems: str) -> None:
    """Write problems to standard error, a line each."""
    sys.stderr.write("".join(f"streameval: {printable(problem)}\n" for problem in problems))


@contextmanager
def config_errors_in(path: Path) -> Iterator[None]:
    """Add the file's name to configuration errors raised after loading."""
    try:
        yield
    except ConfigError as error:
        first, *others = (
            ConfigError(str(path), f"{part.path}.{part.key}".rstrip("."), part.problem)
            for part in (error, *error.others)
        )
        raise ConfigError(first.path, first.key, first.problem, *others) from error


@contextmanager
def output() -> Iterator[None]:
    """Guard writes to standard output: its reader may leave early (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        raise Exit(DONE) from None
    except OSError as error:
        discard_output()
        raise output_error(error) from error


def discard_output() -> None:
    """Discard buffered standard output; otherwise Python reports an error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare_streams() -> None:
    """Make writing safe: closed streams discard, and unencodable characters are escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            descriptor = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(descriptor, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def refuse_invalid(*, allowed: bool) -> None:
    """Exit with status 1 after values that miss most of the data, unless they are accepted."""
    if not allowed:
        report(
            "exit status 1, as most records or interactions are missing; --allow-invalid accepts "
            "the values."
        )
        raise Exit(FAILED)
