"""What the dashboards about the recommender share: means, differences, what is behind them."""

from __future__ import annotations

from tests.grafana.parts import (
    SPANS,
    Query,
    Shown,
    Variable,
    asked,
    chosen,
    source_and_job,
    typed,
)

_COUNTS = '{__name__=~"streameval_.+_count",job=~"$job"}'
CHOICE = 'job=~"$job",${label}=~"$variant",k=~"$k|"'
LEGEND = "{{${label}}} k={{k}}"
COMPARABLE = "StreamevalGuardrailBroken"
# A segment is part of a family's name, and has a panel of its own.
_WITHOUT_SEGMENT = "/^streameval_(?!.*_by_)(.+)_count$/"


def rate(part: str, by: str = "", choice: str = CHOICE, before: str = "") -> str:
    """How fast a metric's counter grows, over replicas."""
    name = f"streameval_${{metric}}{by}_{part}"
    return f"sum without ($over) (rate({name}{{{choice}}}[$span]{before}))"


def mean(by: str = "", choice: str = CHOICE, before: str = "") -> str:
    """Of a span; absent where nothing was counted."""
    return f"{rate('sum', by, choice, before)} / ({rate('count', by, choice, before)} > 0)"


def control(by: str = "") -> str:
    """The mean of what the others are compared with."""
    return mean(by, 'job=~"$job",${label}="$control",k=~"$k|"')


def difference(by: str = "") -> str:
    """Of each variant to the control, on the same labels and cut-off."""
    others = mean(by, CHOICE + ',${label}!="$control"')
    return f"({others}) - ignoring (${{label}}) group_left () ({control(by)})"


def relative() -> Shown:
    """How far each variant is from the control, as a share of the control's value."""
    share = f"({difference()}) / ignoring (${{label}}) group_left () (({control()}) > 0)"
    text = "The difference to the control as a share of the control's value."
    shown = [Query(share, LEGEND)]
    return Shown("${metric}: relative", "percentunit", text, shown, COMPARABLE, 12, 2)


def variables(*, many: bool) -> list[Variable]:
    """What can be chosen; `many` metrics, or one."""
    values = f"label_values({_COUNTS}, ${{label}})"
    metric = asked(
        "metric",
        f"label_values({_COUNTS}, __name__)",
        "As /metrics calls it.",
        regex=_WITHOUT_SEGMENT,
        many=many,
    )
    label = chosen("label", ("variant", "model"), "variant", "The label that is compared.")
    over = "instance, pod, container, endpoint"
    return [
        *source_and_job(),
        metric,
        label,
        asked("variant", values, "Those of the label that are shown.", many=True),
        asked("control", values, "What the others are compared with.", first="control"),
        asked("k", f"label_values({_COUNTS}, k)", "Cut-offs.", many=True),
        chosen("span", SPANS, "1h", "Each point is the mean of so long before it."),
        typed(
            "over", over, "Labels summed over; add those of yours that are not to be told apart."
        ),
    ]


def means() -> Shown:
    """The means of the metric."""
    text = "sum / count over the span: a mean of lists (or items shown), never of means."
    return Shown(
        "${metric}", "none", text, [Query(mean(), LEGEND)], "StreamevalMetricDropped", 12, 4
    )


def differences() -> Shown:
    """How far each variant is from the control."""
    text = "Each variant minus the control, on the same labels and cut-off; noise moves it."
    return Shown(
        "${metric}: to $control", "none", text, [Query(difference(), LEGEND)], COMPARABLE, 12, 4
    )


def evidence() -> Shown:
    """What is behind the means."""
    text = (
        "Lists, or items shown, per second behind the means. Few of them, and the means say little."
    )
    return Shown(
        "${metric}: evidence",
        "cps",
        text,
        [Query(rate("count"), LEGEND)],
        "StreamevalUsersNotSplitAsPlanned",
    )
