"""Whether to trust what is shown, in one sentence."""

from __future__ import annotations

from typing import NamedTuple

from streameval.pipeline.snapshot import Snapshot


class State(NamedTuple):
    """How the daemon is.

    Attributes:
        ready: whether the values can be used.
        word: for a glance.
        sentence: for a person.
    """

    ready: bool
    word: str
    sentence: str


def state(snapshot: Snapshot | None, *, turning: bool) -> State:
    """How the daemon is, as far as can be seen from its last snapshot.

    Args:
        snapshot: the last one, if any.
        turning: whether the ingest loop still turns.
    """
    if not turning:
        return State(ready=False, word="Stuck", sentence="Not ready: the ingest loop stopped.")
    if snapshot is None:
        return State(ready=False, word="Starting", sentence="Not ready: nothing was read yet.")
    trouble = snapshot.health.trouble
    if not snapshot.health.ready:
        why = trouble or "the source does not answer yet"
        return State(ready=False, word="Not ready", sentence=f"Not ready: {why}")
    if trouble:
        return State(ready=True, word="Look here", sentence=f"Ready, but look: {trouble}")
    return State(ready=True, word="Ready", sentence=f"Ready: reading {snapshot.source}.")
