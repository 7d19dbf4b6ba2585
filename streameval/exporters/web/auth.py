"""Basic authentication with bcrypt hashes."""

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
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import bcrypt

from streameval.events.errors import ConfigError

K = TypeVar("K")
V = TypeVar("V")

_HASH: Final = re.compile(r"\$2[aby]\$(?P<cost>0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_LONGEST: Final = 72
"""Bytes of a password that bcrypt uses."""

_MAX_WAITING: Final = 64
"""Most passwords that may wait to be checked; each check takes 0.1 s of processor time."""

_MAX_REMEMBERED: Final = 65_536
"""Most remembered credentials: a minute of a flood of 1,000 a second."""

_MAX_ADDRESSES: Final = 4_096


class Admission(enum.Enum):
    """The outcome of an authentication."""

    ADMITTED = enum.auto()
    REFUSED = enum.auto()
    BUSY = enum.auto()


class WebUsers:
    """Checks users and passwords one at a time on a worker thread; used by one event loop.

    bcrypt runs once per credential: keyed digests of correct and refused ones are remembered, and
    those do not wait. Others wait in an order that keeps a flood of wrong passwords from delaying
    the right one: first credentials that were asked before, since a scraper repeats its own and a
    guesser does not; then those from the address with the fewest refusals. A refusal takes as long
    for an unknown user as for any known one.

    Raises:
        ConfigError: a value is not a bcrypt hash, or a name is not valid in HTTP.
    """

    def __init__(self, path: str, hashes: Mapping[str, str]) -> None:
        self._hashes = {
            user.encode(): _check_user(path, user, text).encode() for user, text in hashes.items()
        }
        self._slowest = max(self._hashes.values(), key=_cost, default=b"")
        self._secret = secrets.token_bytes(32)
        self._proven: dict[bytes, bytes] = {}
        self._unproven: _Recent[bytes, Admission] = _Recent(_MAX_REMEMBERED)
        self._refusals: _Recent[str, int] = _Recent(_MAX_ADDRESSES)
        self._waiting: dict[bytes, _Check] = {}  # with the one that is running
        self._running: bytes | None = None
        self._arrivals = 0
        self._worker: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """The number of users."""
        return len(self._hashes)

    async def verdict(self, header: str | None, address: str = "") -> Admission:
        """Decide on a request with this `Authorization` header.

        `address`: of the client.
        """
        credentials = _credentials(header)
        if credentials is None:
            return Admission.REFUSED
        digest = self._digest(credentials)
        if self._proven.get(credentials.user) == digest:
            return Admission.ADMITTED
        if self._unproven.get(digest) is Admission.REFUSED:
            return Admission.REFUSED
        check = self._waiting.get(digest)
        if check is None:
            check = self._wait(digest, credentials, address)
        else:
            check.was_seen_before = True
        # One client that goes away must not cancel the check that others wait for.
        return await asyncio.shield(check.verdict)

    def _wait(self, digest: bytes, credentials: _Credentials, address: str) -> _Check:
        """Add a check; beyond the limit, turn the last one away."""
        self._arrivals += 1
        check = _Check(
            credentials,
            address,
            was_seen_before=self._unproven.get(digest) is Admission.BUSY,
            arrival=self._arrivals,
            verdict=asyncio.get_running_loop().create_future(),
        )
        self._waiting[digest] = check
        self._unproven[digest] = Admission.BUSY
        if len(self._waiting) > _MAX_WAITING:
            last = max(self._waiting, key=self._priority)
            self._waiting.pop(last).verdict.set_result(Admission.BUSY)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return check

    def _priority(self, digest: bytes) -> tuple[bool, bool, int, int]:
        """The smallest comes first."""
        check = self._waiting[digest]
        refusals = self._refusals.get(check.address, 0)
        return digest != self._running, not check.was_seen_before, refusals, check.arrival

    async def _work(self) -> None:
        while self._waiting:
            digest = self._running = min(self._waiting, key=self._priority)
            check = self._waiting[digest]
            user, password = check.credentials
            verdict = Admission.BUSY
            try:
                hashed = self._hashes.get(user, self._slowest)
                matches = await asyncio.to_thread(self._matches, password[:_LONGEST], hashed)
                verdict = Admission.REFUSED
                if matches and user in self._hashes:
                    self._proven[user] = digest
                    verdict = Admission.ADMITTED
                else:
                    self._unproven[digest] = Admission.REFUSED
                    self._refusals[check.address] = 1 + self._refusals.get(check.address, 0)
            finally:
                del self._waiting[digest]
                check.verdict.set_result(verdict)

    def _matches(self, password: bytes, hashed: bytes) -> bool:
        """True if a password has a hash; if not, the time is that of the slowest hash.

        Each unit of cost doubles the time, so one more round of each cost in between fills it up.
        """
        if bcrypt.checkpw(password, hashed):
            return True
        for cost in range(_cost(hashed), _cost(self._slowest)):
            bcrypt.hashpw(password, b"$2b$%02d$" % cost + hashed[7:29])
        return False

    def _digest(self, credentials: _Credentials) -> bytes:
        return hashlib.blake2b(b":".join(credentials), key=self._secret, digest_size=32).digest()


class _Credentials(NamedTuple):
    user: bytes
    password: bytes


@dataclass(slots=True)
class _Check:
    """A password that waits to be checked.

    Attributes:
        was_seen_before: whether an earlier request had the same credentials.
        arrival: number of the check; grows by one.
    """

    credentials: _Credentials
    address: str
    was_seen_before: bool
    arrival: int
    verdict: asyncio.Future[Admission]


class _Recent(OrderedDict[K, V]):
    """A mapping that forgets the key written longest ago when it is full."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._size:
            self.popitem(last=False)


def _check_user(path: str, user: str, hashed: str) -> str:
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


def _cost(hashed: bytes) -> int:
    """The binary logarithm of the rounds of a hash."""
    return int(hashed[4:6])


def _credentials(header: str | None) -> _Credentials | None:
    kind, _, encoded = (header or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return _Credentials(user, password) if colon else None
