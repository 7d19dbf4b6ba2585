"""Interleaving."""

from streameval.catalogue.importance import rewards
from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import indices_by_rank
from streameval.catalogue.signature import Reference
from streameval.events import Event


@metric(
    bounds=(0, 1),
    higher_is_better=None,
    reference=Reference(0.5, "{a} preferred", "{b} preferred", "not enough evidence"),
    source="Radlinski, Kurup, Joachims, CIKM 2008 (team draft); Chapelle et al., TOIS 2012; "
    "mpkato/interleaving",
)
def interleaving(
    event: Event, k: int | None, *, a: str = "a", b: str = "b", team: str = "team"
) -> float | None:
    """Share of mixed lists in which users prefer the items of ranker b to those of ranker a.

    Per item, `team` names the ranker that put it into the list (team-draft interleaving); null for
    an item of both. A list counts 1 if more of b's items than of a's were clicked, 0 if fewer, and
    one half if equally many. Lists without a click, without teams, or with only other rankers are
    left out. For multileaving, name each pair of rankers. Compare the value with 0.5:
    `Reading.verdict` names the preferred ranker. Undefined without lists with a click.

        interleaving@k = (lists that b wins + lists that tie / 2) / lists with a click at rank <= k

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("interleaving")
        >>> accumulator.update(["x", "y"], ["y"], per_item={"team": ["a", "b"]})
        >>> accumulator.update(["x", "y"], ["x", "y"], per_item={"team": ["b", "a"]})
        >>> accumulator.read("interleaving").value
        0.75
    """
    teams = (event.per_item or {}).get(team)
    if teams is None or {a, b, None}.isdisjoint(teams):
        return None
    clicked = [
        teams[index]
        for index, gain in zip(indices_by_rank(event, k), rewards(event, k), strict=True)
        if gain > 0
    ]
    if not clicked:
        return None
    ahead = clicked.count(b) - clicked.count(a)
    return 0.5 if not ahead else float(ahead > 0)
