"""What there is to say of partitions when they are handed to an owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from streameval.errors import SourceError
from streameval.records import Assignment, Owner, Partition
from streameval.sources.kafka_cluster import Cluster, Topics
from streameval.sources.kafka_start import EARLIEST, LATEST, checked_positions


def assignments(
    cluster: Cluster,
    topics: Topics,
    partitions: Sequence[Partition],
    start: int,
    *,
    old: Collection[Partition],
    group: str | None = None,
) -> list[Assignment]:
    """These partitions as the cluster knows them now.

    Args:
        cluster: to ask.
        topics: the cluster's answer about their topics.
        partitions: of them, the ones to be handed over.
        start: EARLIEST, LATEST, or milliseconds since the epoch.
        old: those that were there when we began to watch; of the others, which are new as a whole,
            even "latest" means the beginning.
        group: whose commits to tell; None for none.

    Raises:
        KafkaError: the broker does not answer, or a partition has no leader.
    """
    begins = cluster.offsets(partitions, EARLIEST)
    ends = cluster.offsets(partitions, LATEST)
    at = begins if start == EARLIEST else cluster.offsets(partitions, start)
    starts = {p: ends[p] if at[p] < 0 else at[p] for p in partitions}
    if start == LATEST:
        starts |= {p: begins[p] for p in partitions if p not in old}
    committed = cluster.committed(group, partitions) if group is not None else {}
    count = Counter(partition.topic for partition in topics.partitions)
    return [
        Assignment(
            partition=partition,
            identity=topics.identities[partition.topic],
            begin=begins[partition],
            end=ends[partition],
            start=starts[partition],
            committed=committed.get(partition),
            partitions=count[partition.topic],
        )
        for partition in partitions
    ]


def places(owner: Owner, given: Sequence[Assignment]) -> dict[Partition, int]:
    """Hand them over; where the owner begins each, found inside its log.

    Raises:
        StreamevalError: the owner refuses one.
        SourceError: a place lies before the first or after the last record.
    """
    if not given:
        return {}
    found: Mapping[Partition, int] = owner.assigned(given)
    begins = {each.partition: each.begin for each in given}
    ends = {each.partition: each.end for each in given}
    return checked_positions(found, begins, ends)


def require_described(topics: Topics, partitions: Collection[Partition]) -> None:
    """Refuse partitions that the cluster says do not exist.

    Raises:
        SourceError: there is one.
    """
    unknown = sorted(set(partitions) - set(topics.partitions))
    if unknown:
        problem = "was assigned to us, but the cluster does not know it"
        raise SourceError(
            str(unknown[0]), problem, "its topic was deleted; restart when it is back"
        )
