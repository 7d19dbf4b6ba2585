"""Families as text, each line's name and labels written once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as ClientMetric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample as ClientSample
from prometheus_client.utils import floatToGoString

from streameval.exporters.families import Family, Sample

_Head = tuple[Mapping[str, str], str]


class Text:
    """Writes families as prometheus_client does, and remembers all of a line but its number.

    Names and labels are most of the work and stay as they are from one scrape to the next. Labels
    are told apart by identity: the same must come as the same object.
    """

    def __init__(self) -> None:
        self._titles: dict[tuple[str, str, str], str] = {}
        self._heads: dict[tuple[str, int], _Head] = {}
        self._new = _Families()
        self._client = CollectorRegistry()
        self._client.register(self._new)

    def of(self, families: Iterable[Family]) -> bytes:
        """The text; a family without samples is left out, title and all."""
        shown = [family for family in families if family.samples]
        self._learn(shown)
        heads, lines = {}, []
        for family in shown:
            lines.append(self._titles[_title(family)])
            for sample in family.samples:
                key = (sample.name, id(sample.labels))
                head = heads[key] = self._heads[key]
                number = floatToGoString(sample.value)  # type: ignore[no-untyped-call]  # the client's
                lines.append(f"{head[1]} {number}\n")
        self._heads = heads
        return "".join(lines).encode()

    def _learn(self, families: Sequence[Family]) -> None:
        self._new.families = [
            Family(family.name, family.kind, family.help, new)
            for family in families
            if (new := [each for each in family.samples if self._is_new(each)])
            or _title(family) not in self._titles
        ]
        lines = iter(generate_latest(self._client).decode().split("\n"))
        for family in self._new.families:
            self._titles[_title(family)] = f"{next(lines)}\n{next(lines)}\n"
            for sample in family.samples:
                head = next(lines).rpartition(" ")[0]
                self._heads[sample.name, id(sample.labels)] = (sample.labels, head)

    def _is_new(self, sample: Sample) -> bool:
        # What is remembered keeps its labels alive, so no other object has their identity.
        return (sample.name, id(sample.labels)) not in self._heads


def client_metric(family: Family) -> ClientMetric:
    """A family as prometheus_client has it."""
    metric = ClientMetric(family.name, family.help, family.kind)
    metric.samples = [
        ClientSample(*sample)  # type: ignore[arg-type]  # it only reads the labels
        for sample in family.samples
    ]
    return metric


def _title(family: Family) -> tuple[str, str, str]:
    return family.name, family.kind, family.help


class _Families(Collector):
    """A collector of families that are there already."""

    def __init__(self) -> None:
        self.families: Sequence[Family] = ()

    def collect(self) -> Iterator[ClientMetric]:
        yield from map(client_metric, self.families)
