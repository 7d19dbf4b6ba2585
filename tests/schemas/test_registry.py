"""The client of a registry; the fake registry answers like a real one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from streameval.events.errors import ConfigError, SourceError
from streameval.sources.schemas.registry import (
    Registry,
    RegistryError,
    RegistryOptions,
    RejectedSchemaError,
)
from tests.certificates import Authority
from tests.schemas.messages import ITEM_PROTO, PROTO
from tests.schemas.producing import avro_id, protobuf_id
from tests.schemas.registries import Reference, SmallRegistry, register, small_registry


def asking(url: str, **options: str) -> AbstractContextManager[Registry]:
    """A client, closed at the end of a block."""
    return closing(Registry(RegistryOptions(url=url, **options), {}))


@pytest.fixture
def client(url: str) -> Iterator[Registry]:
    with asking(url) as client:
        yield client


def test_a_schema_comes_as_it_was_registered_and_with_its_references(
    url: str, client: Registry
) -> None:
    avro, protobuf = client.definition(avro_id(url)), client.definition(protobuf_id(url))
    assert (avro.kind, json.loads(avro.text)["name"]) == ("AVRO", "Shown")
    assert {name: json.loads(text)["name"] for name, text in avro.references.items()} == {
        "shop.Item": "Item"
    }
    assert (protobuf.kind, protobuf.text.split()) == ("PROTOBUF", PROTO.split())
    assert {name: text.split() for name, text in protobuf.references.items()} == {
        "shop/item.proto": ITEM_PROTO.split()
    }
    with pytest.raises(RejectedSchemaError, match="999999 not found"):
        client.definition(999_999)


def test_a_wrong_path_is_not_an_unknown_schema(url: str) -> None:
    with asking(f"{url}/wrong") as client:
        with pytest.raises(RegistryError, match="no schema registry API: 404"):
            client.definition(1)
        with pytest.raises(SourceError, match="correct url"):
            client.check()


def test_the_check_reports_the_supported_types(url: str, client: Registry) -> None:
    told = f"The schema registry at {url} answers: AVRO, JSON, PROTOBUF."
    assert client.check() == told


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (None, "cannot be reached"),
        *((status, f"answers with status {status}") for status in (302, 429, 500, 503)),
    ],
)
def test_a_registry_that_does_not_answer_says_how(
    registry: SmallRegistry, status: int | None, says: str
) -> None:
    """A redirect is not followed."""
    with (
        small_registry() as other,
        asking(registry.url, user="reader", password="hush") as client,
    ):
        registry.status, registry.location = status, other.url if status == 302 else None
        if status is None:
            registry.stop()
        with pytest.raises(RegistryError, match=says):
            client.definition(1)
        assert other.asked == []


def test_a_server_that_is_not_a_registry_is_reported(registry: SmallRegistry) -> None:
    number = register(registry.url, "a", '"string"')
    registry.status = 200
    with asking(registry.url) as client:
        client.definition(number)
        with pytest.raises(RegistryError, match="the server is not a schema registry"):
            client.definition(number + 1)
        # The next answer is asked for, not remembered.
        registry.status = None
        register(registry.url, "b", '"long"')
        assert client.definition(number + 1).text == '"long"'


def test_url_user_and_password_are_read_of_their_places_and_again_after_a_rejection(
    registry: SmallRegistry, tmp_path: Path
) -> None:
    number = register(registry.url, "a", '"string"')
    other = register(registry.url, "b", '"long"')
    registry.user = ("reader", "first")
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    written = {"url": "${URL}", "user": "${USER}", "password": f"${{file:{secret}}}"}
    environment = {"URL": registry.url, "USER": "reader"}
    with closing(Registry(RegistryOptions(**written), environment)) as client:
        assert client.definition(number).text == '"string"'
        registry.user = ("reader", "second")
        with pytest.raises(RegistryError, match="rejects this user"):
            client.definition(other)
        secret.write_text("second\n")
        assert client.definition(other).text == '"long"'


def test_a_password_in_the_url_is_refused_and_not_printed() -> None:
    with pytest.raises(ConfigError, match="give the keys user and password") as literal:
        asking("http://me:s3cr/et@127.0.0.1:1")
    with pytest.raises(ConfigError, match="give the keys user and password") as filled:
        Registry(RegistryOptions(url="${URL}"), {"URL": "http://me:s3cret@127.0.0.1:1"})
    assert "s3cr" not in f"{literal.value} {filled.value}"


def test_a_whole_answer_has_one_deadline(
    registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = register(registry.url, "a", '"string"')
    monkeypatch.setattr("streameval.sources.schemas.registry.ANSWER_SECONDS", 0.3)
    registry.pace = 0.1
    with asking(registry.url) as client:
        with pytest.raises(RegistryError, match=r"no whole answer within 0\.3 s"):
            client.definition(number)
        registry.pace = 0.0
        assert client.definition(number).text == '"string"'


def test_an_id_beyond_those_of_a_registry_is_not_asked_for(registry: SmallRegistry) -> None:
    with (
        asking(registry.url) as client,
        pytest.raises(RejectedSchemaError, match="end at 2,147,483,647"),
    ):
        client.definition(2**31)
    assert registry.asked == []


def test_the_certificate_of_the_registry_is_verified(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with small_registry(authority.issue("registry")) as registry:
        with asking(registry.url, ca_file=str(authority.file)) as client:
            assert "answers" in client.check()
        with (
            asking(registry.url) as client,
            pytest.raises(RegistryError, match=r"not trusted.*ca_file"),
        ):
            client.definition(1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ca_file": os.devnull}, r"\[registry\]: ca_file: .*has no certificates"),
        (
            {"user": "reader", "password": "${ABSENT}"},
            r"\[registry\]: password: .*ABSENT is not set",
        ),
    ],
)
def test_an_unusable_setting_is_a_configuration_error(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        asking("https://127.0.0.1:1", **options)


def test_references_of_references_come_first_and_circular_ones_end(registry: SmallRegistry) -> None:
    # A registry refuses such; ours is not left to it.
    number = register(registry.url, "a", '"string"', references=[Reference("b", "b")])
    register(registry.url, "b", '"long"', references=[Reference("a", "a")])
    with asking(registry.url) as client:
        assert list(client.definition(number).references) == ["a", "b"]
