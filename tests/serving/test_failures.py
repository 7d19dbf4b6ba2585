"""What a reader shows when a store is damaged, foreign, empty or gone, and what it says."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest

from streameval.checkpoints.format import (
    ROUNDS,
    VERSION,
    CheckpointDraft,
    Part,
    Shard,
    round_key,
)
from streameval.checkpoints.storage import Disk
from streameval.checkpoints.store import Location, folder_store, store_of
from streameval.config import Config
from streameval.config.store_reader import StoreReader
from streameval.engine.snapshot import StoredPartition
from streameval.events.errors import UnsavedStateError
from tests.changes.events import DAY
from tests.cli.program import run
from tests.present import present
from tests.serving.replicas import (
    CONFIG,
    PARTITIONS,
    TOPIC,
    Looking,
    Replica,
    config_of,
    rows_by_partition,
    values,
)
from tests.stores.drafts import later_round

EVERY = range(PARTITIONS)


class Site:
    """A store with a checkpoint of each partition, and one more of partition 1.

    Attributes:
        counted: the next offset of each partition.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = config_of(folder)
        self.replica = Replica(self.config)
        self.rows = rows_by_partition(days=8)
        self.counted = dict.fromkeys(EVERY, 0)
        self.replica.take(*EVERY)
        for number in EVERY:
            self.count(number)
        self.replica.save()
        self.count(1)
        self.replica.save()

    def count(self, number: int, many: int = 20) -> None:
        start = self.counted[number]
        self.replica.count(number, self.rows[number][start : start + many], start)
        self.counted[number] += many

    def reader(self, config: Config | None = None) -> StoreReader:
        return StoreReader(store_of(str(self.folder / "state")), config or self.config)

    def location(self, number: int, age: int = 0) -> Location:
        """Where a checkpoint is; `age`: 0 for the newest."""
        shards = store_of(str(self.folder / "state")).listing().shards
        return shards[Shard(TOPIC, "id-1", number)][age]

    def damage(self, number: int, age: int = 0) -> None:
        """Damage the record of a checkpoint."""
        location = self.location(number, age)
        region, path = present(location.region), self.folder / "state" / location.key
        content = bytearray(path.read_bytes())
        content[region.start + region.size - region.record // 2] ^= 1
        path.write_bytes(content)

    def forget(self, number: int) -> None:
        """Take a partition out of the store."""
        store = store_of(str(self.folder / "state"))
        drafts = [present(store.newest(shard).saved).draft for shard in store.shards()]
        retained = [draft for draft in drafts if draft.header.shard.number != number]
        total = [
            CheckpointDraft(
                header=draft.header,
                parts=[
                    Part(name=part.name, content=partial(iter, [*present(part.content)()]))
                    for part in draft.parts
                ],
            )
            for draft in retained
        ]
        shutil.rmtree(self.folder / "state" / ROUNDS)
        store_of(str(self.folder / "state")).save(total)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def shown(reader: StoreReader) -> Mapping[int, int | None]:
    """The offset of each known partition, after a refresh."""
    reader.refresh()
    return {entry.partition: entry.offset for entry in reader.stored({})}


def problems(reader: StoreReader) -> dict[int, str]:
    stored: tuple[StoredPartition, ...] = reader.stored({})
    return {entry.partition: entry.problem for entry in stored if entry.problem is not None}


def test_a_damaged_file_leaves_the_values_before_it_and_is_said(site: Site) -> None:
    standing = site.reader()
    assert shown(standing) == {0: 20, 1: 40, 2: 20}
    site.count(1)
    site.replica.save()
    site.damage(1)
    for reader in (standing, site.reader()):
        assert shown(reader) == {0: 20, 1: 40, 2: 20}
        assert "its checkpoint of offset 40 is shown: offset 60 is skipped" in problems(reader)[1]
    site.count(1)
    site.replica.save()
    assert shown(standing) == {0: 20, 1: 80, 2: 20}
    assert problems(standing) == {}


def test_an_older_file_does_not_replace_what_is_in_memory(site: Site) -> None:
    standing = site.reader()
    shown(standing)
    site.damage(1)
    assert (shown(standing)[1], shown(site.reader())[1]) == (40, 20)
    site.damage(1, 1)
    new = site.reader()
    assert (shown(standing)[1], shown(new)[1]) == (40, None)
    # The bytes of a checkpoint never change, so it is not read again.
    assert problems(standing) == {}
    assert "no checkpoint of it is valid" in problems(new)[1]


def test_a_state_that_started_over_replaces_what_is_in_memory_also_where_its_newest_is_damaged(
    site: Site,
) -> None:
    standing = site.reader()
    assert shown(standing)[1] == 40
    store = store_of(str(site.folder / "state"))
    for draft in [store.read(site.location(1, age)).draft for age in (1, 0)]:
        header = msgspec.structs.replace(draft.header, generation=1)
        store.save([CheckpointDraft(header=header, parts=draft.parts)])
    site.damage(1)
    assert (shown(standing)[1], shown(site.reader())[1]) == (20, 20)


def test_an_older_checkpoint_of_another_process_does_not_replace_what_is_in_memory(
    site: Site,
) -> None:
    standing = site.reader()
    assert shown(standing)[1] == 40
    store = store_of(str(site.folder / "state"))
    store.save([store.read(site.location(1, age=1)).draft])
    for _ in range(2):
        site.count(1)
        site.replica.save()
    site.damage(1)
    site.damage(1, age=1)
    assert (shown(standing)[1], shown(site.reader())[1]) == (40, 20)
    assert "its checkpoint of offset 40 is shown" in problems(standing)[1]


def test_a_shown_checkpoint_that_is_gone_is_a_problem_until_as_much_is_shown_again(
    site: Site,
) -> None:
    standing = site.reader()
    assert shown(standing)[1] == 40
    (site.folder / "state" / site.location(1).key).unlink()
    assert shown(standing)[1] == 20
    assert problems(standing) == {
        1: "its checkpoint of offset 40 has been shown and is gone, so that of offset 20 is: were "
        "files of the store deleted, or an older copy restored"
    }
    assert problems(site.reader()) == {}
    site.count(1)
    with pytest.raises(UnsavedStateError, match="the next round writes it again"):
        site.replica.save()
    site.replica.save()
    assert (shown(standing)[1], problems(standing)) == (60, {})


def test_a_store_of_another_group_is_refused_as_by_run(site: Site) -> None:
    config = site.folder / "streameval.toml"
    config.write_text(f"source.group = 'other'\n{config.read_text()}")
    refused = run("serve", config, "--listen", "127.0.0.1:0")
    assert refused.returncode == 2
    (line,) = [line for line in refused.stderr.splitlines() if "event=failed" in line]
    assert "its state belongs to group 'g1', and this process reads 'other'" in line


def test_what_a_damaged_directory_hides_stays_and_is_said(site: Site) -> None:
    standing = site.reader()
    shown(standing)
    for path in (site.folder / "state").rglob("*.round"):
        path.write_bytes(b"")
    assert shown(standing) == {0: 20, 1: 40, 2: 20}
    assert {*problems(standing)} == {*EVERY}
    assert "its checkpoint of offset 40 is shown" in problems(standing)[1]


def test_a_partition_without_a_checkpoint_stays_known_and_withdraws_verdicts(site: Site) -> None:
    standing, looking = site.reader(), Looking(site.config)
    assert values(looking.look(standing))["experiment"]["checks"]["trouble"] == ()
    site.forget(2)
    snapshot = looking.look(standing)
    assert shown(standing) == {0: 20, 1: 40, 2: None}
    problem = values(snapshot)["experiment"]["checks"]["trouble"]
    missing = "events[2]: the store has no checkpoint of it"
    assert problem == (f"1 of the partitions are missing: {missing}",)
    new = site.reader()
    assert shown(new) == {0: 20, 1: 40, 2: None}


def test_of_another_release_what_is_shown_stays_and_a_new_reader_shows_none(site: Site) -> None:
    standing = site.reader()
    shown(standing)
    site.count(1)
    site.replica.save()
    assert shown(standing) == {0: 20, 1: 60, 2: 20}
    key, content = later_round(80, site.location(1).shard)
    path = site.folder / "state" / key
    path.parent.mkdir()
    path.write_bytes(content)
    assert shown(standing) == {0: 20, 1: 60, 2: 20}
    assert f"state version {VERSION + 1} is not known" in problems(standing)[1]
    new = site.reader()
    assert shown(new) == {0: 20, 1: None, 2: 20}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('labels = ["variant", "model"]', 'labels = ["model", "variant"]'), "labels: "),
        (("intervals = {}", "intervals = {}\ndepth = 9"), "depth: "),
        (
            ('spans = ["1h", "24h"]', 'spans = ["1h"], pane = "5m"'),
            'pane: "1m" → "5m"',
        ),
    ],
)
def test_what_was_counted_with_other_settings_is_not_shown(
    site: Site, change: tuple[str, str], problem: str
) -> None:
    other = site.reader(config_of(site.folder, text=CONFIG.replace(*change)))
    assert shown(other) == dict.fromkeys(EVERY)
    assert all(problem in text for text in problems(other).values())
    assert other.unread(other.stored({})).number == PARTITIONS


