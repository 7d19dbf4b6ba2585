"""`streameval publish`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option


def publish(
    paths: Annotated[
        list[str],
        Argument(
            metavar="PATH...", help="Files of JSON lines: plain, .gz or .zst; - is standard input."
        ),
    ],
    *,
    bootstrap_servers: Annotated[str, Option(help="HOST:PORT of brokers, separated by commas.")],
    topic: Annotated[str, Option(help="Where to; made where it does not exist.")],
    partitions: Annotated[int, Option(min=1, help="Of the topic, where it is made.")] = 4,
    user: Annotated[
        str, Option(metavar="FIELD", help="Its value is the key, so a user stays in order.")
    ] = "user",
    setting: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="As in [source.kafka]; may be repeated."),
    ] = None,
) -> None:
    """Publish the lines of files to a Kafka topic, keyed by user.

    ```
    streameval publish events.ndjson.gz --bootstrap-servers 127.0.0.1:9092 --topic events
    ```

    Each line is published as it is; the topic then holds the same bytes as the files.
    """
    from streameval.cli.publishing import published  # noqa: PLC0415  heavy; only where used
    from streameval.publish import Destination  # noqa: PLC0415  heavy; only where used

    kafka = dict(each.partition("=")[::2] for each in setting or [])
    kafka["bootstrap_servers"] = bootstrap_servers
    published(paths, Destination(topic=topic, kafka=kafka, partitions=partitions, user=user))
