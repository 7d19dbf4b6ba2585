"""The work of `streameval publish`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streameval.cli.ending import output, tell, wrong_call_where
from streameval.cli.screen import progress_console
from streameval.errors import SourceError
from streameval.publish import Destination, Published, publish
from streameval.sources.opening import size


def published(paths: Sequence[str], destination: Destination) -> None:
    """Publish the files, with progress on a terminal, and say what became of them.

    Raises:
        WrongCallError: a file is not there; nothing was published.
        ConfigError: a setting is unknown or not a user's to set.
        SourceError: a file is damaged, or the client refuses its settings.
        PublishError: no broker answers, or it refuses the topic or a record.
    """
    with wrong_call_where(SourceError):
        for path in paths:
            size(path)
    done = _publish(paths, destination)
    if done.without_user:
        tell(
            f"{done.without_user:,} records have no {destination.user!r} and were published "
            "without a key; --user names another field."
        )
    made = f", made with {destination.partitions} partitions" if done.created else ""
    with output():
        sys.stdout.write(f"{done.records:,} records are in topic {destination.topic}{made}.\n")


def _publish(paths: Sequence[str], destination: Destination) -> Published:
    console = progress_console()
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} records"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=console is None, transient=True) as progress:
        task = progress.add_task("", total=None)
        return publish(
            paths, destination, os.environ, lambda count: progress.update(task, completed=count)
        )
