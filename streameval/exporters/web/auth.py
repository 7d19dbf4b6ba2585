"""Basic authentication with bcrypt hashes."""

from __future__ import annotations

import asyncio
import base64
import binascii
import enum
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Final

import bcrypt

from streameval.errors import ConfigError

_HASH: Final = re.compile(r"\$2[aby]\$(?P<cost>0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_LONGEST: Final = 72
"""Bytes of a password that bcrypt uses."""

_MAX_WAITING: Final = 64
"""Most checks that may wait; each takes 0.1 s of processor time."""


class Verdict(enum.Enum):
    """The outcome of an authentication."""

    ADMITTED = enum.auto()
    REFUSED = enum.auto()
    BUSY = enum.auto()


class Users:
    """Checks users and passwords one at a time on a worker thread; used by one event loop.

    A keyed digest of each correct password is cached, so that bcrypt runs once per user. A check of
    an unknown user takes as long as one of a known user.

    Raises:
        ConfigError: a value is not a bcrypt hash, or a name is not valid in HTTP.
    """

    def __init__(self, path: str, hashes: Mapping[str, str]) -> None:
        self._hashes = {
            user.encode(): _checked(path, user, each).encode() for user, each in hashes.items()
        }
        self._slowest = max(self._hashes.values(), key=lambda each: each[4:6], default=b"")
        self._secret = secrets.token_bytes(32)
        self._proven: dict[bytes, bytes] = {}
        self._checking = asyncio.Lock()
        self._waiting = 0

    def __len__(self) -> int:
        """The number of users."""
        return len(self._hashes)

    def __contains__(self, user: str) -> bool:
        return user.encode() in self._hashes

    async def verdict(self, header: str | None) -> Verdict:
        """Whether a request with this `Authorization` header is admitted."""
        found = _credentials(header)
        if found is None:
            return Verdict.REFUSED
        user, password = found
        if self._is_proven(user, password):
            return Verdict.ADMITTED
        if self._waiting >= _MAX_WAITING:
            return Verdict.BUSY
        self._waiting += 1
        try:
            async with self._checking:
                right = self._is_proven(user, password) or await self._check(user, password)
        finally:
            self._waiting -= 1
        return Verdict.ADMITTED if right else Verdict.REFUSED

    async def _check(self, user: bytes, password: bytes) -> bool:
        hashed = self._hashes.get(user, self._slowest)
        right = await asyncio.to_thread(bcrypt.checkpw, password[:_LONGEST], hashed)
        if right and user in self._hashes:
            self._proven[user] = self._digest(password)
            return True
        return False

    def _is_proven(self, user: bytes, password: bytes) -> bool:
        return hmac.compare_digest(self._proven.get(user, b""), self._digest(password))

    def _digest(self, password: bytes) -> bytes:
        return hashlib.blake2b(password, key=self._secret).digest()


def user_of(header: str | None) -> str:
    """The user in an `Authorization` header; "" if there is none."""
    found = _credentials(header)
    return "" if found is None else found[0].decode(errors="replace")


def _checked(path: str, user: str, hashed: str) -> str:
    if not user or ":" in user:
        problem = f"found the user {user!r}; give a name without colons."
        raise ConfigError(path, "basic_auth_users", problem)
    if _HASH.fullmatch(hashed) is None:
        problem = (
            "this is not a bcrypt hash; give 60 characters that start with '$2y$', "
            "as printed by `htpasswd -nBC 10 ''`."
        )
        raise ConfigError(path, f"basic_auth_users.{user}", problem)
    return hashed


def _credentials(header: str | None) -> tuple[bytes, bytes] | None:
    kind, _, encoded = (header or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None
