"""The registries that tests of several modules ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.schemas.registries import SmallRegistry, apicurio, small_registry


@pytest.fixture(scope="session")
def _apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as found:
        yield found


@pytest.fixture(params=["small", pytest.param("apicurio", marks=pytest.mark.nightly)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a registry: the small one, and at night a real one, too."""
    if request.param == "small":
        with small_registry() as registry:
            yield registry.url
    else:
        yield request.getfixturevalue("_apicurio")


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    """The small one, which a test can make go away."""
    with small_registry() as found:
        yield found
