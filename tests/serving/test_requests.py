"""What a reader asks of a bucket: one listing, a directory, and one range for each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from streameval.checkpoints.store import store_of
from streameval.config.store_reader import StoreReader
from tests.serving.replicas import (
    PARTITIONS,
    Looking,
    Replica,
    config_of,
    rows_by_partition,
    values,
)
from tests.stores import s3
from tests.stores.s3 import S3Proxy

EVERY = range(PARTITIONS)


@pytest.fixture
def proxy() -> Iterator[S3Proxy]:
    with S3Proxy(s3.server()) as proxy:
        yield proxy


def asked(proxy: S3Proxy) -> Counter[str]:
    """What was requested since the last call."""
    kinds = Counter(
        f"{request.method}{' list' if 'list-type' in request.path else ''}"
        for request in proxy.requests
    )
    proxy.requests.clear()
    return kinds


def test_a_look_takes_one_listing_a_directory_and_one_range_of_each_partition_that_changed(
    proxy: S3Proxy, tmp_path: Path
) -> None:
    config, path = config_of(tmp_path), s3.new_path()
    replica = Replica(config, store_of(path, s3.options()))
    replica.take(*EVERY)
    rows = rows_by_partition(days=8)
    for number in EVERY:
        replica.count(number, rows[number][:30], 0)
    replica.save()
    reader = StoreReader(store_of(path, s3.options(proxy.endpoint)), config)
    looking = Looking(config)
    looking.look(reader)
    first = asked(proxy)
    assert set(first) == {"GET", "GET list"}
    assert first["GET list"] == 1
    looking.look(reader)
    assert asked(proxy) == {"GET list": 1}
    replica.count(1, [rows[1][29]] * 2, 30)
    replica.save()
    snapshot = looking.look(reader)
    # The directory of the new round, and what it has of the partition.
    assert asked(proxy) == {"GET list": 1, "GET": 2}
    again = Looking(config).look(StoreReader(store_of(path, s3.options()), config))
    assert values(snapshot) == values(again)


def test_a_bucket_that_does_not_answer_leaves_the_values(proxy: S3Proxy, tmp_path: Path) -> None:
    config, path = config_of(tmp_path), s3.new_path()
    replica = Replica(config, store_of(path, s3.options()))
    replica.take(*EVERY)
    reader = StoreReader(store_of(path, s3.options(proxy.endpoint, 1.0)), config)
    reader.refresh()
    before = reader.stored({})
    assert [entry.offset for entry in before] == [0, 0, 0]
    proxy.fault = lambda _: "denied"
    reader.refresh()
    assert reader.stored({}) == before
    assert reader.problem is not None
    assert "list failed" in reader.problem
    proxy.fault = lambda _: None
    reader.refresh()
    assert reader.problem is None
