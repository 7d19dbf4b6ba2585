"""Secrets from the environment or from files, which are re-read; never logged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from streameval.events.printable import without_user

_PLACEHOLDER = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MOST_BYTES = 1 << 20
"""Most bytes of a file of a secret: a device would never end."""
_SECRET = re.compile(r"password|secret|token|jaas", re.IGNORECASE)


def substitute(text: str, environment: Mapping[str, str]) -> str:
    """Replace ${NAME} from the environment and ${file:PATH} from files; $${ is a literal ${.

    Newlines at the end of a value are removed: secrets made of files have one.

    Raises:
        ValueError: names the missing variable or file.

    >>> substitute("${HOST}:9092", {"HOST": "kafka"})
    'kafka:9092'
    """
    return _PLACEHOLDER.sub(lambda match: _value(match, environment), text)


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name = match.group(1)
    if name is None:
        return "${"
    if not match.group().endswith("}"):
        raise ValueError("a ${ is never closed; write $${ for a plain ${")
    if name.startswith("file:"):
        path = Path(name.removeprefix("file:"))
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise ValueError(f"the file {path} has more than {_MOST_BYTES:,} bytes")
            return content.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            # The error has a byte of the secret in its text, and all bytes as an attribute.
            raise ValueError(f"the file {path} is not UTF-8 text") from None
        except OSError as error:
            raise ValueError(f"the file {path} cannot be read ({error})") from error
    if not _VARIABLE.match(name):
        raise ValueError(f"${{{name}}} is neither ${{NAME}} nor ${{file:PATH}}")
    if name not in environment:
        raise ValueError(f"the environment variable {name} is not set")
    return environment[name].rstrip("\r\n")


def names_a_file(value: object) -> bool:
    """True if a text, or a text in a list, refers to a file."""
    if isinstance(value, list):
        return any(map(names_a_file, value))
    return isinstance(value, str) and "${file:" in value


class FileText(str):
    """A text read from files, which can be read again.

    `read`: reads the text again; raises ValueError if it cannot.
    """

    __slots__ = ("_read",)

    _read: Callable[[], str]

    def __new__(cls, text: str, read: Callable[[], str]) -> Self:
        """Compares and hashes like the text."""
        created = super().__new__(cls, text)
        created._read = read
        return created

    @property
    def latest(self) -> FileText:
        """The current text of the files; the previous text if they cannot be read."""
        try:
            return FileText(self._read(), self._read)
        except ValueError:
            return self


class Latest(Mapping[str, Any]):
    """Settings whose texts from files are read again on each access.

    >>> Latest({"user": FileText("before", lambda: "now")})["user"]
    'now'
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def __getitem__(self, key: str) -> Any:
        value = self._settings[key]
        return value.latest if isinstance(value, FileText) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)


def redact(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` for a log: passwords, and credentials in URLs, are replaced by ***.

    >>> redact({"sasl_plain_password": "xyzzy", "proxy_url": "socks5://me:xyzzy@host:1"})
    {'sasl_plain_password': '***', 'proxy_url': 'socks5://***@host:1'}
    """
    return {key: _show(key, value) for key, value in config.items()}


def _show(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return redact(value)
    if value is not None and _SECRET.search(key):
        return "***"
    return without_user(value) if isinstance(value, str) else value
