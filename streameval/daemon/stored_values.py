"""Values of the newest checkpoints, shown until the source has assigned partitions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from streameval.checkpoints.store import refuse_foreign
from streameval.config import Config
from streameval.config.store_reader import StoreReader
from streameval.daemon.assembly import checkpoint_store
from streameval.daemon.log import emit
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.snapshot import Snapshot
from streameval.events.errors import StreamevalError

SOURCE_PATIENCE: Final = 2.0
"""Seconds to wait for the source first: most starts need no second reading of the checkpoints."""


class StoredValues:
    """Reads the checkpoints of a store in the background, if the source lets wait.

    `config`: of the daemon. `counting`: whether the source has assigned partitions, so that there
    are newer values.
    """

    def __init__(
        self, config: Config, counting: Callable[[], bool], patience: float = SOURCE_PATIENCE
    ) -> None:
        self._config, self._counting, self._patience = config, counting, patience
        self._snapshot: Snapshot | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name="stored", daemon=True)

    def start(self) -> None:
        """Begin to wait, then to read."""
        if self._config.state is not None:
            self._thread.start()

    def stop(self) -> None:
        """Stop waiting, and wait for a reading that has begun: its thread must not be cut off.

        An interpreter that ends while a thread is in compiled code aborts the process.
        """
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def instead_of(self, current: Snapshot | None) -> Snapshot | None:
        """The stored values with the present health of the pipeline, or the snapshot as it is."""
        if self._snapshot is None or current is None:
            return current
        if self._counting():
            self._snapshot = None
            return current
        return msgspec.structs.replace(
            self._snapshot,
            version=current.version,
            taken_at=current.taken_at,
            started_at=current.started_at,
            source=current.source,
            health=current.health,
            counted=current.counted,
        )

    def _read(self) -> None:
        if self._stopped.wait(self._patience) or self._counting() or self._config.state is None:
            return
        try:
            store = checkpoint_store(self._config.state)
            if not store.exists():
                return  # The first start of all.
            reader = StoreReader(store, self._config)
            reader.refresh()
            if (store_identity := reader.store_identity) is not None:
                group = self._config.source.group_of(store_identity.cluster)
                refuse_foreign(store.path, store_identity, store_identity.cluster, group)
        except StreamevalError as error:
            # The restore that follows reports it, or applies a policy.
            emit(logging.INFO, "stored_values_not_shown", error=error)
            return
        stored = reader.stored({})
        written = [entry.written_at for entry in stored if entry.written_at is not None]
        if not written or self._stopped.is_set():
            emit(logging.INFO, "stored_values_not_shown", error=reader.problem)
            return
        labels = reader.config.series_labels()
        capture = SnapshotCapture(reader.ingest.layout, source="", labels=labels, started_at=0.0)
        status = RuntimeStatus(unread=reader.unread(stored), stored=stored)
        self._snapshot = capture.take(reader.copied(), max(written), status)
        emit(logging.INFO, "stored_values_shown", partitions=len(written))
