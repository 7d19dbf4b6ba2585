"""`streameval demo`: the daemon on simulated traffic, with a table in the terminal."""

from __future__ import annotations

import heapq
import logging
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from typer import Option

from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.words import summary_lines, verdict_text
from streameval.analyses.registry import Configuration
from streameval.config import Config, WebOptions
from streameval.config.checks import check_config
from streameval.config.tables import WindowsOptions
from streameval.daemon import Daemon, StopSignal, configure
from streameval.decoding.fields import EventFields
from streameval.engine.snapshot import LIFETIME, Series, Snapshot
from streameval.evaluation.shell.exits import output, report
from streameval.evaluation.shell.terminal import draw_text, grid
from streameval.events.errors import ConfigError, StreamevalError, UsageError
from streameval.exporters.view import figure
from streameval.inference.text_table import TextColumn, TextTable
from streameval.inference.words import percent
from streameval.join.attribution import AttributionOptions, InteractionOptions
from streameval.sources.settings import FilesOptions, KafkaOptions, SimulatorOptions, SourceOptions
from streameval.sources.simulated_streams import (
    GAINS,
    IGNORED_TYPE,
    Impression,
    SimulatedInteraction,
    line,
    streams,
)
from streameval.sources.simulator import (
    CATALOG_SIZE,
    VARIANTS,
    SimulatedVariant,
    expected_ctr,
    expected_hit_rate,
    pace_records,
    records,
)
from streameval.sources.topics import Destination, publish_records
from streameval.statistics.intervals import Intervals
from streameval.testing.broker import Broker

_METRICS: Final = ("ctr", "hit_rate@10", "ndcg@10", "mrr@10", "recall@10", "item_coverage@5")
# Short panes: a chart shows a line within the first minute.
_WINDOWS: Final = WindowsOptions(spans=["1m", "5m", "1h"], lateness="10s", pane="10s")
# Event time of the two streams runs faster: a list every 4 s, interactions up to 25 min later.
_STREAM_WINDOWS: Final = WindowsOptions(spans=["15m", "1h", "6h"], lateness="5m", pane="1m")
_STREAM_EVENT: Final = EventFields(time="ts", time_unit="ms")
_EVENT: Final = EventFields(time="ts", time_unit="iso8601")
_PATHS: Final = {"page": "/", "Prometheus": "/metrics", "API": "/api/v1/metrics"}
_LISTS: Final = 2_000
"""Lists generated at a time."""
_PAUSE_MS: Final = 3_600_000
"""Event time between two such parts; the gap keeps records of the next part from being late."""
_NAMES: Final = {"a": "control", "b": "treatment"}
_TOPIC: Final = "streameval-demo"


def demo(
    *,
    events_per_second: Annotated[
        float, Option(min=0.1, max=1_000_000, help="Pace of the traffic.")
    ] = 200.0,
    seconds: Annotated[
        float | None, Option(min=0, help="Seconds to run; by default until Ctrl-C.")
    ] = None,
    seed: Annotated[int, Option(min=0, help="Random seed; equal seeds give equal traffic.")] = 0,
    listen: Annotated[
        str, Option(metavar="HOST:PORT", help="Address to serve on.")
    ] = "127.0.0.1:9877",
    kafka: Annotated[
        bool, Option("--kafka", help="Send the traffic through a temporary Kafka broker.")
    ] = False,
    attribution: Annotated[
        bool,
        Option("--attribution", help="Join two streams: impressions and later interactions."),
    ] = False,
) -> None:
    """Run a demo: three variants on simulated traffic, with live comparisons.

    Treatment is better than control. Placebo behaves like control, so its differences are chance.
    The page, /metrics and /api/v1/metrics are at the printed address. Event time begins on
    2026-01-01; events are 10 ms apart.

    ```
    streameval demo
    streameval demo --events-per-second 5000 --seconds 30
    streameval demo --attribution
    streameval demo --kafka    # needs an extra: pip install '.[daemon,broker]'
    ```
    """
    if kafka and attribution:
        raise UsageError("--kafka and --attribution exclude each other; give one of them.")
    traffic = SimulatorOptions(seed=seed, events_per_second=events_per_second)
    configure(logging.WARNING)
    base = check_config("command line", demo_config(traffic, listen))
    prepared: AbstractContextManager[Config] = nullcontext(base)
    if kafka or attribution:
        prepared = (through_kafka if kafka else two_streams)(traffic, base)
    with prepared as config, output(), screen() as show:
        daemon = Daemon(config, {}, observe=show)
        with StopSignal(seconds).on_signals() as stop:
            show.address = daemon.address
            daemon.run(until=stop)


