"""What a registry is asked for and answers; the small one of the tests answers like a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streameval.errors import ConfigError, SourceError
from streameval.sources.schemas.registry import (
    Registry,
    RegistryError,
    RegistryOptions,
    UnknownSchemaError,
)
from tests.exporters.certificates import Authority
from tests.schemas.producing import ITEM_PROTO, PROTO, avro_id, protobuf_id
from tests.schemas.registries import Reference, SmallRegistry, register, small_registry


@pytest.fixture
def registry(url: str) -> Iterator[Registry]:
    with closing(Registry(RegistryOptions(url=url), {})) as registry:
        yield registry


@pytest.fixture
def small() -> Iterator[SmallRegistry]:
    with small_registry() as registry:
        yield registry


def test_a_schema_comes_with_what_it_refers_to(url: str, registry: Registry) -> None:
    found = registry.definition(avro_id(url))
    assert found.kind == "AVRO"
    assert json.loads(found.text)["name"] == "Shown"
    ((name, item),) = found.references.items()
    assert (name, json.loads(item)["name"]) == ("shop.Item", "Item")


def test_a_protobuf_schema_comes_as_it_was_registered(url: str, registry: Registry) -> None:
    found = registry.definition(protobuf_id(url))
    assert found.kind == "PROTOBUF"
    assert found.text.split() == PROTO.split()
    assert list(found.references) == ["shop/item.proto"]
    assert found.references["shop/item.proto"].split() == ITEM_PROTO.split()


def test_an_id_that_is_not_there_is_unknown(registry: Registry) -> None:
    with pytest.raises(UnknownSchemaError, match="999999 not found"):
        registry.definition(999_999)


def test_a_wrong_path_is_not_an_unknown_schema(url: str) -> None:
    with closing(Registry(RegistryOptions(url=f"{url}/wrong"), {})) as registry:
        with pytest.raises(RegistryError, match=r"no schema registry API: 404 for /.*/ids/1"):
            registry.definition(1)
        with pytest.raises(SourceError, match="correct url"):
            registry.check()


def test_it_says_that_it_answers(url: str, registry: Registry) -> None:
    told = f"The schema registry at {url} answers: AVRO, JSON, PROTOBUF."
    assert registry.check() == told


def test_one_that_is_away_cannot_be_asked(small: SmallRegistry) -> None:
    small.stop()
    with closing(Registry(RegistryOptions(url=small.url), {})) as registry:
        with pytest.raises(RegistryError, match="cannot be reached") as found:
            registry.definition(1)
        assert found.value.failure == "unreachable"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_one_in_trouble_cannot_be_asked(small: SmallRegistry, status: int) -> None:
    small.status = status
    with (
        closing(Registry(RegistryOptions(url=small.url), {})) as registry,
        pytest.raises(RegistryError, match=f"answers with status {status}"),
    ):
        registry.definition(1)


def test_what_is_no_registry_is_told(small: SmallRegistry) -> None:
    number = register(small.url, "a", '"string"')
    small.status = 200
    with closing(Registry(RegistryOptions(url=small.url), {})) as registry:
        registry.definition(number)
        with pytest.raises(RegistryError, match="the server is not a schema registry"):
            registry.definition(number + 1)


def test_a_password_is_read_for_each_request(small: SmallRegistry, tmp_path: Path) -> None:
    number = register(small.url, "a", '"string"')
    small.user = ("reader", "first")
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    options = RegistryOptions(url=small.url, user="reader", password=f"${{file:{secret}}}")
    with closing(Registry(options, {})) as registry:
        assert registry.definition(number).text == '"string"'
        small.user = ("reader", "second")
        with pytest.raises(RegistryError, match="refuses this user") as found:
            registry.definition(number)
        assert found.value.failure == "authentication"
        secret.write_text("second\n")
        assert registry.definition(number).text == '"string"'


def test_a_password_that_is_not_there_is_a_mistake_of_the_configuration() -> None:
    options = RegistryOptions(url="http://127.0.0.1:1", user="reader", password="${ABSENT}")
    with pytest.raises(ConfigError, match=r"\[registry\]: password: .*ABSENT is not set"):
        Registry(options, {})


def test_its_certificate_is_checked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with small_registry(authority.issue("registry")) as small:
        trusting = RegistryOptions(url=small.url, ca_file=str(authority.file))
        with closing(Registry(trusting, {})) as registry:
            assert "answers" in registry.check()
        with closing(Registry(RegistryOptions(url=small.url), {})) as registry:
            with pytest.raises(RegistryError, match=r"not trusted.*ca_file") as found:
                registry.definition(1)
            assert found.value.failure == "certificate"


def test_a_file_without_certificates_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "empty.pem"
    file.write_text("")
    options = RegistryOptions(url="https://127.0.0.1:1", ca_file=str(file))
    with pytest.raises(ConfigError, match=r"\[registry\]: ca_file: .*holds no certificates"):
        Registry(options, {})


def test_references_that_go_round_end(small: SmallRegistry) -> None:
    # A registry refuses such; ours is not left to it.
    number = register(small.url, "a", '"string"', references=[Reference("b", "b")])
    register(small.url, "b", '"long"', references=[Reference("a", "a")])
    with closing(Registry(RegistryOptions(url=small.url), {})) as registry:
        assert set(registry.definition(number).references) <= {"a", "b"}
