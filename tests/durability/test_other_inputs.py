"""Tables of items that change: a version allows new items, a policy empties what read the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from streameval.accumulator.readings import readings_of
from streameval.checkpoints.store import Store
from streameval.config.config import Config
from streameval.config.options import PopularityOptions, WindowsOptions
from streameval.config.pipeline import frontend_of, layout
from streameval.engine.ingest import Frontend
from streameval.errors import RefusedStateError
from streameval.sources.options import SimulatorOptions
from streameval.statistics.intervals import Intervals
from tests.durability.checkpointing import Kept, P, after, with_policy
from tests.durability.process import FIELDS, digests

RESTART = with_policy("on_other_inputs", "restart")
FEW = "item,users\na,3\nb,1\n"
MORE = f"{FEW}c,1\n"


def frontend(folder: Path, rows: str, version: str | None = None) -> Frontend:
    path = folder / "popularity.csv"
    path.write_text(rows)
    config = Config(
        metrics=["ndcg@1", "novelty@1"],
        source=SimulatorOptions(),
        labels=["variant"],
        windows=WindowsOptions(spans=["5m"]),
        event=FIELDS,
        intervals=Intervals(),
        popularity=PopularityOptions(path=str(path), users=10, version=version),
    )
    return frontend_of(config, layout(config))


def _values(kept: Kept) -> dict[str, tuple[int, float]]:
    """Lists of the mean and value of each metric over the lifetime, all variants together."""
    (state,) = kept.ingest.partitions.values()
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
    (place,) = store.places()
    saved = store.newest(place).saved
    assert saved is not None
    return saved.digests


@pytest.mark.parametrize(
    ("rows", "versions"),
    [(MORE, (None, None)), (FEW, ("june", "july")), (MORE, ("june", "july")), (FEW, (None, "1"))],
)
def test_another_input_is_refused_by_its_name_and_with_its_policy(
    tmp_path: Path, rows: str, versions: tuple[str | None, str | None]
) -> None:
    store = after(10, frontend=frontend(tmp_path, FEW, versions[0]))
    kept = Kept(store, frontend=frontend(tmp_path, rows, versions[1]))
    with pytest.raises(RefusedStateError, match=r"novelty@1.* popularity = ") as refused:
        kept.assign()
    assert refused.value.policy == "on_other_inputs"
    assert "or give a `version`" in str(refused.value)


def test_a_restart_empties_only_the_metrics_that_read_the_input(tmp_path: Path) -> None:
    store = after(10, frontend=frontend(tmp_path, FEW, "june"))
    kept = Kept(store, frontend=frontend(tmp_path, FEW, "july"), policies=RESTART)
    assert kept.assign() == 10
    assert _values(kept)["ndcg@1"] == (10, 10.0)
    assert _values(kept)["novelty@1"] == (0, 0.0)
    (news,) = kept.news()
    assert news.event == "metrics of other inputs start over"
    (state,) = kept.ingest.partitions.values()
    assert [name for name in state.since if "novelty" in name] == ["labels:events:novelty@1"]
    assert not [name for name in state.since if "hits" in name]
    kept.count(10, 20)
    never_changed = Kept(frontend=frontend(tmp_path, FEW, "july"))
    never_changed.assign()
    never_changed.count(0, 20)
    assert _values(kept)["ndcg@1"] == _values(never_changed)["ndcg@1"]
    assert _values(kept)["novelty@1"][0] == 10


def test_intervals_of_a_restarted_metric_forget_what_the_old_input_counted(tmp_path: Path) -> None:
    store = after(10, frontend=frontend(tmp_path, FEW, "june"))
    kept = Kept(store, frontend=frontend(tmp_path, FEW, "july"), policies=RESTART)
    kept.assign()
    (state,) = kept.ingest.partitions.values()
    days = state.families["labels"].copied().users
    assert days is not None
    for table in days.days.values():
        assert table.groups is not None
        cells = table.cells.tolist()
        assert table.groups.summed("ndcg@1", cells).denominators.sum() == 10
        assert table.groups.summed("novelty@1", cells).denominators.sum() == 0


def test_a_restart_is_saved_so_that_the_next_start_has_no_other_input(tmp_path: Path) -> None:
    store = after(10, frontend=frontend(tmp_path, FEW, "june"))
    july = frontend(tmp_path, FEW, "july")
    kept = Kept(store, frontend=july, policies=RESTART)
    kept.assign()
    kept.checkpointer.finish()
    again = Kept(store, frontend=frontend(tmp_path, FEW, "july"))
    assert again.assign() == 10
    assert digests(again.ingest, P) == digests(kept.ingest, P)


def test_items_that_are_added_under_a_version_keep_all_bits(tmp_path: Path) -> None:
    store = after(10, frontend=frontend(tmp_path, FEW, "june"))
    before = _digests(store)
    kept = Kept(store, frontend=frontend(tmp_path, MORE, "june"))
    assert kept.assign() == 10
    assert digests(kept.ingest, P) == before
    kept.count(10, 20)
    replayed = Kept(frontend=frontend(tmp_path, MORE, "june"))
    replayed.assign()
    replayed.count(0, 20)
    assert _values(kept) == _values(replayed)
    assert digests(kept.ingest, P) != digests(replayed.ingest, P), "the replay read another table"
