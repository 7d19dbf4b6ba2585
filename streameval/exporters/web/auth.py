"""Who may read: users and the bcrypt hashes of their passwords."""

from __future__ import annotations

import asyncio
import base64
import binascii
import enum
import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import bcrypt

from streameval.errors import ConfigError

_HASH: Final = re.compile(r"\$2[aby]\$(?P<cost>0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_LONGEST: Final = 72
"""Bytes; bcrypt looks at no more of a password."""

_REMEMBERED: Final = 256
_WAITING: Final = 64
"""So many checks may wait; each takes a core for a tenth of a second."""


class Verdict(enum.Enum):
    """What becomes of a request."""

    ADMITTED = enum.auto()
    REFUSED = enum.auto()
    BUSY = enum.auto()


class Users:
    """Checks names and passwords, one at a time, on another thread; asked from one event loop.

    A verdict is remembered by a keyed digest of user, password and hash, never by the password.
    An unknown user takes as long as a known one.

    Args:
        path: of the web configuration file, for errors.
        hashes: user -> bcrypt hash.

    Raises:
        ConfigError: something is no bcrypt hash.
    """

    def __init__(self, path: str, hashes: Mapping[str, str]) -> None:
        self._hashes = {
            user.encode(): _checked(path, user, each).encode() for user, each in hashes.items()
        }
        self._slowest = max(self._hashes.values(), key=lambda each: each[4:6], default=b"")
        self._secret = secrets.token_bytes(32)
        self._remembered = {True: _Recent(), False: _Recent()}
        self._turn = asyncio.Lock()
        self._waiting = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._hashes)

    async def verdict(self, header: bytes | None) -> Verdict:
        """What becomes of a request with this `Authorization`; None where it has none."""
        found = _credentials(header)
        if found is None:
            return Verdict.REFUSED
        user, password = found
        known = user in self._hashes
        hashed = self._hashes[user] if known else self._slowest
        mark = self._mark(user, password, hashed)
        right = self._recall(mark)
        if right is None and self._waiting >= _WAITING:
            return Verdict.BUSY
        if right is None:
            right = await self._check(mark, password, hashed, known=known)
        return Verdict.ADMITTED if right else Verdict.REFUSED

    async def _check(self, mark: bytes, password: bytes, hashed: bytes, *, known: bool) -> bool:
        self._waiting += 1
        try:
            async with self._turn:
                # Whoever waited before may have asked the same.
                right = self._recall(mark)
                if right is None:
                    right = await asyncio.to_thread(_same, password, hashed) and known
                    self._remembered[right].add(mark)
                return right
        finally:
            self._waiting -= 1

    def _recall(self, mark: bytes) -> bool | None:
        return next((right for right, marks in self._remembered.items() if mark in marks), None)

    def _mark(self, user: bytes, password: bytes, hashed: bytes) -> bytes:
        digest = hashlib.blake2b(key=self._secret)
        for part in (user, password, hashed):
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()


class _Recent:
    """The marks that were seen last. Wrong ones are kept apart, so that they push out no right."""

    def __init__(self) -> None:
        self._marks: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, mark: bytes) -> bool:
        if mark not in self._marks:
            return False
        self._marks.move_to_end(mark)
        return True

    def add(self, mark: bytes) -> None:
        self._marks[mark] = None
        if len(self._marks) > _REMEMBERED:
            self._marks.popitem(last=False)


def _same(password: bytes, hashed: bytes) -> bool:
    return bcrypt.checkpw(password[:_LONGEST], hashed)


def _checked(path: str, user: str, hashed: str) -> str:
    if not user or ":" in user:
        problem = f"found the user {user!r}; a name has at least one character, and no colon."
        raise ConfigError(path, "basic_auth_users", problem)
    if _HASH.fullmatch(hashed) is None:
        problem = (
            "no bcrypt hash is found here; give 60 characters that begin with '$2y$', "
            "as `htpasswd -nBC 10 ''` makes them."
        )
        raise ConfigError(path, f"basic_auth_users.{user}", problem)
    return hashed


def _credentials(header: bytes | None) -> tuple[bytes, bytes] | None:
    kind, _, encoded = (header or b"").partition(b" ")
    if kind.lower() != b"basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        return None
    return (user, password) if colon else None
