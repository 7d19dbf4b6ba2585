"""Runs a page: writes its files, executes its commands, and compares their output.

A block ```` ```toml NAME ```` (of any language) is written to that file. Bash runs a block
```` ```sh ````, and a ```` ```text ```` block right after it is the expected output, where `...`
matches anything. A block ```` ```bash ```` is not run: it starts installers or waits for people.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Self

from tests.docs.markdown import Fence, fences
from tests.effort import PATIENCE
from tests.processes import RunningProgram, start

_RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_PLAIN = re.compile(r"streameval (?P<arguments>[^|<>&;$()`]*?)(?: > (?P<file>[\w.-]+))?")
_QUERY = re.compile(r"curl |promtool ")
_SERVER = re.compile(r"streameval run\b|prometheus --")


class PageRunner:
    """Runs the blocks of one page in one folder; as a context manager, stops its programs.

    Args:
        folder: working directory of the commands.
        replacements: text of the page -> its replacement in this run, for example an address.
    """

    def __init__(self, folder: Path, replacements: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.replacements = dict(replacements or {})
        self._running: dict[str, subprocess.Popen[bytes] | RunningProgram] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            process.wait(PATIENCE)

    def run(self, text: str) -> str:
        """Run every block in order; the message of the first failure, or an empty text."""
        blocks = pairwise([*fences(text), Fence("", "", "")])
        return next(filter(None, (self._block(*block) for block in blocks)), "")

    def replaced(self, text: str) -> str:
        """A text of the page with the replacements of this run."""
        for old, new in self.replacements.items():
            text = text.replace(old, new)
        return text

    def _block(self, block: Fence, following: Fence) -> str:
        code = self.replaced(block.code)
        if block.name:
            (self.folder / block.name).write_text(code, encoding="utf-8")
        if block.language != "sh":
            return ""
        if _SERVER.match(code):
            self._start(code)
            return ""
        expected = following.code if following.language == "text" and not following.name else None
        return self._check(code, expected if expected is None else self.replaced(expected))

    def _start(self, code: str) -> None:
        """Start a long-running program, after stopping the one of the same command."""
        if code in self._running:
            self._running[code].send_signal(signal.SIGINT)
            self._running[code].wait(PATIENCE)
        plain = _PLAIN.fullmatch(code.strip())
        with (self.folder / "log").open("ab") as log:
            self._running[code] = (
                _start_plain(plain, self.folder, log.fileno(), log.fileno())
                if plain
                else subprocess.Popen(
                    _shell(f"exec {code}"),
                    cwd=self.folder,
                    env=environment(),
                    stdout=log,
                    stderr=log,
                )
            )

    def _check(self, code: str, expected: str | None) -> str:
        """Run a command; repeat queries until they match, because served values may lag."""
        end = time.monotonic() + PATIENCE
        while True:
            status, printed = _run_once(code, self.folder)
            good = status == 0 and (expected is None or matches(expected, printed))
            if good or not _QUERY.match(code) or time.monotonic() > end:
                break
            time.sleep(0.2)
        return "" if good else f"{code}\n{printed}\nexpected: {expected}"


def matches(expected: str, printed: str) -> bool:
    """Whether the output matches, ignoring white space; `...` matches anything."""
    return doctest.OutputChecker().check_output(expected, printed, _RULES)


def environment() -> dict[str, str]:
    """An environment with the `streameval` and `python` of this run."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "COLUMNS": "100", "NO_PROXY": "127.0.0.1"}


def _run_once(code: str, folder: Path) -> tuple[int, str]:
    """Exit status and output; like bash -e, stops at the first line that fails."""
    printed = ""
    for line in code.replace("\\\n", " ").splitlines():
        plain = _PLAIN.fullmatch(line)
        status, text = _run_plain(plain, folder) if plain else _run_in_shell(line, folder)
        printed += text
        if status:
            return status, printed
    return 0, printed


def _start_plain(plain: re.Match[str], folder: Path, out: int, err: int) -> RunningProgram:
    """Start a plain call of streameval in a warm process, without a shell."""
    return start(
        "streameval",
        *shlex.split(plain["arguments"]),
        streams=[_devnull(), out, err],
        folder=folder,
        environment=environment(),
    )


def _run_plain(plain: re.Match[str], folder: Path) -> tuple[int, str]:
    """Run a plain call of streameval to its end."""
    target = folder / (plain["file"] or ".stdout")
    with target.open("wb") as out, (folder / ".stderr").open("wb") as err:
        status = _start_plain(plain, folder, out.fileno(), err.fileno()).wait(PATIENCE)
    outputs = [folder / ".stderr"] if plain["file"] else [target, folder / ".stderr"]
    return status, "".join(path.read_text(encoding="utf-8") for path in outputs)


@cache
def _devnull() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _run_in_shell(line: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        _shell(line),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout


def _shell(code: str) -> Sequence[str]:
    return ["bash", "-euo", "pipefail", "-c", code]
