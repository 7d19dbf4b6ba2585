"""Records what another system's package returns: `python -m tests.conformance.record PACKAGE`.

PACKAGE is its name for pip, and it is installed. That writes golden/<system>__recorded.json.
Nothing of streameval is imported: it runs wherever the package does, on Python 3.9 and later.
"""

from __future__ import annotations

import json
import math
import platform
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "golden"
CUTOFFS = (1, 3, 5, 10)
ITEMS = 60
ALONE = 5
"""The cut-off at which each user's own value is recorded besides the mean."""

Row = Mapping[str, Any]
Users = Sequence[Mapping[str, Any]]
Values = Mapping[Any, Any]
At = Mapping[Any, tuple[Any, Values]]
"""Cut-off -> the mean and the users' own values."""


class Recorder(NamedTuple):
    """One package.

    system: our convention of it; module: what is imported; rows: what it returns on the cases;
    tolerance: how exact it is.
    """

    system: str
    module: str
    rows: Callable[[Mapping[str, Users]], Iterator[Row]]
    tolerance: float = 1e-9


def cases() -> dict[str, Users]:
    """Seeded users: ordinary ones, short and empty lists, no truth, repeats, ratings, many.

    A rating of 0 is a judged item that is not relevant, to systems that read ratings.
    """
    return {
        "ordinary": _users(1, 25, lengths=(10, 12), wanted=(1, 12)),
        "short": _users(2, 25, lengths=(1, 6), wanted=(1, 8)),
        "empty_lists": _users(3, 20, lengths=(0, 3), wanted=(1, 4)),
        "without_truth": _users(4, 25, lengths=(3, 12), wanted=(0, 2)),
        "repeats": _users(5, 25, lengths=(3, 12), wanted=(1, 5), distinct=False),
        "ratings": _users(6, 25, lengths=(3, 12), wanted=(1, 9)),
        "many": _users(7, 120, lengths=(1, 12), wanted=(1, 3)),
        "rated_zero": _users(9, 40, lengths=(3, 12), wanted=(1, 4), ratings=(0, 1)),
    }


def _users(
    seed: int,
    users: int,
    *,
    lengths: tuple[int, int],
    wanted: tuple[int, int],
    ratings: tuple[int, int] = (1, 4),
    distinct: bool = True,
) -> Users:
    draw = random.Random(seed)
    return [
        {"user": user, **_user(draw, lengths, wanted, ratings, distinct=distinct)}
        for user in range(1, users + 1)
    ]


