"""Encrypted connections, and clients that show who they are, as real ones."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from streameval.errors import ConfigError
from tests.exporters.certificates import Authority
from tests.exporters.guarded import guarded, trusting

REFUSED = (httpx.ReadError, httpx.ConnectError, httpx.RemoteProtocolError)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls(authority: Authority) -> Callable[..., str]:
    """The text of a web configuration file with a certificate of ours."""

    def text(*more: str, name: str = "server") -> str:
        certificate, key = authority.issue(name)
        lines = [f"cert_file: {certificate}", f"key_file: {key}", *more]
        return "\n  ".join(["tls_server_config:", *lines]) + "\n"

    return text


def serial(port: int, authority: Authority) -> str:
    """Which certificate a new connection is shown."""
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        trusting(authority.file).wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        return str((secure.getpeercert() or {})["serialNumber"])


def test_a_client_that_trusts_us_reads_over_tls(
    tmp_path: Path, authority: Authority, tls: Callable[..., str]
) -> None:
    with guarded(tmp_path / "web.yml", tls()) as site:
        assert site.server.address.startswith("https://")
        answer = site.get(verify=trusting(authority.file))
        assert answer.status_code == 200
        assert answer.http_version == "HTTP/1.1"


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
        httpx.get(f"http://127.0.0.1:{site.port}/metrics", trust_env=False)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    text = "tls_server_config: { cert_file: server.crt, key_file: server.key }"
    with guarded(tmp_path / "web.yml", text) as site:
        assert site.get(verify=trusting(authority.file)).status_code == 200


def test_certificate_and_key_may_stand_in_the_file_itself(
    tmp_path: Path, authority: Authority
) -> None:
    certificate, key = (path.read_text() for path in authority.issue("inline"))
    text = f"tls_server_config:\n  cert: {certificate!r}\n  key: {key!r}\n"
    text = text.replace("'", '"')
    with guarded(tmp_path / "web.yml", text) as site:
        assert site.get(verify=trusting(authority.file)).status_code == 200


def test_a_client_must_have_a_certificate_that_is_signed_and_of_today(
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


def test_a_certificate_that_is_asked_for_if_given_is_verified_if_given(
    tmp_path: Path, authority: Authority, tls: Callable[..., str]
) -> None:
    text = tls("client_auth_type: VerifyClientCertIfGiven", f"client_ca_file: {authority.file}")
    with guarded(tmp_path / "web.yml", text) as site:
        assert site.get(verify=trusting(authority.file)).status_code == 200
        late = trusting(authority.file, authority.issue("late", expired=True))
        with pytest.raises(REFUSED):
            site.get(verify=late)


def test_only_clients_of_a_listed_name_are_answered(
    tmp_path: Path, authority: Authority, tls: Callable[..., str]
) -> None:
    text = tls(
        "client_auth_type: RequireAndVerifyClientCert",
        f"client_ca_file: {authority.file}",
        "client_allowed_sans: [prometheus]",
    )
    with guarded(tmp_path / "web.yml", text) as site:
        named = trusting(authority.file, authority.issue("prometheus"))
        assert site.get(verify=named).status_code == 200
        with pytest.raises(REFUSED):
            site.get(verify=trusting(authority.file, authority.issue("grafana")))


@pytest.mark.parametrize(
    ("line", "version"),
    [("max_version: TLS12", "TLSv1.2"), ("min_version: TLS13", "TLSv1.3")],
)
def test_the_version_is_the_configured_one(
    tmp_path: Path, authority: Authority, tls: Callable[..., str], line: str, version: str
) -> None:
    with (
        guarded(tmp_path / "web.yml", tls(line)) as site,
        socket.create_connection(("127.0.0.1", site.port)) as plain,
        trusting(authority.file).wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        assert secure.version() == version


def test_a_suite_has_the_name_that_go_gives_it(
    tmp_path: Path, authority: Authority, tls: Callable[..., str]
) -> None:
    text = tls("max_version: TLS12", "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]")
    with (
        guarded(tmp_path / "web.yml", text) as site,
        socket.create_connection(("127.0.0.1", site.port)) as plain,
        trusting(authority.file).wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        assert (secure.cipher() or ("",))[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


def test_a_reload_swaps_the_certificate_for_new_connections_only(
    tmp_path: Path, authority: Authority, tls: Callable[..., str]
) -> None:
    with guarded(tmp_path / "web.yml", tls()) as site:
        first = serial(site.port, authority)
        with httpx.Client(verify=trusting(authority.file), trust_env=False) as client:
            assert client.get(f"{site.server.address}/metrics").status_code == 200
            authority.issue("server")
            assert serial(site.port, authority) == first
            site.reload()
            assert serial(site.port, authority) != first
            assert client.get(f"{site.server.address}/metrics").status_code == 200


@pytest.mark.parametrize("damage", ["no certificate", "another key", "no file", "no YAML"])
def test_what_cannot_be_used_leaves_the_old_certificate_in_force(
    tmp_path: Path, authority: Authority, tls: Callable[..., str], damage: str
) -> None:
    text = tls()
    with guarded(tmp_path / "web.yml", text) as site:
        first = serial(site.port, authority)
        certificate, key = authority.issue("server")
        if damage == "no certificate":
            certificate.write_text("something else")
        elif damage == "another key":
            key.write_bytes(authority.issue("another")[1].read_bytes())
        elif damage == "no file":
            certificate.unlink()
        with pytest.raises(ConfigError):
            site.reload("tls_server_config: [" if damage == "no YAML" else text)
        assert serial(site.port, authority) == first


@pytest.mark.parametrize("key", ["tls_server_config", "basic_auth_users"])
def test_a_reload_never_opens_what_was_closed(
    tmp_path: Path, authority: Authority, tls: Callable[..., str], key: str
) -> None:
    users = "basic_auth_users: { ana: $2b$04$" + "." * 53 + " }\n"
    text = tls() + users
    with guarded(tmp_path / "web.yml", text) as site:
        with pytest.raises(ConfigError, match=f"{key}: was there before, and is gone; restart"):
            site.reload(users if key == "tls_server_config" else tls())
        assert site.get(verify=trusting(authority.file)).status_code == 401


def test_tls_may_be_turned_on_by_a_reload(
    tmp_path: Path, authority: Authority, tls: Callable[..., str]
) -> None:
    with guarded(tmp_path / "web.yml") as site:
        assert site.get().status_code == 200
        site.reload(tls())
        assert site.get(verify=trusting(authority.file)).status_code == 200


def test_no_certificate_of_ours_is_left_lying_about(
    tmp_path: Path,
    authority: Authority,
    tls: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    with guarded(tmp_path / "web.yml", tls()) as site:
        assert site.get(verify=trusting(authority.file)).status_code == 200
    assert list((tmp_path / "scratch").iterdir()) == []
