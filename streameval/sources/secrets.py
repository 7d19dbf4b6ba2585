"""Secrets: taken from the environment or from files, and never printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PLACE = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SECRET = re.compile(r"password|secret|token|jaas", re.IGNORECASE)
_CREDENTIALS = re.compile(r"//[^/@]*@")


def substituted(text: str, environment: Mapping[str, str]) -> str:
    """`text` with ${NAME} from the environment and ${file:PATH} from files; $${ is a plain ${.

    Of a file, line ends after the last character are left out.

    Raises:
        ValueError: the sentence says which variable or file is missing.

    >>> substituted("${HOST}:9092", {"HOST": "kafka"})
    'kafka:9092'
    """
    return _PLACE.sub(lambda match: _value(match, environment), text)


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name = match.group(1)
    if name is None:
        return "${"
    if not match.group().endswith("}"):
        raise ValueError("a ${ is never closed; write $${ for a plain ${")
    if name.startswith("file:"):
        return _content(Path(name.removeprefix("file:")))
    if not _VARIABLE.match(name):
        raise ValueError(f"${{{name}}} is neither ${{NAME}} nor ${{file:PATH}}")
    if name not in environment:
        raise ValueError(f"the environment variable {name} is not set")
    return environment[name]


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file {path} cannot be read ({error})") from error


def redacted(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` fit for a log: passwords, and credentials inside addresses, as ***.

    >>> redacted({"sasl_plain_password": "xyzzy", "proxy_url": "socks5://me:xyzzy@host:1"})
    {'sasl_plain_password': '***', 'proxy_url': 'socks5://***@host:1'}
    """
    return {key: _shown(key, value) for key, value in config.items()}


def _shown(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return redacted(value)
    if value is not None and _SECRET.search(key):
        return "***"
    return _CREDENTIALS.sub("//***@", value) if isinstance(value, str) else value
