"""Diagnoses failed connections of the Kafka client: the reason and the remedy.

The client retries until a timeout and then only reports the timeout. Its connections are therefore
watched, and the most specific of their errors is kept.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from traceback import clear_frames, walk_tb
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args
from weakref import WeakSet

from kafka.errors import (
    AuthorizationError,
    FencedInstanceIdError,
    IllegalSaslStateError,
    InvalidReceiveError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaTCPTransport
from kafka.protocol.consumer import HeartbeatRequest

from streameval.sources.secrets import Latest

Reason: TypeAlias = Literal[
    "unreachable",
    "silent",
    "slow",
    "certificate",
    "handshake",
    "plaintext_port",
    "tls_port",
    "authentication",
    "sasl_port",
    "no_sasl_port",
    "other",
]

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
"""Reasons why Kafka cannot be used; values of a label."""

NO_ANSWER: Final = (KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError)
"""Errors that a client raises after waiting in vain."""

_CREDENTIALS: Final = ("sasl_plain_username", "sasl_plain_password")
_REFUSED_SASL: Final = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
_VERSIONS_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""ApiVersions, version 0, correlation id 1, no client id: every broker answers it."""

_TIMEOUT: Final = 2.0
_START: Final = "start the broker, or correct bootstrap_servers"
_TRUST: Final = "name the authority that signed it by ssl_cafile in [source.kafka]"
_GRANT: Final = "allow this user to read the topics, and the group"
_CHECK: Final = "check the broker's log, or correct [source.kafka]"
_NAME: Final = "name the broker in bootstrap_servers as its certificate does"
_CERTIFICATE_REMEDIES: Final = {10: "renew the broker's certificate", 62: _NAME, 64: _NAME}
"""OpenSSL's verification error code -> remedy, for errors other than missing trust."""


class ConnectionFailure(NamedTuple):
    """The reason why Kafka cannot be used.

    Attributes:
        problem: one sentence without its full stop.
    """

    reason: Reason
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


class ConnectionEnd(NamedTuple):
    """The end of a connection.

    Attributes:
        stage: the stage that it had reached; "sasl" only if configured.
    """

    error: Exception
    address: str
    stage: Literal["handshake", "sasl", "ready"]

    @property
    def weight(self) -> int:
        """How specific the error is: 2 names the cause, 1 is a network error, 0 a silent close."""
        if isinstance(self.error, (*_REFUSED_SASL, IllegalSaslStateError)):
            return 2
        if isinstance(_tls_error(self.error), ssl.SSLCertVerificationError):
            return 2
        return 0 if _closed(self.error) else 1


