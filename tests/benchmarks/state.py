"""Time to save and restore a state of 50 MB."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from streameval.checkpoints.format import CheckpointDraft, Entry, Header, Part, Place
from streameval.checkpoints.store import Store, folder_store

PLACE = Place("shop.events", "Zq3kTgZrQ1-xbW5uZ2fQ0A", 0)
PIECE = random.Random(1).randbytes(1 << 14)
PARTS, PIECES = 200, 16
"""200 parts of 256 KiB, like the panes of a few families: 52 MB."""


def main() -> None:
    """Print the elapsed seconds of full and small saves, and of a restore."""
    with tempfile.TemporaryDirectory() as folder:
        store = folder_store(Path(folder) / "state")
        store.claim("benchmark", "benchmark")
        size = PARTS * PIECES * len(PIECE) / 1e6
        inline = _seconds(lambda: store.save(_draft(1, settled=0)))
        print(f"save {size:.0f} MB in one file: {inline:.2f} s")
        first = _seconds(lambda: store.save(_draft(2, settled=PARTS - 20)))
        print(f"save {size:.0f} MB, nine tenths of it as blobs: {first:.2f} s")
        last = store.save(_draft(3, settled=PARTS - 20))
        again = _seconds(lambda: store.save(_draft(4, settled=PARTS - 20, last=last)))
        print(f"save where a tenth has changed: {again:.3f} s")
        restored = _seconds(lambda: _restore(folder_store(Path(store.path))))
        print(f"restore {size:.0f} MB, checked as a whole and part by part: {restored:.2f} s")


def _seconds(task: Callable[[], object]) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def _restore(store: Store) -> None:
    saved = store.newest(PLACE).saved
    if saved is None or sum(len(saved.read(part)) for part in saved.digests) < 50e6:
        raise SystemExit("nothing was restored")


def _draft(offset: int, settled: int, last: Sequence[Entry] = ()) -> CheckpointDraft:
    header = Header(
        release="0",
        cluster="benchmark",
        group="benchmark",
        place=PLACE,
        offset=offset,
        counted=offset,
        clock=offset,
        settings={},
        written_at=time.time(),
    )
    there = {part.name for part in last if part.blob is not None}
    parts = [_part(n, settled=n < settled, there=there) for n in range(PARTS)]
    return CheckpointDraft(header=header, parts=parts, last=last)


def _part(number: int, *, settled: bool, there: Collection[str]) -> Part:
    def content() -> Iterator[bytes]:
        yield number.to_bytes(8, "big")
        for _ in range(PIECES):
            yield PIECE

    name = f"labels/{number:03d}"
    return Part(name=name, content=None if name in there else content, settled=settled)
