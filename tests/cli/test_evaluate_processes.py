"""`--processes`: equal values, equal errors, and quiet ends."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import pickle
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streameval.evaluation.arguments import Options
from streameval.evaluation.evaluation import count_call
from streameval.evaluation.processes import LostProcessError, map_parts
from streameval.evaluation.setup import Request
from streameval.evaluation.shell.terminal import SURROUNDINGS
from streameval.evaluation.sources import expand_paths, inputs_of
from streameval.events.errors import StreamevalError
from streameval.statistics.intervals import Intervals
from tests.cli.program import (
    command,
    in_a_terminal,
    json_lines,
    metric_options,
    run,
    usage_error,
)
from tests.effort import PATIENCE, sampled

METRICS = ("ndcg@3", "hit_rate@2", "distinct_items@2", "mrr", "users_covered")
HOUR = 3_600


def events(number: int, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "recommendations": draw.sample(range(30), 4),
            "interactions": draw.sample(range(30), draw.randint(0, 3)),
            "user": f"u{draw.randrange(20)}",
            "variant": draw.choice(["a", "b", None]),
            "ts": 1_700_000_000 + draw.randrange(5 * HOUR),
        }
        for _ in range(number)
    ]


def parquet(path: Path, rows: Sequence[dict[str, Any]], group: int = 7) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=group)
    return path


def csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    lines = ["recommendations,interactions,user,variant,ts"]
    for row in rows:
        lists = (" ".join(map(str, row[name])) for name in ("recommendations", "interactions"))
        lines.append(f"{','.join(lists)},{row['user']},{row['variant'] or ''},{row['ts']}")
    path.write_text("\n".join(lines))
    return path


def test_the_output_is_the_same_whatever_the_number_of_processes(tmp_path: Path) -> None:
    files = [csv(tmp_path / f"{n}.csv", events(40, n)) for n in range(3)]
    hourly = ["--by", "variant", "--every", "1h", "--time", "ts", "--time-unit", "s"]
    metrics = metric_options(METRICS)
    call = ["evaluate", *map(str, files), *metrics, *hourly, "--format", "json"]
    alone, two = (run(*call, "--processes", number) for number in ("1", "2"))
    assert (two.returncode, two.stdout, two.stderr) == (0, alone.stdout, alone.stderr)
    assert len(json.loads(alone.stdout)) >= len(METRICS)


@pytest.mark.parametrize("every", sampled(["1h", None], 2))
@pytest.mark.parametrize("form", ["parquet", "lines"])
def test_several_processes_give_the_same_counts_with_intervals_and_labels(
    tmp_path: Path, every: str | None, form: str
) -> None:
    write = parquet if form == "parquet" else json_lines
    paths = [str(write(tmp_path / f"{n}.{form}", events(40, n))) for n in range(3)]
    results = []
    for processes in (1, 2):
        options = Options(
            metrics=METRICS,
            by=["variant"],
            every=every,
            columns={"time": "ts"},
            time_unit="s",
            form="parquet" if form == "parquet" else "json",
            intervals=Intervals(groups=16),
            processes=processes,
        )
        request = Request(inputs_of(paths, None, None, options), options)
        counted = count_call(request, SURROUNDINGS)
        slices = [counted.accumulator([name]) for name in ("__missing__", "a", "b")]
        dumps = [b"".join(part.dump()) for part in slices if part is not None]
        results.append((dumps, repr(counted.rows)))
    assert results[0] == results[1]
    assert len(results[0][0]) == (3 if every is None else 0)


def test_an_error_names_the_file_and_the_row(tmp_path: Path) -> None:
    good = parquet(tmp_path / "good.pq", events(20, 1))
    rows = events(30, 2)
    for row in rows:
        row["positions"] = [1, 2, 3, 4]
    rows[16]["positions"] = [1, 2, 3, 0]
    rows[28]["positions"] = [1]
    bad = parquet(tmp_path / "bad.pq", rows)
    damaged = tmp_path / "bad.ndjson.gz"
    damaged.write_bytes(gzip.compress(json_lines(tmp_path / "a.ndjson", rows).read_bytes())[:-20])
    for processes in ("1", "2"):
        message = usage_error("evaluate", good, bad, "-m", "mrr", "--processes", processes)
        assert "bad.pq: row 17: position 0; positions are whole numbers" in message
        lines = (tmp_path / "a.ndjson", damaged)
        done = run("evaluate", *lines, "-m", "hits", "--processes", processes)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "bad.ndjson.gz: its gzip data is truncated; wait until" in done.stderr


def _kinds_of_errors(kind: type[StreamevalError]) -> Iterator[type[StreamevalError]]:
    if kind.__module__.startswith("streameval."):
        yield kind
        for narrower in kind.__subclasses__():
            yield from _kinds_of_errors(narrower)


def test_every_error_travels_between_processes_with_its_data() -> None:
    def content(error: StreamevalError) -> object:
        return type(error), str(error), {name: str(value) for name, value in vars(error).items()}

    for kind in {*_kinds_of_errors(StreamevalError)}:
        texts, fields = list[str](), dict[str, Any]()
        for name, parameter in signature(kind).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                fields[name] = [name]
            elif parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
                texts.append(name)
        error = kind(*texts, **fields)
        assert content(pickle.loads(pickle.dumps(error))) == content(error)
        assert fields.items() <= vars(error).items()
        assert texts[0] in str(error)


def test_a_folder_means_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "day=1" / "_temporary").mkdir(parents=True)
    first = parquet(tmp_path / "day=1" / "a.parquet", events(20, 1))
    second = parquet(tmp_path / "b [1].pq", events(20, 2))
    parquet(tmp_path / "day=1" / "_temporary" / "c.parquet", events(20, 3))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".b.pq.crc").touch()
    (tmp_path / "README.md").touch()
    expected = sorted(map(str, (first, second)))
    assert expand_paths([f"{tmp_path}/"]) == expand_paths([str(tmp_path)]) == expected
    assert expand_paths([f"{tmp_path}/**/*.p*q*"])[-1] == str(first)
    assert expand_paths([f"{tmp_path}/day=?/*.parquet"]) == [str(first)]
    assert expand_paths([str(second)]) == [str(second)]
    done = run("evaluate", tmp_path, "-m", "mrr", "--format", "json")
    assert json.loads(done.stdout)[0]["count"] == 40


def end_hard(task: Sequence[int]) -> Sequence[int]:
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def test_a_killed_worker_process_is_reported_in_one_sentence() -> None:
    with (
        pytest.raises(
            LostProcessError, match="killed by signal 9, most likely because memory ran out"
        ),
        map_parts(end_hard, [0, 1], [1, 1], 2) as results,
    ):
        list(results)


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program with three processes that wait for endless files."""
    module = tmp_path / "waiting.py"
    module.write_text(
        "import time\n"
        "from streameval import metric\n"
        "@metric(bounds=(0, 1), source='a test')\n"
        "def waiting(event):\n"
        "    '''Waits for a minute.'''\n"
        "    time.sleep(60)\n"
        "    return 0.0\n"
    )
    paths = [parquet(tmp_path / f"{n}.pq", events(3, n)) for n in range(3)]
    process = subprocess.Popen(
        command("evaluate", *paths, "-m", "waiting:waiting", "--processes", "3"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.communicate()


def workers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The worker processes, once all have begun to count."""
    workers_of: list[psutil.Process] = []
    while len(workers_of) < 3 and process.poll() is None:
        children = psutil.Process(process.pid).children()
        workers_of = [child for child in children if _counts(child)]
        time.sleep(0.05)
    return workers_of


def _counts(child: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "spawn_main" in " ".join(child.cmdline()) and child.num_threads() > 1
    return False


def test_an_interrupt_ends_all_processes_quietly(counting: subprocess.Popen[bytes]) -> None:
    counters = workers(counting)
    for counter in counters:
        counter.send_signal(signal.SIGINT)
    assert not psutil.wait_procs(counters, 1)[0]
    os.killpg(counting.pid, signal.SIGINT)
    out, err = counting.communicate(timeout=PATIENCE)
    assert (counting.returncode, out, err) == (130, b"", b"streameval: interrupted\n")
    assert not psutil.wait_procs(counters, PATIENCE)[1]


def test_no_worker_process_outlives_its_parent(counting: subprocess.Popen[bytes]) -> None:
    counters = workers(counting)
    assert len(counters) == 3
    counting.kill()
    assert not psutil.wait_procs(counters, PATIENCE)[1]


def test_a_terminal_shows_the_rate_and_the_remaining_time(tmp_path: Path) -> None:
    paths = [parquet(tmp_path / f"{n}.pq", events(40, n)) for n in range(2)]
    output = in_a_terminal("evaluate", *paths, "-m", "mrr")
    assert re.search(r"80 events +[\d,]+/s +\d:\d\d:\d\d", output), output
