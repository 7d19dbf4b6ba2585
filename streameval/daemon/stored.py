"""Values of the newest checkpoints, shown until the source has assigned partitions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from streameval.config.states import newest_checkpoints, restore
from streameval.daemon.log import emit
from streameval.engine.capture import ingest_snapshot
from streameval.engine.snapshot import Snapshot
from streameval.events.errors import StreamevalError

PATIENCE: Final = 2.0
"""Seconds to wait for the source first: most starts need no second reading of the checkpoints."""


class StoredValues:
    """Reads the checkpoints of a store in the background, if the source lets wait.

    `path`: of the store; None if there is none. `counting`: whether the source has assigned
    partitions, so that there are newer values.
    """

    def __init__(
        self, path: str | None, counting: Callable[[], bool], patience: float = PATIENCE
    ) -> None:
        self._path, self._counting, self._patience = path, counting, patience
        self._snapshot: Snapshot | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name="stored", daemon=True)

    def start(self) -> None:
        """Begin to wait, then to read."""
        if self._path is not None:
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
        if self._stopped.wait(self._patience) or self._counting() or self._path is None:
            return
        try:
            checkpoints = newest_checkpoints([self._path], lambda _: None)
            if not checkpoints or self._stopped.is_set():
                return
            config, ingest = restore(checkpoints, None, lambda _: None)
        except StreamevalError as error:
            # The restore that follows reports it, or applies a policy.
            emit(logging.INFO, "stored_values_not_shown", error=error)
            return
        at = max(checkpoint.saved.header.written_at for checkpoint in checkpoints)
        snapshot = ingest_snapshot(ingest, labels=config.series_labels(), now=at)
        self._snapshot = msgspec.structs.replace(snapshot, stored_at=at)
        emit(logging.INFO, "stored_values_shown", partitions=len(checkpoints))
