"""The prose linter bites on sentences of the old kind, in every kind of text, and on no others."""

from __future__ import annotations

import pytest

from tests.docs.prose import problems

PAIRS = [
    ("With today's users a lift of 47 % is found.", "Smallest detectable lift today: 47 %."),
    ("At this pace the lift is known in a year.", "±2 % is a year away at this pace."),
    ("Not adjusted by what users did before.", "No pre-experiment adjustment (CUPED)."),
    ("The first day is not given.", "The first day is missing: set `since`."),
    ("The group of users that weighs most.", "Largest share of variance from one user bucket."),
    ("Times and ids are none.", "Times and ids are never taken as scores; None of them is."),
    ("Below 28 it is none.", "Below 28 days there is no evidence. The value is None."),
    ("'hr@10' has this name here.", "'hr@10' is an alias of hit_rate@10."),
    ("Nothing counts, also if a\nmetric raises.", "Nothing counts, even if a metric raises."),
    ("An item without text is no list.", "Text is not a list. There is no interval, no longer."),
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
@pytest.mark.parametrize(
    ("suffix", "form"),
    [
        (".md", "# A page\n\nFirst. {}\n\n```text\nlikewise\n```\n"),
        (".html", "{{# likewise #}}<p title=likewise>\n{}</p>"),
        (".py", 'likewise = f"""{{likewise}} First. {}"""\n'),
        (".py", 'def f():\n    """First.\n\n    {}\n    """\n    # likewise\n'),
    ],
)
def test_a_sentence_of_the_old_kind_is_found_and_its_successor_is_not(
    suffix: str, form: str, old: str, new: str
) -> None:
    assert len(problems(form.format(old), suffix)) == 1
    assert problems(form.format(new), suffix) == []


def test_a_problem_has_its_line_its_words_and_what_to_write() -> None:
    (problem,) = problems("One.\n\nTwo is\n  none here.\n")
    assert (problem.line, problem.words) == (3, "is none")
    assert "absent" in problem.instead


def test_a_line_inside_a_docstring_is_counted_from_its_file() -> None:
    (problem,) = problems('"""First.\n\nLikewise so.\n"""\n', ".py")
    assert problem.line == 3
