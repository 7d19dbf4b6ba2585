"""What a comparison says beside its verdicts, from what is counted anyway."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streameval import ComparisonReport, compare
from streameval.analyses.experiments.comparison import Settings, contrast_of
from streameval.analyses.experiments.notes import NewestDay, lift_shift
from streameval.statistics.intervals import GroupSums
from tests.cli.program import json_lines, run
from tests.present import present

MONDAY = 1_772_409_600
"""2 March 2026, in seconds since the epoch."""

NOT_ADJUSTED = "No pre-experiment adjustment (CUPED): set `since`."


def visits(
    *,
    items: tuple[int, int] = (5, 5),
    days: Sequence[int] = range(7),
    bot: int = 0,
    users: int = 400,
) -> Iterator[dict[str, Any]]:
    """Lists of `items` of the two variants, with the same clicks; `bot`: lists of one account."""
    random = np.random.default_rng(6)
    for user in range(users):
        for _ in range(1 + int(random.poisson(2))):
            clicked = [f"i{rank}" for rank in range(min(items)) if random.random() < 0.1]
            yield {
                "recommendations": [f"i{rank}" for rank in range(items[user % 2])],
                "interactions": clicked,
                "variant": ("control", "b")[user % 2],
                "user": f"u{user}",
                "ts": MONDAY + 86_400 * int(random.choice(days)),
            }
    for visit in range(bot):
        shown = [f"i{rank}" for rank in range(5)]
        yield {
            "recommendations": shown,
            "interactions": shown,
            "variant": "b",
            "user": "bot",
            "ts": MONDAY + 86_400 * (visit % 7),
        }


def compared(
    folder: Path,
    *metrics: str,
    time: str | None = "ts",
    since: date | None = None,
    **how: Any,
) -> ComparisonReport:
    path = str(json_lines(folder / "log.ndjson", list(visits(**how))))
    unit: Any = {} if time is None else {"columns": {"time": time}, "time_unit": "s"}
    report = compare(path, *metrics, since=since, untreated_before=since is not None, **unit)
    assert isinstance(report, ComparisonReport)
    return report


def test_lists_of_unlike_length_are_named_with_what_depends_on_it(tmp_path: Path) -> None:
    """The same clicks on lists twice as long look like a loss of half of them."""
    report = compared(tmp_path, "ctr", "hit_rate", items=(5, 10))
    assert report["ctr"].verdict == "worse"
    assert report["hit_rate"].verdict == "not enough evidence"
    *_, note = report.notes
    assert note == (
        "Note: lists of b are 100 % longer: ctr is per item shown; read clicks_per_user and "
        "hit_rate with it."
    )


SHORTER = (
    "Note: lists of b are 50.0 % shorter: lists of b end before the cut-off of precision@8; read "
    "clicks_per_user and hit_rate with it."
)
WEEK = "Compared: 2 to 8 March 2026, 7 days that both have."


@pytest.mark.parametrize(
    ("metrics", "how", "period", "notes"),
    [
        (
            ["ndcg@3", "precision@8", "ctr@3"],
            {"items": (10, 5)},
            WEEK,
            [SHORTER],
        ),
        (["ndcg@3", "ctr@3"], {"items": (5, 10)}, WEEK, []),
        (["ctr", "ndcg@9"], {}, WEEK, []),
        (
            ["hit_rate"],
            {"days": [0, 1, 2, 4]},
            "Compared: 2 to 6 March 2026, 4 days that both have.",
            ["Note: only 4 days of data; run at least a full week."],
        ),
        (
            ["hit_rate"],
            {"days": [3]},
            "Compared: 5 March 2026.",
            ["Note: only 1 day of data; run at least a full week."],
        ),
        (
            ["hit_rate"],
            {"days": [-35, 0, 1, 2, 3, 4, 5, 6]},
            "Compared: 26 January to 8 March 2026, 8 days that both have.",
            [],
        ),
    ],
    ids=["cut-off", "cut alike", "as long", "four days", "one day", "a week and a day"],
)
def test_the_period_is_said_with_what_matters_beside_it(
    tmp_path: Path, metrics: list[str], how: dict[str, Any], period: str, notes: list[str]
) -> None:
    assert compared(tmp_path, *metrics, **how).notes == [period, NOT_ADJUSTED, *notes]


def test_without_event_time_the_period_is_not_known(tmp_path: Path) -> None:
    report = compared(tmp_path, "hit_rate", time=None)
    assert report.notes == ["The events have no time: the period is not known."]
    assert report["hit_rate"].daily == report["hit_rate"].weekly == ()
    assert compared(tmp_path, "hit_rate")["hit_rate"].daily


def test_one_account_that_makes_the_uncertainty_is_named(tmp_path: Path) -> None:
    """It has 6 % of the lists, so a share of the lists alone would not tell."""
    report = compared(tmp_path, "hit_rate@5", bot=40)
    share = round(100 * report["hit_rate@5"].heaviest, 1)
    assert share > 20
    (message,) = report.notes[2:]
    assert message.startswith(f"Note: one user bucket has {share} % of the variance of hit_rate@5 ")
    assert message.endswith(" compare per user (hit_rate(per=user)@5).")
    assert compared(tmp_path, "hit_rate@5").notes[2:] == []


def test_a_mean_over_users_is_compared_from_the_means_of_users(tmp_path: Path) -> None:
    report = compared(tmp_path, "hit_rate@5", "hit_rate(per=user)@5", bot=40)
    by_user: dict[str, dict[str, list[bool]]] = {"control": {}, "b": {}}
    for visit in visits(bot=40):
        of_user = by_user[visit["variant"]].setdefault(visit["user"], [])
        of_user.append(bool(visit["interactions"]))
    means = {
        name: np.mean([np.mean(hits) for hits in users.values()]) for name, users in by_user.items()
    }
    row = report["hit_rate(per=user)@5"]
    assert (row.control, row.treatment) == pytest.approx((means["control"], means["b"]), abs=1e-9)
    assert row.heaviest < 0.2
    assert (row.days, row.daily) == ((), ())
    assert row.among == 2


def test_a_mean_over_users_that_cannot_be_compared_says_why(tmp_path: Path) -> None:
    path = str(json_lines(tmp_path / "log.ndjson", list(visits())))
    metrics = ("hit_rate", "hit_rate(per=user)")
    dated: Any = {"columns": {"time": "ts"}, "time_unit": "s"}
    reasons = [
        compare(path, *metrics, **how).notes[-1]
        for how in (
            {"same_users": True},
            {**dated, "since": date(2026, 3, 3)},
            {
                **dated,
                "shares": [
                    {"since": date(2026, 3, 1), "control": 1, "b": 1},
                    {"since": date(2026, 3, 5), "control": 1, "b": 2},
                ],
            },
        )
    ]
    name = "Note: hit_rate(per=user) is not compared:"
    assert reasons == [
        f"{name} the variants share their users by design.",
        f"{name} means over users are not stored by event day.",
        f"{name} on a ramp, users have been there for different times.",
    ]
    total = compare(path, *metrics, **dated, since=date(2026, 3, 2))
    assert total["hit_rate(per=user)"].control is not None


def test_every_surface_says_the_same_sentences(tmp_path: Path) -> None:
    """Table, JSON, HTML and Python, of one comparison."""
    how: dict[str, Any] = {"items": (5, 10), "bot": 40, "days": [-1, 0, 1, 2]}
    report = compared(tmp_path, "ctr", "hit_rate@5", since=date(2026, 3, 2), **how)
    period, adjusted, *notes = report.notes
    assert len(notes) == 3
    days = ("--time", "ts", "--time-unit", "s", "--since", "2026-03-02", "--untreated-before")
    arguments = ("-m", "ctr", "-m", "hit_rate@5", *days)
    command = ("compare", tmp_path / "log.ndjson", *arguments)
    verdicts = [row.text for row in report.values()]
    lines = run(*command).stdout.splitlines()
    beside = [x for x in lines if x.startswith(("Compared: ", "Values adjusted ", "Note: "))]
    assert beside == [period, adjusted, *notes]
    content = json.loads(run(*command, "--format", "json").stdout)
    assert [content["checks"][name] for name in ("period", "adjustment")] == [period, adjusted]
    assert [f"Note: {note}." for note in content["checks"]["notes"]] == notes
    assert [row["text"] for row in content["comparisons"]] == verdicts
    words = {text.strip() for text in text_of_page(run(*command, "--format", "html").stdout)}
    assert {period, adjusted} <= words
    assert "; ".join(content["checks"]["notes"]) in words
    assert {*verdicts} <= words
    (checks,) = (number for number, line in enumerate(lines) if line.startswith("Checks since "))
    assert repr(report).splitlines()[checks - len(lines) :] == lines[checks:]


class _Texts(HTMLParser):
    """Collects the texts of the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data.replace("\N{NO-BREAK SPACE}", " "))