def test_a_state_of_more_ranks_is_shown_with_its_depth(site: Site) -> None:
    shallow = site.reader(config_of(site.folder, CONFIG.replace("@3", "@2")))
    snapshots = (Looking(at.config).look(at) for at in (shallow, site.reader()))
    assert shown(shallow) == {0: 20, 1: 40, 2: 20}
    one, other = (
        [entry.reading for entry in snapshot.series if entry.metric.text == "ctr@2"]
        for snapshot in snapshots
    )
    assert one == other != []


def test_a_replica_with_other_settings_takes_its_partition_out_and_no_other(site: Site) -> None:
    standing = site.reader()
    shown(standing)
    text = CONFIG.replace('"country"', '"age"')
    other = Replica(config_of(site.folder, text, on_other_settings="restart"))
    other.take(1)
    assert shown(standing)[1] is None


def test_new_metrics_count_from_now_on_and_removed_ones_are_left_out(site: Site) -> None:
    text = CONFIG.replace('"ndcg@3"', '"hit_rate@3", "average_precision@3"')
    reader = site.reader(config_of(site.folder, text=text))
    snapshot = Looking(reader.config).look(reader)
    since = {entry.metric.text: entry.since for entry in snapshot.series}
    assert since["ctr@2"] is None
    assert "ndcg@3" not in since


