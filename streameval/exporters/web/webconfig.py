"""The web configuration of Prometheus' exporter-toolkit: TLS, client certificates, users."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

import msgspec

from streameval.events.errors import ConfigError
from streameval.exporters.web.auth import WebUsers

ClientAuth = Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
Version = Literal["TLS12", "TLS13"]

_MODES: Final[dict[ClientAuth, ssl.VerifyMode]] = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS: Final[dict[Version, ssl.TLSVersion]] = {
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}


class TlsServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS of the server, and authentication of clients by certificate.

    Attributes:
        cert_file: PEM file with the certificate and its intermediate certificates.
        key_file: PEM file with the private key, without a passphrase.
        client_ca_file: PEM file with the CA that signs client certificates.
        client_auth_type: whether clients need a certificate.
        min_version: oldest TLS version accepted.
    """

    cert_file: str
    key_file: str
    client_ca_file: str | None = None
    client_auth_type: ClientAuth = "NoClientCert"
    min_version: Version = "TLS12"

    def __post_init__(self) -> None:
        if self.client_ca_file is None and self.client_auth_type != "NoClientCert":
            problem = (
                f"missing; client_auth_type: {self.client_auth_type} needs it: name the CA of the "
                "client certificates."
            )
            raise ConfigError("", "client_ca_file", problem)
        if self.client_ca_file is not None and self.client_auth_type == "NoClientCert":
            problem = "needs client_auth_type; give RequireAndVerifyClientCert."
            raise ConfigError("", "client_ca_file", problem)


class WebConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file: TLS settings, and user -> bcrypt hash."""

    tls_server_config: TlsServerConfig | None = None
    basic_auth_users: dict[str, str] = {}


class Security:
    """The certificate and users of a server; changed files are re-read on use.

    A change that is invalid, or that would remove protection, is rejected.

    `read`: reads the content of the file; the default is plain HTTP without users.

    Attributes:
        context: TLS context, which uses the current certificate for each connection; None for plain
            HTTP.
        observe: called after changed files were read, with None or the reason for rejecting them.
        overload: called with the address of a client whose password is not checked because too
            many wait.
    """

    def __init__(self, path: str = "", read: Callable[[], WebConfig] = WebConfig) -> None:
        self._path, self._read = path, read
        self.observe: Callable[[ConfigError | None], None] = lambda _: None
        self.overload: Callable[[str], None] = lambda _: None
        self._files: list[Path] = []
        self._seen: list[tuple[int, ...]] = []
        self._now = self._load()
        self.context = None if self._now.context is None else _LatestContext(self._latest)

    @property
    def users(self) -> WebUsers:
        """The users; empty means no authentication."""
        return self._latest().users

    def _latest(self) -> _Content:
        if self._seen != [*map(_stamp, self._files)]:
            try:
                fresh = self._load()
                self._check_change(fresh)
            except ConfigError as error:
                self.observe(error)
            else:
                self._now = fresh
                self.observe(None)
        return self._now

    def _check_change(self, fresh: _Content) -> None:
        """Refuse to begin with TLS, and to go on without what protected the server."""
        lost = {
            "tls_server_config": self._now.context is not None and fresh.context is None,
            "basic_auth_users": bool(self._now.users) and not fresh.users,
        }
        for key in (key for key, is_lost in lost.items() if is_lost):
            problem = "the key was removed; stop and start the daemon to serve without it."
            raise ConfigError("the new web configuration", key, problem)
        if self.context is None and fresh.context is not None:
            problem = "the key is new; restart to serve with TLS."
            raise ConfigError(self._path, "tls_server_config", problem)

    def _load(self) -> _Content:
        """The content of all files; stamps are taken before reading, so no change is missed."""
        self._files = [Path(self._path)] if self._path else []
        self._seen = [*map(_stamp, self._files)]
        options = self._read()
        tls = options.tls_server_config
        folder = Path(self._path).parent
        named = () if tls is None else (tls.cert_file, tls.key_file, tls.client_ca_file)
        files = [folder / name for name in named if name is not None]
        self._files += files
        self._seen += map(_stamp, files)
        users = WebUsers(self._path, options.basic_auth_users)
        return _Content(None if tls is None else _context(self._path, tls), users)


class _Content(NamedTuple):
    context: ssl.SSLContext | None
    users: WebUsers


class _LatestContext(ssl.SSLContext):
    """Uses the current certificates for every new connection."""

    _content: Callable[[], _Content]

    def __new__(cls, content: Callable[[], _Content]) -> Self:
        """The context itself is never used for a connection."""
        context = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        context._content = content
        return context

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Delegate to the current context."""
        context = self._content().context
        assert context is not None  # noqa: S101  a change that removes TLS is rejected
        return context.wrap_bio(*arguments, **options)


def _stamp(file: Path) -> tuple[int, ...]:
    """Values that change when a file is written or replaced; links are followed."""
    with suppress(OSError):
        status = file.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return ()


def _context(path: str, tls: TlsServerConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.minimum_version = _VERSIONS[tls.min_version]
    context.verify_mode = _MODES[tls.client_auth_type]
    certificate = _pem(path, "cert_file", tls.cert_file)
    key = _pem(path, "key_file", tls.key_file)
    try:
        # A client's store reads certificates alone, so the error is not about the key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificate)
    except ssl.SSLError as error:
        problem = "the certificate is damaged or cut off; write it again."
        raise _error(path, "cert_file", problem) from error
    try:
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        problem = "the key does not match the certificate."
        if error.reason != "KEY_VALUES_MISMATCH":
            why = error.reason or error.strerror
            problem = f"OpenSSL cannot use the key with the certificate ({why})."
        raise _error(path, "key_file", problem) from error
    if tls.client_ca_file is not None:
        authority = _pem(path, "client_ca_file", tls.client_ca_file)
        try:
            context.load_verify_locations(authority)
        except ssl.SSLError as error:
            raise _error(path, "client_ca_file", "the file has no PEM certificate.") from error
    return context


def _pem(path: str, key: str, name: str) -> Path:
    """The PEM file that a key of the web configuration file names."""
    file = Path(path).parent / name
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        text = f"found {name!r}: {problem}; check the path and its permissions."
        raise _error(path, key, text) from error
    kind, mark = "certificate", "-----BEGIN CERTIFICATE-----"
    if key == "key_file":
        kind, mark = "private key", "PRIVATE KEY-----"
    if mark not in text:
        raise _error(path, key, f"the file has no PEM {kind}.")
    if "ENCRYPTED" in text:
        raise _error(path, key, "the key has a passphrase; give one without, mode 0600.")
    return file


def _error(path: str, key: str, problem: str) -> ConfigError:
    return ConfigError(path, f"tls_server_config.{key}", problem)
