"""`streameval evaluate --recommendations --truth`: files of recommenders and trec_eval."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.program import metric_options, readings, run, usage_error
from tests.datasets import PRINTED, dataset

RECOMMENDATIONS = """user_id:token\titem_id:token\tscore:float
u1\ta\t0.25
u1\tb\t0.75
u2\ta\t1e-3
u1\tc\t0.75
u3\ta\t-1
"""
TRUTH = "user_id:token\titem_id:token\trating:float\nu1\tc\t5\nu4\ta\t4\nu2\ta\t3\nu1\tz\t2\n"
METRICS = ("mrr", "recall@3", "recbole:ndcg@2", "replay:Precision@2", "recbole:gauc", "ndcg@2")

Arguments: TypeAlias = list[str | Path]

RUN = """q1 Q0 d1 1 2.5 tag
q1 Q0 d3 2 2.5 tag
q1\tQ0\td2 3   0.5 tag

q2 Q0 d9 1 1 tag
"""
QRELS = "q1 0 d1 1\nq1 0 d2 0\nq3 0 d1 1\n"


def results_of(*arguments: str | Path) -> dict[str, tuple[Any, Any]]:
    metrics = [] if "-m" in arguments else metric_options(METRICS)
    read = readings(*arguments, *metrics)
    return {reading["metric"]: (reading["value"], reading["count"]) for reading in read}


def error_of(*arguments: str | Path) -> str:
    return usage_error("evaluate", *arguments, "-m", "mrr")


def files(recommendations: Path, truth: Path) -> Arguments:
    return ["--recommendations", recommendations, "--truth", truth]


def written(folder: Path, recommendations: str, truth: str, ending: str = ".csv") -> Arguments:
    paths = [folder / f"{name}{ending}" for name in ("recs", "truth")]
    for path, text in zip(paths, (recommendations, truth), strict=True):
        path.write_text(text, encoding="latin-1")
    return files(*paths)


def test_parquet_and_csv_give_the_same_with_columns_of_any_name(tmp_path: Path) -> None:
    rows = [line.split("\t") for line in RECOMMENDATIONS.splitlines()[1:]]
    columns = {
        "who": [row[0] for row in rows],
        "what": pa.array([row[1] for row in rows]).dictionary_encode(),
        "how_much": [float(row[2]) for row in rows],
        "score": [0.0] * len(rows),
    }
    pq.write_table(pa.table(columns), tmp_path / "recs.parquet")
    text = TRUTH.replace("\t", ",").replace(":token", "").replace(":float", "")
    (tmp_path / "truth.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    both = files(tmp_path / "recs.parquet", tmp_path / "truth.csv.gz")
    assert "name it with --column recommendations.user=NAME" in error_of(*both)
    renamed = text.replace("user_id,item_id", "who,what").encode()
    (tmp_path / "truth.csv.gz").write_bytes(gzip.compress(renamed))
    roles = ("user=who", "item=what", "score=how_much")
    named = [text for role in roles for text in ("--column", role)]
    atomic = written(tmp_path, RECOMMENDATIONS, TRUTH, ".inter")
    assert results_of(*both, *named) == results_of(*atomic)


def test_replays_frames_of_integers_match_the_text_of_a_csv(tmp_path: Path) -> None:
    frame = {"user_idx": [7, 7, 8], "item_idx": [10, 9, 10], "relevance": [0.5, 0.75, 1.0]}
    pq.write_table(pa.table(frame), tmp_path / "recs.parquet")
    truth = {"user_idx": [7, 9], "item_idx": [10, 11]}
    pq.write_table(pa.table(truth), tmp_path / "truth.parquet")
    (tmp_path / "truth.csv").write_text("user_idx,item_idx\n7,10\n9,11\n")
    metrics = metric_options(["mrr", "distinct_items", "replay:MRR@2"])
    integers, text = (
        results_of(*files(tmp_path / "recs.parquet", tmp_path / name), *metrics)
        for name in ("truth.parquet", "truth.csv")
    )
    assert integers == text
    assert integers["mrr"] == (0.5 / 3, 3)
    assert integers["distinct_items"] == (2.0, 3)


def test_integers_of_any_width_are_the_same_ids(tmp_path: Path) -> None:
    wide = 1 << 63
    for kinds, items in (((pa.int32(), pa.int64()), [5, 6]), ((pa.int8(), pa.uint64()), [5, wide])):
        for name, kind, ids in (("recs", kinds[0], [5, 7]), ("truth", kinds[1], items)):
            table = pa.table({"user": pa.array([1, 2], kind), "item": pa.array(ids, kind)})
            pq.write_table(table, tmp_path / f"{name}.parquet")
        both = files(tmp_path / "recs.parquet", tmp_path / "truth.parquet")
        assert results_of(*both, "-m", "mrr") == {"mrr": (0.5, 2)}


def test_a_catalogue_in_a_file_holds_ids_of_their_kind(tmp_path: Path) -> None:
    frame = pa.table({"user": [1, 1], "item": [5, 6], "score": [1.0, 2.0]})
    pq.write_table(frame, tmp_path / "recs.parquet")
    (tmp_path / "items.txt").write_text("5\n6\n7\n8\n")
    pq.write_table(frame.select(["user", "item"]), tmp_path / "truth.parquet")
    both = files(tmp_path / "recs.parquet", tmp_path / "truth.parquet")
    options: Arguments = ["--catalog", tmp_path / "items.txt", "-m", "item_coverage"]
    assert results_of(*both, *options) == {"item_coverage": (0.5, 1)}
    lists = pa.table({"recommendations": [[5]], "interactions": [[6]]})
    pq.write_table(lists, tmp_path / "lists.parquet")
    (tmp_path / "items.txt").write_text("5\nsix\n")
    for inputs in (both, [tmp_path / "lists.parquet"]):
        done = run("evaluate", *inputs, *options)
        assert done.returncode == 2
        assert "items.txt: invalid literal for int() with base 10: 'six'; give" in done.stderr


def test_trec_evals_files_are_known_by_their_first_lines(tmp_path: Path) -> None:
    (tmp_path / "results.gz").write_bytes(gzip.compress(RUN.encode()))
    both, metrics = written(tmp_path, RUN, QRELS, ""), metric_options(["map", "mrr", "hits"])
    for inputs in (both, [both[0], tmp_path / "results.gz", *both[2:]]):
        assert results_of(*inputs, *metrics) == {"map": (0.5, 1), "mrr": (0.5, 1), "hits": (1.0, 1)}
    by_arrival = results_of(*both, *metrics, "--form", "trec", "--ties", "arrival")
    assert by_arrival["map"] == (1.0, 1)
    message = "2 topics are in only one file and are left out, as in trec_eval."
    assert message in run("evaluate", *both, "-m", "mrr").stderr


def test_the_trec_eval_sample_has_its_printed_digits_from_its_own_files() -> None:
    folder = dataset("judged")
    names = ["map", "gm_map", "Rprec", "bpref", "recip_rank", "num_rel_ret"]
    names += [f"P_{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)]
    printed = PRINTED.read_text()
    values = {line.split()[0]: line.split()[2] for line in printed.splitlines()}
    both = files(folder / "results.test.gz", folder / "qrels.test.gz")
    read = results_of(*both, *metric_options(f"trec:{name}" for name in names))
    digits = [f"{value:.4f}" for value, _ in read.values()]
    assert digits == [f"{float(values[name]):.4f}" for name in names]


@pytest.mark.nightly
def test_rankings_are_those_of_trec_eval_itself(tmp_path: Path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec-eval-terrier is not installed")
    draw = random.Random(7)
    ranking, qrels = {}, {}
    for topic in (f"q{number}" for number in range(40)):
        items = draw.sample(range(100), 30)
        # Neighbours of a kNN: few distinct similarities, and sums of them that differ by an ulp.
        ranking[topic] = {
            f"d{item}": draw.choice((0.1, 0.2, 0.7)) + draw.choice((0.1, 1e-9, 0.2)) / 3
            for item in items
        }
        qrels[topic] = {f"d{item}": draw.randint(0, 2) for item in draw.sample(range(100), 40)}
    lines = (
        f"{topic} Q0 {item} 0 {score!r} tag\n"
        for topic, scores in ranking.items()
        for item, score in scores.items()
    )
    judged = (f"{q} 0 {item} {rel}\n" for q, rels in qrels.items() for item, rel in rels.items())
    both = written(tmp_path, "".join(lines), "".join(judged), "")
    names = ("recip_rank", "map", "Rprec", "bpref", "P_5", "P_10", "num_rel_ret")
    ours = results_of(*both, *metric_options(f"trec:{name}" for name in names))
    peer = pytrec_eval.RelevanceEvaluator(
        qrels, {"recip_rank", "map", "Rprec", "bpref", "P", "num_rel_ret"}
    ).evaluate(ranking)
    for name, (read, _) in zip(names, ours.values(), strict=True):
        values = [measures[name] for measures in peer.values()]
        total = sum(values) if name == "num_rel_ret" else sum(values) / len(values)
        assert read == pytest.approx(total, rel=1e-12), name
