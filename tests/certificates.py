"""Certificates made for a test, by an authority of its own."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)
_SIGNING = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Signs certificates, and is one itself: `file` is what those who trust it need."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signed = (
            self._builder(self._name, self._key, expired=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNING, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, expired: bool = False) -> tuple[Path, Path]:
        """A certificate for a name, 127.0.0.1 and 127.0.0.2, and its key, as files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        addresses = [x509.IPAddress(ipaddress.ip_address(f"127.0.0.{last}")) for last in (1, 2)]
        unsigned = self._builder(subject, key, expired=expired)
        alternative = x509.SubjectAlternativeName([x509.DNSName(name), *addresses])
        signed = unsigned.add_extension(alternative, critical=False).sign(
            self._key, hashes.SHA256()
        )
        certificate_file, key_file = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(_pem(key))
        return certificate_file, key_file

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, expired: bool
    ) -> x509.CertificateBuilder:
        end = dt.datetime.now(dt.UTC) + (-_DAY if expired else _DAY)
        # From Python 3.13 on, clients insist on the identifiers of both keys.
        public, issuer = key.public_key(), self._key.public_key()
        by_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - 3 * _DAY)
            .not_valid_after(end)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(by_issuer, critical=False)
        )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
