"""Runs the program in this process or in a new one; locates data sets next to the repository."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import (
    AbstractContextManager,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

from streameval.cli import run_command
from tests.effort import PATIENCE
from tests.processes import start


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "streameval", *map(str, arguments)]


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run the program to its end in this process, through its entry point."""
    before = sys.argv, sys.path[:]
    with _standard_input(stdin), _text_file() as out, _text_file() as err:
        sys.argv = ["streameval", *map(str, arguments)]
        try:
            with _warnings_on(err), redirect_stdout(out), redirect_stderr(err):
                status = _ended()
        finally:
            sys.argv, sys.path[:] = before
        out.flush()
        err.flush()
        texts = [_content(file.fileno()) for file in (out, err)]
    return subprocess.CompletedProcess(arguments, status, *texts)


def printed(*arguments: str | Path, stdin: bytes = b"") -> str:
    """What a command prints that has nothing to say besides."""
    done = run(*arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def from_json(*arguments: str | Path, stdin: bytes = b"") -> Any:
    """What a command prints as JSON."""
    done = run(*arguments, "--format", "json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def from_csv(*arguments: str | Path) -> list[dict[str, str]]:
    """The rows that a command prints as CSV."""
    done = run(*arguments, "--format", "csv")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout, newline="")))


def readings(*arguments: str | Path, stdin: bytes = b"") -> list[dict[str, Any]]:
    """The JSON output of `evaluate`."""
    entries: list[dict[str, Any]] = from_json("evaluate", *arguments, stdin=stdin)
    return entries


def usage_error(*arguments: str | Path) -> str:
    """The one line of a usage error."""
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert done.stderr.startswith("streameval: ")
    return done.stderr


def metric_options(metrics: Iterable[str]) -> list[str]:
    """The options -m for some metrics."""
    return [part for text in metrics for part in ("-m", text)]


def json_lines(path: Path, records: Iterable[object]) -> Path:
    """Write the records to a file, one per line."""
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def write_file(path: Path, text: str) -> Path:
    """Write the text to a file."""
    path.write_text(text)
    return path


@contextmanager
def _standard_input(content: bytes) -> Iterator[None]:
    """Replace descriptor 0, because the program does not read `sys.stdin`."""
    with TemporaryFile() as standard_input:
        standard_input.write(content)
        standard_input.seek(0)
        original = os.dup(0)
        os.dup2(standard_input.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(original, 0)
            os.close(original)


@contextmanager
def _warnings_on(file: TextIO) -> Iterator[None]:
    """Write warnings to a file, as a process does; under pytest they are errors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        yield
    file.writelines(f"{warning.category.__name__}: {warning.message}\n" for warning in caught)


def _text_file() -> AbstractContextManager[TextIO]:
    return TemporaryFile("w+", encoding="utf-8")


def _ended() -> int:
    """Run the program to its end; returns its exit status."""
    try:
        run_command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def _content(descriptor: int) -> str:
    return os.pread(descriptor, 1 << 30, 0).decode()


def spawn(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program to its end in a new process."""
    with (
        Path(os.devnull).open("rb") as standard_input,
        TemporaryFile() as out,
        TemporaryFile() as err,
    ):
        streams = [standard_input.fileno(), out.fileno(), err.fileno()]
        process = start("streameval", *map(str, arguments), streams=streams)
        try:
            status = process.wait(PATIENCE)
        finally:
            process.kill()
        texts = [_content(file.fileno()) for file in (out, err)]
    return subprocess.CompletedProcess(arguments, status, *texts)


def in_a_terminal(*arguments: str | Path, columns: int = 120, lines: int = 40) -> str:
    """What the program writes on a terminal, without its colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": str(lines)}
    output = b""
    with subprocess.Popen(
        command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        # Linux ends the reading with an error when the last process has closed the other end.
        with suppress(OSError):
            while block := os.read(ours, 1 << 16):
                output += block
        assert process.wait(PATIENCE) == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode())


@contextmanager
def terminal_of(*arguments: str | Path) -> Iterator[Iterator[str]]:
    """The lines that the program writes on a terminal, as they come; it is ended afterwards."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        try:
            with os.fdopen(ours, encoding="utf-8", newline="\r\n") as shown:
                yield (line.rstrip("\r\n") for line in shown)
        finally:
            process.kill()
