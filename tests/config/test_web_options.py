"""[web] of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval.config import Config, load
from streameval.errors import ConfigError
from tests.effort import every_case

_REST = 'metrics = ["ctr"]\n[source]\ntype = "simulator"\n[web]\n'


def read(folder: Path, text: str) -> Config:
    (folder / "streameval.toml").write_text(_REST + text)
    return load(folder / "streameval.toml")


def test_one_address_or_several(tmp_path: Path) -> None:
    assert read(tmp_path, "").web.addresses == ["127.0.0.1:9877"]
    assert read(tmp_path, 'listen = "[::1]:1"').web.addresses == ["[::1]:1"]
    several = read(tmp_path, 'listen = ["127.0.0.1:1", "[::1]:1", "a:0", "a:0"]').web
    assert several.addresses == ["127.0.0.1:1", "[::1]:1", "a:0", "a:0"]


@every_case(
    ("given", "prefix"), [("/", ""), ("/eval", "/eval"), ("/eval/", "/eval"), ("/a/b", "/a/b")]
)
def test_a_prefix_has_no_slash_at_its_end(tmp_path: Path, given: str, prefix: str) -> None:
    assert read(tmp_path, f'route_prefix = "{given}"').web.prefix == prefix


@every_case(
    ("text", "sentence"),
    [
        ("listen = []", "web.listen: found []; give at least one address"),
        ('listen = ["a:1", "b"]', "web.listen: found 'b'; write HOST:PORT"),
        ('listen = ["a:1", "a:1"]', "web.listen: found 'a:1' twice"),
        ("listen = 1", "web.listen: found 1; give text in quotes or a list"),
        ("max_connections = 0", "web.max_connections: found 0; give a whole number of at least 1"),
        ('first_exposure = "soon"', "web.first_exposure: found 'soon'"),
        *(
            (f'allowed_hosts = ["{each}"]', f"web.allowed_hosts: found '{each}'; give a name")
            for each in ("", "*", "a:1", "http://a", "a.*", "[::1]")
        ),
        *(
            (f'route_prefix = "{each}"', f"web.route_prefix: found '{each}'; give a path")
            for each in ("", "eval", "//", "/a//b", "/a b", "/../a", "/a?b", "/{x}", "http://a/")
        ),
    ],
)
def test_a_slip_is_answered_with_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert sentence in str(caught.value)


def test_the_web_configuration_file_is_looked_for_beside_the_configuration(tmp_path: Path) -> None:
    assert read(tmp_path, 'config_file = "web.yml"').web.config_file == str(tmp_path / "web.yml")
