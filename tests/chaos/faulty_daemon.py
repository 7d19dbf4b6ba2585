"""`python -m tests.chaos.faulty_daemon FAULT[+FAULT...] CONFIG` runs a daemon with faults.

A fault is `disk-full`, a point of `tests.chaos.kill_points`, or a mistake in the protocol from
`tests.mutation`.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import streameval.daemon.process
from streameval.checkpoints.storage import Disk
from streameval.cli.app import main
from streameval.exporters.prometheus import PrometheusExporter
from tests.chaos.kill_points import POINTS, kill_at


def disk_full(folder: Path) -> None:
    """Refuse to write files while the folder has a file named `disk-full`."""
    disk: Any = Disk
    create = disk.create

    def refuse(*arguments: Any) -> None:
        if (folder / "disk-full").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[1]))
        create(*arguments)

    disk.create = refuse


def save_last_scrape(folder: Path) -> None:
    """Write a last scrape to a file at the exit, because no scraper is quick enough."""
    process: Any = streameval.daemon.process
    make, run = process.PrometheusExporter, process.Daemon.run
    exporters: list[PrometheusExporter] = []

    def keep(**named: Any) -> PrometheusExporter:
        exporters.append(make(**named))
        return exporters[-1]

    def run_and_save(self: Any, *arguments: Any, **named: Any) -> None:
        try:
            run(self, *arguments, **named)
        finally:
            (exporter,) = exporters
            # A new counter shows 0 in its first scrape.
            exporter.exposition(self.current())
            (folder / f"last-scrape-{os.getpid()}").write_bytes(exporter.exposition(self.current()))

    process.PrometheusExporter, process.Daemon.run = keep, run_and_save


def _inject(faults: str, folder: Path) -> None:
    save_last_scrape(folder)
    for name in filter(None, faults.split("+")):
        if name in POINTS:
            kill_at(POINTS[name])
        elif name == "disk-full":
            disk_full(folder)
        else:
            _break_protocol(name)


def _break_protocol(name: str) -> None:
    import pytest  # noqa: PLC0415  slow to import, and rarely needed

    from tests.mutation import protocol  # noqa: PLC0415  likewise

    (mistake,) = (each for each in protocol.MISTAKES if each.what == name)
    mistake.broken(pytest.MonkeyPatch())


if __name__ == "__main__":
    _inject(sys.argv[1], Path(sys.argv[2]).parent)
    sys.argv = ["streameval", "run", sys.argv[2]]
    main()
