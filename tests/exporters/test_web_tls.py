"""TLS, and client certificates, with real connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from streameval.config.options import WebOptions
from streameval.config.web_file import web_security
from streameval.errors import ConfigError
from tests.certificates import Authority
from tests.exporters.guarded import guarded, trusting
from tests.ports import WEB

REFUSED = (httpx.ReadError, httpx.ConnectError, httpx.RemoteProtocolError)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls(authority: Authority) -> Callable[..., str]:
    """A web configuration file with our certificate."""

    def text(*more: str, name: str = "server") -> str:
        certificate, key = authority.issue(name)
        lines = [f"cert_file: {certificate}", f"key_file: {key}", *more]
        return "\n  ".join(["tls_server_config:", *lines]) + "\n"

    return text


def test_a_client_that_does_not_trust_us_reads_nothing(
    tmp_path: Path, tls: Callable[..., str]
) -> None:
    with (
        guarded(tmp_path / "web.yml", tls()) as site,
        pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        site.get()


def test_plain_http_to_an_encrypted_port_is_closed(tmp_path: Path, tls: Callable[..., str]) -> None:
    with guarded(tmp_path / "web.yml", tls()) as site, pytest.raises(REFUSED):
        WEB.get(f"http://127.0.0.1:{site.port}/metrics")


def test_a_client_needs_a_signed_and_current_certificate(
    tmp_path: Path, authority: Authority, tls: Callable[..., str]
) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other", "stranger")
    text = tls("client_auth_type: RequireAndVerifyClientCert", f"client_ca_file: {authority.file}")
    with guarded(tmp_path / "web.yml", text) as site:
        right = trusting(authority.file, authority.issue("prometheus"))
        assert site.get(verify=right).status_code == 200
        for wrong in (
            trusting(authority.file),
            trusting(authority.file, stranger.issue("prometheus")),
            trusting(authority.file, authority.issue("late", expired=True)),
        ):
            with pytest.raises(REFUSED):
                site.get(verify=wrong)
        assert site.get(verify=right).status_code == 200


def test_an_optional_client_certificate_is_verified_if_given(
    tmp_path: Path, authority: Authority, tls: Callable[..., str]
) -> None:
    text = tls("client_auth_type: VerifyClientCertIfGiven", f"client_ca_file: {authority.file}")
    with guarded(tmp_path / "web.yml", text) as site:
        assert site.get(verify=trusting(authority.file)).status_code == 200
        late = trusting(authority.file, authority.issue("late", expired=True))
        with pytest.raises(REFUSED):
            site.get(verify=late)


def test_an_older_version_than_the_configured_one_is_refused(
    tmp_path: Path, authority: Authority, tls: Callable[..., str]
) -> None:
    client = trusting(authority.file)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    for line, is_refused in (("min_version: TLS12", False), ("min_version: TLS13", True)):
        with (
            guarded(tmp_path / "web.yml", tls(line)) as site,
            pytest.raises(ssl.SSLError) if is_refused else nullcontext(),
            socket.create_connection(("127.0.0.1", site.port)) as plain,
            client.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            assert secure.version() == "TLSv1.2"


@pytest.mark.parametrize("key", ["tls_server_config", "basic_auth_users"])
def test_a_reload_never_removes_protection(
    tmp_path: Path, tls: Callable[..., str], key: str
) -> None:
    file = tmp_path / "web.yml"
    users = "basic_auth_users: { ana: $2b$04$" + "." * 53 + " }\n"
    file.write_text(tls() + users)
    in_force = web_security(WebOptions(config_file=str(file)))
    file.write_text(users if key == "tls_server_config" else tls())
    with pytest.raises(ConfigError, match=f"{key}: the key was removed; stop and start"):
        in_force.check(web_security(WebOptions(config_file=str(file))))


def test_an_expired_certificate_is_a_warning(tmp_path: Path, authority: Authority) -> None:
    warnings = []
    for name, expired in (("old", True), ("today", False)):
        certificate, key = authority.issue(name, expired=expired)
        file = tmp_path / f"{name}.yml"
        file.write_text(f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}\n")
        warnings.append(web_security(WebOptions(config_file=str(file))).warning)
    old, today = warnings
    assert old is not None
    assert "old.crt expired at" in old
    assert today is None
