"""Saved state that cannot be used, merged, loaded or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streameval.errors.root import StreamevalError


class UnlikeStateError(StreamevalError):
    """Two states that were not made alike cannot be merged or loaded."""

    def __init__(self, what: str, left: object, right: object) -> None:
        self.what = what
        self.left = left
        self.right = right
        super().__init__(
            f"unlike {what}: here {_unlike(left, right)}; there {_unlike(right, left)}. Only "
            "states made with the same settings can be merged or loaded."
        )


def _unlike(one: object, other: object) -> str:
    """What one has and the other has not, in words."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        told = [f"{name} = {one[name]}" for name in one if one[name] != other.get(name)]
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        told = [str(each) for each in one if each not in other]
    else:
        return repr(one)
    return ", ".join(told) or "nothing more"


class StateVersionError(StreamevalError):
    """A saved state has a version that this release does not know."""

    def __init__(self, what: str, found: object, known: int) -> None:
        self.what = what
        self.found = found
        self.known = known
        super().__init__(
            f"{what}: state version {found!r} is not known; this release reads version {known}. "
            "Use the release that wrote it, or a newer one."
        )


class DamagedStateError(StreamevalError):
    """A saved state is not what this package wrote."""

    def __init__(self, what: str, problem: str) -> None:
        self.what = what
        self.problem = problem
        super().__init__(
            f"{what}: the saved state is damaged ({problem}). Nothing was loaded; use another copy."
        )


class StoreError(StreamevalError):
    """Checkpoints cannot be written or read."""

    def __init__(self, store: str, problem: str, remedy: str) -> None:
        self.store = store
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{store}: {problem}; {remedy}.")


class ForeignStoreError(StoreError):
    """The store holds the state of another cluster or group."""

    def __init__(self, store: str, what: str, here: str, there: str) -> None:
        self.what = what
        self.here = here
        self.there = there
        problem = f"its state belongs to {what} {there!r}, and this process reads {here!r}"
        super().__init__(store, problem, "name another folder under [state] path")


class UnsavedStateError(StreamevalError):
    """The process ends, and what it counted last is in no checkpoint."""

    def __init__(self, places: Sequence[str], problem: str) -> None:
        self.places = places
        self.problem = problem
        super().__init__(
            f"the last checkpoint of {', '.join(places)} was not written: {problem.rstrip('.')}. "
            "What was counted after the checkpoint before it is counted again at the next start."
        )


class TooManyOpenError(StreamevalError):
    """More lists wait for their interactions than memory was set aside for."""

    def __init__(self, limit: str, waiting: int, allowed: int) -> None:
        self.limit = limit
        self.waiting = waiting
        self.allowed = allowed
        what = "bytes of lists and interactions" if limit == "max_bytes" else "records"
        super().__init__(
            f"{waiting:,} {what} wait for the end of their window, and [attribution] {limit} = "
            f"{allowed}. Nothing was dropped. Raise {limit}, or make the window shorter; reading "
            "more slowly does not help."
        )


class UncountableRecordError(StreamevalError):
    """Counting a record fails; not for what it says, which makes it invalid, but by a mistake.

    Attributes:
        offset: of the record; None where it could not be told which of several it is.
    """

    def __init__(self, where: str, offsets: tuple[int, int], problem: str, remedy: str) -> None:
        self.where = where
        self.offsets = offsets
        self.problem = problem
        self.remedy = remedy
        first, last = offsets
        self.offset = first if first == last else None
        which = f"offset {first}: the record cannot be counted"
        if self.offset is None:
            which = f"offsets {first} to {last}: one of the records cannot be counted"
        super().__init__(f"{where} {which} ({problem}). {remedy}.")


class RefusedStateError(StreamevalError):
    """Going on from a saved state would be wrong in a way that must not be silent."""

    def __init__(self, where: str, problem: str, policy: str, choices: Mapping[str, str]) -> None:
        self.where = where
        self.problem = problem
        self.policy = policy
        self.choices = choices
        offered = " or ".join(f'{policy} = "{it}" ({does})' for it, does in choices.items())
        super().__init__(f"{where}: {problem}. To go on, set [state] {offered}.")