def text_of_page(page: str) -> list[str]:
    parser = _Texts()
    parser.feed(page)
    return parser.found


def late_clicks(users: int = 3_000) -> list[dict[str, Any]]:
    """The same clicks in both variants, but those of b arrive too late on the last of four days."""
    random = np.random.default_rng(8)
    taste = random.beta(4.0, 12.0, users)
    return [
        {
            "recommendations": ["a", "b", "c"],
            "interactions": [
                item
                for item in "abc"
                if random.random() < taste[user] * (0.6 if day == 3 and user % 2 else 1.0)
            ]
            or ["x"],
            "variant": ("control", "b")[user % 2],
            "user": f"u{user}",
            "ts": MONDAY + 86_400 * day,
        }
        for day in range(4)
        for user in range(users)
        if random.random() < 0.6
    ]


def test_a_lift_that_moves_on_the_newest_day_is_named_and_until_leaves_it_out(
    tmp_path: Path,
) -> None:
    path = json_lines(tmp_path / "log.ndjson", late_clicks())
    how: dict[str, Any] = {"columns": {"time": "ts"}, "time_unit": "s"}
    report = compare(str(path), "ctr", **how)
    assert isinstance(report, ComparisonReport)
    (note,) = (note for note in report.notes if "newest" in note)
    assert note.startswith(
        "Note: on 2026-03-05, the newest day, the lift of ctr of b is -36.9 %, and -0.5 % before: "
        "if clicks of b arrive later than those of control"
    )
    assert note.endswith("(until 2026-03-04).")
    assert report["ctr"].verdict == "worse"
    without = compare(str(path), "ctr", until=date(2026, 3, 4), **how)
    assert isinstance(without, ComparisonReport)
    assert not any("newest" in note for note in without.notes)
    assert without["ctr"].verdict == "not enough evidence"
    assert "Compared: 2 to 4 March 2026, 3 days that both have." in without.notes
    # Users who came on the last day alone are none, in metrics per user, too.
    before = json_lines(
        tmp_path / "before.ndjson",
        [event for event in late_clicks() if event["ts"] < MONDAY + 3 * 86_400],
    )
    cut = compare(str(before), "ctr", **how)
    assert isinstance(cut, ComparisonReport)
    assert {key: row.treatment for key, row in without.items()} == {
        key: pytest.approx(row.treatment, rel=1e-9) for key, row in cut.items()
    }
    by_time = ("-m", "ctr", "--time", "ts", "--time-unit", "s")
    until = run("compare", path, *by_time, "--until", "2026-03-04").stdout
    assert "Checks until 2026-03-04: users control " in until
    assert "Checks until 2026-03-04: users control " in repr(without)


def test_users_who_come_again_show_a_lift_that_moves() -> None:
    """Their tastes vary, and are alike on both days: only a jackknife of both at once sees it."""
    taste = np.random.default_rng(3).uniform(50.0, 150.0, (2, 64))
    lists = np.full((1, 64), 1_000)
    control, *treatments = (
        GroupSums(np.zeros(1, np.int64), clicks[None], lists)
        for clicks in (taste[0], 0.95 * taste[1] + np.arange(64) % 3, taste[1])
    )
    alone, before = (present(contrast_of(control, arm)) for arm in treatments)
    newest = NewestDay(date(2026, 3, 5), alone, before)
    settings = Settings("anytime", 0.02, 0.95)
    names = "ctr", "control", "b"
    (note,) = lift_shift(newest, names, settings)
    assert "if clicks of b arrive later than those of control" in note
    (note,) = lift_shift(newest._replace(alone=before, before=alone), names, settings)
    assert "if clicks of control arrive later than those of b" in note
