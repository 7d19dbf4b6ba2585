"""The smaller tables of the configuration, one struct a table."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from streameval.address import host_and_port
from streameval.durability.policies import Policies


class WebOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the page, the API and /metrics are served, and to whom.

    Attributes:
        listen: "HOST:PORT", an IPv6 address in brackets: "[::1]:9877"; or a list of several.
        config_file: certificates and users, as exporters of Prometheus have them.
        route_prefix: all paths begin with it, for example "/streameval".
        allowed_hosts: names under which it is addressed, "*.example.com" for all below a domain;
            checked where there are no users.
        health_without_auth: whether health checks are answered without a password all the same.
        max_connections: at once; the one idle longest makes room for one more.
        first_exposure: how long a new counter stands at 0, so that every Prometheus sees it begin
            there: at least two scrape intervals.
    """

    listen: str | list[str] = "127.0.0.1:9877"
    config_file: str | None = None
    route_prefix: str = "/"
    allowed_hosts: list[str] = []
    health_without_auth: bool = False
    max_connections: Annotated[int, Meta(ge=1)] = 512
    first_exposure: str = "60s"

    @property
    def addresses(self) -> list[str]:
        """Where to listen, as a list."""
        return [self.listen] if isinstance(self.listen, str) else self.listen

    @property
    def hosts(self) -> list[str]:
        """Names under which it is addressed: those of `listen`, and `allowed_hosts`."""
        found = map(host_and_port, self.addresses)
        return [*(each[0] for each in found if each is not None), *self.allowed_hosts]

    @property
    def prefix(self) -> str:
        """What all paths begin with: "", or a path without a slash at its end."""
        return self.route_prefix.rstrip("/")


class WindowsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which spans of event time are read besides the lifetime.

    Attributes:
        spans: for example "5m", "1h", "24h": multiples of the pane, and of an hour above 2h.
        lateness: so much later than the newest an event may come and still be in every window.
        pane: smallest span kept; divides an hour.
    """

    spans: list[str]
    lateness: str = "2m"
    pane: str = "1m"


class MetricOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric that is kept in fewer places than the others.

    Attributes:
        name: for example "item_coverage@10".
        labels: split by these labels only; None means by all.
        windows: read in these spans only, and always over the lifetime; None means in all.
        segments: split by these segments only; None means by all.
    """

    name: str
    labels: list[str] | None = None
    windows: list[str] | None = None
    segments: list[str] | None = None


class StateOptions(Policies, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where state is kept, how often, and what happens when it does not fit the log.

    Attributes:
        path: a folder that all replicas can write.
        interval: a checkpoint is begun so long after the last one.
        events: and after so many events, whatever comes first; None means by time only.
    """

    path: str
    interval: str = "10s"
    events: Annotated[int, Meta(ge=1)] | None = None


class DeadLetterOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where records go that are no events, and how many of them are too many.

    Attributes:
        topic: of the same Kafka cluster; None means `<input>.dlq` for each topic read.
        path: a file of JSON lines, in place of a topic.
        max_ratio: reading stops when a larger share of the records is bad.
        max_run: and when more than so many in a row are.
    """

    topic: str | None = None
    path: str | None = None
    max_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.05
    max_run: Annotated[int, Meta(ge=1)] = 1000
