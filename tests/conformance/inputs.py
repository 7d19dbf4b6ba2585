"""How the cases of each system are handed to an Accumulator: events, and what it is given once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from streameval import Event
from streameval.catalogue.items import Popularity, Similarity
from streameval.events import Id

Recorded: TypeAlias = Mapping[str, Any]
"""One case as its file has it."""


class CaseInputs(NamedTuple):
    """events: one for each user of the case, then those of others; once: inputs by keyword."""

    events: Sequence[Event]
    once: Mapping[str, Any]


Inputs: TypeAlias = Callable[[Recorded], CaseInputs]


def lists(case: Recorded) -> CaseInputs:
    """Users with a list and the ids that were relevant."""
    return CaseInputs([_event(user, user.get("relevant") or ()) for user in case["users"]], {})


def graded_lists(case: Recorded) -> CaseInputs:
    """Users with a list and [item, gain] pairs; where a user has none, the ids are relevant."""
    return CaseInputs([_event(user, gains(user)) for user in case["users"]], {})


def graded_lists_of_distinct(case: Recorded) -> CaseInputs:
    """The same for a metric that counts relevant ids once: one that comes again is another item.

    Gains of 0 add nothing to a DCG, so their items are left out, also where there are no others.
    """
    return CaseInputs([_event(user, _distinct(gains(user))) for user in case["users"]], {})


def gains_in_order(case: Recorded) -> CaseInputs:
    """Users with the gains of their list, rank by rank."""
    users = (user["scores"] for user in case["users"])
    return CaseInputs(
        [Event(recommendations=range(len(g)), interactions=dict(enumerate(g))) for g in users], {}
    )


def labelled_scores(case: Recorded) -> CaseInputs:
    """Users with scored items and the label of each."""
    events = [
        Event(
            recommendations=range(len(user["scores"])),
            interactions=[item for item, label in enumerate(user["labels"]) if label],
            scores=user["scores"],
        )
        for user in case["users"]
    ]
    return CaseInputs(events, {})


def samples(case: Recorded) -> CaseInputs:
    """One item an event, with its outcome and its score."""
    pairs = enumerate(zip(case["trues"], case["preds"], strict=True))
    return CaseInputs(
        [
            Event(recommendations=[item], interactions={item: true}, scores=[score])
            for item, (true, score) in pairs
        ],
        {},
    )


def ratings(case: Recorded) -> CaseInputs:
    """Likewise; no rating at all is one list without items."""
    nothing = Event(recommendations=[], interactions={}, scores=[])
    return CaseInputs(samples(case).events or [nothing], {})


def lists_and_log(case: Recorded) -> CaseInputs:
    """Lists, and the [user, item] rows of a log that tell how popular each item was."""
    pairs = {(user, item) for user, item, *_ in case["context"]["log"]}
    users = Counter(item for _, item in pairs)
    return CaseInputs(
        lists(case).events, {"popularity": Popularity(users, len({user for user, _ in pairs}))}
    )


def lists_and_popularity(case: Recorded) -> CaseInputs:
    """Lists, and [item, count] rows that tell how popular each item was."""
    context = case["context"]
    popularity = Popularity(dict(context["popularity"]), context["n_train_users"])
    return CaseInputs(lists(case).events, {"popularity": popularity})


def lists_and_logged_items(case: Recorded) -> CaseInputs:
    """Lists, and the items of a log, which are the catalogue."""
    return CaseInputs(lists(case).events, {"catalog": set(case["context"]["log_items"])})


def lists_and_catalog(case: Recorded) -> CaseInputs:
    """Lists, and a catalogue in which an item counts as often as it stands there."""
    return CaseInputs(
        graded_lists(case).events, {"catalog": len(case["context"]["catalog"]) or set()}
    )


def lists_and_similarity(case: Recorded) -> CaseInputs:
    """Lists, and how alike two items are; items are rows of the matrix."""
    matrix = case["context"]["similarity"]
    return CaseInputs(
        lists(case).events, {"similarity": Similarity(range(len(matrix)), matrix=matrix)}
    )


def lists_of_all_users(case: Recorded) -> CaseInputs:
    """Lists; no user at all is one list without items."""
    return CaseInputs(lists(case).events or [Event(recommendations=[], interactions=[])], {})


def lists_and_baseline(case: Recorded) -> CaseInputs:
    """Lists with those of a baseline; users that only the baseline has come last."""
    shown = {user["user"]: ranked(user) for user in case["context"]["baseline"]}
    users = [*case["users"], *({"user": user} for user in baseline_only(case))]
    events = [
        Event(
            recommendations=ranked(user), interactions=[], baseline=shown.get(user["user"]) or None
        )
        for user in users
    ]
    return CaseInputs(events, {})


def lists_and_history(case: Recorded) -> CaseInputs:
    """Lists, with the items that each user met before, where anything is known of a user."""
    history: dict[Id, list[Id]] = {}
    for user, item in case["context"]["log"]:
        history.setdefault(user, []).append(item)
    events = [
        Event(recommendations=ranked(user), interactions=[], history=history.get(user["user"]))
        for user in case["users"]
    ]
    return CaseInputs(events, {})


def full_lists(case: Recorded) -> CaseInputs:
    """Lists, with a catalogue and [item, count] rows that tell how popular each item was."""
    return CaseInputs(
        lists(case).events,
        {**lists_and_popularity(case).once, "catalog": len(case["context"]["catalog"])},
    )


def baseline_only(case: Recorded) -> list[Id]:
    """Users of the baseline that the case has no list of."""
    listed_users = {user["user"] for user in case["users"]}
    return [
        user["user"] for user in case["context"]["baseline"] if user["user"] not in listed_users
    ]


def ranked(user: Mapping[str, Any]) -> Sequence[Id]:
    """A user's list: by falling score where there are scores, ties as they came."""
    items = user.get("recommendations") or []
    scores = user.get("scores")
    if scores is None:
        return items
    return [items[index] for index in sorted(range(len(items)), key=lambda index: -scores[index])]


def gains(user: Mapping[str, Any]) -> Mapping[Id, float] | Sequence[Id]:
    """Item -> gain. A missing gain is worth nothing at any rank, so its item is left out."""
    if user.get("relevance") is None:
        return user.get("relevant") or ()
    judged = {item: gain for item, gain in user["relevance"] if gain is not None}
    return judged or {item: 0.0 for item, _ in user["relevance"]}


def _distinct(relevant: Mapping[Id, float] | Sequence[Id]) -> Mapping[Id, float] | Sequence[Id]:
    if isinstance(relevant, Mapping):
        return {item: gain for item, gain in relevant.items() if gain}
    once = [*dict.fromkeys(relevant)]
    # Below -1, which is padding.
    return [*once, *range(-1 - len(relevant) + len(once), -1)]


def _event(user: Mapping[str, Any], interactions: Any) -> Event:
    return Event(recommendations=ranked(user), interactions=interactions)
