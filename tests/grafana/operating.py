"""The dashboard about the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from tests.grafana.parts import (
    SPANS,
    Query,
    Shown,
    board,
    chart,
    chosen,
    figure,
    source_and_job,
)

_JOB = '{job=~"$job"}'
_LAG = f"max by (job, topic, partition) (streameval_kafka_consumer_lag{_JOB})"
_TIME = f"max by (job, topic, partition) (streameval_watermark_timestamp_seconds{_JOB})"
_SAVED = f"time() - streameval_checkpoint_last_success_timestamp_seconds{_JOB}"


def pipeline() -> Dashboard:
    """How the pipeline fares: reading, what is not counted, what is kept, the processes."""
    span = chosen("span", SPANS, "5m", "Rates are of so long before each point.")
    about = "Reading, what is not counted, what is kept, and the processes themselves."
    variables = [*source_and_job(), span]
    made = board("streameval-pipeline", "streameval: pipeline", about, variables)
    made = made.with_row(Row("Now"))
    for shown in _now():
        made = made.with_panel(figure(shown._replace(width=4)))
    for title, panels in _rows().items():
        made = made.with_row(Row(title))
        for shown in panels:
            made = made.with_panel(chart(shown._replace(width=24 // min(len(panels), 3))))
    return made


def _rows() -> Mapping[str, Sequence[Shown]]:
    return {
        "Reading": _reading(),
        "What is not counted": _left_out(),
        "What is set aside, folded or refused": _set_aside(),
        "What is kept": _kept(),
        "Processes": _processes(),
    }


def _rate(name: str, by: str) -> str:
    return f"sum by ({by}) (rate(streameval_{name}{_JOB}[$span]))"


def _now() -> list[Shown]:
    invalid, all_read = _rate("events_invalid_total", "job"), _rate("events_consumed_total", "job")
    return [
        Shown(
            "Ready",
            "short",
            "Processes that have begun to read.",
            [Query(f"sum(streameval_ready{_JOB})", "ready")],
            "StreamevalNotReady",
        ),
        Shown(
            "Waiting",
            "short",
            "Records in Kafka that are not read yet.",
            [Query(f"sum({_LAG})", "records")],
            "StreamevalLagGrowing",
        ),
        Shown(
            "Behind live",
            "s",
            "Now minus the largest event time.",
            [Query(f"time() - max({_TIME})", "behind")],
            "StreamevalWatermarkStuck",
        ),
        Shown(
            "Invalid",
            "percentunit",
            "Share of the records read that are invalid.",
            [Query(f"{invalid} / ({all_read} > 0)", "{{job}}")],
            "StreamevalInvalidEvents",
        ),
        Shown(
            "Oldest checkpoint",
            "s",
            "Since a process last made its state durable, the longest of all.",
            [Query(f"max({_SAVED})", "age")],
            "StreamevalCheckpointOld",
        ),
        Shown(
            "Configuration in force",
            "short",
            "1 where the file that was read last is in force everywhere, 0 where it has a mistake.",
            [Query(f"min(streameval_config_last_reload_successful{_JOB})", "in force")],
            "StreamevalConfigurationRefused",
        ),
    ]


def _reading() -> list[Shown]:
    return [
        Shown(
            "Records read",
            "cps",
            "Per second and process, whatever became of them.",
            [Query(_rate("events_consumed_total", "instance"), "{{instance}}")],
            "StreamevalNoEvents",
        ),
        Shown(
            "Lag",
            "short",
            "Records between reading and the end of each partition; near 0 after every restart.",
            [Query(_LAG, "{{topic}} {{partition}}")],
            "StreamevalLagGrowing",
        ),
        Shown(
            "Behind live",
            "s",
            "Now minus the largest event time of each partition. Growing by a second each second, "
            "time stands still; below 0, most events claim to be from the future.",
            [Query(f"time() - {_TIME}", "{{topic}} {{partition}}")],
            "StreamevalWatermarkStuck",
        ),
    ]


def _left_out() -> list[Shown]:
    return [
        Shown(
            "Invalid, by reason",
            "cps",
            "Invalid records per second; they are in no metric.",
            [Query(_rate("events_invalid_total", "reason"), "{{reason}}")],
            "StreamevalInvalidEvents",
        ),
        Shown(
            "Late and from the future",
            "cps",
            "Events too late for every window, and those ahead of their partition's clock, per "
            "second; they count in the lifetime alone.",
            [
                Query(_rate("events_late_total", "job"), "{{job}} late"),
                Query(_rate("events_future_total", "job"), "{{job}} from the future"),
            ],
            "StreamevalLateEvents",
        ),
        Shown(
            "Duplicates and deletions",
            "cps",
            "Events that were counted before, and records without a value, per second.",
            [
                Query(_rate("events_duplicate_total", "job"), "{{job}} duplicates"),
                Query(_rate("events_tombstone_total", "job"), "{{job}} deletions"),
            ],
        ),
    ]


def _set_aside() -> list[Shown]:
    return [
        Shown(
            "Dead letters",
            "cps",
            "Invalid records written as dead letters, per second.",
            [Query(_rate("dlq_events_total", "job"), "{{job}}")],
            "StreamevalDeadLetters",
        ),
        Shown(
            "Folded",
            "short",
            "Events under __other__, by family: a label has more values than its limit.",
            [Query(f"sum by (family) (streameval_events_folded{_JOB})", "{{family}}")],
            "StreamevalValuesFolded",
        ),
        Shown(
            "Refused by a convention",
            "short",
            "Values left out because their convention has none for these lists; none is usual.",
            [Query(f"max by (metric) (streameval_readings_undefined{_JOB})", "{{metric}}")],
        ),
    ]


def _kept() -> list[Shown]:
    failures = "{{instance}} checkpoints: {{reason}}", "{{instance}} commits"
    names = "checkpoint_failures_total", "commit_failures_total"
    return [
        Shown(
            "Age of the checkpoint",
            "s",
            "Since each process last made its state durable; near the interval in [state].",
            [Query(_SAVED, "{{instance}}")],
            "StreamevalCheckpointOld",
        ),
        Shown(
            "Made durable",
            "cps",
            "Records per second that checkpoints passed, by partition; level with those read.",
            [
                Query(
                    f"max by (topic, partition) (deriv(streameval_checkpoint_offset{_JOB}[$span]))",
                    "{{topic}} {{partition}}",
                )
            ],
            "StreamevalCheckpointOld",
        ),
        Shown(
            "Failures",
            "short",
            "Checkpoints and commits that failed within the span; the log says why.",
            [
                Query(f"increase(streameval_{name}{_JOB}[$span])", legend)
                for name, legend in zip(names, failures, strict=True)
            ],
            "StreamevalCheckpointFailing",
        ),
    ]


def _processes() -> list[Shown]:
    recoveries = (
        f"sum by (step) (increase(streameval_kafka_watchdog_recoveries_total{_JOB}[$span]))"
    )
    return [
        Shown(
            "Recoveries",
            "short",
            "What was done about a reading that stood still, by step, within the span.",
            [Query(recoveries, "{{step}}")],
            "StreamevalStuck",
        ),
        Shown(
            "Failed connections",
            "short",
            "Attempts to reach Kafka or the schema registry that failed, by reason.",
            [
                Query(f"sum by (reason) (increase({name}{_JOB}[$span]))", f"{whom}: {{{{reason}}}}")
                for whom, name in (
                    ("Kafka", "streameval_kafka_connection_failures_total"),
                    ("registry", "streameval_schema_registry_failures_total"),
                )
            ],
            "StreamevalLoginRefused",
        ),
        Shown(
            "Lost to retention",
            "short",
            "Offsets that Kafka had deleted before they were counted, since each process started.",
            [Query(f"streameval_events_skipped_total{_JOB}", "{{instance}}")],
            "StreamevalRecordsSkipped",
        ),
        Shown(
            "Restarts",
            "short",
            "How often each process was started again within the span.",
            [Query(f"changes(process_start_time_seconds{_JOB}[$span])", "{{instance}}")],
            "StreamevalRestarts",
        ),
        Shown(
            "Age of the values shown",
            "s",
            "Since the values that were scraped were read; near 1 s while the pipeline turns.",
            [Query(f"time() - streameval_snapshot_timestamp_seconds{_JOB}", "{{instance}}")],
            "StreamevalSnapshotOld",
        ),
        Shown(
            "Configuration read",
            "s",
            "Since each process last read its configuration file again.",
            [
                Query(
                    f"time() - streameval_config_last_reload_timestamp_seconds{_JOB}",
                    "{{instance}}",
                )
            ],
            "StreamevalConfigurationRefused",
        ),
        Shown(
            "Processor",
            "percentunit",
            "Share of one core; near 100 %, a process does what it can.",
            [Query(f"rate(process_cpu_seconds_total{_JOB}[$span])", "{{instance}}")],
            "StreamevalLagGrowing",
        ),
        Shown(
            "Memory",
            "bytes",
            "Resident memory, and its limit; it grows with labels, segments and windows, and then "
            "stays.",
            [
                Query(f"process_resident_memory_bytes{_JOB}", "{{instance}}"),
                Query(f"streameval_memory_limit_bytes{_JOB}", "{{instance}} limit"),
            ],
            "StreamevalMemoryNearLimit",
        ),
        Shown(
            "Release",
            "short",
            "Processes by the release they run; two at once is a deployment under way.",
            [Query(f"count by (version) (streameval_build_info{_JOB})", "{{version}}")],
        ),
    ]
