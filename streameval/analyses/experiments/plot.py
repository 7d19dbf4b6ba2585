"""A chart of lifts with their intervals; needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streameval.analyses.experiments.comparison import Comparison, verdict_text
from streameval.evaluation.plot import DrawnRow, axes_of, draw_rows
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
    rows = []
    for name, row in comparisons.items():
        text, colours = f"{name}: {verdict_text(row)}", {"better": "green", "worse": "red"}
        ends = row.lift, row.lift_low, row.lift_high
        lift, low, high = (None if None in ends or end is None else 100.0 * end for end in ends)
        rows.append(DrawnRow(text, lift, low, high, f"tab:{colours.get(row.verdict, 'gray')}"))
    draw_rows(drawn, rows)
    drawn.axvline(0.0, color="black", linewidth=0.8, linestyle="--")
    drawn.set(xlabel="lift, %")
    return drawn
