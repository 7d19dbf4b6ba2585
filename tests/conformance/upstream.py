"""The systems' own unit tests, brought into the form of the other files: users and expectations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, zip_longest
from typing import Any

from tests.conformance.inputs import Recorded


def as_users(system: str, metric: str, row: Recorded) -> Recorded:
    """A unit test as a case with users."""
    converted: dict[str, Any] = _OF_SYSTEM[system](metric, row)
    params = {**row["params"], **converted.get("params", {})}
    expected: dict[str, Any] = dict(converted.get("expected") or row["expected"])
    if "value" in expected:
        expected["mean"] = expected.pop("value")
    return {**converted, "name": row["name"], "params": params, "expected": expected}


def _many(given: Recorded) -> dict[str, Any]:
    """Lists of all users beside their truths; a list without a truth is as good as an empty one."""
    recommended, relevant = given["recommendations"], given.get("relevant", [])
    if not relevant:
        return {"users": [{"recommendations": items} for items in recommended]}
    pairs = list(zip_longest(recommended, relevant))[: len(recommended)]
    users = [
        {"recommendations": items if truth is not None else [], "relevant": truth}
        for items, truth in pairs
    ]
    return {"users": users}


def _one(given: Recorded) -> dict[str, Any]:
    """One user, with gains beside the truth where they are known."""
    user = dict(given)
    if given.get("true_relevance") is not None:
        user["relevance"] = list(zip(given["relevant"], given["true_relevance"], strict=True))
    return {"users": [user]}


def _of_julia(metric: str, row: Recorded) -> dict[str, Any]:
    inputs = row["input"]
    if "relevances" in inputs:
        return {"users": [{"scores": inputs["relevances"]}]}
    return _many(inputs) if metric.startswith("Mean") else _one(inputs)


def _of_lenskit(metric: str, row: Recorded) -> dict[str, Any]:
    inputs = row["input"]
    if metric != "dcg" or "scores" not in inputs:
        return _one(inputs)
    items = range(len(inputs["scores"]))
    relevance = list(enumerate(inputs["scores"]))
    return {"users": [{"recommendations": items, "relevance": relevance}]}


def _of_recbole(_: str, row: Recorded) -> dict[str, Any]:
    inputs, expected = row["input"], row["expected"]
    if "trues" in inputs:
        return dict(inputs)
    if "pos_index" in inputs:
        users = [
            _with_hits(*user) for user in zip(inputs["pos_index"], inputs["pos_len"], strict=True)
        ]
        return {"users": users, "expected": {"by_k": _columns(expected["matrix"])}}
    if "pos_rank_sum" in inputs:
        columns = inputs["user_len_list"], inputs["pos_len_list"], inputs["pos_rank_sum"]
        return {"users": [_with_ranks(*user) for user in zip(*columns, strict=True)]}
    return _of_rank_sums(inputs["scores"], inputs["pos_len_list"], expected["value"])


def _with_hits(hits: Sequence[int], relevant: int) -> dict[str, Any]:
    """A list with hits at the ranks marked, and so many relevant items in all."""
    hit_ranks = [rank for rank, hit in enumerate(hits) if hit]
    missed = range(len(hits), len(hits) + relevant - len(hit_ranks))
    return {"recommendations": list(range(len(hits))), "relevant": [*hit_ranks, *missed]}


def _columns(matrix: Sequence[Sequence[float]]) -> dict[str, Any]:
    """By cut-off, each user's value and their mean."""
    columns = enumerate(zip(*matrix, strict=True), start=1)
    return {
        str(k): {"per_user": per_user, "mean": sum(per_user) / len(per_user)}
        for k, per_user in columns
    }


def _with_ranks(items: int, positives: int, rank_sum: float) -> dict[str, Any]:
    """Scores whose positive items stand at ranks that add up to the sum, if any do."""
    choices = combinations(range(1, items + 1), positives)
    ranks = next((ranks_ for ranks_ in choices if sum(ranks_) == rank_sum), range(1, positives + 1))
    labels = [int(rank in ranks) for rank in range(1, items + 1)]
    return {"scores": [float(-rank) for rank in range(items)], "labels": labels}


def _of_rank_sums(
    scores: Sequence[Sequence[float]], positives: Sequence[int], sums: Sequence[float]
) -> dict[str, Any]:
    """Users whose first items are positive; what their rank sums make of each one's AUC."""
    users, values, total = [], [], 0.0
    for inputs, p, rank_sum in zip(scores, positives, sums, strict=True):
        users.append({"scores": inputs, "labels": [int(index < p) for index in range(len(inputs))]})
        pairs = p * (len(inputs) - p)
        above = (len(inputs) + 1) * p - p * (p + 1) / 2 - rank_sum
        values.append(above / pairs if pairs else None)
        total += p * above / pairs if pairs else 0.0
    weight = sum(p for p, value in zip(positives, values, strict=True) if value is not None)
    return {"users": users, "expected": {"per_user": values, "mean": total / weight}}


def _of_replay(_: str, row: Recorded) -> dict[str, Any]:
    return _of_rows(row["input"]) if "recs" in row["input"] else _of_call(row["input"])


def _of_call(given: Recorded) -> dict[str, Any]:
    """One user, as the metric's own function is called."""
    user = {"user": 0, "recommendations": given["pred"], "relevant": given.get("ground_truth")}
    baseline = {"user": 0, "recommendations": given.get("baseline", [])}
    return {"users": [user], "context": {"baseline": [baseline]}}


def _of_rows(given: Recorded) -> dict[str, Any]:
    """Users from [user, item, score] rows, and from the rows of the truth."""
    shown, truth = _by_user(given["recs"]), _by_user(given.get("truth", []))
    users = [
        {
            "user": user,
            "recommendations": [row[1] for row in shown.get(user, [])],
            "scores": [row[2] for row in shown.get(user, [])],
            "relevant": [row[1] for row in truth.get(user, [])],
        }
        for user in {**shown, **truth}
    ]
    baseline = [
        {
            "user": user,
            "recommendations": [row[1] for row in rows],
            "scores": [row[2] for row in rows],
        }
        for user, rows in _by_user(given.get("baseline", [])).items()
    ]
    return {"users": users, "context": {**given, "baseline": baseline}}


def _by_user(rows: Sequence[Sequence[Any]]) -> Mapping[Any, list[Sequence[Any]]]:
    rows_by_user: dict[Any, list[Sequence[Any]]] = {}
    for row in rows:
        rows_by_user.setdefault(row[0], []).append(row)
    return rows_by_user


def _of_capri(metric: str, row: Recorded) -> dict[str, Any]:
    inputs = row["input"]
    together = metric in ("catalogCoverage", "personalization")
    user_inputs = {**(_many(inputs) if together else _one(inputs)), "context": inputs}
    # What mapk calls k is its normaliser alone: the list is not cut.
    return (
        {**user_inputs, "params": {"k": None, "map_k": row["params"]["k"]}}
        if metric == "mapk"
        else user_inputs
    )


_OF_SYSTEM: Mapping[str, Callable[[str, Recorded], dict[str, Any]]] = {
    "recommenders_jl": _of_julia,
    "lenskit": _of_lenskit,
    "recbole": _of_recbole,
    "replay": _of_replay,
    "capri": _of_capri,
}
