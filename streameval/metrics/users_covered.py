"""Users covered."""

from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Bounded
from streameval.statistics.exposures import Exposures


@metric(
    bounds=(0, float("inf")),
    per="slice",
    source="Ge, Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010 (user coverage)",
)
def users_covered(users: Exposures) -> Bounded:
    """Number of distinct users who got at least one item up to rank k, over all lists.

    With having=hit it counts the users who interacted with at least one of these. Lists without a
    user are left out. Undefined without lists that have a user. Above `max_items` it is an estimate
    with bounds at 99.9 % confidence.

        users_covered@k = |users of the lists with an item (or a hit) at rank <= k|

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("users_covered", "users_covered(having=hit)")
        >>> accumulator.update(["a", "b"], ["b"], user="u1")
        >>> accumulator.update(["c"], [], user="u2")
        >>> accumulator.update(["d"], [], user="u1")
        >>> [reading.value for reading in accumulator.compute().values()]
        [2.0, 1.0]
    """
    return Bounded(*users.bounded())
