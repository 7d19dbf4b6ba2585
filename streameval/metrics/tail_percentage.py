from typing import Annotated

from streameval.context import Popularity
from streameval.events import Event
from streameval.metric import Span, metric
from streameval.rows import Repeats, rows_of


@metric(
    bounds=(0, 1),
    source="Abdollahpouri et al., Popularity bias in learning-to-rank, RecSys 2017",
    interactions=False,
)
def tail_percentage(
    event: Event,
    k: int | None,
    popularity: Popularity,
    *,
    tail: Annotated[float, Span(0, 1)] = 0.8,
    repeats: Repeats = "every",
    rows: int = 0,
) -> float | None:
    """Share of the first k items that belong to the long tail: the least popular ones.

    The tail is the given share of the items known (at least one), and whatever is no more popular
    than these; unknown items belong to it. A share, not a percentage, whatever the field calls it.
    Empty lists are left out. Without lists there is no value.

        tail_percentage@k = mean over lists of (items of the tail among the first k / items)

    Example:
        >>> from streameval import Accumulator
        >>> from streameval.context import Popularity
        >>> popularity = Popularity({"a": 9, "b": 1, "c": 2, "d": 3, "e": 3})
        >>> accumulator = Accumulator("tail_percentage@2", popularity=popularity)
        >>> accumulator.update(["a", "b"], [])
        >>> accumulator.read("tail_percentage@2").value
        0.5
    """
    shown = rows_of(event.recommendations, k, repeats, rows)
    if not shown:
        return None
    most = popularity.most_of_tail(tail)
    return sum(popularity.of(item) <= most for item in shown) / len(shown)
