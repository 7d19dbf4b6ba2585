"""The secret key of the hash of users: without it, hashes cannot be recomputed from ids."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from streameval.events import Id
from streameval.events.digests import blake2b
from streameval.events.errors import MetricError, named_fields
from streameval.events.secrets import substitute
from streameval.statistics.arrays import IntArray
from streameval.statistics.users import HashArray, IdBytes, id_bytes

NAME: Final = "user_key"

FEWEST_BYTES: Final = 32
_FEWEST_DISTINCT: Final = 8
_SECRET: Final = re.compile(r"\$\{[^}]+\}")
_KNOWN_BY: Final = "fingerprint:"
_FINGERPRINT: Final = re.compile(_KNOWN_BY + r"([0-9a-f]{16})")
_HOW: Final = 'give "${file:PATH}" or "${NAME}" of the environment'
_MAKE: Final = "make one with `openssl rand -base64 32`"


@named_fields
class UserKeyError(MetricError):
    """The key of the hash of users cannot be read, or is weak.

    Attributes:
        problem: what is wrong, and what to do; without the name of the setting.
    """

    problem: str


def _key_error(problem: str) -> UserKeyError:
    return UserKeyError(f"{NAME}: {problem}", problem=problem)


class UserHashKey:
    """A key of the hash of users: a reference to the secret, and its fingerprint.

    The key is in no text, pickle or error. A pickle has the reference, by which a worker reads the
    key when it first counts; so it must resolve to the same key on all machines. Keys with one
    fingerprint are equal.

    Args:
        text: "${file:PATH}" or "${NAME}", as of a secret in the configuration; or
            "fingerprint:...", for states that are only read and merged.
        environment: values of ${NAME}; None for that of the process.

    Raises:
        UserKeyError: the text is not a reference, or the key cannot be read, or is weak.

    Example:
        >>> secret = {"KEY": "i1Vf0pQmS3xWc8ZbR5nUyTgHaJ6kLd2E"}
        >>> key = UserHashKey("${KEY}", secret)
        >>> key, UserHashKey(str(key)) == key
        (UserHashKey('fingerprint:9f58395116650c8c'), True)
        >>> key.hashes(["u1", "u2"]).tolist() == key.hashes(["u1", "u2"]).tolist()
        True
    """

    __slots__ = ("_reference", "_words", "fingerprint")

    def __init__(self, text: str, environment: Mapping[str, str] | None = None) -> None:
        raw: Any = text  # callers without a type checker may pass anything
        matched = _FINGERPRINT.fullmatch(text) if isinstance(raw, str) else None
        self._reference: str | None = None
        self._words: tuple[np.uint64, np.uint64] | None = None
        if matched is not None:
            self.fingerprint: str = matched[1]
            return
        if not isinstance(raw, str) or not _SECRET.fullmatch(text):
            # Not quoted: it may be a key.
            raise _key_error(f"a key must not be in a configuration or a call; {_HOW}.")
        self._reference = text
        self.fingerprint, self._words = _read(text, environment)

    def __str__(self) -> str:
        return f"{_KNOWN_BY}{self.fingerprint}"

    def __repr__(self) -> str:
        return f"UserHashKey({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserHashKey) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        return UserHashKey, (str(self),), self._reference

    def __setstate__(self, reference: str | None) -> None:
        self._reference = reference

    @property
    def is_loaded(self) -> bool:
        """True if the key itself was read, so that users can be counted."""
        return self._words is not None

    def require(self) -> None:
        """Read the key unless it is loaded, as after unpickling; raises like `hashes`."""
        self._key()

    def hashes(self, users: Sequence[Id]) -> HashArray:
        """Keyed hashes of user ids, shape (users,); the same on every machine and in every release.

        SipHash-2-4 (Aumasson and Bernstein, 2012) of the UTF-8 text of each id; an integer is
        hashed as its decimal text.

        Raises:
            UserKeyError: only the fingerprint is known, or the reference does not resolve here.
        """
        return _siphash(id_bytes(users), *self._key())

    def pseudonyms(self, users: Sequence[Id]) -> list[Id]:
        """Ids of the same kind that stand for users: keyed hashes, as integers or in hex."""
        if users and isinstance(users[0], int):
            numbers: list[Id] = (self.hashes(users) >> np.uint64(1)).tolist()
            return numbers
        return [f"{hashed:016x}" for hashed in self.hashes(users).tolist()]

    def _key(self) -> tuple[np.uint64, np.uint64]:
        if self._words is not None:
            return self._words
        if self._reference is None:
            raise _key_error(
                f"of the key only its fingerprint {self.fingerprint} is known here, which "
                f"is enough to read and merge, not to count users; {_HOW}."
            )
        fingerprint, words = _read(self._reference, None)
        if fingerprint != self.fingerprint:
            raise _key_error(
                f"the key at {self._reference} has the fingerprint {fingerprint} on this "
                f"machine, and {self.fingerprint} where counting began; give all machines one key."
            )
        self._words = words
        return words


def user_key(key: UserHashKey | str) -> UserHashKey:
    """The key itself, or the key of a reference; raises like `UserHashKey`."""
    return key if isinstance(key, UserHashKey) else UserHashKey(key)


def saved_key(fingerprint: object) -> UserHashKey:
    """The key of saved data, by its fingerprint alone: saved data must not make us read a file.

    Raises:
        ValueError: it is not a fingerprint.
    """
    if not isinstance(fingerprint, str) or _FINGERPRINT.fullmatch(fingerprint) is None:
        raise ValueError(f"{NAME}={fingerprint!r:.60} is not a fingerprint")
    return UserHashKey(fingerprint)


def _read(
    reference: str, environment: Mapping[str, str] | None
) -> tuple[str, tuple[np.uint64, np.uint64]]:
    """The fingerprint of a key, and the two words of SipHash's key."""
    try:
        text = substitute(reference, os.environ if environment is None else environment)
    except ValueError as error:
        raise _key_error(f"{error}; {_HOW}.") from None
    try:
        key = text.encode()
    except UnicodeEncodeError:
        # The environment may hold any bytes.
        raise _key_error(f"the key at {reference} is not UTF-8 text; {_MAKE}.") from None
    if len(key) < FEWEST_BYTES:
        problem = f"has {len(key)} bytes, and {FEWEST_BYTES} are needed" if key else "is empty"
        raise _key_error(f"the key at {reference} {problem}: it could be guessed; {_MAKE}.")
    if len({*key}) < _FEWEST_DISTINCT or (key + key).find(key, 1) < len(key):
        problem = "repeats a few characters"
        raise _key_error(f"the key at {reference} {problem}: it could be guessed; {_MAKE}.")
    words = np.frombuffer(blake2b(b"streameval: hash of users\0" + key, 16), np.dtype("<u8"))
    fingerprint = blake2b(b"streameval: fingerprint\0" + key, 8).hex()
    return fingerprint, (words[0], words[1])