def test_of_a_topic_that_was_recreated_the_newer_one_is_shown(site: Site) -> None:
    standing = site.reader()
    shown(standing)
    other = Replica(config_of(site.folder, on_recreated="restart"))
    other.now = site.replica.now + 5
    other.take(0, 1, identity="id-2", partitions=2)
    other.count(0, site.rows[0][:5], 0)
    other.save()
    for reader in (standing, site.reader()):
        assert shown(reader) == {0: 5, 1: 0}


def test_damage_keeps_no_values_of_a_topic_that_was_recreated(site: Site) -> None:
    standing = site.reader()
    shown(standing)
    shutil.rmtree(site.folder / "state" / ROUNDS)
    other = Replica(site.config)
    other.take(0, identity="id-2", partitions=1)
    other.count(0, site.rows[0][:5], 0)
    other.save()
    damaged = site.folder / "state" / round_key("f" * 16, 1)
    damaged.parent.mkdir()
    damaged.write_bytes(b"")
    looking = Looking(site.config)
    assert values(looking.look(standing))["consumed"] == 5
    assert shown(standing) == {0: 5}


def test_a_partition_that_was_added_appears_with_its_first_checkpoint(site: Site) -> None:
    standing = site.reader()
    shown(standing)
    other = Replica(config_of(site.folder, on_new_partitions="accept"))
    other.take(3, partitions=4)
    assert shown(standing) == {0: 20, 1: 40, 2: 20, 3: 0}


