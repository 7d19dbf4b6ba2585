"""One contract for the kernel in Python and the compiled one, which is compiled anew here."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from streameval.building.hook import COMPILED_MODULE, SOURCES, KernelError, compile_kernel
from streameval.events import Matches
from streameval.statistics import kernel as selected
from streameval.statistics.kernel import pure
from streameval.statistics.kernel.interface import BLOCK
from tests.effort import PATIENCE, thorough
from tests.house.checkout import ROOT
from tests.kernel import hostile, stress, twin
from tests.kernel.load import load_kernel
from tests.processes import finished

pytestmark = pytest.mark.compiler

_FIRST, _EVERY, _CHECKED = False, True, False
"""Values of the positional arguments `every` and `sound`."""

_BATCHES = 400


@pytest.fixture(scope="session")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled kernel of this source, without a warning of the compiler."""
    return _compile(tmp_path_factory.mktemp("kernel"), "-Werror")


def _compile(folder: Path, flags: str) -> Path:
    try:
        compile_kernel(ROOT / SOURCES, folder / COMPILED_MODULE.name)
    except KernelError as error:
        pytest.skip(f"no C compiler works here: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CFLAGS", flags)
        compile_kernel(ROOT / SOURCES, folder / COMPILED_MODULE.name)
    return folder / COMPILED_MODULE.name


@pytest.fixture(scope="session")
def compiled(extension: Path) -> ModuleType:
    return load_kernel(str(extension))


