"""What a web configuration file comes to, and which one is in force."""

from __future__ import annotations

import time
from typing import Final

from streameval.errors import ConfigError
from streameval.exporters.web.auth import Users
from streameval.exporters.web.rate import bucket
from streameval.exporters.web.tls import tls_context
from streameval.exporters.web.webconfig import WebConfig

_SECURE_ONLY: Final = "Strict-Transport-Security"
_HEADERS: Final[dict[str, tuple[str, ...]]] = {
    _SECURE_ONLY: (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
    "Content-Security-Policy": (),
}


class Protection:
    """Certificates, users, headers and limits, all read; nothing of it changes any more.

    Args:
        path: of the web configuration file, for errors and for files relative to it.
        options: what it says; by default nothing: plain HTTP, open to all.

    Attributes:
        context: what connections are encrypted with; None means plain HTTP.
        users: who may read; empty means everybody.
        bucket: how often one may ask; None means as often as one likes.
        sans: a client's certificate is for one of these names; empty means any.

    Raises:
        ConfigError: names the file, the key, what was found there and what is allowed.
    """

    def __init__(self, path: str = "", options: WebConfig = WebConfig()) -> None:  # noqa: B008  frozen
        tls = options.tls_server_config
        self.context = None if tls is None else tls_context(path, tls)
        self.sans = frozenset() if tls is None else frozenset(tls.client_allowed_sans)
        self.users = Users(path, options.basic_auth_users)
        self.bucket = bucket(path, options.rate_limit, time.monotonic)
        self._headers = _checked(path, options.http_server_config.headers)

    def headers(self, scheme: str) -> list[tuple[str, str]]:
        """What is added to an answer; over plain HTTP a browser must not be told of HTTPS."""
        return [each for each in self._headers if scheme == "https" or each[0] != _SECURE_ONLY]


class Shield:
    """The protection in force. Any thread may change it; connections made after that have it."""

    def __init__(self, current: Protection | None = None) -> None:
        self._current = current or Protection()

    @property
    def current(self) -> Protection:
        """What is in force."""
        return self._current

    def use(self, fresh: Protection) -> None:
        """From now on, this one.

        Raises:
            ConfigError: it would open what is closed: an emptied file must not do that.
        """
        self.check(fresh)
        self._current = fresh

    def check(self, fresh: Protection) -> None:
        """Whether it may be used in place of what is in force.

        Raises:
            ConfigError: it would open what is closed.
        """
        lost = {
            "tls_server_config": self._current.context is not None and fresh.context is None,
            "basic_auth_users": bool(self._current.users) and not fresh.users,
        }
        for key in (key for key, is_lost in lost.items() if is_lost):
            problem = "was there before, and is gone; restart to serve without it."
            raise ConfigError("the new web configuration", key, problem)


def _checked(path: str, headers: dict[str, str]) -> list[tuple[str, str]]:
    for name, value in headers.items():
        key = f"http_server_config.headers.{name}"
        if name not in _HEADERS:
            problem = f"this header cannot be set. Allowed here: {', '.join(_HEADERS)}."
            raise ConfigError(path, key, problem)
        allowed = _HEADERS[name]
        if allowed and value not in allowed:
            problem = f"found {value!r}; allowed are {', '.join(map(repr, allowed))}."
            raise ConfigError(path, key, problem)
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(path, key, f"found {value!r}; give printable ASCII, in one line.")
    return list(headers.items())
