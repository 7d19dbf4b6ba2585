"""What each metric is called in Prometheus: `python -m tests.prometheus.exposition --write`."""

from __future__ import annotations

import sys

from streameval.catalogue import catalogue, parse
from streameval.catalogue.metric import Metric
from streameval.errors import StreamevalError
from streameval.exporters.families import metric_labels
from streameval.exporters.samples import FamilySet
from streameval.exporters.view import counted
from tests.exporters.pictures import mean, picture, windowed
from tests.house.checkout import ROOT

PAGE = ROOT / "docs" / "reference" / "prometheus.md"
_HEADING = "\n## Every metric\n"
_INTRODUCTION = """
With the usual parameters. A convention, a statistic and a segment change the name:
`streameval_recbole_ndcg`, `streameval_ndcg_median`, `streameval_ndcg_by_country`. A summary has
`_sum` and `_count` (counters), and by window `_window_mean` and `_window_support` (gauges). A gauge
does not add up.
"""


def main() -> int:
    """Say whether the page has the table of the code; with --write, give it that."""
    found = PAGE.read_text(encoding="utf-8")
    wanted = with_table(found)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    print("as the code" if found == wanted else "not as the code: --write")
    return found != wanted


def with_table(page: str) -> str:
    """The page, its section as the catalogue has it."""
    before, heading, rest = page.partition(_HEADING)
    following = rest.partition("\n## ")
    return before + heading + _section() + "".join(following[1:])


def _section() -> str:
    rows = [_row(_usual(name)) for name in catalogue()]
    return "\n".join(
        [
            _INTRODUCTION,
            "| name | type | labels besides yours | counted in `_count` |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _row(metric: Metric) -> str:
    family = FamilySet(picture(windowed(mean(metric.text, ("a",), 1.5, 4), "1h"))).families[0]
    summary = family.kind == "summary"
    labels = [*metric_labels(metric), *([] if summary else ["window"])]
    shown = ", ".join(f"`{label}`" for label in labels)
    what = counted(metric) if summary else ""
    return f"| `{family.name}` | {family.kind} | {shown} | {what} |"


def _usual(name: str) -> Metric:
    try:
        return parse(f"{name}@10")
    except StreamevalError:
        return parse(name)


if __name__ == "__main__":
    raise SystemExit(main())
