"""The dashboard of all metrics, variants side by side."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from tests.grafana.comparing import differences, evidence, means, relative, variables
from tests.grafana.parts import Query, Shown, board, chart, figure

_EVENTS = 'sum(rate(streameval_events_consumed_total{job=~"$job"}[$span]))'
_FIRING = 'ALERTS{alertname=~"Streameval.+",alertstate="firing"}'


def overview() -> Dashboard:
    """Variants side by side, one row for each metric."""
    about = (
        "Each metric by variant: its mean, the difference to the control, and what is behind it."
    )
    made = board("streameval-overview", "streameval: overview", about, variables(many=True))
    made = made.with_row(Row("Now"))
    for shown in _now():
        made = made.with_panel(figure(shown))
    made = made.with_row(Row("${metric}").repeat("metric"))
    for shown in (means(), differences(), relative(), evidence()):
        made = made.with_panel(chart(shown._replace(width=6)))
    return made


def _now() -> list[Shown]:
    lists = 'sum without ($over) (rate(streameval_hit_rate_count{job=~"$job",k=~"$k|"}[$span]))'
    share = f"sum by (${{label}}) ({lists}) / on () group_left () sum({lists})"
    age = 'time() - max(streameval_watermark_timestamp_seconds{job=~"$job"})'
    return [
        Shown(
            "Events",
            "cps",
            "Records read per second, whatever became of them.",
            [Query(_EVENTS, "")],
            "StreamevalNoEvents",
            6,
        ),
        Shown(
            "Behind live",
            "s",
            "Now minus the largest event time.",
            [Query(age, "")],
            "StreamevalWatermarkStuck",
            6,
        ),
        Shown(
            "Shares of the lists",
            "percentunit",
            "How the lists of hit_rate divide among the variants; it should be as intended.",
            [Query(share, "{{${label}}}")],
            "StreamevalUsersNotSplitAsPlanned",
            6,
            2,
        ),
        Shown(
            "Alerts",
            "short",
            "Firing now, by name; no number is a good sign.",
            [Query(f"count by (alertname) ({_FIRING})", "{{alertname}}")],
            "",
            6,
        ),
    ]
