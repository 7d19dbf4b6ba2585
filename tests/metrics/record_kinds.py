"""Records what other packages return for the kinds of items in random lists.

    pip install lenskit==2025.8.1 pyndeval==0.0.8 FairRankTune==0.0.7
    python tests/metrics/record_kinds.py        # in an environment apart from this project

Writes kinds.json beside this file: for each world, its items and lists, and the value of each
metric at rank 5.
"""

from __future__ import annotations

import json
import random
import statistics
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

WORLDS, LISTS, K = 24, 14, 5
GENRES, PROVIDERS = "dnsmx", ("acme", "bolt", "cord")
ALPHAS = (0.5, 0.3)

List = dict[str, Any]


def main() -> None:
    draw = random.Random(20261124)
    worlds = [_world(draw) for _ in range(WORLDS)]
    recorded = ",\n".join(json.dumps(world | {"values": _values(world)}) for world in worlds)
    Path(__file__).with_name("kinds.json").write_text(f"[\n{recorded}\n]\n")


def _world(draw: random.Random) -> dict[str, Any]:
    items = [f"i{number:02}" for number in range(15)]
    lists = []
    for _ in range(LISTS):
        shown = draw.sample(items, draw.randint(K, 8))
        clicked = draw.sample(shown, draw.randint(0, 3)) + draw.sample(items, draw.randint(0, 2))
        history = draw.sample(items, draw.randint(1, 9))
        lists.append({"shown": shown, "clicked": sorted({*clicked}), "history": history})
    return {
        "genre": {item: draw.sample(GENRES, draw.choice((1, 1, 2, 3))) for item in items},
        "provider": dict(zip(items, 5 * PROVIDERS, strict=True)),
        "lists": lists,
    }


def _values(world: dict[str, Any]) -> dict[str, float]:
    lists, genre, provider = world["lists"], world["genre"], world["provider"]
    return {
        **_ndeval(lists, genre),
        **_distances(lists, genre),
        **_lenskit(lists, genre),
        **_fair_rank_tune(lists, provider),
    }


def _ndeval(lists: list[List], genre: dict[str, str]) -> dict[str, float]:
    package = import_module("pyndeval")
    qrels = [
        package.SubtopicQrel(str(query), kind, item, 1)
        for query, row in enumerate(lists)
        for item in row["clicked"]
        for kind in genre[item]
    ]
    run = [
        package.ScoredDoc(str(query), item, -float(place))
        for query, row in enumerate(lists)
        for place, item in enumerate(row["shown"])
    ]
    values = {}
    for alpha in ALPHAS:
        measures = [f"alpha-nDCG@{K}", f"strec@{K}"]
        by_query = package.ndeval(qrels, run, measures=measures, alpha=alpha).values()
        text = "alpha_ndcg" if alpha == ALPHAS[0] else f"alpha_ndcg(alpha={alpha})"
        values[text] = statistics.fmean(query[measures[0]] for query in by_query)
        values["subtopic_recall"] = statistics.fmean(query[measures[1]] for query in by_query)
    return values


def _matrix(items: list[str], genre: dict[str, str]) -> Any:
    """A row for each item, whose kinds have equal shares of 1."""
    rows = [[float(kind in genre[item]) for kind in GENRES] for item in items]
    return np.array(rows) / np.sum(rows, axis=1, keepdims=True)


def _distances(lists: list[List], genre: dict[str, str]) -> dict[str, float]:
    stats, distance = import_module("scipy.stats"), import_module("scipy.spatial.distance")
    values: dict[str, list[float]] = {}
    for row in lists:
        p, q = (_matrix(items, genre).mean(axis=0) for items in (row["history"], row["shown"][:K]))
        distances = {
            "miscalibration": stats.entropy(p, 0.99 * q + 0.01 * p, base=2),
            "miscalibration(divergence=js)": distance.jensenshannon(p, q, base=2) ** 2,
            "miscalibration(divergence=hellinger)": distance.euclidean(p**0.5, q**0.5) / 2**0.5,
        }
        for text, value in distances.items():
            values.setdefault(text, []).append(float(value))
    return {text: statistics.fmean(of_lists) for text, of_lists in values.items()}


def _lenskit(lists: list[List], genre: dict[str, str]) -> dict[str, float]:
    entropy = import_module("lenskit.metrics.ranking._entropy").matrix_column_entropy
    rows = [_matrix(row["shown"][:K], genre) for row in lists]
    shown = {kind for kinds in genre.values() for kind in kinds}
    assert shown == {*GENRES}
    return {"category_diversity": statistics.fmean(map(entropy, rows))}


def _fair_rank_tune(lists: list[List], provider: dict[str, str]) -> dict[str, float]:
    module = import_module("FairRankTune.Metrics.EXP")
    frame = import_module("pandas").DataFrame
    shown = frame({place: row["shown"][:K] for place, row in enumerate(lists)})
    hits = frame(
        {
            place: [float(item in row["clicked"]) for item in row["shown"][:K]]
            for place, row in enumerate(lists)
        }
    )
    return {
        "group_disparity": float(module.EXP(shown, provider, "MinMaxRatio")[0]),
        "group_disparity(measure=difference)": float(module.EXP(shown, provider, "MaxMinDiff")[0]),
        "group_disparity(over=hits)": float(module.EXPU(shown, provider, hits, "MinMaxRatio")[0]),
    }


if __name__ == "__main__":
    main()