def demo_config(source: SourceOptions, listen: str) -> Config:
    """The configuration of the demo; `listen`: the address of its page."""
    try:
        # Nobody's Prometheus must see the counters rise from 0; whoever tries /metrics sees values.
        web = WebOptions(listen=listen, first_exposure="0s")
    except ConfigError as error:
        raise ConfigError("the command line", "--listen", error.problem) from None
    config: Config = Configuration(
        metrics=list(_METRICS),
        labels=["variant"],
        catalog=CATALOG_SIZE,
        intervals=Intervals(),
        experiment=Experiment(primary=["ndcg@10"], guardrails={"ctr": -0.05}),
        windows=_WINDOWS,
        event=_EVENT,
        source=source,
        web=web,
    )
    return config


@contextmanager
def screen() -> Iterator[Screen]:
    """A screen that suits standard output."""
    if sys.stdout.isatty():
        with Live(console=Console(), auto_refresh=False) as live:
            yield Screen(live)
        return
    show = Screen(None)
    yield show
    if show.last is not None:
        sys.stdout.write(draw_text(*_summaries(show.last), table(show.last)))


class Screen:
    """Addresses, summaries and a table of the variants, redrawn with each snapshot.

    Without `live` it writes the addresses alone.
    """

    def __init__(self, live: Live | None) -> None:
        self.address = ""
        self.last: Snapshot | None = None
        self._live = live

    def __call__(self, snapshot: Snapshot) -> None:
        """Show this one."""
        first, self.last = self.last is None, snapshot
        addresses = [f"{name:<11} {self.address}{path}" for name, path in _PATHS.items()]
        if self._live is not None:
            # What a small terminal cuts off is at the end.
            above = Text("\n".join([*addresses, *_summaries(snapshot)]))
            drawn = grid(table(snapshot), self._live.console.width)
            self._live.update(Group(above, drawn, Text(_status(snapshot))), refresh=True)
        elif first:
            sys.stdout.writelines(f"{line}\n" for line in addresses)
            sys.stdout.flush()


def _summaries(snapshot: Snapshot) -> list[str]:
    """The verdicts about each variant in one line, and the true lifts."""
    report = EXPERIMENTS.report_in(snapshot.findings)
    lifts = [f"{metric} {lift}" for metric in values(snapshot) if (lift := _truth(metric))]
    truth = [f"True lifts of {VARIANTS[-1]}: {', '.join(lifts)}."] if lifts else []
    return [*(summary_lines(report) if report else ()), *truth]


def _status(snapshot: Snapshot) -> str:
    seconds = snapshot.taken_at - snapshot.started_at
    health = snapshot.health
    counts = (
        f"{health.consumed:,} events in {seconds:.0f} s, {sum(health.invalid.values()):,} invalid"
    )
    return f"{counts}. {health.trouble or 'Ctrl-C stops it.'}"


def table(snapshot: Snapshot) -> TextTable[str]:
    """The variants side by side, and the verdicts about treatment."""
    by_metric = values(snapshot)
    seen = {variant for variants in by_metric.values() for variant in variants}
    present = [variant for variant in VARIANTS if variant in seen]
    report = EXPERIMENTS.report_in(snapshot.findings)
    treatment = VARIANTS[-1]
    verdicts = {
        row.metric: row for row in (report.rows if report else ()) if row.variant == treatment
    }

    def value(variant: str, metric: str) -> str:
        series = by_metric[metric].get(variant)
        return "" if series is None else figure(series.reading.value)

    def verdict(metric: str) -> str:
        row = verdicts.get(metric)
        return "" if row is None else verdict_text(row)

    def tone(metric: str) -> str:
        row = verdicts.get(metric)
        return "" if row is None else row.verdict

    columns: list[TextColumn[str]] = [
        TextColumn("metric", str),
        *(TextColumn(variant, partial(value, variant), "right") for variant in present),
        TextColumn(f"{treatment} is", verdict, tone=tone),
    ]
    return TextTable(columns, list(by_metric), "Simulated traffic, values since start")


def values(snapshot: Snapshot) -> Mapping[str, Mapping[str, Series]]:
    """Metric text -> variant -> its series over the lifetime."""
    by_metric: dict[str, dict[str, Series]] = {}
    for series in snapshot.series:
        if series.window == LIFETIME:
            by_metric.setdefault(series.metric.text, {})[series.labels[0]] = series
    return by_metric


