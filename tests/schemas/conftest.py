"""Fixtures of schema registries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.schemas.registries import SmallRegistry, apicurio, small_registry


@pytest.fixture(scope="session")
def _apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as service_url:
        yield service_url


@pytest.fixture(params=["small", pytest.param("apicurio", marks=pytest.mark.nightly)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of a registry: the fake one, and nightly also a real one."""
    if request.param == "small":
        with small_registry() as registry:
            yield registry.url
    else:
        yield request.getfixturevalue("_apicurio")


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    """The fake registry, which a test can make unavailable."""
    with small_registry() as small:
        yield small
