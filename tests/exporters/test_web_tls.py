"""What protects the server: TLS, certificates and passwords, also as their files change."""

from __future__ import annotations

import shutil
import socket
import ssl
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from streameval.events.errors import ConfigError
from tests.certificates import Authority
from tests.exporters.guarded import Guarded, guarded, trusting, users
from tests.ports import WEB

REFUSED = (httpx.ReadError, httpx.ConnectError, httpx.RemoteProtocolError)


def tls(*more: str) -> str:
    """A web configuration file with the certificate of `authority`."""
    keys = ", ".join(["cert_file: used.crt", "key_file: used.key", *more])
    return f"tls_server_config: {{ {keys} }}\n"


TLS = tls()
MUTUAL = tls("client_ca_file: clients.crt", "client_auth_type: RequireAndVerifyClientCert")


class ReportedErrors:
    """The outcomes that a server reports about its files."""

    def __init__(self, site: Guarded) -> None:
        self.errors: list[ConfigError | None] = []
        site.security.observe = self.errors.append


@pytest.fixture(autouse=True)
def authority(tmp_path: Path) -> Authority:
    """The authority that signed the server's certificate."""
    made = Authority(tmp_path)
    use(tmp_path, made.issue("first"))
    return made


def use(folder: Path, issued: tuple[Path, Path]) -> None:
    """Replace a file atomically, as cert-manager and certbot do."""
    for file, name in zip(issued, ("used.crt", "used.key"), strict=True):
        shutil.copy(file, folder / "new")
        (folder / "new").replace(folder / name)