class ConnectionEndedError(KafkaError):  # type: ignore[misc]  # untyped
    """No broker could be used; has the most specific end of a connection."""

    def __init__(self, end: ConnectionEnd) -> None:
        self.end = end
        super().__init__(f"{end.address}: {end.error}")


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # untyped
    """The watched connections of one client; each authenticates with the current credentials.

    Attributes:
        end: the most specific end of a connection; None if none has ended.
        fenced: whether the broker has reported that another member uses our name. The client itself
            only stops its heartbeats silently, and notices at its next commit.
    """

    config: Mapping[str, Any]

    def __init__(self, net: Any, **settings: Any) -> None:
        self.end: ConnectionEnd | None = None
        self.fenced = False
        self._watched: WeakSet[Any] = WeakSet()
        self._tried: dict[Any, Sequence[Any]] = {}
        super().__init__(net, **settings)
        self.config = Latest(self.config)

    def get_connection(self, node_id: Any, *args: Any, **settings: Any) -> Any:
        """Watch the connection that the client opens."""
        connection = super().get_connection(node_id, *args, **settings)
        if connection not in self._watched:
            self._watched.add(connection)
            self._tried[node_id] = self._credentials
            # A broker may ask for re-authentication, when the credentials may have changed.
            connection.config = Latest(connection.config)
            node = self.cluster.broker_metadata(node_id)
            address = f"{node.host}:{node.port}"
            connection.close_future.add_errback(lambda e: self._record_end(connection, address, e))
        return connection

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Retry after a failed authentication if the credentials have changed."""
        if node_id in self._auth_failures and self._tried.get(node_id) != self._credentials:
            del self._auth_failures[node_id]
        super().maybe_raise_auth_failure(node_id)

    @property
    def _credentials(self) -> Sequence[Any]:
        return [self.config[key] for key in _CREDENTIALS]

    def send(
        self, request: Any, node_id: Any = None, request_timeout_ms: float | None = None
    ) -> Any:
        """Check the answers to heartbeats for fencing."""
        answer = super().send(request, node_id, request_timeout_ms)
        if isinstance(request, HeartbeatRequest):
            answer.add_callback(self._check_fenced)
        return answer

    def _check_fenced(self, response: Any) -> None:
        if response.error_code == FencedInstanceIdError.errno:
            self.fenced = True

    def _record_end(self, connection: Any, address: str, error: Exception) -> None:
        _close_leaked(error)
        stage: Literal["handshake", "sasl", "ready"] = "handshake"
        if connection.init_future.succeeded():
            stage = "ready"
        elif connection.sasl_enabled and connection.broker_version_data is not None:
            stage = "sasl"
        end = ConnectionEnd(error, address, stage)
        if self.end is None or end.weight >= self.end.weight:
            self.end = end


def _close_leaked(error: Exception) -> None:
    """Close the socket of a failed attempt, which the client leaves to garbage collection."""
    for frame, _ in walk_tb(error.__traceback__):
        for name in ("transport", "sock"):
            leaked = frame.f_locals.get(name)
            if isinstance(leaked, KafkaTCPTransport | socket.socket):
                leaked.close()
    clear_frames(error.__traceback__)


def addresses(config: Mapping[str, Any]) -> list[str]:
    """The bootstrap servers as HOST:PORT."""
    servers = config.get("bootstrap_servers", "localhost")
    listed = servers.split(",") if isinstance(servers, str) else list(servers)
    stripped = [address.strip() for address in listed]
    return [address if _has_port(address) else f"{address}:9092" for address in stripped]


def failure_of(error: Exception, config: Mapping[str, Any]) -> ConnectionFailure:
    """The reason why the cluster cannot be used; may probe the network for seconds."""
    if isinstance(error, ConnectionEndedError):
        found = _cause(error.end, config)
        if found is not None:
            return found
    where = ", ".join(addresses(config))
    silent = isinstance(error, (*NO_ANSWER, ConnectionEndedError))
    if silent or isinstance(error, KafkaConnectionError):
        network_error = None if config.get("proxy_url") else _refusal(addresses(config)[0])
        if network_error is not None:
            return ConnectionFailure(
                "unreachable", f"cannot reach Kafka at {where}: {network_error}", _START
            )
    if silent and kafka_answers(config):
        problem = f"Kafka at {where} answers too slowly (security_protocol is {_protocol(config)})"
        return ConnectionFailure("slow", problem, "check the network and the load of the broker")
    if silent:
        problem = f"no Kafka answer from {where} (security_protocol is {_protocol(config)})"
        return ConnectionFailure("silent", problem, "check the broker, or correct the port")
    problem = f"cannot use Kafka at {where}: {type(error).__name__}: {_first_line(error)}"
    denied = isinstance(error, AuthorizationError)
    return ConnectionFailure("other", problem, _GRANT if denied else _CHECK)


def _cause(end: ConnectionEnd, config: Mapping[str, Any]) -> ConnectionFailure | None:
    """The cause of a connection's end, if it is known."""
    where, protocol = f"Kafka at {end.address}", _protocol(config)
    tls = _tls_error(end.error)
    if isinstance(tls, ssl.SSLCertVerificationError):
        problem = f"the certificate of {where} is not trusted: {tls.verify_message.rstrip('.')}"
        return ConnectionFailure(
            "certificate", problem, _CERTIFICATE_REMEDIES.get(tls.verify_code, _TRUST)
        )
    if isinstance(end.error, IllegalSaslStateError):
        problem = f"{where} has no SASL at this port, but security_protocol is {protocol}"
        other = protocol.removeprefix("SASL_")
        remedy = f'set security_protocol = "{other}", or give the port with SASL'
        return ConnectionFailure("no_sasl_port", problem, remedy)
    if isinstance(end.error, _REFUSED_SASL) or (end.stage == "sasl" and _closed(end.error)):
        return _authentication_failure(where, config)
    if end.stage == "ready" and _closed(end.error) and "SASL" not in protocol:
        problem = (
            f"{where} closes the connection at the first request, as a port with SASL does, but "
            f"security_protocol is {protocol}"
        )
        other = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
        remedy = f'set security_protocol = "{other}", with a user and a password'
        return ConnectionFailure("sasl_port", problem, remedy)
    if end.stage == "handshake":
        return _wrong_port(end, config, tls)
    return None


