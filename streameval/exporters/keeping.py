"""What is kept, set aside and recovered from, as families of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from streameval.exporters.families import Family, own_family
from streameval.pipeline.snapshot import CheckpointHealth, Health
from streameval.records import Partition


def special_counts(health: Health) -> Iterator[Family]:
    """Events that came late or again, under a common label, or were set aside."""
    yield own_family(
        "events_late",
        "counter",
        "Events that came too late for every window since the process started; they count in the "
        "lifetime alone. If it grows steadily, raise lateness in [windows].",
        _if_known(health.late),
    )
    yield own_family(
        "events_duplicate",
        "counter",
        "Events that were counted before, by their id, since the process started; they are in no "
        "metric.",
        _if_known(health.duplicates),
    )
    yield own_family(
        "events_folded",
        "gauge",
        "Events under the label value __other__, by family of series; above 0, a label has more "
        "values than label_cap or a family more combinations than max_series.",
        [({"family": name}, count) for name, count in sorted(health.folded.items())],
    )
    yield own_family(
        "dlq_events",
        "counter",
        "Invalid records handed to the dead letters since the process started, those read again "
        "after a crash included.",
        _if_known(health.dead_lettered),
    )


def keeping(health: Health) -> Iterator[Family]:
    """Checkpoints, commits, the watchdog and the configuration."""
    if health.checkpoint is not None:
        yield from _checkpoints(health.checkpoint)
        yield own_family(
            "commit_failures",
            "counter",
            "Commits of the group's offsets that failed since the process started; each is tried "
            "again, and counters stand still until one succeeds.",
            [({}, health.commit_failures)],
        )
    yield own_family(
        "kafka_watchdog_recoveries",
        "counter",
        "What was done about a reading that stood still although records waited, by step, since "
        "the process started.",
        [({"step": step}, count) for step, count in sorted(health.recoveries.items())],
    )
    reload = health.reload
    yield own_family(
        "config_last_reload_successful",
        "gauge",
        "Whether the configuration file as it was last read is in force; 0 means that it has a "
        "mistake and the one before it is.",
        [] if reload is None else [({}, float(reload.successful))],
    )
    yield own_family(
        "config_last_reload_timestamp_seconds",
        "gauge",
        "When the configuration file was last read, seconds since the epoch.",
        [] if reload is None else [({}, reload.at)],
    )


def _checkpoints(health: CheckpointHealth) -> Iterator[Family]:
    yield own_family(
        "checkpoint_last_success_timestamp_seconds",
        "gauge",
        "When this process last made its state durable, seconds since the epoch; absent before "
        "the first time. time() minus this should stay near the interval in [state].",
        _if_known(health.last_success),
    )
    yield own_family(
        "checkpoint_failures",
        "counter",
        "Checkpoints that could not be written since the process started; the log says why.",
        [({}, health.failures)],
    )
    yield own_family(
        "checkpoint_offset",
        "gauge",
        "Where reading would go on after a crash: all records before it are durable in the state.",
        [(place(where), offset) for where, offset in sorted(health.offsets.items())],
    )


def place(partition: Partition) -> dict[str, str]:
    """The labels that say which partition."""
    return {"topic": partition.topic, "partition": str(partition.number)}


def _if_known(value: float | None) -> list[tuple[dict[str, str], float]]:
    return [] if value is None else [({}, value)]
