"""The dashboard of an experiment: verdicts, lifts with their bounds, evidence, and the checks."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common, prometheus, table, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.common import ScaleDistribution
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, DynamicConfigValue
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tests.grafana.parts import (
    DATASOURCE,
    Query,
    Shown,
    asked,
    board,
    chart,
    figure,
    runbook,
    source_and_job,
)

_PROCESS = 'job=~"$job",instance="$instance"'
_CHOICE = f'{_PROCESS},metric=~"$metric",variant=~"$variant"'
_DECISIONS = "StreamevalGuardrailBroken"
_SPLIT = "StreamevalUsersNotSplitAsPlanned"
_ENDS = ("low", "lift", "high")


def experiment() -> Dashboard:
    """Variants against control, by user, as the daemon compares them."""
    about = (
        "Variants against control, with bounds that hold however often you look. Compared by user "
        "in one process, so choose one that reads all partitions: bounds do not add up."
    )
    known = f"streameval_compare_evidence{{{_PROCESS}}}"
    made = board(
        "streameval-experiment",
        "streameval: experiment",
        about,
        [
            *source_and_job(),
            asked(
                "instance",
                'label_values(streameval_compare_evidence{job=~"$job"}, instance)',
                "The process that compares.",
            ),
            asked("metric", f"label_values({known}, metric)", "As configured.", many=True),
            asked("variant", f"label_values({known}, variant)", "Against control.", many=True),
        ],
    )
    made = made.with_row(Row("May it be trusted?"))
    for shown in _checks():
        made = made.with_panel(figure(shown._replace(width=4)))
    made = (
        made.with_row(Row("Lifts now"))
        .with_panel(_forest())
        .with_panel(figure(_verdicts()).height(9))
    )
    made = made.with_row(Row("Over time")).with_panel(_evidence())
    return made.with_panel(_band().repeat("metric"))


def _checks() -> list[Shown]:
    def audience(title: str, unit: str, name: str, text: str, legend: str = "") -> Shown:
        query = Query(f"streameval_audience_{name}{{{_PROCESS}}}", legend)
        return Shown(title, unit, text, [query], _SPLIT)

    heaviest = Query(f"max(streameval_compare_heaviest_group_ratio{{{_CHOICE}}})", "")
    return [
        audience("Users", "short", "users", "Distinct users of each variant.", "{{variant}}"),
        audience(
            "Against the planned split",
            "short",
            "ratio_evidence",
            "Evidence that users are not split as planned; 1,000 is an alarm.",
        ),
        audience(
            "Users in several variants",
            "percentunit",
            "shared_ratio",
            "Accidents explain one in a hundred: a shared computer, a second login.",
        ),
        audience(
            "Lists without a user id",
            "percentunit",
            "anonymous_ratio",
            "Largest share of a variant; above 20 % no verdict is given.",
        ),
        Shown(
            "Heaviest group of users",
            "percentunit",
            "Share of the variance that one group has: where it is large, few users decide.",
            [heaviest],
            _DECISIONS,
        ),
        audience(
            "Untrusted",
            "bool_yes_no",
            "untrusted",
            "Whether a check raises an alarm, so that no verdict is given.",
        ),
    ]


def _verdicts() -> Shown:
    said = f"streameval_compare_verdict{{{_CHOICE}}} == 1"
    return Shown(
        "Verdicts",
        "none",
        "What follows from the bounds; a metric that does not decide has to pass e-BH, too.",
        [Query(said, "{{metric}} {{variant}}: {{verdict}}")],
        _DECISIONS,
        10,
    )


def _forest() -> table.Panel:
    """Lift and bounds of every comparison, a row each."""
    shown = Shown(
        "Lifts against control",
        "percentunit",
        "Treatment / control - 1 with its bounds; without a bound, nothing can be said yet.",
        [],
        _DECISIONS,
        14,
    )
    panel = table.Panel().title(shown.title).description(shown.description).unit(shown.unit)
    panel = panel.height(9).span(shown.width).decimals(2).datasource(DATASOURCE)
    panel = panel.links([runbook(shown)])
    for end, letter in zip(_ENDS, "ABC", strict=True):
        query = prometheus.Dataquery().expr(_lift(end)).format(PromQueryFormat.TABLE).instant()
        panel = panel.with_target(query.ref_id(letter).datasource(DATASOURCE))
    panel = panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    names = {f"Value #{letter}": end for end, letter in zip(_ENDS, "ABC", strict=True)}
    hidden = dict.fromkeys(("Time", "__name__", "job", "instance", "control"), True)
    order = {name: place for place, name in enumerate(("metric", "variant", *names))}
    options = {"excludeByName": hidden, "renameByName": names, "indexByName": order}
    return panel.with_transformation(DataTransformerConfig(id_val="organize", options=options))


def _band() -> timeseries.Panel:
    """The lift of a metric between its bounds, as they closed in."""
    shown = Shown(
        "${metric}: lift",
        "percentunit",
        "The lift and its bounds at each time. They hold together: where they leave 0, it is real.",
        [Query(_lift(end), f"{{{{variant}}}} {end}") for end in _ENDS],
        _DECISIONS,
        24,
        2,
    )
    panel = chart(shown)
    for end in ("low", "high"):
        thin = [DynamicConfigValue("custom.lineStyle", {"dash": [4, 4], "fill": "dash"})]
        panel = panel.override_by_regexp(f"/ {end}$/", thin)
    return panel


def _evidence() -> timeseries.Panel:
    name = f"streameval_compare_evidence{{{_CHOICE}}}"
    panel = chart(
        Shown(
            "Evidence",
            "short",
            "Against no difference: without one it ever reaches 20 in one of 20 experiments.",
            [Query(name, "{{metric}} {{variant}}")],
            _DECISIONS,
            24,
        )
    )
    scale = common.ScaleDistributionConfig().type(ScaleDistribution.LOG).log(10)
    return panel.scale_distribution(scale)


def _lift(end: str) -> str:
    name = "lift_ratio" if end == "lift" else f"lift_{end}_ratio"
    return f"streameval_compare_{name}{{{_CHOICE}}}"
