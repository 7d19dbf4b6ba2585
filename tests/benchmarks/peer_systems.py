"""The same metrics by other systems, each in its fastest way from its own kind of input.

The input of a system (dictionaries, data frames, its own classes) is built before the measurement.
Each task returns values by the name of the metric in streameval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TypeAlias

from streameval import Event

CUTOFFS = (5, 10, 20)
K = 20

Values: TypeAlias = Mapping[str, float]
Task: TypeAlias = Callable[[], Values]
Judged: TypeAlias = dict[str, dict[str, int]]
Scored: TypeAlias = dict[str, dict[str, float]]


def pytrec_eval(events: Sequence[Event]) -> Task:
    module = import_module("pytrec_eval")
    cuts = ",".join(map(str, CUTOFFS))
    names = ("success", "P", "recall", "map_cut", "ndcg_cut")
    evaluator = module.RelevanceEvaluator(
        _judged(events), {"recip_rank", *(f"{name}.{cuts}" for name in names)}
    )
    run = _scored(events)

    def task() -> Values:
        found = list(evaluator.evaluate(run).values())
        sums = {name: sum(each[name] for each in found) for name in found[0]}
        return {_trec_text(name): total / len(found) for name, total in sums.items()}

    return task


def ranx(events: Sequence[Event]) -> Task:
    module = import_module("ranx")
    names = ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")
    metrics = [f"{name}@{k}" for name in names for k in CUTOFFS]
    qrels, run = module.Qrels(_judged(events)), module.Run(_scored(events))

    def task() -> Values:
        found = module.evaluate(qrels, run, metrics, make_comparable=False)
        return {text.replace("map@", "trec:map@"): float(found[text]) for text in metrics}

    task()  # the first call compiles
    return task


def rectools(events: Sequence[Event], item: Callable[[object], object] = str) -> Task:
    pandas, metrics = import_module("pandas"), _rectools_metrics()
    shown = [
        (user, item(shown), rank)
        for user, event in enumerate(events)
        for rank, shown in enumerate(event.recommendations, 1)
    ]
    acts = [(user, item(act)) for user, event in enumerate(events) for act in event.interactions]
    reco = pandas.DataFrame(shown, columns=["user_id", "item_id", "rank"])
    truth = pandas.DataFrame(acts, columns=["user_id", "item_id"])
    calculate = import_module("rectools.metrics").calc_metrics
    return lambda: dict(calculate(metrics, reco=reco, interactions=truth))


def rectools_of_integers(events: Sequence[Event]) -> Task:
    return rectools(events, number)


def ir_measures(events: Sequence[Event]) -> Task:
    module = import_module("ir_measures")
    ours = {"Success": "hit_rate", "P": "precision", "R": "recall", "AP": "trec:map"}
    ours |= {"RR": "mrr", "nDCG": "ndcg"}
    measures = {getattr(module, name) @ k: f"{ours[name]}@{k}" for name in ours for k in CUTOFFS}
    qrels, run = _judged(events), _scored(events)

    def task() -> Values:
        found = module.calc_aggregate([*measures], qrels, run)
        return {measures[measure]: float(value) for measure, value in found.items()}

    return task


PEERS: Mapping[str, Callable[[Sequence[Event]], Task]] = {
    "pytrec_eval": pytrec_eval,
    "rectools": rectools,
    "rectools of integers": rectools_of_integers,
    "ranx": ranx,
    "ir_measures": ir_measures,
}
ABSENT = {
    "river": "has no ranking metrics",
    "torchmetrics": "",
    "recbole": "",
    "replay": "",
    "lenskit": "",
}
"""Other systems -> why they are not compared if installed."""


def _judged(events: Sequence[Event]) -> Judged:
    return {
        str(user): {str(item): 1 for item in event.interactions}
        for user, event in enumerate(events)
    }


def _scored(events: Sequence[Event]) -> Scored:
    return {
        str(user): {str(item): float(K - row) for row, item in enumerate(event.recommendations)}
        for user, event in enumerate(events)
    }


def number(item: object) -> int:
    """The number in the id of an item."""
    return int(str(item).removeprefix("item-"))


def _rectools_metrics() -> Mapping[str, object]:
    module = import_module("rectools.metrics")
    made = {
        "hit_rate": module.HitRate,
        "precision": module.Precision,
        "recall": module.Recall,
        "mrr": module.MRR,
        "trec:map": module.MAP,
        "ndcg": partial(module.NDCG, divide_by_achievable=True),
    }
    return {f"{name}@{k}": make(k=k) for name, make in made.items() for k in CUTOFFS}


def _trec_text(name: str) -> str:
    return "trec:mrr" if name == "recip_rank" else f"trec:{name}"
