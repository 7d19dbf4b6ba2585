"""`python -m tests.chaos.victim TRICK[+TRICK...] CONFIG`: a daemon with something wrong about it.

A trick is one of `TRICKS`, a point of `tests.chaos.points` at which the process dies, or a mistake
in the protocol of `tests.mutation`.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import streameval.daemon.process
from streameval.checkpoints.disk import Disk
from streameval.cli.app import main
from streameval.engine.ingest import Ingest
from streameval.exporters.prometheus import PrometheusExporter
from tests.chaos.points import POINTS, deadly


def disk_full(folder: Path) -> None:
    """No file can be written as long as there is one named `disk-full` in the folder."""
    disk: Any = Disk
    create = disk.create

    def refused(*arguments: Any) -> None:
        if (folder / "disk-full").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[1]))
        create(*arguments)

    disk.create = refused


def slow(folder: Path) -> None:
    """A batch is not finished before a file named `slow` has left the folder."""
    ingest: Any = Ingest
    apply = ingest.apply

    def dragging(*arguments: Any) -> Any:
        while (folder / "slow").exists():
            time.sleep(0.1)
        return apply(*arguments)

    ingest.apply = dragging


def last_words(folder: Path) -> None:
    """Leave what the last scrape would have been in a file, as nobody can be that quick."""
    process: Any = streameval.daemon.process
    make, run = process.PrometheusExporter, process.Daemon.run
    exporters: list[PrometheusExporter] = []

    def kept(**named: Any) -> PrometheusExporter:
        exporters.append(make(**named))
        return exporters[-1]

    def told(self: Any, *arguments: Any, **named: Any) -> None:
        try:
            run(self, *arguments, **named)
        finally:
            (exporter,) = exporters
            # A counter that nobody has seen yet shows 0 the first time.
            exporter.exposition(self.current())
            (folder / f"words-{os.getpid()}").write_bytes(exporter.exposition(self.current()))

    process.PrometheusExporter, process.Daemon.run = kept, told


TRICKS: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {"disk-full": disk_full, "slow": slow}
)


def _play(tricks: str, folder: Path) -> None:
    last_words(folder)
    for name in filter(None, tricks.split("+")):
        if name in POINTS:
            deadly(POINTS[name])
        elif name in TRICKS:
            TRICKS[name](folder)
        else:
            _mistaken(name)


def _mistaken(name: str) -> None:
    import pytest  # noqa: PLC0415  heavy, and hardly ever needed

    from tests.mutation import protocol  # noqa: PLC0415  likewise

    (mistake,) = (each for each in protocol.MISTAKES if each.what == name)
    mistake.broken(pytest.MonkeyPatch())


if __name__ == "__main__":
    _play(sys.argv[1], Path(sys.argv[2]).parent)
    sys.argv = ["streameval", "run", sys.argv[2]]
    main()
