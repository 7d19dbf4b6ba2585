"""Builds the parts of a daemon from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from importlib.metadata import version

import msgspec

from streameval.checkpoints.checkpointer import Checkpointer, MemoryOnly
from streameval.checkpoints.dead_letters.queue import dead_letters_of, dead_topics
from streameval.checkpoints.scheduler import ProcessClock
from streameval.checkpoints.settings import CheckpointSettings, is_url
from streameval.checkpoints.storage import try_folder
from streameval.checkpoints.store import Store, store_of
from streameval.config import Config
from streameval.config.config import schema
from streameval.config.field_check import streams_of
from streameval.config.pipeline import new_ingest, schemas_of, with_saved_depth
from streameval.config.tables import StateOptions
from streameval.daemon.membership import MemberName
from streameval.daemon.systemd import Pulse, Supervisor
from streameval.engine.capture import SnapshotCapture
from streameval.engine.dead_letters import DeadLetters, Limits
from streameval.engine.evidence import EvidenceReader
from streameval.engine.first_records import FirstRecords
from streameval.engine.ingest import Ingest
from streameval.engine.partition import Layout
from streameval.engine.windows.times import SECOND, duration_of, unit_warning
from streameval.events.records import RecordBatch
from streameval.sources.kinds import build, newest_records
from streameval.sources.schemas.records import Schemas
from streameval.sources.source import Source


class Assembly(msgspec.Struct, kw_only=True):
    """The parts of a daemon.

    Attributes:
        dead_letters: destination of invalid records; None if they are only counted.
        tails: reads the newest records of all topics; None for sources without topics.
        schemas: of the records; None if they need none.
    """

    config: Config
    source: Source
    ingest: Ingest
    checkpointer: Checkpointer | MemoryOnly
    dead_letters: DeadLetters | None
    snapshots: SnapshotCapture
    worker: Executor
    pulse: Pulse
    supervisor: Supervisor
    tails: Callable[[], Iterable[RecordBatch]] | None = None
    schemas: Schemas | None = None
    member: MemberName | None = None

    def close(self) -> None:
        """Close all parts; pending writes finish first."""
        self.source.close()
        self.worker.shutdown()
        if self.dead_letters is not None:
            self.dead_letters.close()
        if self.schemas is not None:
            self.schemas.close()
        if self.member is not None:
            self.member.close()


def running_worker(name: str) -> Executor:
    """An executor of one thread, which runs already.

    A thread that begins when no memory is left may end before it says that it runs, and Python
    then waits for it for ever.
    """
    worker = ThreadPoolExecutor(1, thread_name_prefix=name)
    worker.submit(int).result()
    return worker


def assemble(
    config: Config,
    environment: Mapping[str, str],
    clock: ProcessClock,
    source: Source | None = None,
) -> Assembly:
    """Build the parts of a daemon.

    Raises:
        ConfigError: the configuration contradicts itself or the environment.
        MetricError: a metric is unknown, or lacks its inputs.
        SourceError: a file named in the configuration cannot be read.
        StoreError: the folder of checkpoints cannot be written.
    """
    supervisor = Supervisor(environment, clock.monotonic)
    pulse = Pulse(clock.monotonic, supervisor.alive)
    if config.state is not None and not is_url(config.state.path):
        # Else the first checkpoint would find out.
        try_folder(config.state.path)
    checkpoints = None if config.state is None else checkpoint_store(config.state, pulse.beat)
    last = None if checkpoints is None else checkpoints.last(config.source.logs)
    config = config if last is None else with_saved_depth(config, last.state.settings)
    member, origin = None, config.source
    if config.state is not None and origin.needs_name:
        # No name is configured, and the state may be in a folder that no other process uses.
        member = MemberName(config.state)
        origin = origin.named(member.name)
    schemas = schemas_of(config, environment)
    shared = config.state is not None
    source = source or build(origin, environment, shared=shared, schemas=schemas)
    dead_letters = limits = None
    if (options := config.dead_letter_options) is not None:
        dead_letters = dead_letters_of(config.source, environment, topic=options.topic)
        limits = Limits(options.max_ratio, options.max_run)
    ingest = new_ingest(
        config,
        schemas=schemas,
        keep_dead_letters=dead_letters is not None,
        incremental=True,
        limits=limits,
    )
    ingest.first = FirstRecords(streams_of(config))
    worker = running_worker("checkpoints")
    checkpointer: Checkpointer | MemoryOnly
    if checkpoints is None or config.state is None:
        checkpointer = MemoryOnly(ingest, dead_letters, clock, worker)
    else:
        checkpointer = Checkpointer(
            ingest,
            checkpoints,
            CheckpointSettings(
                release=version("streameval"),
                cluster=lambda: source.cluster,
                group=config.source.group_of(source.cluster),
                fingerprint=config.settings(),
                schema=schema(config),
                policies=config.state,
                interval=duration_of(config.state.interval) / SECOND,
                budget=source.budget,
            ),
            commit=source.commit,
            evidence=EvidenceReader(ingest),
            dead_letters=dead_letters,
            clock=clock,
            worker=worker,
        )
    return Assembly(
        config=config,
        source=source,
        ingest=ingest,
        checkpointer=checkpointer,
        dead_letters=dead_letters,
        snapshots=snapshots_of(config, source, ingest.layout, clock.wall()),
        worker=worker,
        pulse=pulse,
        supervisor=supervisor,
        tails=newest_records(config.source, environment),
        schemas=schemas,
        member=member,
    )


def snapshots_of(
    config: Config, source: Source, layout: Layout, started_at: float
) -> SnapshotCapture:
    """An object that takes snapshots of an ingest."""
    return SnapshotCapture(
        layout,
        source=source.name,
        labels=config.series_labels(),
        started_at=started_at,
        idle=duration_of(config.labels_idle),
        max_ahead=layout.clock.max_ahead,
        unit_warning=partial(
            unit_warning, field=str(config.event.time), unit=str(config.event.time_unit)
        ),
    )


def checkpoint_store(options: StateOptions, progress: Callable[[], None] = lambda: None) -> Store:
    """The store of checkpoints; `progress` is called for each piece that is read or written.

    Raises:
        MissingExtraError: the path is object storage, and the extra is not installed.
        StoreError: the client of the bucket cannot be created.
    """
    return store_of(options.path, options.bucket, progress)


def dead_letter_topics(config: Config) -> list[str]:
    """The topics that receive invalid records; none if they are only counted.

    Raises:
        ConfigError: one is not valid.
    """
    options = config.dead_letter_options
    names = {} if options is None else dead_topics(config.source, options.topic)
    return [*dict.fromkeys(names.values())]
