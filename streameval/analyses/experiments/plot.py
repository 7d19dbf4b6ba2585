"""A chart of lifts with their intervals; needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streameval.analyses.experiments.comparison import Comparison, verdict_text
from streameval.evaluation.plot import axes_of, name_rows
from streameval.events.errors import MetricError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def lifts(comparisons: Mapping[Any, Comparison], axes: Axes | None = None) -> Axes:
    """Draw the lift of each comparison with its interval, and a line at no lift.

    The verdicts better and worse are green and red, the others grey. A comparison without an
    interval has only its name.

    Args:
        comparisons: of `compare`, or by name, for example the metric; drawn from top to bottom.
        axes: matplotlib axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        MetricError: an argument is not valid.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> nothing = Comparison(kind="fixed", confidence=0.95)
        >>> bounds = {"lift": 0.2, "lift_low": 0.1, "lift_high": 0.3}
        >>> better = Comparison(**bounds, verdict="better", kind="fixed", confidence=0.95)
        >>> drawn = lifts({"ndcg@10": better, "ctr": nothing})
        >>> [text.get_text() for text in drawn.get_yticklabels()]
        ['ndcg@10: better: by at least 10.0 %', 'ctr: too few users']
    """
    if not isinstance(comparisons, Mapping):
        raise MetricError(f"comparisons={comparisons!r:.80}: give name -> result of compare")
    for name, comparison in comparisons.items():
        if not isinstance(comparison, Comparison):
            raise MetricError(
                f"comparisons[{name!r}]={comparison!r:.80}: give the result of compare"
            )
    drawn = axes_of(axes)
    for index, comparison in enumerate(comparisons.values()):
        if comparison.lift is None or comparison.lift_low is None or comparison.lift_high is None:
            continue
        colour = {"better": "tab:green", "worse": "tab:red"}.get(comparison.verdict, "tab:gray")
        drawn.plot(
            [100.0 * comparison.lift_low, 100.0 * comparison.lift_high],
            [index, index],
            color=colour,
        )
        drawn.plot([100.0 * comparison.lift], [index], marker="o", color=colour)
    drawn.axvline(0.0, color="black", linewidth=0.8, linestyle="--")
    names = [f"{name}: {verdict_text(comparison)}" for name, comparison in comparisons.items()]
    name_rows(drawn, names)
    drawn.set(xlabel="lift, %")
    return drawn
