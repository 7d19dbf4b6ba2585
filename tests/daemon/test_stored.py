"""Values of checkpoints are read beside the daemon, and their thread ends before the process."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from streameval.daemon import stored


def test_stopping_waits_for_a_reading_that_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def read_slowly(*_: Any) -> list[Any]:
        began.set()
        may_end.wait(60)
        ended.set()
        return []

    monkeypatch.setattr(stored, "newest_checkpoints", read_slowly)
    values = stored.StoredValues("somewhere", counting=lambda: False, patience=0.0)
    values.start()
    assert began.wait(60)
    threading.Timer(0.05, may_end.set).start()
    values.stop()
    assert ended.is_set()


def test_stopping_ends_the_waiting_at_once() -> None:
    values = stored.StoredValues("somewhere", counting=lambda: False, patience=3_600.0)
    values.start()
    values.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "stored"]


def test_without_a_store_there_is_nothing_to_stop() -> None:
    values = stored.StoredValues(None, counting=lambda: False)
    values.start()
    values.stop()
