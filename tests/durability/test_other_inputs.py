"""Tables of items that change: a version allows new items, a policy empties what read the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from streameval.accumulator.kinds.groups import groups_of
from streameval.accumulator.readings import readings_of
from streameval.checkpoints.store import Store
from streameval.config.config import Config
from streameval.config.pipeline import frontend_of, layout
from streameval.config.tables import AttributeOptions, PopularityOptions, WindowsOptions
from streameval.engine.ingest import Frontend
from streameval.events.errors import RefusedStateError
from streameval.sources.settings import SimulatorOptions
from streameval.statistics.intervals import Intervals
from tests.durability.checkpointing import LoneMember, P, after, with_policy
from tests.durability.process import FIELDS, digests
from tests.present import present

RESTART = with_policy("on_other_inputs", "restart")
FEW = "item,value\na,3\nb,1\n"
MORE = f"{FEW}c,1\n"
VERSIONS = [
    (MORE, (None, None)),
    (FEW, ("june", "july")),
    (MORE, ("june", "july")),
    (FEW, (None, "1")),
]


class Reader(NamedTuple):
    """A metric, the input that it reads, and how its statistic is named."""

    metric: str
    table: str
    statistic: str

    def frontend(self, folder: Path, rows: str, version: str | None = None) -> Frontend:
        path = folder / "table.csv"
        path.write_text(rows)
        popular = PopularityOptions(path=str(path), users=10, version=version)
        kinds = {"kind": AttributeOptions(path=str(path), version=version)}
        config = Config(
            metrics=["ndcg@1", self.metric],
            source=SimulatorOptions(),
            labels=["variant"],
            windows=WindowsOptions(spans=["5m"]),
            event=FIELDS,
            intervals=Intervals(),
            popularity=popular if self.table == "popularity" else None,
            attributes=kinds if self.table != "popularity" else {},
        )
        return frontend_of(config, layout(config))


READERS = (
    Reader("novelty@1", "popularity", "labels:events:novelty@1"),
    Reader("recall(among=kind:3)@1", "attributes.kind", "labels:hits(among=kind:3,depth=1)"),
    Reader(
        "subtopic_recall(by=kind)@1", "attributes.kind", "labels:events:subtopic_recall(by=kind)@1"
    ),
)
of_each_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.metric)


def _values(member: LoneMember) -> dict[str, tuple[int, float]]:
    """Lists of the mean and value of each metric over the lifetime, all variants together."""
    (state,) = member.ingest.partitions.values()
    family = state.families["labels"]
    sums = {}
    for metric in family.spec.metrics:
        tables = family.copied().panes.values()
        rows = [row for table in tables for row in readings_of(metric, table, table.cells)]
        sums[metric.text] = (
            sum(row.count for row in rows),
            sum(row.total or 0.0 for row in rows),
        )
    return sums


def _digests(store: Store) -> Mapping[str, str]:
    (shard,) = store.shards()
    saved = store.newest(shard).saved
    assert saved is not None
    return saved.digests


@of_each_reader
@pytest.mark.parametrize(("rows", "versions"), VERSIONS)
def test_another_input_is_refused_by_its_name_and_with_its_policy(
    tmp_path: Path, reader: Reader, rows: str, versions: tuple[str | None, str | None]
) -> None:
    store = after(10, frontend=reader.frontend(tmp_path, FEW, versions[0]))
    member = LoneMember(store, frontend=reader.frontend(tmp_path, rows, versions[1]))
    with pytest.raises(RefusedStateError, match=f"{reader.table} ") as refused:
        member.assign()
    assert reader.metric in str(refused.value)
    assert refused.value.policy == "on_other_inputs"
    assert "new `version`" in str(refused.value)


@of_each_reader
def test_a_restart_empties_only_the_metrics_that_read_the_input(
    tmp_path: Path, reader: Reader
) -> None:
    store = after(10, frontend=reader.frontend(tmp_path, FEW, "june"))
    member = LoneMember(store, frontend=reader.frontend(tmp_path, FEW, "july"), policies=RESTART)
    assert member.assign() == 10
    assert _values(member)["ndcg@1"] == (10, 10.0)
    assert _values(member)[reader.metric] == (0, 0.0)
    (news,) = member.news()
    assert news.event == "metrics of other inputs start over"
    (state,) = member.ingest.partitions.values()
    assert [*state.since] == [reader.statistic]
    member.count(10, 20)
    never_changed = LoneMember(frontend=reader.frontend(tmp_path, FEW, "july"))
    never_changed.assign()
    never_changed.count(0, 20)
    assert _values(member)["ndcg@1"] == _values(never_changed)["ndcg@1"]
    assert _values(member)[reader.metric][0] == 10


@of_each_reader
def test_intervals_of_a_restarted_metric_forget_what_the_old_input_counted(
    tmp_path: Path, reader: Reader
) -> None:
    store = after(10, frontend=reader.frontend(tmp_path, FEW, "june"))
    member = LoneMember(store, frontend=reader.frontend(tmp_path, FEW, "july"), policies=RESTART)
    member.assign()
    (state,) = member.ingest.partitions.values()
    days = state.families["labels"].copied().users
    assert days is not None
    for table in days.days.values():
        groups = present(groups_of(table))
        cells = table.cells.tolist()
        assert groups.summed("ndcg@1", cells).denominators.sum() == 10
        assert groups.summed(reader.metric, cells).denominators.sum() == 0


@of_each_reader
def test_a_restart_is_saved_so_that_the_next_start_has_no_other_input(
    tmp_path: Path, reader: Reader
) -> None:
    store = after(10, frontend=reader.frontend(tmp_path, FEW, "june"))
    july = reader.frontend(tmp_path, FEW, "july")
    member = LoneMember(store, frontend=july, policies=RESTART)
    member.assign()
    member.checkpointer.finish()
    again = LoneMember(store, frontend=reader.frontend(tmp_path, FEW, "july"))
    assert again.assign() == 10
    assert digests(again.ingest, P) == digests(member.ingest, P)


@of_each_reader
def test_items_that_are_added_under_a_version_keep_all_bits(tmp_path: Path, reader: Reader) -> None:
    store = after(10, frontend=reader.frontend(tmp_path, FEW, "june"))
    before = _digests(store)
    member = LoneMember(store, frontend=reader.frontend(tmp_path, MORE, "june"))
    assert member.assign() == 10
    assert digests(member.ingest, P) == before
    member.count(10, 20)
    replayed = LoneMember(frontend=reader.frontend(tmp_path, MORE, "june"))
    replayed.assign()
    replayed.count(0, 20)
    assert _values(member) == _values(replayed)
    assert digests(member.ingest, P) != digests(replayed.ingest, P), "the replay read another table"