def _user(
    draw: random.Random,
    lengths: tuple[int, int],
    wanted: tuple[int, int],
    ratings: tuple[int, int],
    *,
    distinct: bool,
) -> Mapping[str, Any]:
    items = range(1, ITEMS + 1)
    length = draw.randint(*lengths)
    recommended = draw.sample(items, length) if distinct else draw.choices(items[:9], k=length)
    # Half of the truth is drawn from what is shown, so that there are hits to count.
    near = draw.sample(sorted(set(recommended)), len(set(recommended)) // 2)
    pool = near + [item for item in draw.sample(items, ITEMS) if item not in near]
    relevant = pool[: draw.randint(*wanted)]
    return {
        "recommendations": recommended,
        "relevant": relevant,
        "relevance": [[item, draw.randint(*ratings)] for item in relevant],
    }


def _scored(user: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Items with falling scores, all of them above 0."""
    recommended = user["recommendations"]
    return [(item, 1.0 - index / 64) for index, item in enumerate(recommended)]


def _row(
    metric: str, case: str, users: Users, at: Mapping[Any, tuple[float | None, Values]], **more: Any
) -> Row:
    """One metric on one case: the mean at each cut-off, and each user's value at one of them."""
    by_k = {
        k: _expected(users, mean, values, per_user=k in (ALONE, None))
        for k, (mean, values) in at.items()
    }
    uncut = [*by_k] == [None]
    k = None if uncut else [*by_k]
    expected = (
        by_k[None] if uncut else {"by_k": {str(k): at_cutoff for k, at_cutoff in by_k.items()}}
    )
    row = {"name": case, "metric": metric, "params": {"k": k, **more.pop("params", {})}}
    return {**row, **more, "expected": expected}


def _expected(
    users: Users, mean: float | None, values: Values, *, per_user: bool
) -> dict[str, Any]:
    expected: dict[str, Any] = {"mean": _number(mean)}
    if per_user and values:
        expected["per_user"] = [_number(values.get(user["user"])) for user in users]
    return expected


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def _replay(users_of: Mapping[str, Users]) -> Iterator[Row]:
    metrics = import_module("replay.metrics")
    for name in ("HitRate", "Precision", "Recall", "MAP", "MRR", "NDCG", "RocAuc"):
        for case, users in users_of.items():
            recs = {user["user"]: _scored(user) for user in users if user["recommendations"]}
            truth = {user["user"]: user["relevant"] for user in users if user["relevant"]}
            yield _replay_row(metrics, name, case, users, (recs, truth))
    shown = {case: users_of[case] for case in ("ordinary", "short", "ratings", "many")}
    log = _log()
    train: dict[int, list[int]] = {}
    for user, item in log:
        train.setdefault(user, []).append(item)
    for case in ("empty_lists", "repeats"):
        recs = {user["user"]: _scored(user) for user in users_of[case]}
        inputs = recs, train
        yield _replay_row(metrics, "Novelty", case, users_of[case], inputs, context={"log": log})
    for case, users in shown.items():
        recs = {user["user"]: _scored(user) for user in users}
        context = {"log": log, "log_items": sorted({item for _, item in log})}
        yield _replay_row(metrics, "Surprisal", case, users, (recs, train), context=context)
        yield _replay_row(metrics, "Novelty", case, users, (recs, train), context=context)
        coverage = metrics.Coverage(list(CUTOFFS))(recs, train)
        at: At = {k: (coverage[f"Coverage@{k}"], {}) for k in CUTOFFS}
        yield _row("Coverage", case, users, at, context=context)
        drawn = _users(99, len(users), lengths=(0, 10), wanted=(0, 0))
        others = [user for user in drawn if user["recommendations"]]
        base = {user["user"]: _scored(user) for user in others}
        context = {
            "baseline": [{k: user[k] for k in ("user", "recommendations")} for user in others]
        }
        yield _replay_row(metrics, "Unexpectedness", case, users, (recs, base), context=context)


def _replay_row(
    metrics: Any, name: str, case: str, users: Users, given: tuple[Any, Any], **more: Any
) -> Row:
    metric, ks = getattr(metrics, name), list(CUTOFFS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean = metric(ks)(*given)
        per_user = metric(ks, mode=metrics.PerUser())(*given)
        median = metric(ks, mode=metrics.Median())(*given)
        width = metric(ks, mode=metrics.ConfidenceInterval(alpha=0.9))(*given)
    at = {k: (mean[f"{name}@{k}"], per_user[f"{name}-PerUser@{k}"]) for k in ks}
    row = _row(name, case, users, at, **more)
    for k, at_cutoff in row["expected"]["by_k"].items():
        at_cutoff["median"] = _number(median[f"{name}-Median@{k}"])
        at_cutoff["conf_interval"] = {"0.9": _number(width[f"{name}-ConfidenceInterval@{k}"])}
    return row


def _log() -> list[list[int]]:
    """[user, item] rows from before: some items are known to many, the last ten to nobody."""
    draw = random.Random(8)
    pairs = {
        (user, int(draw.triangular(1, ITEMS - 10, 1))) for user in range(1, 20) for _ in range(12)
    }
    return sorted(map(list, pairs))


def _lenskit(users_of: Mapping[str, Users]) -> Iterator[Row]:
    ranking = import_module("lenskit.metrics.ranking")
    weights = import_module("lenskit.metrics.ranking._weighting").LogRankWeight
    plain = ("Precision", "Recall", "Hit", "RecipRank", "RBP", "NDCG", "DCG", "AveragePrecision")
    for case, users in users_of.items():
        for name in plain:
            if name != "AveragePrecision" or case != "without_truth":
                yield _lenskit_row(case, users, name, getattr(ranking, name))
        graded = [("NDCG(gain=linear)", ranking.NDCG, {"gain": "rating"})]
        graded += [("DCG(gain=linear)", ranking.DCG, {"gain": "rating"})]
        logarithm = {"weight": weights(base=10, offset=1)}
        graded += [("NDCG(discount_by=log2)", ranking.NDCG, logarithm)]
        graded += [("DCG(base=10,discount_by=log2)", ranking.DCG, logarithm)]
        graded += [("DCG(base=10)", ranking.DCG, {"weight": weights(base=10)})]
        for name, metric, options in graded:
            if case not in ("without_truth", "repeats", "many"):
                yield _lenskit_row(case, users, name, metric, **options)

        if case == "empty_lists":
            continue  # where its ListGini raises
        gini = {k: _lenskit_total(users, ranking.ListGini(k, items=ITEMS)) for k in CUTOFFS}
        catalog = {"catalog": list(range(1, ITEMS + 1))}
        yield _row("ListGini", case, users, gini, context=catalog)


def _lenskit_row(case: str, users: Users, name: str, metric: Any, **options: Any) -> Row:
    at = {k: _lenskit_values(users, metric(k, **options)) for k in (*CUTOFFS,)}
    return _row(name, case, users, at)


def _lenskit_values(users: Users, metric: Any) -> tuple[float, Values]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis = _lenskit_analysis(users, metric)
        per_list = analysis.list_metrics().iloc[:, 0]
        return float(analysis.list_summary()["mean"].iloc[0]), per_list.to_dict()


def _lenskit_total(users: Users, metric: Any) -> tuple[float, Values]:
    """The value of a metric of all lists together."""
    return float(_lenskit_analysis(users, metric).global_metrics().iloc[0]), {}


def _lenskit_analysis(users: Users, metric: Any) -> Any:
    data = import_module("lenskit.data")
    shown, truth = data.ItemListCollection(["user_id"]), data.ItemListCollection(["user_id"])
    for user in users:
        items = user["relevant"]
        gains = [gain for _, gain in user["relevance"]]
        shown.add(data.ItemList(item_ids=user["recommendations"], ordered=True), user["user"])
        truth.add(data.ItemList(item_ids=items, rating=gains), user["user"])
    analysis = import_module("lenskit.metrics").RunAnalysis()
    analysis.add_metric(metric)
    return analysis.measure(shown, truth)


def _rectools(users_of: Mapping[str, Users]) -> Iterator[Row]:
    metrics = import_module("rectools.metrics")
    frame = import_module("pandas").DataFrame
    requested: dict[str, tuple[str, dict[str, Any]]] = {
        **{name: (name, {}) for name in ("Precision", "Recall", "HitRate", "F1Beta", "MCC")},
        **{name: (name, {}) for name in ("MAP", "NDCG", "MRR")},
        "Recall(denominator=ideal)": ("Precision", {"r_precision": True}),
        "F1Beta(beta=2)": ("F1Beta", {"beta": 2.0}),
        "MAP(denominator=k)": ("MAP", {"divide_by_k": True}),
        "NDCG(best=cut)": ("NDCG", {"divide_by_achievable": True, "log_base": 3}),
        **{name: (name, {}) for name in ("PAP", "PartialAUC")},
        "PAP(short=skip)": ("PAP", {"insufficient_handling": "exclude"}),
        "PartialAUC(short=skip)": ("PartialAUC", {"insufficient_handling": "exclude"}),
    }
    for case, users in users_of.items():
        recommended = [
            (u["user"], i, r) for u in users for r, i in enumerate(u["recommendations"], 1)
        ]
        interactions = [(user["user"], item) for user in users for item in user["relevant"]]
        reco = frame(recommended, columns=["user_id", "item_id", "rank"])
        truth = frame(interactions, columns=["user_id", "item_id"])
        for (text, (name, options)), items in product(requested.items(), (ITEMS, 12)):
            if name != "MCC" and items < ITEMS:
                continue
            catalog = list(range(1, items + 1))
            inputs = {"catalog": catalog} if name == "MCC" else {}
            at = {}
            for k in CUTOFFS:
                per_user = getattr(metrics, name)(k=k, **options).calc_per_user(
                    reco, truth, **inputs
                )
                at[k] = (
                    float(per_user.mean()),
                    {user: per_user.get(user) for user in per_user.index},
                )
            context = {"context": {"catalog": catalog}} if inputs else {}
            yield _row(text, case, users, at, **context)


def _ranx(users_of: Mapping[str, Users]) -> Iterator[Row]:
    ranx = import_module("ranx")
    names = ("hit_rate", "precision", "recall", "f1", "mrr", "map", "dcg", "ndcg")
    burges = {"dcg_burges": "dcg(gain=exp2)", "ndcg_burges": "ndcg(gain=exp2)"}
    for case, users in users_of.items():
        if case in ("repeats", "empty_lists"):
            continue
        truth = {
            # A topic without a relevant item has one that is judged and found wanting.
            str(u["user"]): {str(i): g for i, g in u["relevance"]} or {"0": 0}
            for u in users
        }
        shown = {str(u["user"]): {str(i): s for i, s in _scored(u)} for u in users}
        for name in (*names, *burges):
            at = {k: _ranx_values(ranx, truth, shown, f"{name}@{k}") for k in CUTOFFS}
            yield _row(burges.get(name, name), case, users, at)
        # Its bpref is 0/0 without both judgements, and then 0 for some of the following topics.
        judged = [user for user in users if {0, 1} <= {gain for _, gain in user["relevance"]}]
        if judged:
            mine = {str(user["user"]): truth[str(user["user"])] for user in judged}
            mean = _ranx_values(ranx, mine, {user: shown[user] for user in mine}, "bpref")
            yield {**_row("bpref", f"{case}_judged", judged, {None: mean}), "users": judged}
        alike = {"r-precision": "r_precision", "rbp.95": "rbp(p=0.95)", "rbp.80": "rbp(p=0.8)"}
        for theirs, ours in {**alike, **{n: n for n in names}}.items():
            yield _row(ours, case, users, {None: _ranx_values(ranx, truth, shown, theirs)})


def _ranx_values(ranx: Any, truth: Any, shown: Any, metric: str) -> tuple[float, Values]:
    run = ranx.Run(shown)
    mean = ranx.evaluate(ranx.Qrels(truth), run, metric)
    return float(mean), {int(user): value for user, value in run.scores[metric].items()}


def _torchmetrics(users_of: Mapping[str, Users]) -> Iterator[Row]:
    retrieval, torch = import_module("torchmetrics.retrieval"), import_module("torch")
    names = ("HitRate", "Precision", "Recall", "MRR", "MAP", "NormalizedDCG", "RPrecision")
    for case, users in users_of.items():
        if case in ("repeats", "empty_lists"):
            continue
        # What was not among the candidates is not known to it.
        among = [_among_shown(user) for user in users]
        for name in (f"Retrieval{suffix}" for suffix in names):
            graded = name == "RetrievalNormalizedDCG"
            cuts = (None,) if name == "RetrievalRPrecision" else (*CUTOFFS, None)
            at_cutoff = {}
            for k in cuts:
                make = getattr(retrieval, name)
                metric = make() if k is None else make(top_k=k)
                per_user = {
                    u["user"]: _torch_value(torch, metric, [u], graded=graded) for u in among
                }
                at_cutoff[k] = _torch_value(torch, metric, among, graded=graded), per_user
            at = {k: value for k, value in at_cutoff.items() if k is not None}
            if at:
                yield {**_row(name, case, among, at), "users": among}
            yield {**_row(name, case, among, {None: at_cutoff[None]}), "users": among}


def _among_shown(user: Mapping[str, Any]) -> Mapping[str, Any]:
    recommended = user["recommendations"]
    relevance = [pair for pair in user["relevance"] if pair[0] in recommended]
    return {**user, "relevance": relevance, "relevant": [item for item, _ in relevance]}


def _torch_value(torch: Any, metric: Any, users: Users, *, graded: bool) -> float:
    scores, targets, owners = [], [], []
    for user in users:
        gains = dict(user["relevance"])
        for item, score in _scored(user):
            scores.append(score)
            targets.append(gains.get(item, 0) if graded else int(item in gains))
            owners.append(user["user"])
    metric.reset()
    return float(metric(torch.tensor(scores), torch.tensor(targets), torch.tensor(owners)))


def _recbole(_: Mapping[str, Users]) -> Iterator[Row]:
    metrics, torch = import_module("recbole.evaluator.metrics"), import_module("torch")
    struct = import_module("recbole.evaluator.collector").DataStruct
    counts = Counter(item for _, item in _log())
    names = ("ItemCoverage", "GiniIndex", "ShannonEntropy", "AveragePopularity", "TailPercentage")
    requested: list[tuple[str, str, float | None]] = [(name, name.lower(), None) for name in names]
    requested += [("TailPercentage", f"tailpercentage(tail={tail})", tail) for tail in (0.5, 3)]
    for seed, users in ((11, 20), (12, 200)):
        case = f"{users}_full_lists"
        lists = _users(seed, users, lengths=(10, 10), wanted=(0, 0))
        data = struct()
        data.set("rec.items", torch.tensor([user["recommendations"] for user in lists]))
        # One more than there are: item 0 pads.
        data.set("data.num_items", ITEMS + 1)
        data.set("data.count_items", counts)
        context = {
            "catalog": list(range(1, ITEMS + 1)),
            "popularity": sorted(map(list, counts.items())),
        }
        for name, text, tail in requested:
            config = {"topk": list(CUTOFFS), "metric_decimal_place": 15, "tail_ratio": tail}
            results = getattr(metrics, name)(config).calculate_metric(data)
            at: At = {k: (float(results[f"{name.lower()}@{k}"]), {}) for k in CUTOFFS}
            row = _row(text, case, lists, at, context={**context, "n_train_users": 19})
            yield {**row, "users": lists}


def _trec(users_of: Mapping[str, Users]) -> Iterator[Row]:
    trec = import_module("pytrec_eval")
    cut = {"P": "P", "recall": "recall", "map_cut": "map_cut", "ndcg_cut": "ndcg_cut"}
    cut["success"] = "success"
    total = ("map", "gm_map", "Rprec", "bpref", "recip_rank", "ndcg")
    others = ("set_P", "set_recall", "set_F", "num_ret", "num_rel", "num_rel_ret")
    for case, users in users_of.items():
        if case in ("repeats", "empty_lists"):
            continue
        # Of a topic without a relevant document another one is judged.
        truth = {
            str(u["user"]): {str(i): g for i, g in u["relevance"]} or {"none": 0} for u in users
        }
        shown = {str(u["user"]): {str(i): s for i, s in _scored(u)} for u in users}
        ks = ",".join(map(str, CUTOFFS))
        measures = {f"{name}.{ks}" for name in cut} | {*total, *others, "iprec_at_recall"}
        by_user = trec.RelevanceEvaluator(truth, measures).evaluate(shown)
        by_name = {
            name: {int(u): of[name] for u, of in by_user.items()}
            for name in next(iter(by_user.values()))
        }
        for name in cut:
            at = {k: _trec_value(trec, f"{name}_{k}", by_name) for k in CUTOFFS}
            yield _row(name, case, users, at)
        for name in (*total, *others, *(name for name in by_name if "iprec" in name)):
            mean, per_user = _trec_value(trec, name, by_name)
            # The geometric mean is of logarithms; a user's own value is recorded as such.
            yield _row(name, case, users, {None: (mean, {} if name == "gm_map" else per_user)})


def _trec_value(trec: Any, name: str, by_name: Mapping[str, Values]) -> tuple[float, Values]:
    values = by_name[name]
    return trec.compute_aggregated_measure(name, list(values.values())), values


RECORDERS: Mapping[str, Recorder] = {
    "lenskit": Recorder("lenskit_2025", "lenskit", _lenskit),
    "pytrec-eval-terrier": Recorder("trec", "pytrec_eval", _trec),
    "ranx": Recorder("ranx", "ranx", _ranx),
    "recbole": Recorder("recbole", "recbole", _recbole),
    "rectools": Recorder("rectools", "rectools", _rectools),
    "replay-rec": Recorder("replay_0_22", "replay", _replay),
    "torchmetrics": Recorder("torchmetrics", "torchmetrics", _torchmetrics, 1e-6),
}
"""What pip calls a package -> how it is recorded."""


def recorded(package: str) -> dict[str, Any]:
    """What the installed package returns now, in the form of the files."""
    recorder, users_of = RECORDERS[package], cases()
    rows = list(recorder.rows(users_of))
    users: dict[str, Users] = {}
    for row in rows:
        users.setdefault(row["name"], row.get("users") or users_of[row["name"]])
    return {
        "system": recorder.system,
        "package": package,
        "version": version(package),
        "source": f"{package} {version(package)} on Python {platform.python_version()}, "
        f"by python -m tests.conformance.record {package}",
        "params": {"abs_tol": recorder.tolerance, "rel_tol": recorder.tolerance},
        "users": users,
        "cases": [{**row, "users": row["name"]} for row in rows],
    }


def main() -> int:
    """Write the file of one package."""
    if len(sys.argv) != 2 or sys.argv[1] not in RECORDERS:
        print(f"usage: python -m tests.conformance.record {{{','.join(RECORDERS)}}}")
        return 2
    content = recorded(sys.argv[1])
    path = FOLDER / f"{content['system']}__recorded.json"
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    print(
        f"{path.name}: {len(content['cases'])} cases of {content['package']} {content['version']}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
