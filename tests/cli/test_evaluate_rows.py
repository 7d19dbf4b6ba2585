"""`streameval evaluate --recommendations --truth`: files of recommenders and trec_eval."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streameval import Accumulator
from tests.cli.program import metric_options, readings, run, usage_error, write_file
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


def expected(ties: str = "arrival") -> dict[str, tuple[float, int]]:
    """The values of an Accumulator for the same events."""
    accumulator = Accumulator(*METRICS)
    first = ["c", "b", "a"] if ties == "id_desc" else ["b", "c", "a"]
    for shown, scores, gains in (
        (first, [0.75, 0.75, 0.25], {"c": 5.0, "z": 2.0}),
        (["a"], [1e-3], {"a": 3.0}),
        (["a"], [-1.0], {}),
        ([], [], {"a": 4.0}),
    ):
        accumulator.update(shown, gains, scores=scores)
    read = accumulator.compute().values()
    return {reading.metric: (reading.value, reading.count) for reading in read}


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


@pytest.fixture
def pair(tmp_path: Path) -> Arguments:
    return written(tmp_path, RECOMMENDATIONS, TRUTH, ".inter")


def test_atomic_files_are_joined_by_user(pair: Arguments) -> None:
    assert results_of(*pair) == expected()


def test_equal_scores_may_be_ordered_by_id(pair: Arguments) -> None:
    assert results_of(*pair, "--ties", "id_desc") == expected("id_desc")
    assert expected("id_desc") != expected()


@pytest.mark.parametrize(
    ("ties", "first"), [("arrival", 1 / 2), ("id_desc", 1 / 3), ("id_asc", 1.0)]
)
def test_the_smaller_id_may_come_first_as_in_the_cut_rr_of_ir_measures(
    tmp_path: Path, ties: str, first: float
) -> None:
    both = written(tmp_path, "user,item,score\n1,b,1\n1,a,1\n1,c,1\n", "user,item\n1,a\n")
    assert results_of(*both, "-m", "mrr", "--ties", ties) == {"mrr": (first, 1)}


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
    assert results_of(*both, *named) == expected()


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


def test_folders_and_patterns_are_read_as_one_file(tmp_path: Path) -> None:
    for name, text in (("recs", RECOMMENDATIONS), ("truth", TRUTH)):
        head, *rows = text.splitlines(keepends=True)
        (tmp_path / name).mkdir()
        for number, part in enumerate((rows[:2], rows[2:])):
            (tmp_path / name / f"part-{number}.tsv").write_text("".join([head, *part]))
    both = files(tmp_path / "recs", tmp_path / "truth" / "part-*.tsv")
    assert results_of(*both) == expected()
    (tmp_path / "recs" / "part-2.tsv").write_text("user_id\nu1\n")
    assert "part-2.tsv: some rows have no column 'item_id:token'" in error_of(*both)


def test_without_scores_items_are_ranked_in_file_order(tmp_path: Path) -> None:
    both = written(tmp_path, "item,user\nb,1\nx,2\na,1\n", "user,item\n1,a\n")
    assert results_of(*both, "-m", "mrr") == {"mrr": (0.25, 2)}


def test_a_column_of_numbers_that_may_be_the_score_is_not_left_unread(tmp_path: Path) -> None:
    both = written(tmp_path, "user,item,est\n1,a,.1\n1,b,.9\n", "user,item\n1,b\n")
    said = error_of(*both)
    assert "no column has a usual name of a score or rank, and 'est' has numbers; if it" in said
    assert "--column score=est (highest first) or --column rank=est (lowest first)" in said
    assert results_of(*both, "-m", "mrr", "--column", "score=est") == {"mrr": (1.0, 1)}
    assert results_of(*both, "-m", "mrr", "--column", "score=") == {"mrr": (0.5, 1)}
    both = written(tmp_path, ",user,item\n0,1,a\n1,1,b\n", "user,item\n1,b\n")
    assert results_of(*both, "-m", "mrr") == {"mrr": (0.5, 1)}


def test_columns_may_have_another_name_in_each_file(tmp_path: Path) -> None:
    both = written(tmp_path, "client,sku,score\n1,a,1\n1,b,2\n", "member,product\n1,a\n")
    names = ["recommendations.user=client", "truth.user=member"]
    options = [part for name in names for part in ("--column", name)]
    assert results_of(*both, "-m", "mrr", *options) == {"mrr": (0.5, 1)}


def test_a_column_named_for_the_rank_is_read(tmp_path: Path) -> None:
    both = written(tmp_path, "user,item,place\n1,a,2\n1,b,1\n", "user,item\n1,a\n")
    done = run("evaluate", *both, "-m", "mrr", "--column", "rank=place", "--format", "csv")
    assert (done.stdout, done.stderr) == ("metric,value,count\nmrr,0.5,1\n", "")


@pytest.mark.parametrize("first", [0, 1])
def test_without_scores_the_lowest_rank_comes_first(tmp_path: Path, first: int) -> None:
    rows = [("a", 2), ("b", 0), ("c", 1), ("d", 10)]
    shown = "".join(f"1,{item},{rank + first}\n" for item, rank in rows)
    both = written(tmp_path, f"user,item,rank\n{shown}", "user,item\n1,d\n1,c\n")
    assert results_of(*both, *metric_options(["mrr", "precision@3"])) == {
        "mrr": (0.5, 1),
        "precision@3": (1 / 3, 1),
    }


def test_scores_come_before_ranks_unless_these_are_named(tmp_path: Path) -> None:
    recommended = "user,item,score,rank\n1,a,0.9,2\n1,b,0.5,1\n2,b,0.5,1\n"
    both = written(tmp_path, recommended, "user,item\n1,a\n")
    metrics = metric_options(["mrr", "auc"])
    assert results_of(*both, *metrics) == {"mrr": (0.5, 2), "auc": (1.0, 2)}
    assert results_of(*both, *metrics, "--column", "rank=rank") == {
        "mrr": (0.25, 2),
        "auc": (1.0, 2),
    }


def test_systems_that_read_no_ratings_count_every_row_of_the_truth(tmp_path: Path) -> None:
    rated = written(
        tmp_path, "user,item,score\n1,a,0.5\n", "user,item,rating\n1,a,0\n1,b,-1\n1,c,2\n"
    )
    systems = ["recbole", "replay", "replay_0_9", "replay_0_11", "replay_0_22", "rectools"]
    values = results_of(*rated, *metric_options([f"{system}:map@1" for system in systems]))
    assert {value for value, _ in values.values()} == {1.0, 1 / 3}
    assert values["rectools:map@1"] == (1 / 3, 1)
    assert results_of(*rated, *metric_options(["hit_rate@1", "trec:map"])) == {
        "hit_rate@1": (0.0, 1),
        "trec:map": (0.0, 1),
    }
    assert run("evaluate", *rated, *metric_options(["recbole:map@1"])).stderr == ""


def test_integers_of_any_width_are_the_same_ids(tmp_path: Path) -> None:
    wide = 1 << 63
    for kinds, items in (((pa.int32(), pa.int64()), [5, 6]), ((pa.int8(), pa.uint64()), [5, wide])):
        for name, kind, ids in (("recs", kinds[0], [5, 7]), ("truth", kinds[1], items)):
            table = pa.table({"user": pa.array([1, 2], kind), "item": pa.array(ids, kind)})
            pq.write_table(table, tmp_path / f"{name}.parquet")
        both = files(tmp_path / "recs.parquet", tmp_path / "truth.parquet")
        assert results_of(*both, "-m", "mrr") == {"mrr": (0.5, 2)}


def test_users_are_counted_if_a_metric_reads_them(tmp_path: Path) -> None:
    both = written(tmp_path, "user,item\n1,b\n2,x\n1,a\n", "user,item\n1,a\n3,a\n")
    of = results_of(*both, *metric_options(["users_covered", "users_covered(having=hit)"]))
    assert [value for value, _ in of.values()] == [2.0, 1.0]


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
    for given in (both, [tmp_path / "lists.parquet"]):
        done = run("evaluate", *given, *options)
        assert done.returncode == 2
        assert "items.txt: invalid literal for int() with base 10: 'six'; give" in done.stderr


def test_trec_evals_files_are_known_by_their_first_lines(tmp_path: Path) -> None:
    (tmp_path / "results.gz").write_bytes(gzip.compress(RUN.encode()))
    both, metrics = written(tmp_path, RUN, QRELS, ""), metric_options(["map", "mrr", "hits"])
    for given in (both, [both[0], tmp_path / "results.gz", *both[2:]]):
        assert results_of(*given, *metrics) == {"map": (0.5, 1), "mrr": (0.5, 1), "hits": (1.0, 1)}
    by_arrival = results_of(*both, *metrics, "--form", "trec", "--ties", "arrival")
    assert by_arrival["map"] == (1.0, 1)
    said = "2 topics are in only one file and are left out, as in trec_eval."
    assert said in run("evaluate", *both, "-m", "mrr").stderr


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


def test_c_floats_make_the_ties_that_trec_eval_sees(tmp_path: Path) -> None:
    # The three scores differ as doubles and are one C float; then the larger id stands first.
    scores = {"d1": "0.30000001", "d2": "0.300000012", "d3": "0.3"}
    lines = (f"q1 Q0 {item} 1 {score} tag\n" for item, score in scores.items())
    both = written(tmp_path, "".join(lines), "q1 0 d1 1\n", "")
    assert list(results_of(*both, "-m", "trec:recip_rank").values()) == [(1 / 3, 1)]


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
    theirs = pytrec_eval.RelevanceEvaluator(
        qrels, {"recip_rank", "map", "Rprec", "bpref", "P", "num_rel_ret"}
    ).evaluate(ranking)
    for name, (read, _) in zip(names, ours.values(), strict=True):
        values = [measures[name] for measures in theirs.values()]
        whole = sum(values) if name == "num_rel_ret" else sum(values) / len(values)
        assert read == pytest.approx(whole, rel=1e-12), name


def test_spans_join_rows_of_both_files_by_time(tmp_path: Path) -> None:
    recommendations = (
        "user,item,score,at\n1,a,2,1970-01-01T00:00:10Z\n1,b,1,1970-01-01T00:00:20Z\n"
        "1,b,2,1970-01-02T00:00:00Z\n1,a,1,1970-01-02T00:00:00Z\n"
    )
    truth = (
        "user,item,at\n1,a,1970-01-01T23:59:59Z\n1,a,1970-01-02T01:00:00Z\n"
        "2,a,1970-01-03T01:00:00Z\n"
    )
    both = written(tmp_path, recommendations, truth)
    read = readings(*both, "-m", "mrr", "--every", "24h", "--time", "at")
    assert [(reading["start"], reading["value"], reading["count"]) for reading in read] == [
        ("1970-01-01T00:00:00Z", 1.0, 1),
        ("1970-01-02T00:00:00Z", 0.5, 1),
        ("1970-01-03T00:00:00Z", 0.0, 1),
    ]


def test_a_pair_has_no_labels_and_no_streams_to_join(pair: Arguments, tmp_path: Path) -> None:
    text = """
        metrics = ["mrr"]
        labels = ["variant"]
        event = { time = "ts", time_unit = "ms" }
        attribution = { impressions = "shown", window = "1h", interactions = [{ source = "acts" }] }
    """
    config = write_file(tmp_path / "streameval.toml", text)
    assert results_of(*pair, "--config", config, *metric_options(METRICS)) == expected()
