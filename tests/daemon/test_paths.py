"""The files that a record and a checkpoint run through are those in CONTRIBUTING."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import streameval
from streameval.config import Config
from streameval.config.options import StateOptions, WindowsOptions
from streameval.daemon.assembly import assemble
from streameval.decoding.fields import EventFields
from streameval.exporters.prometheus import PrometheusExporter
from tests.daemon.manual_time import CONFIG, ManualTime, Script, loop_of

_PACKAGE = Path(streameval.__file__).parent
_GROUP = re.compile(r"`([a-z/]+)/` \(([^)]+)\)")
_FILE = re.compile(r"`([a-z_/]+/(?:[a-z_]+|<\w+>)\.py)`")
_TURNS = 130
_TEXTS = 2


def _record(number: int) -> bytes:
    lists = {"recommendations": ["a", "b"], "interactions": ["b"]}
    about = {"ts": 1_700_000_000 + number, "user": f"u{number}", "variant": "a"}
    return json.dumps(lists | about).encode()


def _traced(state: StateOptions | None) -> set[str]:
    """The files of the package with a function that is called while the daemon counts."""
    config = Config(
        metrics=["ndcg@10"],
        labels=["variant"],
        source=CONFIG.source,
        event=EventFields(time="ts", time_unit="s"),
        windows=WindowsOptions(spans=["5m"]),
        state=state,
    )
    called, texts, turns = set[str](), list[bytes](), count(1)
    counting = threading.Event()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and counting.is_set():
            called.add(frame.f_code.co_filename)

    def ended() -> bool:
        turn = next(turns)
        if turn == _TURNS // 2:
            texts.clear()
            counting.set()
        # A thread of its own writes the texts; the first may have been begun before.
        if turn <= _TURNS or len(texts) < _TEXTS:
            return False
        counting.clear()
        return True

    with _profiled(note):
        manual_time = ManualTime()
        script = Script(manual_time, [[_record(number)] for number in range(_TURNS)])
        exporter = PrometheusExporter(version="1")
        parts = assemble(config, {}, manual_time.clock, script)
        loop_of(
            parts, manual_time, lambda snapshot: texts.append(exporter.exposition(snapshot))
        ).run(ended)
    paths = {Path(name) for name in called if Path(name).is_relative_to(_PACKAGE)}
    return {path.relative_to(_PACKAGE).as_posix() for path in paths}


@contextmanager
def _profiled(note: Any) -> Iterator[None]:
    before = sys.getprofile(), threading.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])


def _named() -> tuple[set[str], set[str]]:
    """The files of a record and of a checkpoint, as CONTRIBUTING names them."""
    text = (_PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rest = " ".join(text.split()).partition("A record becomes a sample")[2]
    record, _, checkpoint = rest.partition("A checkpoint is written")
    return _files(record), _files(checkpoint)


def _files(text: str) -> set[str]:
    grouped = {
        f"{folder}/{name}.py"
        for folder, modules in _GROUP.findall(text)
        for name in re.findall(r"`(\w+)`", modules)
    }
    return grouped | set(_FILE.findall(text))


def test_a_record_and_a_checkpoint_run_through_the_files_that_contributing_names(
    tmp_path: Path,
) -> None:
    record, checkpoint = _named()
    alone = _traced(None)
    # Which kernel is in use depends on the installation.
    passed = {
        path for path in alone if path not in {"metrics/ndcg.py", "statistics/kernel/pure.py"}
    }
    # Another source and another metric have files of their own.
    assert passed == {path for path in record if "<" not in path}
    saved = _traced(StateOptions(path=str(tmp_path / "state"), interval="1s"))
    assert saved - alone - checkpoint == set()
    assert checkpoint - saved == set()