def test_a_client_that_does_not_trust_us_reads_nothing(tmp_path: Path) -> None:
    with (
        guarded(tmp_path / "web.yml", TLS) as site,
        pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        site.get()


def test_plain_http_to_an_encrypted_port_is_closed(tmp_path: Path) -> None:
    with guarded(tmp_path / "web.yml", TLS) as site, pytest.raises(REFUSED):
        WEB.get(f"http://127.0.0.1:{site.port}/metrics")


def test_a_client_needs_a_signed_and_current_certificate(
    tmp_path: Path, authority: Authority
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
    tmp_path: Path, authority: Authority
) -> None:
    text = tls("client_auth_type: VerifyClientCertIfGiven", f"client_ca_file: {authority.file}")
    with guarded(tmp_path / "web.yml", text) as site:
        assert site.get(verify=trusting(authority.file)).status_code == 200
        late = trusting(authority.file, authority.issue("late", expired=True))
        with pytest.raises(REFUSED):
            site.get(verify=late)


def test_an_older_version_than_the_configured_one_is_refused(
    tmp_path: Path, authority: Authority
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


def serial(site: Guarded, authority: Authority) -> int:
    """The serial number of the certificate of a new connection."""
    with (
        socket.create_connection(("127.0.0.1", site.port), timeout=60) as plain,
        trusting(authority.file).wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        certificate = secure.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


def serial_of(file: Path) -> int:
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


def test_a_renewed_certificate_is_used_for_the_next_client(
    tmp_path: Path, authority: Authority
) -> None:
    with guarded(tmp_path / "web.yml", TLS) as site:
        reported = ReportedErrors(site)
        assert serial(site, authority) == serial_of(tmp_path / "first.crt")
        with httpx.Client(verify=trusting(authority.file), trust_env=False, timeout=60) as open_:
            assert open_.get(f"{site.server.address}/metrics").status_code == 200
            use(tmp_path, authority.issue("second"))
            assert serial(site, authority) == serial_of(tmp_path / "second.crt")
            assert open_.get(f"{site.server.address}/metrics").status_code == 200
    assert reported.errors == [None]


def test_a_certificate_without_its_key_waits_for_it(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("second")
    with guarded(tmp_path / "web.yml", TLS) as site:
        reported = ReportedErrors(site)
        shutil.copy(certificate, tmp_path / "used.crt")
        for _ in range(2):
            assert serial(site, authority) == serial_of(tmp_path / "first.crt")
        shutil.copy(key, tmp_path / "used.key")
        assert serial(site, authority) == serial_of(certificate)
    refused, taken = reported.errors
    assert "the key does not match the certificate" in str(refused)
    assert taken is None


def test_a_replaced_authority_admits_only_its_own_clients(
    tmp_path: Path, authority: Authority
) -> None:
    (tmp_path / "new").mkdir()
    other = Authority(tmp_path / "new", "other")
    shutil.copy(authority.file, tmp_path / "clients.crt")
    before = trusting(authority.file, authority.issue("prometheus"))
    after = trusting(authority.file, other.issue("prometheus"))
    with guarded(tmp_path / "web.yml", MUTUAL) as site:
        assert site.get(verify=before).status_code == 200
        shutil.copy(other.file, tmp_path / "clients.crt")
        assert site.get(verify=after).status_code == 200
        with pytest.raises(REFUSED):
            site.get(verify=before)


def test_a_changed_password_takes_effect_at_once(tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    with (
        guarded(file, users(ana="old", bob="stays")) as site,
        httpx.Client(trust_env=False, timeout=60) as client,
    ):
        reported = ReportedErrors(site)

        def status(user: str, password: str) -> int:
            return client.get(f"{site.server.address}/metrics", auth=(user, password)).status_code

        assert [status("ana", "old"), status("ana", "new")] == [200, 401]
        file.write_text(users(ana="new", bob="stays", eve="added"))
        assert [status("ana", "old"), status("ana", "new")] == [401, 200]
        assert [status("bob", "stays"), status("eve", "added")] == [200, 200]
        file.write_text(users(ana="new"))
        assert status("bob", "stays") == 401
    assert reported.errors == [None, None]


@pytest.mark.parametrize("broken", ["", "basic_auth_users: { ana: plain }", "{", "tls: no"])
def test_an_unusable_file_changes_nothing(tmp_path: Path, broken: str) -> None:
    file = tmp_path / "web.yml"
    with guarded(file, users(ana="old")) as site:
        reported = ReportedErrors(site)
        file.write_text(broken)
        for _ in range(2):
            assert site.get().status_code == 401
            assert site.get(auth=("ana", "old")).status_code == 200
        file.unlink()
        assert site.get(auth=("ana", "old")).status_code == 200
    assert len(reported.errors) == 2
    assert all(isinstance(error, ConfigError) for error in reported.errors)


def test_certificates_cannot_be_removed_and_need_a_restart_to_be_added(
    tmp_path: Path, authority: Authority
) -> None:
    file = tmp_path / "web.yml"
    with guarded(file, TLS) as site:
        file.write_text("")
        assert serial(site, authority) == serial_of(tmp_path / "first.crt")
    with guarded(file, users(ana="x")) as site:
        reported = ReportedErrors(site)
        file.write_text(TLS + users(ana="y"))
        assert site.get(auth=("ana", "x")).status_code == 200
        assert "restart to serve with TLS" in str(reported.errors[0])


def test_a_tls_session_does_not_outlive_its_authority(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "new").mkdir()
    other = Authority(tmp_path / "new", "other")
    shutil.copy(authority.file, tmp_path / "clients.crt")
    client = trusting(authority.file, authority.issue("prometheus"))

    def session(earlier: ssl.SSLSession | None) -> ssl.SSLSession | None:
        address = ("127.0.0.1", site.port)
        with (
            socket.create_connection(address, timeout=60) as plain,
            client.wrap_socket(plain, server_hostname="127.0.0.1", session=earlier) as secure,
        ):
            secure.sendall(b"GET /-/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert secure.recv(12) == b"HTTP/1.1 200"
            return secure.session

    with guarded(tmp_path / "web.yml", MUTUAL) as site:
        kept = session(None)
        shutil.copy(other.file, tmp_path / "clients.crt")
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            session(kept)
