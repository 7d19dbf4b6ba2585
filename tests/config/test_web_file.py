"""Mistakes in a web configuration file, and the exact messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval.config.options import WebOptions
from streameval.config.web_file import web_config, web_security
from streameval.errors import ConfigError
from streameval.exporters.web.webconfig import WebConfig
from tests.certificates import Authority
from tests.config.test_mistakes import mistakes
from tests.effort import every_case


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("web")
    authority = Authority(made)
    authority.issue("server")
    authority.issue("other")
    (made / "cut.crt").write_text((made / "server.crt").read_text()[:300])
    (made / "locked.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    return made


@every_case(("text", "sentence"), mistakes("web_mistakes.txt"))
def test_a_mistake_is_reported_in_one_sentence(text: str, sentence: str, folder: Path) -> None:
    file = folder / "web.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        web_security(WebOptions(config_file=str(file)))
    assert str(caught.value).startswith(f"{file}: {sentence}")
    assert caught.value.path == str(file)


@every_case(
    ("content", "said"),
    [
        (None, "no such file or directory; check the path"),
        (b"a: \xff\n", "byte 3 is not UTF-8"),
        (b"a: \x01\n", "invalid YAML: "),
    ],
)
def test_a_missing_file_and_invalid_text_are_reported(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "web.yml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        web_config(str(path))


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "basic_auth_users:\ntls_server_config:\n"])
def test_an_empty_file_means_plain_http(tmp_path: Path, text: str) -> None:
    (tmp_path / "web.yml").write_text(text)
    assert web_config(str(tmp_path / "web.yml")) == WebConfig()
    assert web_security(WebOptions(config_file=str(tmp_path / "web.yml"))).context is None


def test_a_user_name_may_look_like_a_number_or_boolean(tmp_path: Path) -> None:
    hashed = "$2b$04$" + "." * 53
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{ 123: {hashed}, no: {hashed} }}")
    assert set(web_config(str(tmp_path / "web.yml")).basic_auth_users) == {"123", "no"}