def _truth(metric: str) -> str:
    """The true lift of treatment; empty if the simulator does not know it."""

    def true(variant: SimulatedVariant) -> float | None:
        if metric == "ctr":
            return expected_ctr(variant)
        return expected_hit_rate(variant, 10) if metric == "hit_rate@10" else None

    control, treatment = true(VARIANTS[0]), true(VARIANTS[-1])
    if control is None or treatment is None:
        return ""
    return percent(treatment / control - 1.0, "+")


@contextmanager
def two_streams(traffic: SimulatorOptions, base: Config) -> Iterator[Config]:
    """Write both streams into named pipes, at the pace of the traffic."""
    with TemporaryDirectory(prefix="streameval-demo-") as folder:
        paths = [str(Path(folder) / name) for name in ("impressions", "interactions")]
        for path in paths:
            os.mkfifo(path)
        writer = threading.Thread(target=_write, args=(traffic, paths), name="streams", daemon=True)
        writer.start()
        interactions = InteractionOptions(
            source=paths[1], event_id="event_id", types=dict(GAINS), ignore=[IGNORED_TYPE]
        )
        joined = msgspec.structs.replace(
            base,
            source=FilesOptions(paths=paths),
            attribution=AttributionOptions(
                impressions=paths[0], interactions=[interactions], window="30m", lateness="5m"
            ),
            event=_STREAM_EVENT,
            metrics=[*_METRICS, "hit_rate(type=purchase)@10", "value_per_list"],
            windows=_STREAM_WINDOWS,
            experiment=Experiment(shares={"control": 2.0, "treatment": 1.0}),
        )
        yield check_config("command line", joined)


def _write(traffic: SimulatorOptions, paths: list[str]) -> None:
    pace = traffic.events_per_second or 1.0
    try:
        with Path(paths[0]).open("wb", 0) as impressions, Path(paths[1]).open("wb", 0) as clicks:
            files = impressions, clicks
            for stream, record in pace_records(_records(traffic.seed), pace):
                files[stream].write(record + b"\n")
    except BrokenPipeError:
        return  # the daemon has stopped: the demo is over


def _records(seed: int) -> Iterator[tuple[int, bytes]]:
    """Stream number and bytes of each record, endless, in the order of writing."""
    for part in count():
        shift = part * (_PAUSE_MS + _LISTS * 4_000)
        logs = enumerate(streams(_LISTS, seed + part, invalid=False))
        for _, stream, record in heapq.merge(*(_with_times(at, log, shift) for at, log in logs)):
            yield stream, record


def _with_times(
    stream: int, log: Iterable[Impression | SimulatedInteraction | bytes], shift: int
) -> Iterator[tuple[int, int, bytes]]:
    """Records, later by `shift`, each with the newest time of its log, by which it is sent."""
    clock = 0
    for record in log:
        if isinstance(record, Impression | SimulatedInteraction):  # there are no invalid ones
            later = msgspec.structs.replace(record, ts=record.ts + shift)
            if isinstance(later, Impression):
                later = msgspec.structs.replace(later, variant=_NAMES[later.variant])
            clock = max(clock, later.ts)
            yield clock, stream, line(later)


@contextmanager
def through_kafka(traffic: SimulatorOptions, base: Config) -> Iterator[Config]:
    """Start a broker and publish the traffic to it, at the pace of the traffic."""
    report("starting a Kafka broker; the first start downloads 46 jars.")
    with Broker() as broker:
        kafka = {"bootstrap_servers": broker.bootstrap_servers}
        stopping = threading.Event()
        work = (traffic, Destination(topic=_TOPIC, kafka=kafka), stopping)
        publisher = threading.Thread(target=_publish, args=work, name="publisher", daemon=True)
        publisher.start()
        try:
            source = KafkaOptions(topics=[_TOPIC], kafka=kafka)
            yield msgspec.structs.replace(base, source=source)
        finally:
            stopping.set()
            publisher.join(timeout=10.0)


def _publish(traffic: SimulatorOptions, to: Destination, stopping: threading.Event) -> None:
    events = pace_records(records(traffic), traffic.events_per_second or 1.0, stopping.wait)
    try:
        publish_records(takewhile(lambda _: not stopping.is_set(), events), to, {})
    except StreamevalError as error:
        report(*error.lines)
