"""A report of changes: one slice fell, the total did not, another is too young."""

from __future__ import annotations

from datetime import date, timedelta

from streameval.analyses.changes.report import (
    Change,
    ChangeDay,
    ChangeSettings,
    ChangesReport,
    ChangeVerdict,
    Rollout,
)

UNTIL = date(2026, 3, 8)
SINCE = date(2026, 3, 3)


def _days(fall: float) -> tuple[ChangeDay, ...]:
    days = []
    for index in range(63):
        day = UNTIL - timedelta(days=62 - index)
        usual = 0.1 + 0.008 * (day.weekday() >= 5)
        value = usual * (1.0 + 0.02 * ((index * 7) % 5 - 2) / 2) * (1.0 - fall * (day >= SINCE))
        band = (usual * 0.95, usual * 1.05) if index >= 14 else (None, None)
        days.append(ChangeDay(day=day, value=value, low=band[0], high=band[1]))
    return tuple(days)


def changes_report(*, fallen: bool = True) -> ChangesReport:
    """A total without a change, a slice that fell or did not, and one with a short history."""
    total = Change(
        metric="ctr",
        until=UNTIL,
        effect=-0.004,
        worse_days=12.0,
        better_days=0.4,
        lists_ratio=0.98,
        raw=-0.024,
        mix=-0.02,
        days=_days(0.0),
        verdict=ChangeVerdict.NO_CHANGE,
    )
    worse = Change(
        metric="ctr",
        slice="b",
        against="others",
        until=UNTIL,
        effect=-0.12,
        low=-0.18,
        high=-0.06,
        since=SINCE,
        first=SINCE - timedelta(days=1),
        last=SINCE + timedelta(days=1),
        worse_days=2e6,
        better_days=0.1,
        lists_ratio=1.01,
        raw=-0.13,
        mix=-0.01,
        rollouts=(Rollout(day=SINCE, value="model 7"),),
        days=_days(0.12),
        verdict=ChangeVerdict.WORSE,
    )
    young = Change(
        metric="ctr",
        slice="new",
        against="others",
        until=UNTIL,
        lists_ratio=1.2,
        days=_days(0.0)[-9:],
        reason="it needs 22 days with lists",
        verdict=ChangeVerdict.HISTORY_TOO_SHORT,
    )
    slices = [worse, young] if fallen else [young]
    settings = ChangeSettings(label="variant")
    return ChangesReport(settings=settings, until=UNTIL, changes=[total, *slices])
