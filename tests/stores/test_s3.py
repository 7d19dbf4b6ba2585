"""Checkpoints on a real S3 server over a faulty network."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest

from streameval.checkpoints.store import Store, is_store, store_of
from streameval.cli.app import status
from streameval.evaluation.shell.exits import USAGE_ERROR
from streameval.events.errors import StoreError
from tests.effort import thorough
from tests.stores import s3
from tests.stores.drafts import SHARD, Writer, draft, whole
from tests.stores.s3 import Fault, Request, S3Proxy
from tests.stores.test_objects import MOST


@pytest.fixture
def proxy() -> Iterator[S3Proxy]:
    with S3Proxy(s3.server()) as proxy:
        yield proxy


@pytest.fixture
def path() -> str:
    return s3.new_path()


def through(proxy: S3Proxy, path: str, timeout: float = 60.0) -> Store:
    store = store_of(path, s3.options(proxy.endpoint, timeout))
    store.claim("c1", "g1")
    return store


def direct(path: str) -> Store:
    return store_of(path, s3.options())


def test_a_checkpoint_takes_few_requests_on_the_wire(proxy: S3Proxy, path: str) -> None:
    writer = Writer(through(proxy, path))
    for offset in range(90, 110):
        proxy.requests.clear()
        writer.save(offset)
        assert len(proxy.requests) <= MOST, proxy.requests
    assert whole(direct(path).newest(SHARD).saved) == 109


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_no_checkpoint_is_lost_with_requests_and_responses(
    proxy: S3Proxy, path: str, seed: int
) -> None:
    draw = random.Random(seed)
    faults = [fault for fault in get_args(Fault) if fault != "silent"]
    writer = Writer(through(proxy, path))
    # More faults than the client's retries can hide: about every third call fails.
    proxy.fault = lambda _: draw.choice(faults) if draw.random() < 0.6 else None
    saved, tried = 0, {0}
    for offset in range(1, 40 if thorough() else 15):
        tried.add(offset)
        with suppress(StoreError):
            writer.save(offset)
            saved = offset
        newest = direct(path).newest(SHARD)
        assert not newest.damaged
        there = 0 if newest.saved is None else whole(newest.saved)
        assert there >= saved
        assert there in tried
        if draw.random() < 0.1:
            with suppress(StoreError):
                restarted = store_of(path, s3.options(proxy.endpoint))
                restarted.claim("c1", "g1")
                assert restarted.newest(SHARD).saved is not None or saved == 0
                writer = Writer(restarted)
    assert saved > 3, "the faults leave something to see"
    assert len(proxy.requests) > 2 * offset


@pytest.mark.parametrize(
    ("fault", "how", "cause", "remedy"),
    [
        ("error", "after 3 retries", "500 Internal Server Error", "; check that the service"),
        ("cut", "after 3 retries", "error sending request", "; check that the service"),
        ("silent", " in 1.", "error sending request", "; check that the service"),
        ("denied", "403 Forbidden", "<Code>AccessDenied</Code>", "; give its identity the right"),
    ],
)
def test_an_error_names_the_object_the_cause_and_what_to_do(
    proxy: S3Proxy, path: str, fault: Fault, how: str, cause: str, remedy: str
) -> None:
    store = through(proxy, path, timeout=1.0)
    store.save([draft(1)])

    def on_put(request: Request) -> Fault | None:
        return fault if request.method == "PUT" else None

    proxy.fault = on_put
    with pytest.raises(StoreError) as raised:
        store.save([draft(2)])
    message = str(raised.value)
    assert message.startswith(f"{path}/rounds/"), message
    assert message.index(" put failed: ") < message.index(how)
    assert message.index(cause) < message.index(remedy)
    assert "\n" not in message
    proxy.fault = lambda _: None
    store.save([draft(3)])
    assert whole(direct(path).newest(SHARD).saved) == 3


def test_a_missing_bucket_is_named() -> None:
    for call in ("claim", "places", "is_store"):
        with pytest.raises(StoreError, match=r"s3://no-such-one/state.*create the bucket"):
            _call("s3://no-such-one/state", call)


def _call(path: str, call: str) -> object:
    store = store_of(path, s3.options())
    if call == "claim":
        store.claim("c1", "g1")
        return None
    return store.shards() if call == "places" else is_store(path, s3.options())


def test_commands_find_region_and_endpoint_in_the_environment(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = s3.options().endpoint
    assert endpoint is not None
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    folder, other = tmp_path / "state", s3.new_path()
    assert status(["state", "show", path]) == USAGE_ERROR
    store = direct(path)
    store.claim("c1", "g1")
    store.save([draft(230)])
    assert status(["state", "show", path]) == 0
    assert status(["state", "merge", path, "--into", str(folder)]) == 0
    assert status(["state", "merge", str(folder), "--into", other]) == 0
    assert status(["state", "merge", str(folder), "--into", other]) == USAGE_ERROR
    assert status(["state", "verify", path, str(folder), other]) == 0
    assert whole(direct(other).newest(SHARD).saved) == 230
