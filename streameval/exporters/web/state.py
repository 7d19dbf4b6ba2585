"""Whether to trust what is shown, in one sentence."""

from __future__ import annotations

from typing import NamedTuple

from streameval.pipeline.snapshot import Snapshot


class State(NamedTuple):
    """How the daemon is.

    Attributes:
        ready: whether the values can be used.
        word: for a glance.
        why: for a person.
    """

    ready: bool
    word: str
    why: str

    @property
    def sentence(self) -> str:
        """Both in one."""
        return f"{self.word}: {self.why}"


_BAD_FILE = "the configuration file has a mistake (the log says which); the one before is in force."


def state(snapshot: Snapshot | None, *, turning: bool) -> State:
    """How the daemon is, as far as can be seen from its last snapshot.

    Args:
        snapshot: the last one, if any.
        turning: whether the ingest loop still turns.
    """
    if not turning:
        return State(ready=False, word="Stuck", why="the ingest loop has stopped turning.")
    if snapshot is None:
        return State(ready=False, word="Starting", why="nothing was read yet.")
    trouble = snapshot.health.trouble
    if not snapshot.health.ready:
        return State(ready=False, word="Not ready", why=trouble or "the source does not answer.")
    if trouble:
        return State(ready=True, word="Look here", why=trouble)
    reload = snapshot.health.reload
    if reload is not None and not reload.successful:
        return State(ready=True, word="Look here", why=_BAD_FILE)
    return State(ready=True, word="Ready", why=f"reading {snapshot.source}.")
