"""Plays a page: its named blocks become files, its commands run, what they print is what it says.

In a page that is played, a block ```` ```toml NAME ```` (of any language) is written to that file;
```` ```sh ```` is run by bash; a ```` ```text ```` right after it is what it prints, `...` standing
for anything. ```` ```bash ```` is shown only: what starts installers or waits for people.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests import warm
from tests.docs.markdown import Fence, fences
from tests.effort import PATIENCE

_RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_PLAIN = re.compile(r"streameval (?P<arguments>[^|<>&;$()`]*?)(?: > (?P<file>[\w.-]+))?")
_ASKING = re.compile(r"curl |promtool ")
_RUNNING = re.compile(r"streameval run\b|prometheus --")


class Player:
    """Plays the blocks of one page in one folder.

    Args:
        folder: where files are written and commands run.
        changed: what the page says -> what is so in this run, for example its address.
    """

    def __init__(self, folder: Path, changed: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.changed = dict(changed or {})
        self._running: dict[str, subprocess.Popen[bytes] | warm.WarmProcess] = {}

    def play(self, text: str) -> str:
        """Every block of a page, in order; the first that differs from what the page says."""
        blocks = pairwise([*fences(text), Fence("", "", "")])
        return next(filter(None, (self._block(*each) for each in blocks)), "")

    def end(self) -> None:
        """End what still runs, last started first."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            process.wait(PATIENCE)

    def as_here(self, text: str) -> str:
        """A text of the page, as it is in this run."""
        for said, so in self.changed.items():
            text = text.replace(said, so)
        return text

    def _block(self, block: Fence, following: Fence) -> str:
        code = self.as_here(block.code)
        if block.name:
            (self.folder / block.name).write_text(code, encoding="utf-8")
        if block.language != "sh":
            return ""
        if _RUNNING.match(code):
            self._started(code)
            return ""
        wanted = following.code if following.language == "text" and not following.name else None
        return self._ran(code, wanted if wanted is None else self.as_here(wanted))

    def _started(self, code: str) -> None:
        """Start a program that goes on running; one of the same command is ended before."""
        if code in self._running:
            self._running[code].send_signal(signal.SIGINT)
            self._running[code].wait(PATIENCE)
        plain = _PLAIN.fullmatch(code.strip())
        with (self.folder / "log").open("ab") as log:
            self._running[code] = (
                _begun(plain, self.folder, log.fileno(), log.fileno())
                if plain
                else subprocess.Popen(
                    _shell(f"exec {code}"),
                    cwd=self.folder,
                    env=environment(),
                    stdout=log,
                    stderr=log,
                )
            )

    def _ran(self, code: str, wanted: str | None) -> str:
        """Run until it prints what is wanted: what is served may be a moment behind."""
        end = time.monotonic() + PATIENCE
        while True:
            status, printed = _once(code, self.folder)
            good = status == 0 and (wanted is None or matches(wanted, printed))
            if good or not _ASKING.match(code) or time.monotonic() > end:
                break
            time.sleep(0.2)
        return "" if good else f"{code}\n{printed}\nwanted: {wanted}"


@contextmanager
def player(playing: Player) -> Iterator[Player]:
    """A player, which leaves nothing running."""
    try:
        yield playing
    finally:
        playing.end()


def matches(wanted: str, got: str) -> bool:
    """Whether it is what was wanted, white space aside and `...` for anything."""
    return doctest.OutputChecker().check_output(wanted, got, _RULES)


def environment() -> dict[str, str]:
    """Where `streameval` and `python` are those of this run."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "COLUMNS": "100", "NO_PROXY": "127.0.0.1"}


def _once(code: str, folder: Path) -> tuple[int, str]:
    """Exit status and all that was printed; as bash does it, up to the first line that fails."""
    printed = ""
    for line in code.replace("\\\n", " ").splitlines():
        plain = _PLAIN.fullmatch(line)
        status, text = _called(plain, folder) if plain else _shelled(line, folder)
        printed += text
        if status:
            return status, printed
    return 0, printed


def _begun(plain: re.Match[str], folder: Path, out: int, err: int) -> warm.WarmProcess:
    """A call of the program and nothing else needs no shell, and no start from nothing."""
    return warm.started(
        "streameval",
        *shlex.split(plain["arguments"]),
        streams=[_nothing(), out, err],
        folder=folder,
        environment=environment(),
    )


def _called(plain: re.Match[str], folder: Path) -> tuple[int, str]:
    """Such a call, to its end."""
    goal = folder / (plain["file"] or ".printed")
    with goal.open("wb") as out, (folder / ".told").open("wb") as err:
        status = _begun(plain, folder, out.fileno(), err.fileno()).wait(PATIENCE)
    said = [folder / ".told"] if plain["file"] else [goal, folder / ".told"]
    return status, "".join(path.read_text(encoding="utf-8") for path in said)


@cache
def _nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _shelled(line: str, folder: Path) -> tuple[int, str]:
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
