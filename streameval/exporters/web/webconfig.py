"""The web configuration file of Prometheus' exporter-toolkit: TLS, client certificates, users."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

import msgspec

from streameval.errors import ConfigError, OptionError
from streameval.exporters.web.auth import Users

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
    """How connections are encrypted, and which clients may open one.

    Attributes:
        cert_file: PEM file with the certificate and its intermediate certificates.
        key_file: PEM file with its private key, without a passphrase.
        client_ca_file: PEM file with the CA that signs client certificates.
        client_auth_type: whether a client needs a certificate.
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
                f"missing; client_auth_type: {self.client_auth_type} needs it: name the CA that "
                "signs clients."
            )
            raise OptionError("client_ca_file", problem)
        if self.client_ca_file is not None and self.client_auth_type == "NoClientCert":
            problem = "client_auth_type is missing; give RequireAndVerifyClientCert."
            raise OptionError("client_ca_file", problem)


class WebConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file: how connections are encrypted, and a bcrypt hash for each user."""

    tls_server_config: TlsServerConfig | None = None
    basic_auth_users: dict[str, str] = {}


class Security:
    """The certificate and the users of a server; files that change are read again when asked for.

    A change that cannot be used, or that would leave the server open, changes nothing.

    `read`: its content; the default means plain HTTP, open to all.

    Attributes:
        context: encrypts connections, each as the files say when it begins; None means plain HTTP.
        observe: called after changed files were read, with None or the reason to keep the old
            content.
        warn: called then with `warning`, where there is one.
    """

    def __init__(self, path: str = "", read: Callable[[], WebConfig] = WebConfig) -> None:
        self._path, self._read = path, read
        self.observe: Callable[[ConfigError | None], None] = lambda _: None
        self.warn: Callable[[str], None] = lambda _: None
        self._files: list[Path] = []
        self._seen: list[tuple[int, ...]] = []
        self._now = self._loaded()
        self.context = None if self._now.context is None else _LatestContext(self._latest)

    @property
    def users(self) -> Users:
        """Who may read; empty means everybody."""
        return self._latest().users

    def check(self, fresh: Security) -> None:
        """Refuse to restart without the protection there is: a file may be empty by mistake."""
        _check_kept(self._now, fresh._now)

    def _latest(self) -> _Content:
        if self._seen != _stamps(self._files):
            try:
                fresh = self._loaded()
                _check_kept(self._now, fresh)
                self._check_not_new(fresh)
            except ConfigError as error:
                self.observe(error)
            else:
                self._now = fresh
                self.observe(None)
                if fresh.warning is not None:
                    self.warn(fresh.warning)
        return self._now

    @property
    def warning(self) -> str | None:
        """Why clients refuse the certificate, where its dates say so; as it was loaded."""
        return self._now.warning

    def _check_not_new(self, fresh: _Content) -> None:
        if self.context is None and fresh.context is not None:
            problem = "is new; send SIGHUP to serve with TLS."
            raise ConfigError(self._path, "tls_server_config", problem)

    def _loaded(self) -> _Content:
        """The content of all files; each is watched from before it is read."""
        self._files = [Path(self._path)] if self._path else []
        self._seen = _stamps(self._files)
        options = self._read()
        tls = options.tls_server_config
        named = [] if tls is None else [tls.cert_file, tls.key_file, tls.client_ca_file]
        files = [Path(self._path).parent / each for each in named if each is not None]
        self._files += files
        self._seen += _stamps(files)
        users = Users(self._path, options.basic_auth_users)
        if tls is None:
            return _Content(None, users, None)
        context = _context(self._path, tls)
        return _Content(context, users, _outdated(Path(self._path).parent, tls))


class _Content(NamedTuple):
    context: ssl.SSLContext | None
    users: Users
    warning: str | None


class _LatestContext(ssl.SSLContext):
    """Lets every new connection begin under the certificates that are in force by then."""

    _content: Callable[[], _Content]

    def __new__(cls, content: Callable[[], _Content]) -> Self:
        """An own context is never used for a connection."""
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made._content = content
        return made

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """As the context that is in force."""
        context = self._content().context
        assert context is not None  # noqa: S101  a change that gives up TLS is refused
        return context.wrap_bio(*arguments, **options)


def _stamps(files: Iterable[Path]) -> list[tuple[int, ...]]:
    """What differs when a file was written or replaced; links are followed."""
    found: list[tuple[int, ...]] = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            found.append(())
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return found


def _check_kept(before: _Content, fresh: _Content) -> None:
    lost = {
        "tls_server_config": before.context is not None and fresh.context is None,
        "basic_auth_users": bool(before.users) and not fresh.users,
    }
    for key in (key for key, is_lost in lost.items() if is_lost):
        problem = "was there before, and is gone; stop and start to serve without it."
        raise ConfigError("the new web configuration", key, problem)


def _context(path: str, tls: TlsServerConfig) -> ssl.SSLContext:
    """Encrypts connections as the file says."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.minimum_version = _VERSIONS[tls.min_version]
    context.verify_mode = _MODES[tls.client_auth_type]
    certificate = _pem(path, "cert_file", tls.cert_file)
    key = _pem(path, "key_file", tls.key_file)
    try:
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise _wrong(path, "key_file", _certificate_problem(error)) from error
    if tls.client_ca_file is not None:
        authority = _pem(path, "client_ca_file", tls.client_ca_file)
        try:
            context.load_verify_locations(authority)
        except ssl.SSLError as error:
            raise _wrong(path, "client_ca_file", "there is no PEM certificate in it.") from error
    return context


