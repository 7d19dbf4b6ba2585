"""Where counting goes on when a partition arrives, and whether it may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from streameval.durability.checkpoint import Header, Place
from streameval.durability.checks import (
    foreign_progress,
    lost_records,
    new_partition,
    other_settings,
    recreated,
    same_shape,
    truncated,
)
from streameval.durability.news import News
from streameval.durability.policies import Policies
from streameval.durability.store import Saved, Store
from streameval.durability.terms import Terms
from streameval.errors import StateVersionError
from streameval.records import Assignment, Partition


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """How a partition goes on.

    Attributes:
        assignment: of the partition.
        place: of its checkpoints.
        offsets: where to begin in each log.
        counted: records below it are never shown in counters.
        saved: the checkpoint to go on from; None where state begins with nothing.
        given_up: whether what was saved must be set aside, and the group's commit moved.
        partitions: how many the topic had when this state began; None where unknown.
        skipped: offsets that the log has lost before they were counted.
        news: what a person should know.
    """

    assignment: Assignment
    place: Place
    offsets: Mapping[Partition, int]
    counted: int
    saved: Saved | None = None
    given_up: bool = False
    partitions: int | None = None
    skipped: int = 0
    news: Sequence[News] = ()

    @property
    def offset(self) -> int:
        """Where to begin, over all logs."""
        return sum(self.offsets.values())


class Resuming:
    """Decides for one assignment after the other; changes nothing.

    Args:
        store: where checkpoints lie.
        terms: under which state is kept.
        shown: of each place, up to where this process has shown it in counters already.
    """

    def __init__(self, store: Store, terms: Terms, shown: Mapping[Place, int]) -> None:
        self._store = store
        self._terms = terms
        self._policies = terms.policies
        self._shown = shown
        self._places = store.places()

    def decide(self, assignment: Assignment) -> Resumption:
        """Find the newest sound checkpoint; check it against log, group and settings.

        Raises:
            RefusedStateError: going on would be wrong, and no policy says how.
            StoreError: the store cannot be read.
        """
        partition = assignment.partition
        place = Place(partition.topic, assignment.identity, partition.number)
        try:
            found = self._store.newest(place)
        except StateVersionError as error:
            return self.anew(assignment, "on_unknown_version", str(error).rstrip("."))
        torn = [
            _news(place, "a damaged checkpoint was passed over", problem=problem)
            for problem in found.passed_over
        ]
        if found.saved is None and torn:
            problem = f"no checkpoint of it is sound: {'; '.join(found.passed_over)}"
            decided = self.anew(assignment, "on_damaged", problem)
        elif found.saved is None:
            decided = self._first(assignment, place)
        else:
            decided = self._onward(assignment, found.saved, torn=bool(torn))
        return msgspec.structs.replace(decided, news=[*torn, *decided.news])

    def anew(self, assignment: Assignment, policy: str, problem: str) -> Resumption:
        """Give up what was saved, if the policy says so.

        Raises:
            RefusedStateError: it does not.
        """
        partition = assignment.partition
        place = Place(partition.topic, assignment.identity, partition.number)
        self._policies.obey(policy, str(place), problem)
        told = _news(place, "state was given up", policy=policy, problem=problem)
        offsets = {log.partition: log.start for log in assignment.logs}
        return Resumption(
            assignment=assignment,
            place=place,
            offsets=offsets,
            counted=sum(offsets.values()),
            given_up=True,
            partitions=assignment.partitions,
            news=[told],
        )

    def _accepts(self, header: Header, differing: str, news: list[News]) -> bool:
        """Whether only decoding differs, and the policy is to go on with what was counted.

        Raises:
            RefusedStateError: that is the policy, and more differs.
        """
        if self._policies.on_other_settings != "accept":
            return False
        if not same_shape(self._terms.settings, header.settings):
            Policies().obey("on_other_settings", str(header.place), differing)
        news.append(_news(header.place, "other decoding was accepted", problem=differing))
        return True

    def _first(self, assignment: Assignment, place: Place) -> Resumption:
        problem = new_partition(place.number, self._known(place))
        if problem is None:
            remade = recreated(place, self._places)
            if remade is not None:
                return self.anew(assignment, "on_recreated", remade)
        news = []
        offsets = {log.partition: log.start for log in assignment.logs}
        if problem is not None:
            self._policies.obey("on_new_partitions", str(place), problem)
            news.append(_news(place, "a new partition was accepted", problem=problem))
            offsets = {log.partition: log.begin for log in assignment.logs}
        counted = self._counted(assignment, place, offsets, news)
        return Resumption(
            assignment=assignment,
            place=place,
            offsets=offsets,
            counted=counted,
            partitions=assignment.partitions,
            news=news,
        )

    def _onward(self, assignment: Assignment, saved: Saved, *, torn: bool) -> Resumption:
        header, news = saved.header, list[News]()
        differing = other_settings(self._terms.settings, header.settings)
        if differing is not None and not self._accepts(header, differing, news):
            return self.anew(assignment, "on_other_settings", differing)
        saved_at = saved_offsets(assignment, header)
        for log in assignment.logs:
            problem = truncated(saved_at[log.partition], log.end)
            if problem is not None:
                return self.anew(assignment, "on_truncated", problem)
        offsets = {
            log.partition: self._past_retention(log, saved_at[log.partition], header.place, news)
            for log in assignment.logs
        }
        skipped = sum(offsets.values()) - sum(saved_at.values())
        counted = self._counted(assignment, header.place, offsets, news, torn=torn, found=True)
        beside = header.offset - sum(saved_at.values())
        return Resumption(
            assignment=assignment,
            place=header.place,
            offsets=offsets,
            counted=max(counted + beside, header.counted, self._shown.get(header.place, 0)),
            saved=saved,
            partitions=header.partitions,
            skipped=skipped,
            news=news,
        )

    def _past_retention(
        self, assignment: Assignment, offset: int, place: Place, news: list[News]
    ) -> int:
        problem = lost_records(offset, assignment.begin)
        if problem is None:
            return offset
        self._policies.obey("on_retention", _where(assignment, place), problem)
        news.append(_news(place, "records were lost before they were counted", problem=problem))
        return assignment.begin

    def _counted(
        self,
        assignment: Assignment,
        place: Place,
        offsets: Mapping[Partition, int],
        news: list[News],
        *,
        torn: bool = False,
        found: bool = False,
    ) -> int:
        """Below where nothing is shown; a damaged file explains a commit that is ahead."""
        counted = 0
        for log in assignment.logs:
            offset, committed = offsets[log.partition], log.committed
            problem = foreign_progress(offset, committed, found=found)
            if problem is not None:
                if not torn:
                    self._policies.obey("on_foreign_progress", _where(log, place), problem)
                event = "state is rebuilt up to the group's commit"
                news.append(_news(place, event, problem=problem))
            counted += max(offset, committed or 0)
        return counted

    def _known(self, place: Place) -> int | None:
        """How many partitions the topic had when the oldest state of it began."""
        known = [self._partitions(each) for each in self._places if each[:2] == place[:2]]
        return min((count for count in known if count is not None), default=None)

    def _partitions(self, place: Place) -> int | None:
        try:
            saved = self._store.newest(place).saved
        except StateVersionError:
            return None
        return None if saved is None else saved.header.partitions


def _where(log: Assignment, place: Place) -> str:
    """Which log is meant: one of those that are counted under the place."""
    return str(log.partition if log.partition.topic != place.topic else place)


def saved_offsets(assignment: Assignment, header: Header) -> dict[Partition, int]:
    """The next offset of each log behind a state; one that it does not know begins."""
    if not assignment.members:
        return {assignment.partition: header.offset}
    return {
        log.partition: header.offsets.get(str(log.partition), log.start)
        for log in assignment.members
    }


def _news(place: Place, event: str, **fields: str) -> News:
    return News("warning", event, {"partition": str(place), **fields})
