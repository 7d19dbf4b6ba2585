"""What a web configuration file says; the keys are those of Prometheus' exporter-toolkit."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

ClientAuth = Literal[
    "NoClientCert",
    "RequestClientCert",
    "RequireClientCert",
    "RequireAnyClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
]
Version = Literal["TLS10", "TLS11", "TLS12", "TLS13"]


class TlsServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How connections are encrypted, and which clients may make one.

    Attributes:
        cert: the certificate itself, in place of `cert_file`.
        key: its key, in place of `key_file`.
        client_ca: who signs clients' certificates, in place of `client_ca_file`.
        cert_file: a PEM file of the certificate and those that lead to its root.
        key_file: a PEM file of its key, without a passphrase.
        client_ca_file: a PEM file of those who sign clients' certificates.
        client_auth_type: whether a client needs a certificate.
        client_allowed_sans: a client's certificate is for one of these names; none means any.
        min_version: oldest version of TLS.
        max_version: newest version of TLS.
        cipher_suites: of TLS 1.2, by the names of Go; none means those of OpenSSL.
        prefer_server_cipher_suites: whether our order of them counts, not the client's.
        curve_preferences: at most one curve; none means those of OpenSSL.
    """

    cert: str | None = None
    key: str | None = None
    client_ca: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    client_ca_file: str | None = None
    client_auth_type: ClientAuth = "NoClientCert"
    client_allowed_sans: list[str] = []
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: list[str] = []
    prefer_server_cipher_suites: bool = True
    curve_preferences: list[str] = []


class HttpServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said over a connection.

    Attributes:
        http2: accepted, because files for other exporters have it; HTTP/1.1 is what is spoken.
        headers: added to every answer.
    """

    http2: bool = True
    headers: dict[str, str] = {}


class RateLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often all clients together may ask.

    Attributes:
        interval: one more request is allowed every so often, "100ms"; "0" means no limit.
        burst: so many may come at once.
    """

    interval: str = "0"
    burst: Annotated[int, Meta(ge=0)] = 0


class WebConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file.

    Attributes:
        tls_server_config: None means plain HTTP.
        http_server_config: what is said over a connection.
        rate_limit: how often all clients together may ask.
        basic_auth_users: user -> bcrypt hash of the password; none means that all may read.
    """

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = HttpServerConfig()
    rate_limit: RateLimit = RateLimit()
    basic_auth_users: dict[str, str] = {}


TABLES: Final[dict[str, type[msgspec.Struct]]] = {
    "": WebConfig,
    "tls_server_config": TlsServerConfig,
    "http_server_config": HttpServerConfig,
    "rate_limit": RateLimit,
}
