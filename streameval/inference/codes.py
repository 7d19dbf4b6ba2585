"""Codes of verdicts and reasons, which sentences are made from."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """A code that equals its text, and shows as it."""

    def __repr__(self) -> str:
        return repr(self.value)
