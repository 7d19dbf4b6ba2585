"""Errors of a client as sentences.

The clients only say that no broker answered in time. One TCP connection and one TLS handshake then
find out whether an address is refused, untrusted, without TLS, or silent.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from kafka.errors import (
    AuthorizationError,
    CorruptRecordError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NodeNotReadyError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedCodecError,
    UnsupportedSaslMechanismError,
)

from streameval.events.errors import RefusedMemberError, SourceError
from streameval.events.records import Partition
from streameval.sources.kafka.client_settings import addresses

SETTINGS_ERRORS: Final = (KafkaConfigurationError, TypeError, ValueError, AssertionError)
"""Errors that a client raises for inconsistent settings."""

FailureReason: TypeAlias = Literal[
    "unreachable",
    "silent",
    "certificate",
    "handshake",
    "plaintext_port",
    "tls_port",
    "authentication",
    "schema_registry",
    "other",
]

FAILURE_REASONS: Final[tuple[FailureReason, ...]] = get_args(FailureReason)
"""Reasons why Kafka, or the schemas of its records, cannot be read; values of a label."""

_NO_ANSWER: Final = (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
)
"""Errors that a client raises after waiting in vain."""

_CONNECT_SECONDS: Final = 2.0
_ALERT_SECONDS: Final = 0.5
"""Seconds in which a broker refuses a TLS connection after it has accepted it."""

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

    reason: FailureReason
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def failure_of(error: Exception, config: Mapping[str, Any]) -> ConnectionFailure:
    """The reason why the cluster cannot be used; may probe the network for seconds."""
    where = ", ".join(addresses(config))
    protocol = str(config.get("security_protocol", "PLAINTEXT"))
    if isinstance(error, SaslAuthenticationFailedError | UnsupportedSaslMechanismError):
        user, mechanism = config.get("sasl_plain_username"), config.get("sasl_mechanism")
        who = "us" if user is None else f"user {user!r}"
        problem = f"Kafka at {where} rejects the authentication of {who} by {mechanism}"
        remedy = "correct the user, the password or sasl_mechanism in [source.kafka]"
        return ConnectionFailure("authentication", problem, remedy)
    if not isinstance(error, _NO_ANSWER):
        problem = f"cannot use Kafka at {where}: {type(error).__name__}: {_first_line(error)}"
        denied = isinstance(error, AuthorizationError)
        return ConnectionFailure("other", problem, _GRANT if denied else _CHECK)
    problem = f"no Kafka answer from {where} in time (security_protocol is {protocol})"
    remedy = "check the broker and the network, or correct the port or security_protocol"
    silence = ConnectionFailure("silent", problem, remedy)
    if config.get("proxy_url"):
        return silence
    failures = [_failure_at(address, protocol, config) for address in addresses(config)]
    # While one address can be reached, the others are not to blame.
    return silence if None in failures else next(filter(None, failures))


def _failure_at(address: str, protocol: str, config: Mapping[str, Any]) -> ConnectionFailure | None:
    """The failure of one TCP connection and one TLS handshake; None if both succeed."""
    server, _, port = address.rpartition(":")
    host = server.rpartition("//")[2].strip("[]")
    try:
        tcp_connection = socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        problem = f"cannot reach Kafka at {address}: {reason}"
        return ConnectionFailure("unreachable", problem, _START)
    secure, where = protocol.endswith("SSL"), f"Kafka at {address}"
    try:
        context = _context(config)
        if not secure:
            # A handshake that succeeds with any certificate; nothing is sent.
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            tcp_connection,
            context.wrap_socket(tcp_connection, server_hostname=host) as connection,
        ):
            if secure:
                # A broker that wants another certificate of ours says so after the handshake.
                connection.settimeout(_ALERT_SECONDS)
                connection.recv(1)
    except TimeoutError:
        return None
    except (OSError, ValueError) as error:
        return _failure_of_handshake(error, where, protocol) if secure else None
    if secure:
        return None
    problem = f"{where} uses TLS, but security_protocol is {protocol}"
    other = protocol.replace("PLAINTEXT", "SSL")
    remedy = f'set security_protocol = "{other}", or give the port without TLS'
    return ConnectionFailure("tls_port", problem, remedy)


def _failure_of_handshake(error: Exception, where: str, protocol: str) -> ConnectionFailure:
    if isinstance(error, ssl.SSLCertVerificationError):
        problem = f"the certificate of {where} is not trusted: {error.verify_message.rstrip('.')}"
        remedy = _CERTIFICATE_REMEDIES.get(error.verify_code, _TRUST)
        return ConnectionFailure("certificate", problem, remedy)
    if (
        isinstance(error, ssl.SSLEOFError | ConnectionError)
        or getattr(error, "reason", None) == "WRONG_VERSION_NUMBER"
    ):
        problem = f"{where} does not use TLS, but security_protocol is {protocol}"
        other = protocol.replace("SSL", "PLAINTEXT")
        remedy = f'give the port with TLS, or set security_protocol = "{other}"'
        return ConnectionFailure("plaintext_port", problem, remedy)
    problem = f"the TLS handshake with {where} failed: {_first_line(error)}"
    remedy = "check the broker's log, and correct the ssl_ settings"
    return ConnectionFailure("handshake", problem, remedy)


def _context(config: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=config.get("ssl_cafile"))
    context.check_hostname = bool(config.get("ssl_check_hostname", True))
    if config.get("ssl_certfile"):
        key, password = config.get("ssl_keyfile"), config.get("ssl_password")
        context.load_cert_chain(config["ssl_certfile"], key, password or "")
    if config.get("ssl_crlfile"):
        context.load_verify_locations(config["ssl_crlfile"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0].removeprefix(f"{type(error).__name__}: ")


def settings_error(error: Exception, config: Mapping[str, Any]) -> SourceError:
    """The SourceError for settings that the client rejects (one of SETTINGS_ERRORS)."""
    where = f"Kafka at {', '.join(addresses(config))}"
    return SourceError(where, f"{type(error).__name__}: {error}", "correct [source.kafka]")


@contextmanager
def as_source_errors(config: Mapping[str, Any], where: str = "kafka") -> Iterator[None]:
    """Turn errors of a client (no answer, a rejected request) into SourceErrors."""
    try:
        yield
    except SETTINGS_ERRORS as error:
        raise settings_error(error, config) from error
    except (KafkaError, OSError) as error:
        _, problem, remedy = failure_of(error, config)
        raise SourceError(where, problem, remedy) from error


_GONE = (
    "retention deleted records before they were read, or the topic was recreated; "
    "restart from `start`, and give the topic a longer retention"
)

_MEMBERSHIP: Final = {
    FencedInstanceIdError: (
        "another process has joined as the same `member` and fenced this one (its instance id)",
        "give each process a unique `member` in [source]",
    ),
    InconsistentGroupProtocolError: (
        "the group has members with another assignment strategy",
        "choose another `group` in [source]",
    ),
    InvalidSessionTimeoutError: (
        "the broker does not allow this session_timeout_ms",
        "choose one within its group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
}


def permanent_error(error: Exception) -> SourceError | None:
    """The SourceError for an error that waiting will not fix, else None."""
    if isinstance(error, OffsetOutOfRangeError | LogTruncationError):
        # Both have a mapping of partition to offset as their argument.
        offsets_of = error.args[0] if error.args and isinstance(error.args[0], Mapping) else {}
        where = ", ".join(str(Partition(*partition)) for partition in offsets_of) or "kafka"
        offsets = ", ".join(str(offset) for offset in offsets_of.values()) or "that is read"
        return SourceError(where, f"offset {offsets} is no longer in the log", _GONE)
    if isinstance(error, CorruptRecordError):
        remedy = (
            "restart; if the same record fails again, restore the partition, or delete its records "
            'up to that one (kafka-delete-records.sh) and set [state] on_retention = "skip"'
        )
        return SourceError("kafka", f"a record fails its checksum ({error})", remedy)
    if isinstance(error, UnsupportedCodecError):
        return SourceError("kafka", f"unsupported compression ({error})", "install its codec")
    for kind, (problem, remedy) in _MEMBERSHIP.items():
        if isinstance(error, kind):
            return RefusedMemberError("kafka", problem, remedy)
    return None