_AT_ANY_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python does not name."""


def _outdated(folder: Path, tls: TlsServerConfig) -> str | None:
    """The problem with the dates of a certificate; a client in memory reads them."""
    server, client = (
        ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
    )
    server.load_cert_chain(folder / tls.cert_file, folder / tls.key_file)
    client.check_hostname = False
    client.load_verify_locations(folder / tls.cert_file)
    client.verify_flags |= ssl.VerifyFlags(_AT_ANY_TIME) | ssl.VERIFY_X509_PARTIAL_CHAIN
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        for side in (*sides, sides[0]):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        dates = {key: str(text) for key, text in (sides[0].getpeercert() or {}).items()}
    except (ssl.SSLError, ValueError):
        return None  # a chain that this client does not follow has no dates here
    now, problem = time.time(), None
    if "notAfter" in dates and ssl.cert_time_to_seconds(dates["notAfter"]) < now:
        problem = f"expired at {dates['notAfter']}"
    elif "notBefore" in dates and ssl.cert_time_to_seconds(dates["notBefore"]) > now:
        problem = f"is valid only from {dates['notBefore']}"
    return problem and f"{tls.cert_file} {problem}: clients that check it refuse it; renew it."


def _pem(path: str, key: str, name: str) -> Path:
    """The PEM file that a key of the web configuration file names."""
    file = Path(path).parent / name
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        told = f"found {name!r}: {problem}; check the path and its permissions."
        raise _wrong(path, key, told) from error
    kind, mark = "certificate", "-----BEGIN CERTIFICATE-----"
    if key == "key_file":
        kind, mark = "private key", "PRIVATE KEY-----"
    if mark not in text:
        raise _wrong(path, key, f"there is no PEM {kind} in it.")
    if "ENCRYPTED" in text:
        raise _wrong(path, key, "it has a passphrase; give a key without one, mode 0600.")
    return file


def _wrong(path: str, key: str, problem: str) -> ConfigError:
    return ConfigError(path, f"tls_server_config.{key}", problem)


def _certificate_problem(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "it is not the key of the certificate."
    return f"OpenSSL cannot use it with the certificate ({error.reason or error.strerror})."
