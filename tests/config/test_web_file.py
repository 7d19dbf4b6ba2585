"""Slips in a web configuration file, each answered with one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval.config.options import WebOptions
from streameval.config.web_file import web_config, web_security
from streameval.errors import ConfigError
from streameval.exporters.web.webconfig import WebConfig
from tests.effort import every_case
from tests.exporters.certificates import Authority

_TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"

SLIPS = {
    "no YAML": ("a: [1", "line 1, column 6: this is not YAML: expected ',' or ']'"),
    "a key twice": (
        "basic_auth_users:\nbasic_auth_users:\n",
        "line 2, column 1: this is not YAML: the key 'basic_auth_users' appears twice.",
    ),
    "a list": ("- a\n", 'found ["a"]; give keys with values.'),
    "unknown key": (
        "tls_config: {}\n",
        "tls_config: unknown key. Did you mean 'tls_server_config'",
    ),
    "unknown key of TLS": (
        "tls_server_config: { certfile: x }\n",
        "tls_server_config.certfile: unknown key. Did you mean 'cert_file'",
    ),
    "no hash": (
        "basic_auth_users: { ana: secret }\n",
        "basic_auth_users.ana: this is not a bcrypt hash; give 60 characters",
    ),
    "an empty hash": (
        "basic_auth_users: { ana: }\n",
        "basic_auth_users.ana: this is not a bcrypt hash",
    ),
    "a list of users": (
        "basic_auth_users: [ana]\n",
        'basic_auth_users: found ["ana"]; give a table.',
    ),
    "a colon in a name": (
        'basic_auth_users: { "a:b": x }\n',
        "basic_auth_users: found the user 'a:b'; a name has",
    ),
    "no key": (
        "tls_server_config: { cert_file: server.crt }\n",
        "tls_server_config.key_file: this key is missing; TLS needs",
    ),
    "TLS without anything": (
        "tls_server_config: {}\n",
        "tls_server_config.cert_file: this key is missing",
    ),
    "no such file": (
        "tls_server_config: { cert_file: no.crt, key_file: server.key }\n",
        "tls_server_config.cert_file: found 'no.crt': no such file or directory; check",
    ),
    "files the wrong way round": (
        "tls_server_config: { cert_file: server.key, key_file: server.crt }\n",
        "tls_server_config.cert_file: there is no PEM certificate in it.",
    ),
    "the key of another": (
        "tls_server_config: { cert_file: server.crt, key_file: other.key }\n",
        "tls_server_config.key_file: it is not the key of the certificate.",
    ),
    "a key with a passphrase": (
        "tls_server_config: { cert_file: server.crt, key_file: locked.key }\n",
        "tls_server_config.key_file: it has a passphrase; give a key without one",
    ),
    "two certificates": (
        _TLS + "  cert: x\n",
        "tls_server_config.cert: give either cert or cert_file, not both.",
    ),
    "an obsolete version": (
        _TLS + "  min_version: TLS10\n",
        "tls_server_config.min_version: found \"TLS10\"; allowed are 'TLS12', 'TLS13'",
    ),
    "a version that is none": (
        _TLS + "  min_version: TLS1.3\n",
        "tls_server_config.min_version: found \"TLS1.3\"; allowed are 'TLS12', 'TLS13'",
    ),
    "versions the wrong way round": (
        _TLS + "  min_version: TLS13\n  max_version: TLS12\n",
        "tls_server_config.min_version: found 'TLS13', which is newer than max_version",
    ),
    "clients that are not verified": (
        _TLS + "  client_auth_type: RequireAnyClientCert\n",
        'tls_server_config.client_auth_type: found "RequireAnyClientCert"; allowed are',
    ),
    "clients by nobody": (
        _TLS + "  client_auth_type: RequireAndVerifyClientCert\n",
        "tls_server_config.client_ca_file: missing; client_auth_type: RequireAndVerify",
    ),
    "an authority for nothing": (
        _TLS + "  client_ca_file: server.crt\n",
        "tls_server_config.client_ca_file: client_auth_type is missing; give RequireAndVerify",
    ),
    "an authority that is none": (
        _TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: server.key\n",
        "tls_server_config.client_ca_file: there is no PEM certificate in it.",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("web")
    authority = Authority(made)
    authority.issue("server")
    authority.issue("other")
    (made / "locked.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    return made


@every_case("slip", SLIPS)
def test_a_slip_is_answered_with_one_sentence(slip: str, folder: Path) -> None:
    text, sentence = SLIPS[slip]
    file = folder / "web.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        web_security(WebOptions(config_file=str(file)))
    said = str(caught.value)
    assert said.startswith(f"{file}: {sentence}")
    assert "\n" not in said
    assert caught.value.path == str(file)


def test_no_file_and_no_text_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or directory; check the path"):
        web_config(str(tmp_path / "web.yml"))
    (tmp_path / "web.yml").write_bytes(b"a: \xff\n")
    with pytest.raises(ConfigError, match="byte 3 is not UTF-8"):
        web_config(str(tmp_path / "web.yml"))
    (tmp_path / "web.yml").write_bytes(b"a: \x01\n")
    with pytest.raises(ConfigError, match="this is not YAML: "):
        web_config(str(tmp_path / "web.yml"))


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "basic_auth_users:\ntls_server_config:\n"])
def test_a_file_that_says_nothing_is_plain_http(tmp_path: Path, text: str) -> None:
    (tmp_path / "web.yml").write_text(text)
    assert web_config(str(tmp_path / "web.yml")) == WebConfig()
    assert web_security(WebOptions(config_file=str(tmp_path / "web.yml"))).context is None


def test_a_user_may_be_called_like_a_number_or_a_truth(tmp_path: Path) -> None:
    hashed = "$2b$04$" + "." * 53
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{ 123: {hashed}, no: {hashed} }}")
    assert set(web_config(str(tmp_path / "web.yml")).basic_auth_users) == {"123", "no"}


def test_a_sentence_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text("basic_auth_users: { ana: open-sesame }")
    with pytest.raises(ConfigError) as caught:
        web_security(WebOptions(config_file=str(tmp_path / "web.yml")))
    assert "open-sesame" not in str(caught.value)
