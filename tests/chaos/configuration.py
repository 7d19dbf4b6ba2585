"""The configuration that is hurt: windows, labels, a segment, duplicates, dead letters."""

from __future__ import annotations

from pathlib import Path

import msgspec

_TEXT = """
metrics = ["ndcg@10", "recall@5", "mrr", "ctr@10", "item_coverage@10"]
labels = ["variant"]
segments = ["country"]
catalog = 200
dedup = "10m"
max_ahead = "9999d"

[event]
time = "ts"
time_unit = "s"
event_id = "id"

[windows]
spans = {spans}
pane = "{pane}"

[source]
type = "kafka"
topics = ["{topic}"]
group = "{group}"
{member}

[source.kafka]
bootstrap_servers = "{broker}"
session_timeout_ms = {session}
heartbeat_interval_ms = 300
{kafka}

[state]
path = "{store}"
interval = "1s"
{events}
{policies}

[dead_letters]
max_ratio = 0.5

[web]
listen = "127.0.0.1:0"
first_exposure = "0s"
"""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between the daemons of one scenario, and between scenarios.

    Attributes:
        address: of the broker.
        proxy: where daemons find it instead; None where they go there directly.
        topic: that is read.
        folder: where the store and the configuration lie.
        group: of the consumers.
        member: name of a static member; None for a dynamic one.
        session: after so long without a heartbeat a member is gone; milliseconds.
        events: records after which there is a checkpoint even within the second.
        spans: of windows.
        pane: that they are made of.
        policies: further lines of [state].
        kafka: further lines of [source.kafka].
    """

    address: str
    topic: str
    folder: Path
    proxy: str | None = None
    group: str = "chaos"
    member: str | None = None
    session: int = 3_000
    events: int | None = None
    spans: str = '["5m", "1h", "24h"]'
    pane: str = "1m"
    policies: str = ""
    kafka: str = ""

    @property
    def store(self) -> Path:
        """Where checkpoints are kept."""
        return self.folder / "state"

    def written(self) -> Path:
        """The configuration, as a file."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        values["store"] = self.store
        values["broker"] = self.proxy or self.address
        values["member"] = f'member = "{self.member}"' if self.member else ""
        values["events"] = f"events = {self.events}" if self.events else ""
        path = self.folder / f"{self.member or 'dynamic'}.toml"
        path.write_text(_TEXT.format(**values))
        return path
