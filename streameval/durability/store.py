"""The contract of every store of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from streameval.durability.checkpoint import Draft, Header, Place
from streameval.durability.skipping import Skip, Stop


class Saved(Protocol):
    """A checkpoint that was found and is sound."""

    @property
    def header(self) -> Header:
        """What it says of itself."""

    @property
    def digests(self) -> Mapping[str, str]:
        """Name of each part -> digest of its bytes: equal states have equal ones."""

    def read(self, part: str) -> bytes:
        """The bytes of a part.

        Raises:
            DamagedStateError: they are not what was written.
        """


class Found(Protocol):
    """What a store has of one place."""

    saved: Saved | None
    """The newest sound checkpoint; None where there is none."""

    passed_over: Sequence[str]
    """One sentence for each newer file that is not sound."""


class Store(Protocol):
    """Checkpoints by place and offset, shared by all replicas; the highest sound offset wins."""

    def claim(self, cluster: str, group: str) -> None:
        """Say whose checkpoints these are; the first to come decides.

        Raises:
            ForeignStoreError: they belong to another cluster or group.
            StoreError: the store cannot be used, or has checkpoints and does not say whose.
        """

    def places(self) -> list[Place]:
        """Every place of which there is a checkpoint, sorted."""

    def newest(self, place: Place) -> Found:
        """The sound checkpoint of the highest offset, checked as a whole.

        Raises:
            StateVersionError: the newest has a version that this release does not know.
            StoreError: the store cannot be read.
        """

    def save(self, draft: Draft) -> Mapping[str, str]:
        """Write a checkpoint: all of it, durable when this returns, or nothing that is ever loaded.

        Keeps the two newest of the place, and the newest of each version of the format.

        Returns:
            The digest of each part by its name.

        Raises:
            StoreError: it could not be written; the store is as it was.
        """

    def note(self, place: Place, stop: Stop) -> None:
        """Remember that a record could not be counted; durable when this returns.

        Raises:
            StoreError: it could not be written.
        """

    def skips(self, place: Place) -> Sequence[Skip]:
        """Records that are not to be counted, in any order.

        Raises:
            DamagedStateError: an order to skip one cannot be read.
            StoreError: the store cannot be read.
        """

    def set_aside(self, place: Place) -> None:
        """Load none of the place's checkpoints any more; what is saved later begins anew.

        They stay where a person can find them. What this begins, it ends when called again.

        Raises:
            StoreError: it could not be done.
        """