def _authentication_failure(where: str, config: Mapping[str, Any]) -> ConnectionFailure:
    user, mechanism = config.get("sasl_plain_username"), config.get("sasl_mechanism")
    who = "us" if user is None else f"user {user!r}"
    problem = f"{where} rejects the authentication of {who} by {mechanism}"
    remedy = "correct the user, the password or sasl_mechanism in [source.kafka]"
    return ConnectionFailure("authentication", problem, remedy)


def _wrong_port(
    end: ConnectionEnd, config: Mapping[str, Any], tls: Exception | None
) -> ConnectionFailure | None:
    """A failure if only one side uses TLS, which a probe of the port finds out."""
    protocol, proxied = _protocol(config), bool(config.get("proxy_url"))
    if not protocol.endswith("SSL"):
        if proxied or not _closed(end.error) or not _speaks_tls(end.address):
            return None
        problem = f"Kafka at {end.address} uses TLS, but security_protocol is {protocol}"
        other = protocol.replace("PLAINTEXT", "SSL")
        remedy = f'set security_protocol = "{other}", or give the port without TLS'
        return ConnectionFailure("tls_port", problem, remedy)
    if tls is None:
        return None
    if not proxied and _answers(end.address):
        problem = f"Kafka at {end.address} does not use TLS, but security_protocol is {protocol}"
        other = protocol.replace("SSL", "PLAINTEXT")
        remedy = f'give the port with TLS, or set security_protocol = "{other}"'
        return ConnectionFailure("plaintext_port", problem, remedy)
    problem = f"the TLS handshake with Kafka at {end.address} failed: {_first_line(tls)}"
    return ConnectionFailure(
        "handshake", problem, "check the broker's log, and correct the ssl_ settings"
    )


def _protocol(config: Mapping[str, Any]) -> str:
    return str(config.get("security_protocol", "PLAINTEXT"))


def _closed(error: Exception) -> bool:
    """Whether the broker closed the connection or sent garbage, without a reason."""
    return isinstance(error, InvalidReceiveError) or "socket disconnected" in str(error)


def _tls_error(error: BaseException) -> Exception | None:
    """The error behind a failed handshake, for which the client itself only has text."""
    if isinstance(error, ssl.SSLError):
        return error
    for each in (error.__cause__, error.__context__, *error.args):
        if isinstance(each, ssl.SSLError):
            return each
        if isinstance(each, OSError) and "Handshake failed" in str(error):
            return each
    return None


def _has_port(address: str) -> bool:
    host, colon, port = address.rpartition(":")
    return bool(colon) and port.isdecimal() and (":" not in host or host.endswith("]"))


def _connection(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.rpartition("//")[2].strip("[]")
    return socket.create_connection((host, int(port)), timeout=_TIMEOUT)


def _refusal(address: str) -> str | None:
    """The network's error for a TCP connection; None if it is accepted."""
    try:
        _connection(address).close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _speaks_tls(address: str) -> bool:
    """Whether a TLS handshake succeeds with any certificate; no data is sent."""
    try:
        with _connection(address) as plain, _unverified(plain, {}):
            return True
    except OSError:
        return False


def kafka_answers(config: Mapping[str, Any]) -> bool:
    """Whether a broker answers the first request of our own, with TLS as configured."""
    if config.get("proxy_url"):
        return False
    tls = _protocol(config).endswith("SSL")
    return any(_answers(address, config if tls else None) for address in addresses(config))


def _answers(address: str, tls: Mapping[str, Any] | None = None) -> bool:
    """Whether Kafka answers; `tls`: settings of its client certificate, None without TLS.

    The certificate of the broker is not checked, because nothing secret is sent.
    """
    try:
        with _connection(address) as plain, _unverified(plain, tls) as connection:
            connection.sendall(_VERSIONS_REQUEST)
            return connection.makefile("rb").read(8)[4:] == struct.pack(">i", 1)
    except (OSError, ValueError):
        return False


def _unverified(plain: socket.socket, tls: Mapping[str, Any] | None) -> socket.socket:
    if tls is None:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if tls.get("ssl_certfile"):
        context.load_cert_chain(
            tls["ssl_certfile"], tls.get("ssl_keyfile"), tls.get("ssl_password") or ""
        )
    return context.wrap_socket(plain)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0].removeprefix(f"{type(error).__name__}: ")
