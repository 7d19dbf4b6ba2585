"""From the keys of a web configuration file to what Python encrypts with."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from streameval.errors import ConfigError, nearest
from streameval.exporters.web.webconfig import TlsServerConfig

_SECTION: Final = "tls_server_config"
_MODES: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CURVES: Final = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
_TLS13_SUITES: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}


def tls_context(path: str, options: TlsServerConfig) -> ssl.SSLContext:
    """What new connections are encrypted with; files are read now, and not again.

    Args:
        path: of the web configuration file, for errors; files in it are relative to it.
        options: its part about TLS.

    Raises:
        ConfigError: names the file, the key, what was found there and what is allowed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        _set_versions(context, options)
        _set_suites(context, options)
        _set_curve(context, options)
        _set_certificate(context, options, Path(path).parent)
        _set_clients(context, options, Path(path).parent)
    except _KeyProblem as problem:
        raise ConfigError(path, f"{_SECTION}.{problem.key}", problem.text) from problem.__cause__
    context.set_alpn_protocols(["http/1.1"])
    return context


class _KeyProblem(Exception):  # noqa: N818  becomes a ConfigError where the file is known
    def __init__(self, key: str, text: str) -> None:
        self.key = key
        self.text = text
        super().__init__(key, text)


def _set_versions(context: ssl.SSLContext, options: TlsServerConfig) -> None:
    for key in ("min_version", "max_version"):
        found = getattr(options, key)
        if found not in _VERSIONS:
            problem = "is obsolete (RFC 8996), and OpenSSL no longer speaks it"
            raise _KeyProblem(key, f"found {found!r}, which {problem}; give 'TLS12' or 'TLS13'.")
    if options.min_version > options.max_version:
        problem = f"found {options.min_version!r}, newer than max_version; no client could connect."
        raise _KeyProblem("min_version", problem)
    context.minimum_version = _VERSIONS[options.min_version]
    context.maximum_version = _VERSIONS[options.max_version]


def _set_suites(context: ssl.SSLContext, options: TlsServerConfig) -> None:
    if not options.prefer_server_cipher_suites:
        context.options &= ~ssl.Options.OP_CIPHER_SERVER_PREFERENCE
    for name in options.cipher_suites:
        if name not in _SUITES and name not in _TLS13_SUITES:
            raise _KeyProblem("cipher_suites", _unknown(name, [*_SUITES, *sorted(_TLS13_SUITES)]))
    # As in Go, those of TLS 1.3 are not chosen from: a list of them alone leaves TLS 1.3 alone.
    older = [_SUITES[name] for name in options.cipher_suites if name in _SUITES]
    if older:
        context.set_ciphers(":".join(older))
    elif options.cipher_suites:
        if options.max_version == "TLS12":
            raise _KeyProblem("cipher_suites", "none of them is of TLS 1.2, the max_version.")
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def _set_curve(context: ssl.SSLContext, options: TlsServerConfig) -> None:
    for name in options.curve_preferences:
        if name not in _CURVES:
            raise _KeyProblem("curve_preferences", _unknown(name, list(_CURVES)))
    if len(options.curve_preferences) > 1:
        problem = "Python can be told one curve only; give the first, or none for OpenSSL's choice."
        raise _KeyProblem("curve_preferences", problem)
    for name in options.curve_preferences:
        context.set_ecdh_curve(_CURVES[name])


def _set_certificate(context: ssl.SSLContext, options: TlsServerConfig, folder: Path) -> None:
    certificate = _content(options, "cert", folder)
    key = _content(options, "key", folder)
    if certificate is None or key is None:
        missing = "cert_file" if certificate is None else "key_file"
        raise _KeyProblem(missing, "this key is missing; TLS needs a certificate and its key.")
    cert_name, key_name = _name(options, "cert"), _name(options, "key")
    if "-----BEGIN CERTIFICATE-----" not in certificate:
        raise _KeyProblem(cert_name, "there is no PEM certificate in it.")
    if "PRIVATE KEY-----" not in key:
        raise _KeyProblem(key_name, "there is no PEM private key in it.")
    if "ENCRYPTED" in key:
        raise _KeyProblem(key_name, "it has a passphrase; give a key without one, mode 0600.")
    # Bytes read once: what is checked is what is used, though the files change meanwhile.
    with _file(certificate) as cert_path, _file(key) as key_path:
        try:
            context.load_cert_chain(cert_path, key_path, password="")
        except ssl.SSLError as error:
            raise _KeyProblem(key_name, _certificate_problem(error)) from error


def _certificate_problem(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "it is not the key of the certificate."
    return f"OpenSSL cannot use it with the certificate ({error.reason or error.strerror})."


def _set_clients(context: ssl.SSLContext, options: TlsServerConfig, folder: Path) -> None:
    kind = options.client_auth_type
    if kind not in _MODES:
        problem = "asks for a certificate without verifying it, which Python cannot, and protects"
        allowed = ", ".join(map(repr, _MODES))
        raise _KeyProblem(
            "client_auth_type", f"found {kind!r}; it {problem} nothing; give {allowed}."
        )
    if options.client_allowed_sans and kind != "RequireAndVerifyClientCert":
        raise _KeyProblem(
            "client_allowed_sans", "needs client_auth_type: RequireAndVerifyClientCert."
        )
    signers = _content(options, "client_ca", folder)
    name = _name(options, "client_ca")
    if (signers is None) != (kind == "NoClientCert"):
        problem = f"missing beside client_auth_type: {kind}; name a PEM file of who signs clients."
        unused = "client_auth_type is missing; give RequireAndVerifyClientCert."
        raise _KeyProblem(name, problem if signers is None else unused)
    context.verify_mode = _MODES[kind]
    if signers is not None:
        try:
            context.load_verify_locations(cadata=signers)
        except (ssl.SSLError, ValueError) as error:
            raise _KeyProblem(name, "there is no PEM certificate in it.") from error


def _content(options: TlsServerConfig, name: str, folder: Path) -> str | None:
    inline: str | None = getattr(options, name)
    named: str | None = getattr(options, f"{name}_file")
    if inline is not None and named is not None:
        raise _KeyProblem(name, f"give either {name} or {name}_file, not both.")
    if named is None:
        return inline
    try:
        return (folder / named).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        text = f"found {named!r}: {problem}; check the path and its permissions."
        raise _KeyProblem(f"{name}_file", text) from error


def _name(options: TlsServerConfig, name: str) -> str:
    return name if getattr(options, name) is not None else f"{name}_file"


@contextmanager
def _file(content: str) -> Iterator[str]:
    """OpenSSL takes certificates from files only; this one nobody else can read."""
    with NamedTemporaryFile("w", encoding="utf-8", suffix=".pem") as file:
        file.write(content)
        file.flush()
        yield file.name


def _unknown(name: str, allowed: list[str]) -> str:
    offered = {each.lower(): each for each in allowed}
    close = [offered[each] for each in nearest(name, offered)][:1]
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"found {name!r}; allowed are {', '.join(allowed)}.{hint}"
