"""`streameval publish`: writes the lines of files to a Kafka topic."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import chain
from typing import Annotated

from rich.progress import (
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from typer import Argument, Option

from streameval.evaluation.arguments import as_usage_error
from streameval.evaluation.shell.exits import output, report
from streameval.evaluation.shell.terminal import progress_console, quantity
from streameval.events.errors import SourceError, UsageError
from streameval.sources.files import lines
from streameval.sources.opening import size
from streameval.sources.topics import Destination, Published, publish_records


def publish(
    paths: Annotated[
        list[str],
        Argument(
            metavar="PATH...", help="Files of JSON lines: plain, .gz or .zst; - is standard input."
        ),
    ],
    *,
    bootstrap_servers: Annotated[str, Option(help="HOST:PORT of brokers, separated by commas.")],
    topic: Annotated[str, Option(help="Topic to write to; created if missing.")],
    partitions: Annotated[int, Option(min=1, help="Number of partitions of a new topic.")] = 4,
    user: Annotated[
        str, Option(metavar="FIELD", help="Field with the user; its value is the record's key.")
    ] = "user",
    setting: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="Kafka setting, a key of [source.kafka]; may be repeated.",
        ),
    ] = None,
) -> None:
    """Publish the lines of files to a Kafka topic, keyed by user.

    ```
    streameval publish events.ndjson.gz --bootstrap-servers 127.0.0.1:9092 --topic events
    ```

    Each line is published unchanged.
    """
    kafka = {"bootstrap_servers": bootstrap_servers}
    for assignment in setting or []:
        key, equals, value = assignment.partition("=")
        if not key or not equals or key in kafka:
            raise UsageError(f"--set: found {assignment!r}; give KEY=VALUE, each key once.")
        kafka[key] = value
    with as_usage_error(SourceError):
        for path in paths:
            size(path)
    destination = Destination(topic=topic, kafka=kafka, partitions=partitions, user=user)
    done = _publish(paths, destination)
    if done.without_user:
        report(
            f"{done.without_user:,} records have no {user!r} and were published without a key; "
            "use --user to name another field."
        )
    made = f", created with {quantity(partitions, 'partition')}" if done.created else ""
    with output():
        sys.stdout.write(f"{quantity(done.records, 'record')} published to topic {topic}{made}.\n")


def _publish(paths: Sequence[str], destination: Destination) -> Published:
    console = progress_console()
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} records"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=console is None, transient=True) as progress:
        task = progress.add_task("", total=None)
        records = chain.from_iterable(map(lines, paths))
        return publish_records(
            records, destination, os.environ, lambda count: progress.update(task, completed=count)
        )
