"""With a key, nobody without it can tell from a state whose hashes it has; every way in agrees."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval
from streameval import Accumulator, Intervals
from streameval.accumulator.kinds.experiment import PrePeriod
from streameval.config.config import Config, from_schema, schema
from streameval.config.pipeline import frontend_of, layout
from streameval.config.tables import WindowsOptions
from streameval.engine.clock import Clock, ClockRule
from streameval.engine.dedup import SeenIds
from streameval.engine.ingest import Frontend
from streameval.events.errors import (
    DamagedStateError,
    MetricError,
    RefusedStateError,
    SuspiciousEventsWarning,
    UnlikeStateError,
)
from streameval.partials import Cell, merged, partials
from streameval.sources.settings import SimulatorOptions
from streameval.statistics.user_key import UserHashKey
from streameval.statistics.user_sums import UserSums
from streameval.statistics.users import Users, user_hashes
from tests.durability.checkpointing import LoneMember, after, with_policy
from tests.durability.process import FIELDS

SECRETS = {"KEY": "uGm7XkQ2vT9sLb4RzYc1WnPd", "OTHER": "Zq8HfKe5rJx0MtVa3NiBo6Cy"}
SECRETS = {name: f"{text}/{text[::-1]}" for name, text in SECRETS.items()}
USERS = [f"customer-{number}@shop.example" for number in range(97)]
SINCE = 20_513
DAY = 86_400 * 1_000_000
METRICS = ("ctr", "hit_rate@1", "users_covered@2")
RAMP = PrePeriod(since=date(2026, 3, 1), days=14, cohorts=True)
_MASK = (1 << 64) - 1


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in SECRETS.items():
        monkeypatch.setenv(name, text)


def _events() -> pa.Table:
    rows = range(3 * len(USERS))
    return pa.table(
        {
            "recommendations": [["a", "b"] for _ in rows],
            "interactions": [["a"] if row % 2 else [] for row in rows],
            "users": [USERS[row % len(USERS)] for row in rows],
            "times": [(SINCE + row % 5 - 2) * DAY for row in rows],
        }
    )


def _counted(key: str | None = "${KEY}") -> Accumulator:
    counted = Accumulator(*METRICS, intervals=Intervals(), experiment=RAMP, user_key=key)
    counted.update_many(_events())
    return counted


def _hashes(counted: Accumulator) -> Iterator[tuple[str, set[int]]]:
    """The hashes of each statistic by user in a state."""
    for name, statistic in counted.table.statistics.items():
        for relation in ("users", "sums") if isinstance(statistic, Users | UserSums) else ():
            if relation in statistic.relations:
                codes = statistic.relations[relation].columns[1].astype(np.int64)
                yield name, set(codes.view(np.uint64).tolist())


@pytest.mark.parametrize(("key", "found"), [(None, 97), ("${KEY}", 0)])
def test_a_list_of_ids_tells_whose_the_hashes_of_a_state_are_only_without_a_key(
    key: str | None, found: int
) -> None:
    counted = _counted(key)
    recomputed = set(user_hashes(USERS).tolist())
    by_statistic = dict(_hashes(counted))
    assert [name.partition(":")[0] for name in by_statistic] == ["cohorts", "preperiod", "users"]
    assert [len(hashes & recomputed) for hashes in by_statistic.values()] == [found] * 3
    state = b"".join(counted.dump())
    assert sum(user.encode() in state for user in USERS) == found
    assert counted.read("users_covered@2").value == len(USERS)


def test_the_clock_and_deduplication_keep_no_digest_of_an_id_without_the_key() -> None:
    key, times = UserHashKey("${KEY}"), np.arange(len(USERS))
    states = []
    for given_key in (None, key):
        clock, seen = Clock(ClockRule(user_key=given_key)), SeenIds(DAY, 1, given_key)
        clock.advance(times, [user.encode() for user in USERS])
        assert seen.mark_seen(USERS, times, times).all()
        assert not seen.mark_seen(USERS, times, times).any()
        digests = [section.content for section in seen.sections()]
        states.append((clock.state()[-1], [b"".join(content()()) for content in digests]))
    (voters, seen_ids), (keyed_voters, keyed_ids) = states
    assert len(set(voters)) == len(set(keyed_voters)) > 20
    assert {*voters} <= {crc32(user.encode()) for user in USERS}
    assert not set(voters) & set(keyed_voters)
    assert [len(part) for part in seen_ids] == [len(part) for part in keyed_ids]
    assert seen_ids != keyed_ids


def test_one_key_gives_the_same_bits_however_the_events_come() -> None:
    table, counted = _events(), _counted()
    arguments: dict[str, Any] = {"intervals": Intervals(), "experiment": RAMP, "ids": "text"}
    rows = [
        row
        for piece in (table[200:], table[:120], table[120:200])
        for row in partials([piece], *METRICS, user_key="${KEY}", **arguments)
    ]
    of_partials = merged(rows)[Cell((), None)]
    one_by_one = Accumulator(
        *METRICS, intervals=Intervals(), experiment=RAMP, user_key=UserHashKey("${KEY}")
    )
    for row in reversed(table.to_pylist()):
        one_by_one.update(
            row["recommendations"], row["interactions"], user=row["users"], ts=row["times"]
        )
    dumps = [b"".join(each.dump()) for each in (counted, of_partials, one_by_one)]
    assert dumps[0] == dumps[1] == dumps[2] != b"".join(_counted(None).dump())


def test_evaluate_takes_the_key_and_says_when_nothing_counts_users(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRETS['KEY']}\n")
    place = f"${{file:{tmp_path / 'key'}}}"
    result = [
        streameval.evaluate(_events(), "ctr", "users_covered@2", user_key=key).accumulator()
        for key in (place, "${KEY}", None)
    ]
    first, second, unkeyed = (b"".join(each.dump()) for each in result)
    assert first == second != unkeyed
    with pytest.warns(SuspiciousEventsWarning, match="user_key"):
        streameval.evaluate(_events(), "ctr", user_key=place, intervals=None)


def test_another_key_is_refused_and_no_message_has_a_key() -> None:
    counted = _counted()
    rows = [partials([_events()], *METRICS, user_key=key)[0] for key in ("${KEY}", "${OTHER}")]
    attempts: list[Callable[[], object]] = [
        lambda: counted.merge(_counted("${OTHER}")),
        lambda: counted.merge(_counted(None)),
        lambda: _counted(None).merge(counted),
        lambda: counted.load_state_dict(_counted("${OTHER}").state_dict()),
        lambda: counted.adopt(b"".join(_counted(None).dump())),
        lambda: merged(rows),
        lambda: merged(rows[:1], user_key="${OTHER}"),
    ]
    before = b"".join(counted.dump())
    for attempt in attempts:
        with pytest.raises(UnlikeStateError) as refused:
            attempt()
        assert "user_key" in str(refused.value)
        assert not any(text in str(refused.value) for text in SECRETS.values())
    assert b"".join(counted.dump()) == before


WEAK = ("", "password", "hunter2" * 8, "aabbccdd" * 9, "abc" * 20)


@pytest.mark.parametrize("text", WEAK)
def test_a_key_that_could_be_guessed_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEAK", text)
    with pytest.raises(MetricError, match="it could be guessed") as refused:
        UserHashKey("${WEAK}")
    assert not text or text not in str(refused.value)


KEY_SOURCES = (SECRETS["KEY"], "${MISSING}", "${NO_TEXT}", "${file:/missing/key}", "", 7)


@pytest.mark.parametrize("place", KEY_SOURCES)
def test_a_key_stands_at_a_place_and_never_in_the_text(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How the environment shows bytes that are not UTF-8.
    monkeypatch.setenv("NO_TEXT", bytes(range(200, 240)).decode(errors="surrogateescape"))
    with pytest.raises(MetricError, match="user_key: ") as refused:
        Accumulator("ctr", user_key=place)
    assert SECRETS["KEY"] not in str(refused.value)


def test_an_error_about_a_binary_file_shows_no_byte_of_the_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(bytes(range(200, 240)))
    with pytest.raises(MetricError, match="key is not UTF-8 text; give ") as refused:
        UserHashKey(f"${{file:{file}}}")
    assert "0xc8" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_pickle_names_the_place_and_a_worker_without_the_key_reads_but_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = _counted()
    pickled = pickle.dumps(counted)
    assert not any(text.encode() in pickled for text in (*SECRETS.values(), *USERS))
    same = pickle.loads(pickled)
    same.update(["a"], ["a"], user=USERS[0], ts=SINCE * DAY)
    assert same.lists == counted.lists + 1
    assert same.read("users_covered@2").value == len(USERS)
    for text in (None, SECRETS["OTHER"]):
        if text is None:
            monkeypatch.delenv("KEY")
        else:
            monkeypatch.setenv("KEY", text)
        elsewhere = pickle.loads(pickled)
        assert elsewhere.compute() == counted.compute()
        with pytest.raises(MetricError, match="user_key: "):
            elsewhere.update(["a"], ["a"], user="u")
        with pytest.raises(MetricError, match="user_key: "):
            elsewhere.update_many(_events())
        assert elsewhere.lists == counted.lists


def test_a_state_says_the_fingerprint_and_names_no_file_to_its_reader(tmp_path: Path) -> None:
    config = Config(metrics=["ctr"], source=SimulatorOptions(), user_key="${KEY}")
    saved = schema(config)
    assert saved["user_key"] == str(UserHashKey("${KEY}"))
    assert from_schema(saved).key_of_users == UserHashKey("${KEY}")
    (tmp_path / "key").write_text(SECRETS["KEY"])
    for forged in (f"${{file:{tmp_path / 'key'}}}", "fingerprint:../..", 7):
        with pytest.raises(DamagedStateError):
            from_schema(saved | {"user_key": forged})
    with pytest.raises(MetricError, match="only its fingerprint"):
        Accumulator("users_covered@2", user_key=saved["user_key"]).update(["a"], ["a"], user="u")


def _frontend(key: str | None) -> Frontend:
    config = Config(
        metrics=["ctr"],
        source=SimulatorOptions(),
        labels=["variant"],
        windows=WindowsOptions(spans=["5m"]),
        event=FIELDS,
        intervals=Intervals(),
        user_key=key,
    )
    return frontend_of(config, layout(config))


@pytest.mark.parametrize(("before", "now"), [("${KEY}", "${OTHER}"), ("${KEY}", None)])
def test_a_daemon_with_another_key_refuses_the_state_or_counts_users_anew(
    before: str, now: str | None
) -> None:
    store = after(10, frontend=_frontend(before))
    with pytest.raises(RefusedStateError, match="user_key") as refused:
        LoneMember(store, frontend=_frontend(now)).assign()
    assert refused.value.policy == "on_other_inputs"
    restart = with_policy("on_other_inputs", "restart")
    member = LoneMember(store, frontend=_frontend(now), policies=restart)
    assert member.assign() == 10
    (news,) = member.news()
    assert news.event == "metrics of other inputs start over"


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=())) | st.integers()))
def test_the_keyed_hash_is_siphash_of_the_text_of_an_id(users: list[str | int]) -> None:
    key = UserHashKey("${KEY}", SECRETS)
    first, second = (int(word) for word in key._key())
    texts = [str(user).encode("utf-8", "surrogatepass") for user in users]
    assert key.hashes(users).tolist() == [_siphash(text, first, second) for text in texts]


def _siphash(text: bytes, first: int, second: int) -> int:
    """SipHash-2-4, from the paper of Aumasson and Bernstein."""
    v = [first ^ 0x736F6D6570736575, second ^ 0x646F72616E646F6D]
    v += [first ^ 0x6C7967656E657261, second ^ 0x7465646279746573]

    def rotated(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & _MASK

    def rounds(number: int) -> None:
        for _ in range(number):
            for a, b, bits, more in ((0, 1, 13, 32), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 32)):
                v[a] = (v[a] + v[b]) & _MASK
                v[b] = rotated(v[b], bits) ^ v[a]
                v[a] = rotated(v[a], more) if more else v[a]

    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_keyed_hash_never_changes() -> None:
    """Fixed, because states have the hashes: another would make all users new."""
    key = UserHashKey("${KEY}", SECRETS)
    hashes = key.hashes(["", "u1", 7, "0123456789abcdef"])
    assert [hex(each) for each in hashes.tolist()] == [
        "0xa6cbd8537cdd6351",
        "0xf2652b65fc635d73",
        "0xf4bfe1da237100b0",
        "0x677d28666b86cac8",
    ]
