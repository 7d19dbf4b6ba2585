"""The work of `streameval demo`: the daemon on traffic of its own making."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from streameval.cli.demo_screen import screen
from streameval.cli.ending import output
from streameval.config import Config, WebOptions
from streameval.config.checks import checked
from streameval.config.options import WindowsOptions
from streameval.daemon import Daemon, Stop, configure
from streameval.pipeline.fields import EventFields
from streameval.sources.options import SimulatorOptions, SourceOptions
from streameval.sources.simulator import ITEMS

_METRICS: Final = ("ctr", "hit_rate@10", "ndcg@10", "mrr@10", "recall@10", "item_coverage@10")
# Panes so short that a chart has a line within the first minute.
_WINDOWS: Final = WindowsOptions(spans=["1m", "5m", "1h"], lateness="10s", pane="10s")
# Time runs faster there: a list every four seconds, and interactions up to 25 minutes later.
_LONGER: Final = WindowsOptions(spans=["15m", "1h", "6h"], lateness="5m", pane="1m")
_WRITTEN: Final = EventFields(time="ts", time_unit="ms")
_TIME: Final = EventFields(time="ts", time_unit="iso8601")


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated, and for how long.

    Attributes:
        seed: equal seeds give equal traffic.
        events_per_second: its pace.
        seconds: None means until Ctrl-C.
    """

    seed: int
    events_per_second: float
    seconds: float | None

    @property
    def options(self) -> SimulatorOptions:
        """The same for the simulator."""
        return SimulatorOptions(seed=self.seed, events_per_second=self.events_per_second)


def shown(traffic: Traffic, *, listen: str, kafka: bool, attribution: bool = False) -> None:
    """Run the daemon and show what it publishes, until the time is over or somebody stops it.

    Raises:
        AddressInUseError: something else listens there.
        ConfigError: the address is none.
        MissingExtraError: `kafka`, and the extra "broker" is not installed.
        BrokerError: `kafka`, and the broker does not start.
    """
    configure(logging.WARNING)
    if attribution:
        _show_joined(traffic, listen)
        return
    checked("command line", _config(traffic.options, listen))
    with _source(traffic, kafka=kafka) as source, output(), screen() as show:
        daemon = Daemon(_config(source, listen), {}, observe=show)
        with Stop(traffic.seconds).on_signals() as stop:
            show.address = daemon.address
            daemon.run(until=stop)


def _show_joined(traffic: Traffic, listen: str) -> None:
    """The same, with what is shown and what is done in two streams."""
    from streameval.cli.demo_streams import two_streams  # noqa: PLC0415  only where used

    with two_streams(traffic.options) as written, output(), screen() as show:
        joined = msgspec.structs.replace(
            _config(written.source, listen),
            attribution=written.attribution,
            event=_WRITTEN,
            metrics=[*_METRICS, "hit_rate(type=purchase)@10", "value_per_list"],
            windows=_LONGER,
        )
        daemon = Daemon(checked("command line", joined), {}, observe=show)
        with Stop(traffic.seconds).on_signals() as stop:
            show.address = daemon.address
            daemon.run(until=stop)


def _config(source: SourceOptions, listen: str) -> Config:
    return Config(
        metrics=list(_METRICS),
        labels=["variant"],
        catalog=ITEMS,
        windows=_WINDOWS,
        event=_TIME,
        source=source,
        web=WebOptions(listen=listen),
    )


@contextmanager
def _source(traffic: Traffic, *, kafka: bool) -> Iterator[SourceOptions]:
    if not kafka:
        yield traffic.options
        return
    from streameval.cli.demo_kafka import through_kafka  # noqa: PLC0415  heavy; only where used

    with through_kafka(traffic.options) as source:
        yield source
