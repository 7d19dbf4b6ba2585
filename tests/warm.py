"""`python -m tests.warm SOCKET`: processes of the program that need not import it first.

Each is a process of its own, with its own streams, forked from one that has imported all there is
to import. What the start of the program itself does is for tests that start it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import streameval

_SIZE = 1 << 18
"""Bytes of a request at most: what is called, the environment and the folder."""

_ROOT = Path(__file__).parents[1]


class WarmProcess:
    """A forked process with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self.pid = int(told.recv(_SIZE))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = int(self._told.recv(_SIZE))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Warm:
    """What processes are forked from."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            call = [sys.executable, "-m", "tests.warm", str(number)]
            self._process = subprocess.Popen(call, pass_fds=[number], cwd=_ROOT)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def started(self, request: object, streams: Sequence[int]) -> WarmProcess:
        told, tell = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with tell:
            said = [json.dumps(request).encode()]
            socket.send_fds(self._socket, said, [tell.fileno(), *streams])
        return WarmProcess(told)


@cache
def _warm() -> _Warm:
    """The one of this process, started when it is first needed."""
    made = _Warm()
    atexit.register(made.close)
    return made


def started(
    module: str,
    *arguments: str,
    streams: Sequence[int],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> WarmProcess:
    """`python -m MODULE ARGUMENT...`, with these numbers of files as its three streams."""
    variables = dict(os.environ if environment is None else environment)
    request = [module, arguments, variables, str(folder or Path.cwd())]
    return _warm().started(request, streams)


def _serve(ours: socket.socket) -> tuple[str, list[str]]:
    """Fork whenever asked to; returns what is to be run in the process that runs it."""
    for module in pkgutil.walk_packages(streameval.__path__, "streameval."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    # Typer imports pydantic only as it reads a command line.
    importlib.import_module("typer._adapters")
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, passed, _, _ = socket.recv_fds(ours, _SIZE, 4)
        if not message:
            sys.exit()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ours.close()
            return _forked(json.loads(message), *passed)
        for number in passed:
            os.close(number)


def _forked(
    asked: tuple[str, list[str], dict[str, str], str], tell: int, *streams: int
) -> tuple[str, list[str]]:
    """Fork once more: one waits and tells how it ended, for only a parent can know."""
    told = socket.socket(fileno=tell)
    process = os.fork()
    if process:
        for number in streams:
            os.close(number)
        told.send(str(process).encode())
        _, status = os.waitpid(process, 0)
        with contextlib.suppress(BrokenPipeError):
            told.send(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    told.close()
    module, arguments, environment, folder = asked
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # What the old ones know of their files (whether one can seek in them) is of other files.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    return module, arguments


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _ours:
        _module, _arguments = _serve(_ours)
    sys.argv = [_module, *_arguments]
    # What a process that executes itself again goes by.
    sys.orig_argv = [sys.executable, "-m", _module, *_arguments]
    runpy.run_module(_module, run_name="__main__", alter_sys=True)
