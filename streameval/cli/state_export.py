"""The work of `streameval state export`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from streameval.cli.ending import WrongCallError
from streameval.cli.readings import write_readings
from streameval.cli.state_reading import counted, held_in
from streameval.pipeline.snapshots import of_ingest


def exported(
    paths: Sequence[Path],
    *,
    partitions: Sequence[str],
    config: Path | None,
    written_as: str,
) -> None:
    """Write the readings of all states together.

    Raises:
        WrongCallError: there is no state.
        StreamevalError: a state cannot be read, or not together with the others.
    """
    held = held_in(paths, partitions)
    if not held:
        raise WrongCallError(f"no state in {', '.join(map(str, paths))}.")
    made_with, ingest = counted(held, config)
    write_readings(of_ingest(ingest, labels=made_with.labels, now=time.time()), written_as)
