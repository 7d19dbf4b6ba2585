"""The state of the daemon in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streameval.engine.snapshot import Snapshot, StoredPartition
from streameval.exporters.view import moment, span

_BAD_FILE = (
    "the web configuration has a mistake (see the log); the previous certificates and users are "
    "in force."
)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the daemon in one sentence.

    Attributes:
        ready: whether the values can be used.
        word: the state: Ready, Warning, Starting, Not ready, Stuck.
        why: the reason.
    """

    ready: bool
    word: str
    why: str

    @property
    def sentence(self) -> str:
        """State and reason."""
        return f"{self.word}: {self.why.rstrip('.')}."


def daemon_state(snapshot: Snapshot | None, *, healthy: bool) -> State:
    """The state of the daemon, from its last snapshot."""
    if not healthy:
        return State(ready=False, word="Stuck", why="the ingest loop makes no progress.")
    if snapshot is None:
        return State(ready=False, word="Starting", why="no data has been read yet.")
    health = snapshot.health
    if not health.ready:
        why = health.trouble or "the source does not answer."
        return State(ready=False, word="Not ready", why=why)
    if health.trouble:
        return State(ready=True, word="Warning", why=health.trouble)
    if health.web_config is not None and not health.web_config.successful:
        return State(ready=True, word="Warning", why=_BAD_FILE)
    return State(ready=True, word="Ready", why=_progress(snapshot))


def uncovered_partitions(stored: Sequence[StoredPartition], now: float) -> str | None:
    """Say how many partitions have records that no checkpoint covers; None if none has."""
    behind = [
        (entry.written_at, str(entry.log))
        for entry in stored
        if entry.lag and entry.written_at is not None
    ]
    if not behind:
        return None
    written, log = min(behind)
    return (
        f"{len(behind):,} of {len(stored):,} partitions have records that no checkpoint covers "
        f"yet; the oldest checkpoint, of {log}, is {span(now - written)} old."
    )


def _progress(snapshot: Snapshot) -> str:
    health = snapshot.health
    if snapshot.stored:
        all_covered = "everything that is stored has been read."
        return uncovered_partitions(snapshot.stored, snapshot.taken_at) or all_covered
    waits = () if health.join is None else health.join.waits
    if waits:
        wait = waits[0]
        others = f" (and {len(waits) - 1:,} more logs)" if len(waits) > 1 else ""
        return (
            f"the join waits for newer records of {wait.log}{others} since {moment(wait.since)}; "
            f"{wait.records:,} records of other logs wait with it. Set idle_timeout in "
            "[attribution] to end such waits."
        )
    behind = [entry.lag for entry in health.partitions if entry.lag is not None]
    if not behind:
        return "reading."
    return f"reading, {sum(behind):,} records behind." if sum(behind) else "reading, up to date."
