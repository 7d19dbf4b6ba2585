"""No name, wherever it stands, makes or closes an element, an attribute or a script."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import msgspec
import pytest

from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.gaps.analysis import GAPS
from streameval.engine.analysis import Finding
from streameval.engine.snapshot import Snapshot
from streameval.events.printable import printable
from streameval.exporters.page import document
from streameval.exporters.page.page import page
from streameval.exporters.page.selection import Selection, excerpt
from streameval.exporters.page.state import daemon_state
from tests.exporters.changing import changes_report
from tests.exporters.experiments import CONTROL, TREATMENT, findings, gap_series, report, variant
from tests.exporters.pictures import busy_health, charts, health, mean, picture, refused_value

NASTY = "\"'><script>alert(1)</script></title><!--&amp;{{ 7 * 7 }}\u202e"


class Skeleton(HTMLParser):
    """Elements with the names of their attributes, and what scripts have."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}",))

    def handle_comment(self, data: str) -> None:
        self.elements.append(("comment", data))


def _everything(name: str) -> Snapshot:
    """A snapshot with the name wherever users choose one."""
    arms = {"control": variant(CONTROL), name: variant(TREATMENT, seed=2)}
    gap = gap_series()
    values = tuple(msgspec.structs.replace(value, name=name) for value in gap.gap.values)
    gap = msgspec.structs.replace(
        gap, labels={name: name}, by=name, gap=msgspec.structs.replace(gap.gap, values=values)
    )
    changes = changes_report()
    changed = [msgspec.structs.replace(change, slice=name) for change in changes.changes]
    result = (
        *findings(report(arms)),
        Finding(CHANGES, msgspec.structs.replace(changes, changes=changed)),
        Finding(GAPS, (gap,)),
    )
    series = [mean("ndcg@10", (label,), 1 + n, 9) for n, label in enumerate(("control", name))]
    state = health(trouble=name, partitions=busy_health().partitions, invalid={name: 3})
    snapshot = picture(
        *series, refused_value("capri:recall@5", (name,)), label_names=(name,), state=state
    )
    return msgspec.structs.replace(snapshot, findings=result, source=name)


@pytest.mark.parametrize("view", ["", "ndcg@10"])
def test_no_name_makes_an_element_or_an_attribute(view: str) -> None:
    def drawn(name: str) -> list[str]:
        snapshot = _everything(name)
        ready = daemon_state(snapshot, healthy=True)
        return [
            page(snapshot, ready, Selection(view=view, value=name)),
            document(name, [(None, snapshot)]),
        ]

    for plain, nasty in zip(drawn("name"), drawn(NASTY), strict=True):
        assert Skeleton(nasty).elements == Skeleton(plain).elements
        assert "{{ 7 * 7 }}" in nasty
        drawn_lines = [line["name"] for chart in charts(nasty) for line in chart["lines"]]
        assert f"ctr of {printable(NASTY)}" in drawn_lines
        assert NASTY not in drawn_lines


def test_data_of_a_script_reads_back_equal() -> None:
    (chart, *_) = charts(document("run", [(None, _everything("</script>"))]))
    assert "</script>" in json.dumps(chart)


def test_each_slice_has_a_number_of_its_own_which_gives_its_colour() -> None:
    snapshot = picture(*(mean("ndcg@10", (name,), 1, 2) for name in "abc"))
    of_all = excerpt(snapshot, Selection())
    assert [of_all.index_of([name]) for name in ("a", "b", "c", "gone")] == [0, 1, 2, 3]
    assert excerpt(snapshot, Selection(variants=("b",))).index_of(["c"]) == 2