def test_an_absent_store_is_waited_for_and_one_that_vanishes_leaves_its_values(
    site: Site, tmp_path: Path
) -> None:
    state, away = tmp_path / "state", tmp_path / "away"
    standing = site.reader()
    before = shown(standing)
    state.rename(away)
    new = site.reader()
    assert (shown(standing), shown(new)) == (before, {})
    assert standing.problem is not None
    assert "store.json is missing" in standing.problem
    away.rename(state)
    assert shown(standing) == shown(new) == before
    assert [reader.problem for reader in (standing, new)] == [None, None]


class Superseding(Disk):
    """A disk on which something happens to a round after the first read, that of its directory.

    Attributes:
        name: of the file.
        happens: called with the path before each further read.
    """

    name = ""

    def __init__(self, happens: Callable[[Path], None]) -> None:
        super().__init__()
        self.happens = happens
        self._reads = 0

    def read(self, path: Path, start: int, size: int) -> bytes:
        if path.name == self.name:
            self._reads += 1
            if self._reads > 1:
                self.happens(path)
        return super().read(path, start, size)


@pytest.mark.parametrize("looked_before", [True, False])
def test_a_round_that_is_superseded_while_it_is_read_leaves_no_partition_without_values(
    site: Site, *, looked_before: bool
) -> None:
    def supersede(path: Path) -> None:
        while path.exists():
            site.count(0, many=1)
            site.replica.save()

    disk = Superseding(supersede)
    reader = StoreReader(folder_store(site.folder / "state", disk), site.config)
    if looked_before:
        shown(reader)
    site.count(1)
    site.replica.save()
    disk.name = Path(site.location(1).key).name
    first = shown(reader)
    assert (problems(reader), reader.problem) == ({}, None)
    now = {0: site.counted[0], 1: 60, 2: 20}
    assert first == ({0: 20, 1: 40, 2: 20} if looked_before else now)
    assert shown(reader) == now


def test_a_round_that_is_missing_is_said(site: Site) -> None:
    def missing(path: Path) -> None:
        raise FileNotFoundError(path)

    disk = Superseding(missing)
    reader = StoreReader(folder_store(site.folder / "state", disk), site.config)
    disk.name = Path(site.location(1).key).name
    assert shown(reader)[1] == 20
    assert problems(reader)[1].endswith(f"{site.location(1).key}: it is missing")


def test_counts_follow_a_store_that_began_anew(site: Site) -> None:
    standing = site.reader()
    shown(standing)
    site.forget(1)
    again = Replica(site.config)
    again.take(1)
    again.count(1, site.rows[1][:3], 0)
    again.save()
    assert shown(standing) == {0: 20, 1: 3, 2: 20}
    assert problems(standing)[1].startswith("its checkpoint of offset 40 has been shown and is")
    looking = Looking(site.config)
    assert values(looking.look(standing))["consumed"] == 43


def test_a_clock_that_is_far_ahead_is_held_and_named_as_by_a_daemon(site: Site) -> None:
    """Its partition is in the lifetime; the windows of the others do not end with it."""
    standing, looking = site.reader(), Looking(site.config)
    before = {entry.window: entry for entry in looking.look(standing).series}
    ahead = [row | {"ts": row["ts"] + 400 * DAY} for row in site.rows[2][20:60]]
    site.replica.count(2, ahead, 20)
    site.replica.save()
    snapshot = looking.look(standing)
    assert str(snapshot.health.trouble).startswith("events[2]: its clock is ")
    assert snapshot.health.clock_jumps == 1
    assert {entry.window for entry in snapshot.series} <= before.keys()
