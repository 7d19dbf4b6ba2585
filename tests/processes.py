"""Processes of the program that need not import it first: forked by a server that has done so.

What the start of the program itself does is for tests that start it.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, NamedTuple, Protocol


def finished(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has run to its end, with what it wrote as text; for `subprocess.run`."""
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, **options
    )


class Call(NamedTuple):
    """`python -m MODULE ARGUMENT...` in a folder, with these variables."""

    module: str
    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


class RunningProgram:
    """A process with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


class _Sent(Protocol):
    """What `DupFd` is where it arrives."""

    def detach(self) -> int: ...


class _Stream:
    """A file's number, which is that of the same file in the other process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Callable[..., _Stream], tuple[object]]:
        return _received, (DupFd(self.number),)


def start(
    module: str,
    *arguments: str,
    streams: Sequence[int],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> RunningProgram:
    """`python -m MODULE ARGUMENT...`, with these numbers of files as its three streams."""
    variables = dict(os.environ if environment is None else environment)
    call = Call(module, arguments, folder or Path.cwd(), variables)
    process = _server().Process(target=_run, args=(call, [*map(_Stream, streams)]))
    process.start()
    return RunningProgram(process)


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded"])
    return context


def _received(sent: _Sent) -> _Stream:
    return _Stream(sent.detach())


def _run(call: Call, streams: Sequence[_Stream]) -> None:
    # Under nohup it would be ignored here, too.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream.number, number)
        os.close(stream.number)
    # What the server's own know of their files (whether one can seek in them) is of other files.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(call.environment)
    os.chdir(call.folder)
    sys.argv = [call.module, *call.arguments]
    runpy.run_module(call.module, run_name="__main__", alter_sys=True)
