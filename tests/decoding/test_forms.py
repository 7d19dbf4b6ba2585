"""The meaning of the accepted forms of a record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.decoding.general import DecodedEvent
from streameval.decoding.invalid import InvalidEvent
from streameval.events import Event, Interaction
from streameval.events.errors import ConfigError
from tests.decoding.records import read, rejection


def decoded(
    value: bytes | str | dict[str, Any], names: tuple[str, ...] = (), **fields: Any
) -> Event:
    if isinstance(value, dict):
        value = msgspec.json.encode({"recommendations": [], "interactions": []} | value)
    event = read(
        Decoder(EventFields(**fields), names), value.encode() if isinstance(value, str) else value
    )
    assert isinstance(event, Event), event
    return event


def test_integers_and_strings_of_one_id_match() -> None:
    event = decoded({"recommendations": [123, "b", 2**80], "interactions": ["123"], "user": 7})
    assert event.recommendations == ["123", "b", str(2**80)]
    assert event.interactions == ["123"]
    assert event.user == "7"


def test_integer_ids_stay_integers_where_configured() -> None:
    event = decoded(
        {"recommendations": [123, "-4"], "interactions": {"123": 2}, "user": 7}, ids="integer"
    )
    assert event.recommendations == [123, -4]
    assert event.interactions == {123: 2.0}
    assert event.user == "7"


@pytest.mark.parametrize("text", ["a", "1.0", "", "\u0661", "1_000", " 1", "+1", "1e3", "9" * 1001])
def test_text_that_is_not_an_integer_is_no_integer_id(text: str) -> None:
    value = msgspec.json.encode({"recommendations": [text], "interactions": []})
    invalid = rejection(Decoder(EventFields(ids="integer"), []), value)
    assert invalid.reason == "invalid_id"


@pytest.mark.parametrize(
    ("shown", "items", "scores"),
    [
        ([{"id": 1, "score": 2}, {"id": "b", "score": 0.5}], ["1", "b"], [2.0, 0.5]),
        ([{"id": 1, "score": 2}, {"id": 2, "score": None}, "c"], ["1", "2", "c"], None),
    ],
)
def test_recommendations_may_be_objects_with_scores_of_all_items(
    shown: list[Any], items: list[str], scores: list[float] | None
) -> None:
    event = decoded({"recommendations": shown})
    assert (event.recommendations, event.scores) == (items, scores)


def test_repeated_items_of_a_list_are_kept() -> None:
    assert decoded({"recommendations": ["a", "b", "a"]}).recommendations == ["a", "b", "a"]


def test_gains_may_be_negative_and_huge() -> None:
    event = decoded({"interactions": {"a": -1.5, "b": 0, "c": 1e300}})
    assert event.interactions == {"a": -1.5, "b": 0.0, "c": 1e300}


def test_of_several_interactions_with_an_item_the_largest_gain_counts() -> None:
    objects = [
        {"id": 1, "gain": -2, "type": "click"},
        {"id": "1", "gain": -1, "type": "purchase"},
        {"id": "b"},
        {"id": 1, "gain": -3},
    ]
    event = decoded({"interactions": [*objects, "c"]})
    assert event.interactions == {"1": -1.0, "b": 1.0, "c": 1.0}
    assert event.typed == (
        Interaction("1", -2.0, "click"),
        Interaction("1", -1.0, "purchase"),
        Interaction("b"),
        Interaction("1", -3.0),
        Interaction("c"),
    )
    event = decoded({"interactions": [*objects, "c"]}, combine="sum")
    assert event.interactions == {"1": -6.0, "b": 1.0, "c": 1.0}


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('"a"', "a"),
        ('""', "__missing__"),
        ("7", "7"),
        ("-0", "0"),
        ("true", "true"),
        ("false", "false"),
        ("null", "__missing__"),
        ('"ä\\n"', "ä\n"),
        # One underscore more than a reserved value, and others as they are.
        ('"__missing__"', "___missing__"),
        ('"__other__"', "___other__"),
        ('"___other__"', "____other__"),
        ('"____missing__"', "_____missing__"),
        ('"__missing"', "__missing"),
        ('"_missing__"', "_missing__"),
        ('"__others__"', "__others__"),
        ('"x__other__"', "x__other__"),
    ],
)
def test_labels_are_text(written: str, text: str) -> None:
    value = f'{{"recommendations": [], "interactions": [], "variant": {written}}}'
    assert decoded(value, ("variant",)).labels == (text,)
    assert decoded(value, ("other", "variant")).labels == ("__missing__", text)


def test_a_label_of_one_and_a_label_of_true_are_two_slices() -> None:
    records = [
        f'{{"recommendations": [], "interactions": [], "v": {label}}}'.encode()
        for label in ("1", "true", '"1"', '"true"', "null", '"__missing__"')
    ]
    dimensions = Decoder(EventFields(), ["v"]).decode_many(records).dimensions
    texts = ("1", "true", "1", "true", "__missing__", "___missing__")
    assert dimensions == [(label,) for label in texts]


def test_ids_and_labels_may_be_as_long_as_configured_whatever_their_characters() -> None:
    for letter, size in (("x", 1), ("ä", 2), ("€", 3), ("😀", 4)):
        item, label = letter * (1_024 // size), letter * (256 // size)
        event = decoded({"recommendations": [item], "user": item, "variant": label}, ("variant",))
        assert (event.recommendations, event.user, event.labels) == ([item], item, (label,))


@pytest.mark.parametrize("ranks", ["", ', "ranks": null', ', "ranks": [null, null]'])
def test_items_without_positions_have_ranks_from_1(ranks: str) -> None:
    value = f'{{"recommendations": ["a", "b"], "interactions": []{ranks}}}'.encode()
    placed = b'{"recommendations": ["a", "b"], "interactions": [], "ranks": [3, 4]}'
    decoder = Decoder(EventFields(positions="ranks"), [])
    assert decoder.decode_many([value]).batch.positions is None
    assert decoder.decode_many([value, placed]).batch.positions == [None, [3, 4]]
    shown = Decoder(EventFields(positions="ranks"), [], search=None)
    assert shown.decode_many([value, placed]).batch.positions == [None, [3, 4]]


def test_positions_of_some_objects_only_are_refused() -> None:
    value = b'{"recommendations": [{"id": "a", "at": 3}, {"id": "b"}], "interactions": []}'
    invalid = rejection(Decoder(EventFields(positions="recommendations[].at"), []), value)
    assert invalid.reason == "invalid_positions"


NESTED = {
    "payload": {
        "items": [{"id": 1, "at": {"rank": 3}}, {"id": "b", "at": {"rank": 5}}],
        "done": {"clicks": [{"item": {"sku": 1}, "worth": 2}]},
    },
    "context": {"who": "u", "when": "2026-01-01T00:00:00Z", "arm": "b", "uuid": 9},
}
NESTED_FIELDS: dict[str, Any] = {
    "recommendations": "payload.items[].id",
    "interactions": "payload.done.clicks",
    "interaction_item": "item.sku",
    "gain": "worth",
    "positions": "payload.items[].at.rank",
    "user": "context.who",
    "time": "context.when",
    "time_unit": "iso8601",
    "event_id": "context.uuid",
    "labels": {"variant": "context.arm", "nowhere": "not.there"},
}


def test_paths_lead_into_objects_and_lists() -> None:
    event = decoded(msgspec.json.encode(NESTED), ("variant", "nowhere"), **NESTED_FIELDS)
    assert event == DecodedEvent(
        recommendations=["1", "b"],
        interactions={"1": 2.0},
        user="u",
        ts=1_767_225_600_000_000,
        labels=("b", "__missing__"),
        positions=[3, 5],
        typed=(Interaction("1", 2.0),),
        event_id="9",
    )


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("7", "wrong_type"),
        ("[]", "wrong_type"),
        ('{"items": {}}', "wrong_type"),
        ('{"items": [7]}', "wrong_type"),
        ('{"items": [{"id": true}]}', "invalid_id"),
        ('{"items": [{}]}', "invalid_id"),
        ('{"items": null}', "missing_field"),
        ("null", "missing_field"),
        ('{"items": []}', "missing_field"),  # of done
    ],
)
def test_a_path_that_does_not_fit_names_the_step(payload: str, reason: str) -> None:
    value = f'{{"payload": {payload}, "context": {{}}}}'.encode()
    invalid = rejection(Decoder(EventFields(**NESTED_FIELDS), ["variant", "nowhere"]), value)
    assert invalid.reason == reason
    assert "payload" in invalid.detail


def test_lists_of_lists_are_flattened_in_their_order() -> None:
    record = {
        "rows": [{"items": [{"id": "a"}, {"id": "b"}]}, {"items": []}, {"items": [{"id": 3}]}]
    }
    assert decoded(record, recommendations="rows[].items[].id").recommendations == ["a", "b", "3"]


def test_an_object_with_its_own_key_for_the_id_is_read() -> None:
    record = {"payload": {"items": [{"sku": "a", "p": 0.5}]}}
    event = decoded(record, recommendations="payload.items", item="sku", score="p")
    assert (event.recommendations, event.scores) == (["a"], [0.5])


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "[]", "a[0]", "a[", "a]b", "a[].[]"])
def test_text_that_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="path"):
        Decoder(EventFields(recommendations=path), [])


@pytest.mark.parametrize("fields", [{"user": "users[].id"}, {"labels": {"variant": "items[].v"}}])
def test_a_path_to_many_values_is_refused_where_one_is_needed(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="remove the"):
        Decoder(EventFields(**fields), ["variant"])


@pytest.mark.parametrize(
    ("unit", "written", "microseconds"),
    [
        ("s", "0", 0),
        ("s", "1700000000", 1_700_000_000_000_000),
        ("s", "1700000000.000001", 1_700_000_000_000_001),
        ("s", "1732180000.123457", 1_732_180_000_123_457),
        ("s", "-1.5", -1_500_000),
        ("s", "1.7e9", 1_700_000_000_000_000),
        ("ms", "1700000000123", 1_700_000_000_123_000),
        ("us", "1700000000123456", 1_700_000_000_123_456),
        ("us", "253370764799999999", 253_370_764_799_999_999),
        ("iso8601", '"1970-01-01T00:00:00Z"', 0),
        ("iso8601", '"1970-01-01T01:00:00.000001+01:00"', 1),
        ("iso8601", '"1970-01-01 00:00:00-00:30"', 1_800_000_000),
        ("iso8601", '"9999-01-01T00:59:59.999999+01:00"', 253_370_764_799_999_999),
        ("iso8601", '"2026-01-01T01:00Z"', 1_767_229_200_000_000),
        ("iso8601", '"2026-01-01 08:00:00.25+01"', 1_767_250_800_250_000),
        ("iso8601", '"2026-01-01 08:00:00.1234567+05:30"', 1_767_234_600_123_457),
        ("iso8601", '"20260101T080000Z"', 1_767_254_400_000_000),
        ("iso8601", '"20260101T0800+0130"', 1_767_249_000_000_000),
        ("iso8601", '"2026-01-01T08:00:00,5Z"', 1_767_254_400_500_000),
        ("iso8601", '"2016-12-31T23:59:60Z"', 1_483_228_800_000_000),
        ("iso8601", '"2017-01-01T05:29:60.5+05:30"', 1_483_228_800_500_000),
    ],
)
def test_times_are_exact_microseconds(unit: TimeUnit, written: str, microseconds: int) -> None:
    value = f'{{"recommendations": [], "interactions": [], "ts": {written}}}'
    assert decoded(value, time="ts", time_unit=unit).ts == microseconds


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        ("s", "1700000000000"),
        ("s", '"1700000000"'),
        ("s", "true"),
        ("ms", "1700000000000000"),
        ("us", "1700000000000000000"),
        ("us", "1.0"),
        ("iso8601", "1700000000"),
        ("iso8601", '"2026-01-01T00:00:00"'),
        ("iso8601", '"2026-01-01"'),
        ("iso8601", '"2026-01-01 08:00"'),
        ("iso8601", '"2026-02-30T00:00:00Z"'),
        ("iso8601", '"2026-02-30T00:00Z"'),
        ("iso8601", '"2026-01-01T08:30:60Z"'),
        ("iso8601", '"2026-0101T08:30Z"'),
        ("iso8601", '"0001-01-01T00:00:00+01"'),
        ("iso8601", '"99991231T235959-0100"'),
        ("iso8601", '"0001-01-01T00:00:60+23:00"'),
        ("iso8601", '"infinity"'),
        ("iso8601", '"0044-03-15 00:00:00+00 BC"'),
        ("iso8601", '"yesterday"'),
    ],
)
def test_time_in_another_unit_is_refused_if_it_is_detectable(unit: TimeUnit, written: str) -> None:
    value = f'{{"recommendations": [], "interactions": [], "ts": {written}}}'.encode()
    invalid = rejection(Decoder(EventFields(time="ts", time_unit=unit), []), value)
    assert invalid.reason == "invalid_time"
    assert unit in invalid.detail


@given(st.decimals(0, 4_000_000_000, places=6))
def test_seconds_with_six_digits_are_never_rounded(written: Decimal) -> None:
    value = f'{{"recommendations": [], "interactions": [], "ts": {written}}}'
    exact = int((written * 1_000_000).to_integral_value(ROUND_HALF_EVEN))
    assert decoded(value, time="ts", time_unit="s").ts == exact


@given(
    st.datetimes(datetime(2, 1, 2), datetime(9998, 12, 30)),  # noqa: DTZ001  its zone comes next
    st.integers(-23 * 60, 23 * 60),
)
def test_a_time_is_the_same_in_every_utc_offset(moment: datetime, minutes: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    event = decoded({"ts": aware.isoformat()}, time="ts", time_unit="iso8601")
    assert event.ts == (aware - epoch) // timedelta(microseconds=1)


VALUED_FIELDS = EventFields(per_item={"propensity": "chances", "team": "teams"})


def valued(**changed: Any) -> Event | InvalidEvent:
    plain = {
        "recommendations": ["a", "b"],
        "interactions": [],
        "chances": [0.5, 1],
        "teams": ["x", None],
    }
    return read(Decoder(VALUED_FIELDS, []), msgspec.json.encode(plain | changed))


@pytest.mark.parametrize("items", [["a", "b"], [1, 2], [{"id": "a"}, {"id": "b"}]])
def test_every_form_of_list_has_its_scores_its_baseline_and_the_values_of_its_items(
    items: list[Any],
) -> None:
    event = valued(recommendations=items)
    assert isinstance(event, Event)
    assert event.per_item == {"propensity": [0.5, 1.0], "team": ["x", None]}
    event = read(Decoder(OPTIONAL_FIELDS, []), beside(recommendations=items))
    assert isinstance(event, Event)
    assert (event.scores, event.baseline) == ([0.5, 1.0], ["b", "c"])


@pytest.mark.parametrize("absent", [{"teams": None}, {"chances": None, "teams": None}])
def test_values_of_items_may_be_absent(absent: dict[str, None]) -> None:
    event = valued(**absent)
    assert isinstance(event, Event)
    assert event.per_item == ({"propensity": [0.5, 1.0]} if "chances" not in absent else None)


def test_values_beside_padding_are_cut_with_it() -> None:
    event = valued(recommendations=["a", "-1"])
    assert isinstance(event, Event)
    assert event.per_item == {"propensity": [0.5], "team": ["x"]}


def test_values_are_read_from_the_objects_shown() -> None:
    fields = EventFields(per_item={"propensity": "recommendations[].p"})
    record = {"recommendations": [{"id": "a", "p": 0.5}, {"id": "b"}], "interactions": []}
    event = read(Decoder(fields, []), msgspec.json.encode(record))
    assert isinstance(event, Event)
    assert event.per_item == {"propensity": [0.5, None]}


@pytest.mark.parametrize("name", ["true", "a,b", "a b", "", "1"])
def test_values_have_names_that_metrics_can_have_as_parameters(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a name that a metric can have"):
        Decoder(EventFields(per_item={name: "chances"}), [])


OPTIONAL_FIELDS = EventFields(scores="scores", baseline="expected")


def beside(**changed: Any) -> bytes:
    plain = {
        "recommendations": ["a", "b"],
        "interactions": [],
        "scores": [0.5, 1],
        "expected": ["b", "c"],
    }
    return msgspec.json.encode(plain | changed)


def test_columns_have_positions_scores_and_baselines() -> None:
    batch = Decoder(OPTIONAL_FIELDS, []).decode_many([beside(), beside(expected=[])]).batch
    assert batch.scores == [[0.5, 1.0], [0.5, 1.0]]
    assert batch.baselines == [["b", "c"], []]


@pytest.mark.parametrize("history", [["b", 7], [7, "b"], [{"id": "b"}, {"id": 7}], ["b", "7", ""]])
def test_every_form_of_history_is_decoded(history: list[Any]) -> None:
    fields = EventFields(history="user_was.shown")
    event = read(Decoder(fields, []), beside(user_was={"shown": history}))
    assert isinstance(event, Event)
    assert sorted(event.history or ()) == ["7", "b"]


def test_a_history_is_unknown_without_one_and_empty_for_a_new_user() -> None:
    decoder = Decoder(EventFields(history="earlier"), [])
    records = [beside(earlier=earlier) for earlier in (["a"], [], None)]
    assert decoder.decode_many([*records, beside()]).batch.histories == [["a"], [], None, None]
    assert decoder.decode_many([beside()]).batch.histories is None


def test_a_history_may_be_longer_than_a_list() -> None:
    decoder = Decoder(EventFields(history="earlier"), [])
    longest, longer = (beside(earlier=[*map(str, range(size))]) for size in (10_000, 10_001))
    assert isinstance(read(decoder, longest), Event)
    assert rejection(decoder, longer).reason == "history_too_long"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"scores": [0.5]}, "invalid_score"),
        ({"scores": ["high", 1]}, "invalid_score"),
        ({"scores": None}, "missing_field"),
        ({"scores": {}}, "wrong_type"),
        ({"expected": None}, "missing_field"),
        ({"expected": [1.5]}, "invalid_id"),
    ],
)
def test_lists_that_do_not_match_the_items_have_a_reason(
    changed: dict[str, Any], reason: str
) -> None:
    invalid = rejection(Decoder(OPTIONAL_FIELDS, []), beside(**changed))
    assert invalid.reason == reason
    assert Decoder(OPTIONAL_FIELDS, []).decode_many([beside(**changed)]).invalid[0][1] == invalid


def test_types_are_worth_their_gains_and_others_do_not_count() -> None:
    types = {"buy": 5.0, "click": 1.0}
    clicked = {"id": "a", "type": "click"}
    bought = {"id": "b", "type": "buy", "gain": 3}
    viewed = {"id": "c", "type": "view"}
    event = decoded({"interactions": [clicked, bought, viewed]}, types=types)
    assert event.interactions == {"a": 1.0, "b": 3.0}
    assert [interaction.type for interaction in event.typed] == ["click", "buy"]
    again = decoded({"interactions": [clicked, {"id": "a", "type": "buy"}]}, types=types)
    assert again.interactions == {"a": 5.0}
    assert decoded({"interactions": []}, types=types).interactions in ([], {})


@pytest.mark.parametrize("interactions", [["a"], {"a": 2}, [{"id": "a"}], [{"id": "a", "gain": 2}]])
def test_an_interaction_without_a_type_is_invalid_where_types_decide(interactions: Any) -> None:
    value = msgspec.json.encode({"recommendations": ["a"], "interactions": interactions})
    invalid = rejection(Decoder(EventFields(types={"buy": 5.0}), []), value)
    assert invalid.reason == "missing_field"
