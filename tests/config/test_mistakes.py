"""Mistakes in a configuration file or a web configuration file, and the exact messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streameval.catalogue import parse
from streameval.config import load
from streameval.config.tables import WebOptions
from streameval.config.web_file import web_config, web_security
from streameval.events.errors import ConfigError, MetricError
from streameval.exporters.web.webconfig import WebConfig
from tests.certificates import Authority

_BEGIN = 'metrics = ["ctr"]\nlabels = ["variant"]\nsegments = ["country"]\n'
_SOURCE = '[source]\ntype = "simulator"\n'
_ALONE = {
    _SOURCE: 'metrics: no metric is configured; add some, for example metrics = ["ndcg@10"].',
    _BEGIN: (
        'source: this key is missing; for example [source] with type = "kafka", "files" or '
        '"simulator".'
    ),
    f'metric = ["ndcg@10"]\n{_SOURCE}': ("metric: found [\"ndcg@10\"]; did you mean 'metrics'?"),
    'metrics = ["ctr",\n': (
        "invalid TOML: ... (at end of document); put text in quotes, and define each "
        "key and table once."
    ),
    **dict.fromkeys(
        (f"# A comment\nmetrics:\n  - ctr\n{_SOURCE}", '{"metrics": ["ctr"]}\n' + _SOURCE),
        "invalid TOML: ...; it looks like YAML or JSON; a key is written in TOML as "
        'metrics = ["ctr"], and a table as [source] with lines like type = "kafka".',
    ),
}
"""Whole files, and their messages."""


def _completed(text: str) -> str:
    """Complete a configuration with required keys."""
    begin = "" if re.search("^metrics", text, re.MULTILINE) else _BEGIN
    return begin + text + ("" if "[source]" in text else _SOURCE)


def mistakes(name: str) -> list[tuple[str, str]]:
    """Blocks of a file: the text of a configuration, `=> `, and the message."""
    blocks = Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n\n")
    parts = (block.rstrip("\n").partition("=> ") for block in blocks)
    return [(text, sentence) for text, _, sentence in parts]


_FROM_FILE = {_completed(text): sentence for text, sentence in mistakes("mistakes.txt")}


def _answer(file: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(file)
    return caught.value


@pytest.mark.parametrize(("text", "sentence"), (_FROM_FILE | _ALONE).items())
def test_a_mistake_is_reported_in_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "streameval.toml"
    file.write_text(text, encoding="utf-8")
    answer = _answer(file)
    # The words for broken TOML are those of Python's parser.
    words = re.escape(f"{file}: {sentence}").replace(r"TOML:\ \.\.\.", "TOML: .+")
    assert re.fullmatch(words, str(answer).partition("\n")[0])
    assert answer.path == str(file)


@pytest.mark.parametrize(
    "text", ["ndcg@0", "ndcg@-1", "@10", "ndcg(gain=square)@10", "un:ctr", "ndgc@10"]
)
def test_an_invalid_metric_has_the_usual_message(tmp_path: Path, text: str) -> None:
    file = tmp_path / "streameval.toml"
    file.write_text(f'metrics = ["ctr", "{text}"]\n{_SOURCE}', encoding="utf-8")
    with pytest.raises(MetricError) as elsewhere:
        parse(text)
    assert str(_answer(file)) == f"{file}: metrics[1]: {elsewhere.value}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("web")
    authority = Authority(made)
    authority.issue("server")
    authority.issue("other")
    (made / "cut.crt").write_text((made / "server.crt").read_text()[:300])
    (made / "locked.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    return made


@pytest.mark.parametrize(("text", "sentence"), mistakes("web_mistakes.txt"))
def test_a_mistake_in_a_web_configuration_file_is_reported_in_one_sentence(
    text: str, sentence: str, folder: Path
) -> None:
    file = folder / "web.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        web_security(WebOptions(config_file=str(file)))
    assert str(caught.value).startswith(f"{file}: {sentence}")
    assert caught.value.path == str(file)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "basic_auth_users:\ntls_server_config:\n"])
def test_an_empty_file_means_plain_http(tmp_path: Path, text: str) -> None:
    (tmp_path / "web.yml").write_text(text)
    assert web_config(str(tmp_path / "web.yml")) == WebConfig()
    assert web_security(WebOptions(config_file=str(tmp_path / "web.yml"))).context is None


def test_a_user_name_may_look_like_a_number_or_boolean(tmp_path: Path) -> None:
    hashed = "$2b$04$" + "." * 53
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{ 123: {hashed}, no: {hashed} }}")
    assert set(web_config(str(tmp_path / "web.yml")).basic_auth_users) == {"123", "no"}