@pytest.fixture(scope="session", params=["pure", "compiled"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return pure if request.param == "pure" else request.getfixturevalue("compiled")


def _columns(columns: tuple[bytes, ...]) -> list[list[float]]:
    kinds = [np.float64 if at in twin.REALS else np.int64 for at in range(len(columns))]
    return [
        np.frombuffer(column, kind).tolist() for column, kind in zip(columns, kinds, strict=True)
    ]


def test_the_columns_are_what_the_description_says(kernel: ModuleType) -> None:
    lists = [["a", "b", "a"], ("c",), ["", "x"]]
    interactions = [["a", "a"], {"c": 2, "d": 0.5}, ["x"]]
    (
        skipped,
        interacted,
        interaction_count,
        length,
        list_index,
        rank_index,
        item,
        gain,
        graded,
        gains,
    ) = _columns(kernel.match(lists, interactions, "text", 10, _EVERY, _CHECKED))
    assert (skipped, graded) == ([2], [1])
    assert (interacted, interaction_count, length) == ([1, 2, 0], [2, 2, 0], [3, 1, 0])
    assert (list_index, rank_index, item) == ([0, 0, 1], [0, 2, 0], [0, 0, 0])
    assert (gain, gains) == ([1.0, 1.0, 2.0], [2.0, 0.5])


@pytest.mark.parametrize("kind", ["text", "integer"])
def test_a_kernel_gives_the_same_bits_as_its_slow_twin(kernel: ModuleType, kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(_BATCHES * (20 if thorough() else 1)):
        stress.check_batch(kernel, draw, kind)


@pytest.mark.parametrize("every", [False, True])
def test_codes_are_matched_as_integers_are(kernel: ModuleType, every: bool) -> None:  # noqa: FBT001  as the kernel
    draw = random.Random(f"codes {every}")
    for _ in range(60):
        lists, interactions = (
            [draw.choices(_CODES, k=draw.choice((0, 1, 3, 90))) for _ in range(9)] for _ in range(2)
        )
        columns = [
            np.array([code for row in rows for code in row], np.int64)
            for rows in (lists, interactions)
        ]
        offsets = [np.cumsum([0, *map(len, rows)]) for rows in (lists, interactions)]
        depth = draw.choice((1, 5, sys.maxsize))
        given = (columns[0], offsets[0], columns[1], offsets[1])
        expected = twin.match(lists, interactions, "integer", depth, every, _SOUND)
        assert kernel.match_codes(*given, depth, every) == expected


_CODES = (*range(12), -1, -100, 2**63 - 1, -(2**63), 2**61 - 1, 2**62)
_SOUND = True


def test_offsets_that_fit_no_list_are_refused(compiled: ModuleType) -> None:
    values, fitting = np.arange(3), np.array([0, 3])
    for wrong in ([0, 4], [-1, 3], [3, 0], [0, 1, 3], []):
        offsets = np.array(wrong, np.int64)
        for given in ((values, offsets, values, fitting), (values, fitting, values, offsets)):
            with pytest.raises(ValueError, match="interactions, or offsets"):
                compiled.match_codes(*given, 5, _FIRST)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 20_000])
def test_lists_and_interactions_of_any_length_match(kernel: ModuleType, size: int) -> None:
    items = [f"item-{number}" for number in range(size)]
    interactions = [f"item-{number}" for number in range(0, 2 * size, 2)]
    rows = [
        (items, interactions),
        (interactions, items),
        (items[:3], items),
        (items, set(interactions[:3])),
    ]
    stress.check(kernel, rows, "text", sys.maxsize, _FIRST, _CHECKED)


def test_integers_that_share_a_hash_are_told_apart(kernel: ModuleType) -> None:
    same = [7 + number * sys.hash_info.modulus for number in range(400)]
    rows = [(same, same[::3]), (same[::2], same[1::2]), ([-2, 3], [-1 - 1, 2**64])]
    stress.check(kernel, rows, "integer", sys.maxsize, _EVERY, _CHECKED)


def test_lists_of_unequal_number_are_an_error_and_so_is_an_unknown_kind(
    kernel: ModuleType,
) -> None:
    with pytest.raises(ValueError, match="1 lists and 2 interactions"):
        kernel.match([["a"]], [["a"], []], "text", 1, _FIRST, _CHECKED)
    with pytest.raises((ValueError, KeyError), match="bytes"):
        kernel.match([], [], "bytes", 1, _FIRST, _CHECKED)
    with pytest.raises((ValueError, KeyError), match="bytes"):
        kernel.Block("bytes", 1, _FIRST)


def test_what_is_given_is_kept_neither_by_a_call_nor_by_a_block(kernel: ModuleType) -> None:
    text = f"an item of {kernel}"
    rows = [[text, "b"], (text,), [None, text], [text]]
    interactions = [{text: 1.5}, {text}, [text], [text, None]]
    block = kernel.Block("text", 2, _FIRST)
    before = [sys.getrefcount(held) for held in (text, None, *rows, *interactions)]
    kernel.match(rows, interactions, "text", 2, _FIRST, _CHECKED)
    taken = [block.add(*pair) for pair in zip(rows, interactions, strict=True)]
    after = [sys.getrefcount(held) for held in (text, None, *rows, *interactions)]
    assert taken == [True, True, False, False]
    assert after[:1] + after[2:] == before[:1] + before[2:]
    assert abs(after[1] - before[1]) < 50


def test_a_full_block_refuses_the_next_row_until_its_rows_are_taken(kernel: ModuleType) -> None:
    block = kernel.Block("text", 2, _FIRST)
    pairs: list[Any] = [(["a", "b"], ["b"]), (("a",), {"a": 2.0})]
    taken = [block.add(*pairs[row % 2]) for row in range(BLOCK + 1)]
    assert taken == [True] * BLOCK + [False]
    assert len(block) == BLOCK == 512
    columns = _columns(block.take()[:10])
    assert [len(column) for column in columns[1:4]] == [BLOCK] * 3
    assert (len(columns[4]), len(block)) == (BLOCK, 0)
    assert block.add(*pairs[0])
    assert _columns(block.take()[:10])[4] == [0]


def test_ids_with_zero_bytes_are_told_apart(kernel: ModuleType) -> None:
    rows = [(["a\0b", "c"], ["b"]), (["a\0b", "b"], ["b"]), (["", "a"], ["a"]), (["\0"], ["\0"])]
    stress.check(kernel, rows, "text", sys.maxsize, _FIRST, _CHECKED)


@pytest.mark.parametrize("every", [False, True])
def test_hits_of_parts_join_to_the_hits_of_the_whole(kernel: ModuleType, every: bool) -> None:  # noqa: FBT001  as the kernel
    draw = random.Random(3)
    rows = [stress.row(draw, "text") for _ in range(60)]
    lists, interactions = [items for items, _ in rows], [interactions for _, interactions in rows]
    total = _matches(kernel, lists, interactions, every)
    for cuts in ((0, 60), (0, 1, 60), (0, 20, 20, 59, 60)):
        first, *others = (
            _matches(kernel, lists[start:stop], interactions[start:stop], every)
            for start, stop in pairwise(cuts)
        )
        joined = first.joined(*others)
        assert joined.search == total.search
        for name, column in zip(Matches._fields[2:], joined[2:], strict=True):
            assert column.tolist() == getattr(total, name).tolist(), (name, cuts)


def _matches(kernel: ModuleType, lists: list[Any], acts: list[Any], every: bool) -> Matches:  # noqa: FBT001  likewise
    columns = kernel.match(lists, acts, "text", 10, every, _CHECKED)
    return selected.matches_of(columns, 10, every)


def test_counting_for_long_leaves_no_memory_behind(kernel: ModuleType) -> None:
    draw = random.Random(1)
    rows = [stress.row(draw, "text") for _ in range(200)]
    lists, interactions = [items for items, _ in rows], [interactions for _, interactions in rows]

    def count() -> None:
        for taken in (True, False):
            block = kernel.Block("text", 10, _EVERY)
            for pair in rows:
                block.add(*pair)
            assert not taken or block.take()
        kernel.match(lists, interactions, "text", 10, _FIRST, _CHECKED)
        with pytest.raises(ValueError, match="lists"):
            kernel.match(lists, [], "text", 10, _FIRST, _CHECKED)

    count()
    tracemalloc.start()
    try:
        count()
        gc.collect()
        first, _ = tracemalloc.get_traced_memory()
        for _ in range(50):
            count()
        gc.collect()
        last, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert last - first < 20_000


def test_a_list_that_changes_while_it_is_matched_crashes_nothing(kernel: ModuleType) -> None:
    block = kernel.Block("text", 10, _FIRST)
    lists = [["a", "b"] for _ in range(50)]
    interactions: list[Any] = [{"a", f"b{row}"} for row in range(50)]

    def change(phase: str, _: object) -> None:
        """Where Python still collects garbage in the middle of a call, up to 3.11."""
        if phase == "stop" and len(lists) > 1:
            lists.pop().clear()
            interactions[0].clear()
            block.take()
            block.add(["a"], ["a"])

    pairs, thresholds = [*zip(lists, interactions, strict=True)], gc.get_threshold()
    gc.callbacks.append(change)
    try:
        gc.set_threshold(1)
        for pair in pairs:
            block.add(*pair)
        # What is left of the lists, perhaps of unequal number.
        with suppress(IndexError, ValueError):
            kernel.match(lists, interactions, "text", 10, _FIRST, _CHECKED)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(change)
    interacted, _, length = _columns(block.take()[:10])[1:4]
    assert len(interacted) == len(length) > 0


_INTERRUPTED = """
import signal, sys
sys.path.insert(0, sys.argv[1])
from tests.kernel import stress
from tests.kernel.load import load_kernel
kernel = load_kernel(sys.argv[2])
lists, acts = [["a"] * 20] * 2_000_000, [["a"]] * 2_000_000

def clear(*_):
    del lists[1:]

signal.signal(signal.SIGALRM, clear)
while len(lists) > 1:
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        kernel.match(lists, acts, "text", 20, False, False)
    except IndexError:
        print("during the call")
signal.signal(signal.SIGALRM, signal.default_int_handler)
lists = [["a"] * 20] * 2_000_000
signal.setitimer(signal.ITIMER_REAL, 0.02)
try:
    kernel.match(lists, acts, "text", 20, False, False)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_long_call_heeds_an_interrupt(extension: Path) -> None:
    assert hasattr(signal, "setitimer")
    command = [sys.executable, "-c", _INTERRUPTED, str(ROOT), str(extension)]
    done = finished(command, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["during the call", "interrupted"]


_WITHOUT_MEMORY = """
import random, sys
import _testcapi
sys.path.insert(0, sys.argv[1])
from tests.kernel import stress, twin
from tests.kernel.load import load_kernel
kernel, draw = load_kernel(sys.argv[2]), random.Random(3)
rows = [stress.row(draw, "text") for _ in range(30)]
lists, acts = [items for items, _ in rows], [acts for _, acts in rows]
options = ("text", 10, True)
expected, failures = twin.match(lists, acts, *options, False), 0
values = [stress.record(draw) for _ in range(90)]
scan_options = (stress.NAMES, "s", True, 99, 99, 10, True)
for allocations in range(400):
    block = kernel.Block(*options)
    _testcapi.set_nomemory(allocations, allocations + 1)
    try:
        columns = kernel.match(lists, acts, *options, False)
    except MemoryError:
        columns, failures = expected, failures + 1
    finally:
        _testcapi.remove_mem_hooks()
    assert columns == expected
    taken = [None] * len(rows)
    _testcapi.set_nomemory(allocations, allocations + 1)
    try:
        for number in range(len(rows)):
            taken[number] = block.add(*rows[number])
    except MemoryError:
        failures += 1
    finally:
        _testcapi.remove_mem_hooks()
    kept = [row for row, fine in zip(rows, taken) if fine]
    kept += [row for row, fine in zip(rows, taken) if fine is None and block.add(*row)]
    of_block, read = (*map(list, zip(*kept)), *options, False), None
    rows_of_block = twin.rows(*of_block[:2], None, *of_block[2:])
    _testcapi.set_nomemory(allocations, allocations + 1)
    try:
        read = block.rows(0)
    except MemoryError:
        failures += 1
    finally:
        _testcapi.remove_mem_hooks()
    assert read in (None, rows_of_block)
    assert block.take() == (*twin.match(*of_block), b"")
    scanner, scanned = kernel.Scanner(*scan_options), None
    _testcapi.set_nomemory(allocations, allocations + 1)
    try:
        scanned = kernel.Scanner(*scan_options).scan(values, allocations % 2)
    except MemoryError:
        failures += 1
    finally:
        _testcapi.remove_mem_hooks()
    assert scanned in (None, scanner.scan(values, allocations % 2))
    block, of_block = b"\\n".join([*values, b""]), None
    _testcapi.set_nomemory(allocations, allocations + 1)
    try:
        *bounds, count = kernel.lines_of(block, 0)
        of_block = scanner.scan_block(block, *bounds[:2], allocations % 2)
    except MemoryError:
        failures += 1
    finally:
        _testcapi.remove_mem_hooks()
    lines = [line for line in block.split(b"\\n") if line.strip()]
    assert of_block in (None, scanner.scan(lines, allocations % 2))
print(failures)
"""


def test_without_memory_a_call_fails_and_a_block_keeps_whole_rows(extension: Path) -> None:
    pytest.importorskip("_testcapi")
    command = [sys.executable, "-c", _WITHOUT_MEMORY, str(ROOT), str(extension)]
    done = finished(command, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 20


def test_records_are_scanned_as_json_and_the_twin_read_them(compiled: ModuleType) -> None:
    draw = random.Random("records")
    scanned = [stress.check_scan(compiled, draw) for _ in range(_BATCHES)]
    assert sum(scanned) > _BATCHES


def test_lines_are_found_as_they_are_split(kernel: ModuleType) -> None:
    draw = random.Random("lines")
    for _ in range(_BATCHES):
        stress.check_lines(kernel, draw)


_AT_THE_END = """
import ctypes, mmap, random, sys
from array import array
sys.path.insert(0, sys.argv[1])
from tests.kernel import stress
from tests.kernel.load import load_kernel
kernel, draw = load_kernel(sys.argv[2]), random.Random(7)
protect, page, pages = ctypes.CDLL(None, use_errno=True).mprotect, mmap.PAGESIZE, 8
memory = mmap.mmap(-1, pages * page)
begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
end = begin + (pages - 1) * page
assert protect(ctypes.c_void_p(end), page, 0) == 0
HEADER = bytes.__basicsize__ - 1

def at_the_end(value):
    "These bytes as an object without the zero after them, before memory that cannot be read."
    fields = (ctypes.c_ssize_t * 4)(2**30, id(bytes), len(value), -1)
    at = end - len(value) - HEADER
    ctypes.memmove(at, fields, HEADER)
    ctypes.memmove(at + HEADER, value, len(value))
    return ctypes.cast(at, ctypes.py_object).value

scanner = kernel.Scanner(stress.NAMES, "s", True, 99, 99, 10, True)
moments = kernel.Scanner(stress.NAMES, "iso8601", True, 99, 99, 10, True)
time = b'{"shown":["a"],"acts":{"a":1.5},"id":"x","at":"2023-11-14T22:13:20.123456+01:00"}'
records = [stress.record(draw) for _ in range(60)]
for whole in [*records, time]:
    for size in range(len(whole) + 1):
        for scan in (scanner.scan, moments.scan):
            expected = scan([whole[:size]], size % 2)
            assert scan([at_the_end(whole[:size])], size % 2) == expected
        block, bounds = whole[:size] + b"\\n" + whole[:size], [array("q", [at]) for at in (0, size)]
        assert kernel.lines_of(at_the_end(block), 0) == kernel.lines_of(block, 0)
        scanned = scanner.scan_block(at_the_end(whole[:size]), *bounds, size % 2)
        assert scanned == scanner.scan([whole[:size]], size % 2)
print(len(records))
"""


def test_nothing_behind_the_end_of_a_record_is_read(extension: Path) -> None:
    command = [sys.executable, "-c", _AT_THE_END, str(ROOT), str(extension)]
    done = finished(command, timeout=PATIENCE)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "60\n")


_WHICH = "from streameval.statistics import kernel; print(kernel.COMPILED, kernel.Block.__module__)"
_OTHER = "import sys, types; sys.modules['streameval.statistics.kernel._match'] = "


@pytest.mark.parametrize(
    ("before", "variables"),
    [
        ("", {"STREAMEVAL_PURE": "1"}),
        (f"{_OTHER}types.SimpleNamespace(INTERFACE=-1); ", {}),
        (f"{_OTHER}None; ", {}),
    ],
    ids=["a variable says so", "of another version", "not there"],
)
def test_the_kernel_in_python_is_used_where_the_other_cannot_be(
    before: str, variables: dict[str, str]
) -> None:
    done = finished([sys.executable, "-c", before + _WHICH], env={**os.environ, **variables})
    assert done.stdout == "False streameval.statistics.kernel.pure\n", done.stderr


def _stressed(
    *command: str | Path, batches: int, script: str = stress.__file__, **environment: str
) -> str:
    """What a run of a script says with this command before Python's."""
    python = Path(sys.executable).resolve()
    done = finished(
        [*map(str, (*command[:-1], python, script, command[-1])), "1", str(batches)],
        env={**os.environ, "PYTHONMALLOC": "malloc", **environment},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_ids_that_work_against_the_kernel_are_refused_and_never_asked(extension: Path) -> None:
    _stressed(extension, batches=5, script=hostile.__file__)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("script", "batches"),
    [(stress.__file__, 5_000), (hostile.__file__, 1_000)],
    ids=["stress", "hostile"],
)
def test_address_and_undefined_behaviour_sanitizers_find_nothing(
    tmp_path: Path, script: str, batches: int
) -> None:
    extension = _compile(tmp_path, "-O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer")
    libraries = [
        subprocess.check_output(["cc", f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    preloaded = {"LD_PRELOAD": " ".join(libraries), "UBSAN_OPTIONS": "halt_on_error=1"}
    # Python itself leaves memory behind; valgrind tells whose it is.
    options = {"ASAN_OPTIONS": "detect_leaks=0", **preloaded}
    output = _stressed(extension, batches=batches, script=script, **options)
    assert "runtime error" not in output


@pytest.mark.nightly
def test_valgrind_finds_no_error_and_no_leak_of_the_kernel(tmp_path: Path) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("no valgrind here")
    extension = _compile(tmp_path, "-O1 -g")
    options = ("--leak-check=full", "--show-leak-kinds=definite,possible", "--num-callers=30")
    output = _stressed(valgrind, *options, extension, batches=150)
    # Valgrind finds much in Python, and names the line of each call that led there.
    assert "ERROR SUMMARY" in output
    assert not [path.name for path in (ROOT / SOURCES).glob("*.[ch]") if path.name in output]
