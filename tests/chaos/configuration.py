"""The configuration under test: windows, labels, a segment, dedup, dead letters."""

from __future__ import annotations

from pathlib import Path

import msgspec

from streameval.checkpoints.store import Store, store_of
from tests.stores import s3

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
pane = "1m"

[source]
type = "kafka"
topics = ["{topic}"]
group = "{group}"
{member}

[source.kafka]
client = "{client}"
bootstrap_servers = "{broker}"
session_timeout_ms = {session}
heartbeat_interval_ms = 300
{kafka}

[state]
path = "{store}"
{connection}
interval = "1s"
{events}
{policies}

[dead_letters]
max_ratio = 0.5

[web]
listen = "127.0.0.1:0"
first_exposure = "0s"
"""


class DaemonConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The variable parts of a daemon's configuration.

    Attributes:
        proxy: address of a proxy before the broker that the daemons use, or None.
        folder: of the configuration, and of the store unless it is in a bucket.
        bucket: URL of the store's prefix; empty: the store is in the folder.
        endpoint: of the S3 server; None: the server without a proxy.
        member: name of a static member; None for a dynamic one.
        session: session timeout in milliseconds.
        events: records after which a checkpoint is due before its interval.
        policies: further lines of [state].
        kafka: further lines of [source.kafka].
    """

    address: str
    topic: str
    folder: Path
    bucket: str = ""
    endpoint: str | None = None
    proxy: str | None = None
    group: str = "chaos"
    member: str | None = None
    client: str = "kafka-python"
    session: int = 3_000
    events: int | None = None
    spans: str = '["5m", "1h", "24h"]'
    policies: str = ""
    kafka: str = ""

    @property
    def path(self) -> str:
        """The folder of checkpoints, or the URL of a prefix in a bucket."""
        return self.bucket or str(self.folder / "state")

    @property
    def store(self) -> Store:
        return store_of(self.path, s3.options()) if self.bucket else store_of(self.path)

    def written(self) -> Path:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        values["store"] = self.path
        values["connection"] = self._connection()
        values["broker"] = self.proxy or self.address
        values["member"] = f'member = "{self.member}"' if self.member else ""
        values["events"] = f"events = {self.events}" if self.events else ""
        path = self.folder / f"{self.member or 'dynamic'}.toml"
        # Several daemons share the file, so another one may be reading it.
        fresh = path.with_suffix(".new")
        fresh.write_text(_TEXT.format(**values))
        return fresh.replace(path)

    def _connection(self) -> str:
        if not self.bucket:
            return ""
        options = s3.options(self.endpoint, timeout=5.0)
        return (
            f'endpoint = "{options.endpoint}"\nregion = "{options.region}"\n'
            f'allow_http = true\ntimeout = "{options.timeout:.0f}s"'
        )
