"""Values of checkpoints are read beside the daemon, and their thread ends before the process."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from streameval.checkpoints.store import Store
from streameval.config import Config
from streameval.config.tables import StateOptions
from streameval.daemon import stored_values
from streameval.events.errors import StoreError
from tests.serving.replicas import config_of


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return config_of(tmp_path)


def test_stopping_waits_for_a_reading_that_has_begun(
    monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def open_slowly(_: StateOptions) -> Store:
        began.set()
        may_end.wait(60)
        ended.set()
        raise StoreError("somewhere", "it is slow", "wait")

    monkeypatch.setattr(stored_values, "checkpoint_store", open_slowly)
    values = stored_values.StoredValues(config, counting=lambda: False, patience=0.0)
    values.start()
    assert began.wait(60)
    threading.Timer(0.05, may_end.set).start()
    values.stop()
    assert ended.is_set()


def test_stopping_ends_the_waiting_at_once(config: Config) -> None:
    values = stored_values.StoredValues(config, counting=lambda: False, patience=3_600.0)
    values.start()
    values.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "stored"]


def test_without_a_store_there_is_nothing_to_stop(config: Config) -> None:
    without = msgspec.structs.replace(config, state=None)
    values = stored_values.StoredValues(without, counting=lambda: False)
    values.start()
    values.stop()