_CONSTANTS: Final = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_TOP: Final = np.uint64(56)


def _siphash(ids: IdBytes, first: np.uint64, second: np.uint64) -> HashArray:
    """SipHash-2-4 of many texts at once, with the two words of a key, shape (texts,).

    In NumPy, because libraries hash one text per call, which takes several times as long.

    Example:
        >>> first, second = np.frombuffer(bytes(range(16)), "<u8")
        >>> hex(_siphash(id_bytes([bytes(range(15)).decode()]), first, second)[0])
        '0xa129ca6149be45e5'
    """
    keys = (first, second, first, second)
    states = [
        np.full(ids.lengths.size, np.uint64(constant) ^ key)
        for constant, key in zip(_CONSTANTS, keys, strict=True)
    ]
    full_words: IntArray = ids.lengths // 8
    ends = ids.lengths.astype(np.uint64) << _TOP
    fewest = int(full_words.min(initial=0 if not full_words.size else full_words[0]))
    for block in range(int(full_words.max(initial=-1)) + 1):
        rows = slice(None) if fewest >= block else np.flatnonzero(full_words >= block)
        words = ids.words(rows, 8 * block)
        words |= np.where(full_words[rows] == block, ends[rows], np.uint64(0))
        parts = states if fewest >= block else [state[rows] for state in states]
        parts[3] ^= words
        _rounds(parts, 2)
        parts[0] ^= words
        if fewest < block:
            for state, part in zip(states, parts, strict=True):
                state[rows] = part
    states[2] ^= np.uint64(0xFF)
    _rounds(states, 4)
    hashes: HashArray = states[0] ^ states[1] ^ states[2] ^ states[3]
    return hashes


def _rounds(states: Sequence[HashArray], number: int) -> None:
    """SipRounds in place, line by line as in the paper of Aumasson and Bernstein (2012)."""
    v0, v1, v2, v3 = states
    for _ in range(number):
        v0 += v1
        v2 += v3
        _rotate(v1, 13)
        _rotate(v3, 16)
        v1 ^= v0
        v3 ^= v2
        _rotate(v0, 32)
        v2 += v1
        v0 += v3
        _rotate(v1, 17)
        _rotate(v3, 21)
        v1 ^= v2
        v3 ^= v0
        _rotate(v2, 32)


def _rotate(words: HashArray, bits: int) -> None:
    upper = words << np.uint64(bits)
    words >>= np.uint64(64 - bits)
    words |= upper
