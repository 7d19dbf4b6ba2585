"""A broker with a SCRAM user and a certificate, and an authority that knows nothing of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streameval.testing.broker import Broker, free_ports

USER, PASSWORD = "alice", "correct horse"
_DAY = timedelta(days=1)


class Secured(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that listens with every security protocol.

    Attributes:
        broker: that runs.
        addresses: security protocol -> HOST:PORT.
        authority: file of the authority that signed its certificate.
        stranger: file of another authority.
    """

    broker: Broker
    addresses: dict[str, str]
    authority: str
    stranger: str


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """Start one, with one SCRAM user; its certificate is for 127.0.0.1 and in `folder`.

    Without TLS, it has users authenticate again each second. A user may do anything until refused.
    """
    names = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
    ports = free_ports(len(names))
    listeners = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(_identity(folder, "authority")),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    for name in ("sasl_plaintext", "sasl_ssl"):
        properties[f"listener.name.{name}.scram-sha-256.sasl.jaas.config"] = scram
    reauthenticate = "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms"
    properties[reauthenticate] = "1000"
    _identity(folder, "stranger")
    with Broker(listeners=listeners, properties=properties) as broker:
        set_password(broker, USER, PASSWORD)
        yield Secured(
            broker=broker,
            addresses={"PLAINTEXT": broker.bootstrap_servers, **listeners},
            authority=str(folder / "authority.pem"),
            stranger=str(folder / "stranger.pem"),
        )


def set_password(broker: Broker, user: str, password: str) -> None:
    """Of a SCRAM user, who may be a new one; open connections live until they are asked again."""
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        wanted = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_256, password)
        admin.alter_user_scram_credentials([wanted])


def refuse_group(broker: Broker, user: str, group: str) -> None:
    """The user may no longer join this group, and has all other rights."""
    group_of_that_name = ResourcePattern(ResourceType.GROUP, group)
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        operation, kind = ACLOperation.READ, ACLPermissionType.DENY
        admin.create_acls([ACL(f"User:{user}", "*", operation, kind, group_of_that_name)])


def _identity(folder: Path, name: str) -> Path:
    """An authority as NAME.pem, and NAME-broker.pem: key and certificate of 127.0.0.1."""
    root, root_key = _name(name), ec.generate_private_key(ec.SECP256R1())
    authority = (
        _certificate(root, root, root_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(authority.public_bytes(Encoding.PEM))
    key = ec.generate_private_key(ec.SECP256R1())
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = (
        _certificate(_name(f"{name} broker"), root, key)
        .add_extension(here, critical=False)
        .sign(root_key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / f"{name}-broker.pem"
    path.write_bytes(private + leaf.public_bytes(Encoding.PEM))
    return path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
