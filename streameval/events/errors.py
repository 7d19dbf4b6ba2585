"""All errors of the package: each carries its data and a message that says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import msgspec

from streameval.events.previews import redact_detail
from streameval.events.printable import printable

_USER_INFORMATION = re.compile(r"(?<=//)[^/?#\s\"]*@")


def without_user(text: str) -> str:
    """The text with user and password of each URL replaced by ***, as in http://***@host/path."""
    return _USER_INFORMATION.sub("***@", text)


class StreamevalError(Exception):
    """Base class of all errors that this package raises.

    A message has no password of a URL, and no character that controls a terminal: it may quote
    whatever a record, a file or a state holds.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(
            *(printable(without_user(x)) if isinstance(x, str) else x for x in arguments)
        )

    @property
    def lines(self) -> list[str]:
        """The message; several problems have a line each."""
        return [str(self)]

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).__new__, (type(self), *self.args), self.__dict__  # with data, for pickle


class PermanentError(StreamevalError):
    """A restart cannot help: a person must decide first."""


class ProblemError(StreamevalError):
    """A problem at one place, and its remedy."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        self.where, self.problem, self.remedy = where, problem, remedy
        super().__init__(f"{where}: {problem}; {remedy}.")


def nearest(text: str, candidates: Iterable[str], similarity: float = 0.6) -> list[str]:
    """The known names closest to a misspelt one, best first; at most three.

    `similarity`: the least, from 0 to 1.
    """
    from difflib import get_close_matches  # noqa: PLC0415  slow, and for a mistake only

    return get_close_matches(text.lower(), list(candidates), n=3, cutoff=similarity)


def suggestion(text: str, candidates: Iterable[str]) -> str:
    """The question "Did you mean ...?" for a misspelt name; empty if no known name is close."""
    names = nearest(text, candidates)
    return f" Did you mean {' or '.join(repr(name) for name in names)}?" if names else ""


def unknown_name_problem(name: str, among: Sequence[str], called: str) -> str | None:
    """The problem with a name that is not among the allowed names, or None."""
    if name in among:
        return None
    choices = ", ".join(map(repr, among)) or "none yet"
    return f"not among {called} ({choices}).{suggestion(name, among)}"


class MetricError(PermanentError):
    """A metric, or an argument of counting or reading it, must be corrected."""


class MetricTextError(MetricError):
    """The text of a metric must be corrected, or the module that it names be imported.

    Attributes:
        metric: the text, or the name in it that is wrong.
        known: the names that exist, of an unknown one.
        parameter: the one that the metric lacks, or whose value it does not allow.
    """

    def __init__(
        self, metric: str, problem: str, *, known: Iterable[str] = (), parameter: str | None = None
    ) -> None:
        self.metric, self.known, self.parameter = metric, sorted(known), parameter
        super().__init__(problem)


class OwnMetricError(MetricError):
    """A function of the user's must be corrected: its @metric, or what it raises or returns.

    Attributes:
        metric: the text of the metric, or the name of the function.
        remedy: what to correct; without the metric's problem.
    """

    def __init__(self, metric: str, problem: str, remedy: str = "") -> None:
        self.metric, self.remedy = metric, remedy
        super().__init__(problem)


class OwnStatisticError(PermanentError):
    """A statistic of the user's must be corrected: its options, their name or their fields.

    Attributes:
        statistic: its name in saved states, or the class of its options.
    """

    def __init__(self, statistic: str, problem: str) -> None:
        self.statistic = statistic
        super().__init__(problem)


class MetricLawError(MetricError, AssertionError):
    """A metric breaks a law that holds for every metric."""

    def __init__(self, metric: str, law: str, detail: str, events: Sequence[object]) -> None:
        self.metric, self.law, self.detail, self.events = metric, law, detail, events
        super().__init__(f"metric {metric!r} breaks the law {law!r}: {detail}.")

    def __str__(self) -> str:
        on = ["On:", *map(str, self.events)] if self.events else []
        return "\n    ".join([" ".join([self.args[0], *on[:1]]), *on[1:]])


class NotKeptError(MetricError):
    """A metric needs a statistic, or ranks, that this Accumulator does not keep.

    Attributes:
        k, depth: the cut-off, None for the whole list, and the ranks kept, if these are too few.
    """

    def __init__(self, metric: str, why: str, k: int | None = None, depth: int = 0) -> None:
        self.metric, self.why, self.k, self.depth = metric, why, k, depth
        problem, more = f"cannot be read: {why}", ""
        if depth:
            problem, more = f"needs {why}", ", or pass a larger depth="
        super().__init__(
            f"metric {metric!r} {problem}. Name it when you create the Accumulator{more}."
        )


class MissingInputError(MetricError):
    """A metric lacks an input, for example a catalogue, scores, or the `attribute` of items."""

    def __init__(self, metric: str, needs: str, remedy: str, attribute: str | None = None) -> None:
        self.metric, self.needs, self.remedy, self.attribute = metric, needs, remedy, attribute
        super().__init__(f"metric {metric!r} needs {needs}; {remedy}.")


class UndefinedMetricError(MetricError):
    """A convention has no value for these lists; the original raises an error."""

    def __init__(self, metric: str, why: str) -> None:
        self.metric, self.why = metric, why
        super().__init__(f"metric {metric!r} is undefined: {why}.")


class NotComparableError(MetricError):
    """A metric has no sums by user group to compare, because of `why` or without `intervals`."""

    def __init__(self, metric: str, why: str | None = None) -> None:
        why = (
            why or "Create the Accumulator with intervals: Accumulator(..., intervals=Intervals())."
        )
        self.metric, self.why = metric, why
        super().__init__(f"metric {metric!r} cannot be compared. {why}")


class SuspiciousEventsWarning(UserWarning):
    """The events look wrong; for example, many lists without a hit."""


class UnlikeStateError(StreamevalError):
    """States made with different settings cannot be merged or loaded."""

    def __init__(self, what: str, left: object, right: object) -> None:
        self.what, self.left, self.right = what, left, right
        super().__init__(
            f"different {what}: here {_only_in(left, right)}; there {_only_in(right, left)}. Only "
            "states made with the same settings can be merged or loaded."
        )


def _only_in(first: object, other: object) -> str:
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        extras = [f"{name} = {first[name]}" for name in first if first[name] != other.get(name)]
    elif isinstance(first, list | tuple) and isinstance(other, list | tuple):
        extras = [str(entry) for entry in first if entry not in other]
    else:
        return repr(first)
    return ", ".join(extras) or "nothing more"


class StateVersionError(PermanentError):
    """This release cannot read the version of a saved state; `writer` wrote it."""

    def __init__(
        self, what: str, found: object, known: int, writer: str = "the release that wrote it"
    ) -> None:
        self.what, self.found, self.known, self.writer = what, found, known, writer
        super().__init__(
            f"{what}: state version {found!r} is not known; this release reads version {known}. "
            f"Use {writer}, or count its events again."
        )


class DamagedStateError(StreamevalError):
    """A saved state is damaged."""

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(
            f"{what}: the saved state is damaged ({problem}). Nothing was loaded; use another copy."
        )


@contextmanager
def damage_as_error(what: str) -> Iterator[None]:
    """The only guard of saved data: any exception from content that no release wrote is damage.

    A digest says that bytes are as written, not by whom: a forged state has the right ones, and
    its values may be of any kind, size and depth.

    Args:
        what: the name of what is read.

    Raises:
        DamagedStateError: reading it failed.

    Example:
        >>> with damage_as_error("meta"):
        ...     {}["clock"]
        Traceback (most recent call last):
            ...
        streameval.events.errors.DamagedStateError: meta: the saved state is damaged (KeyError: ...
    """
    try:
        yield
    except StreamevalError:
        raise
    except _DAMAGE as error:
        raise DamagedStateError(what, f"{type(error).__name__}: {error}") from error


_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)


class HalfCountedError(ProblemError):
    """The counts of an Accumulator are in the middle of a change, or one stopped there."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__("counts are half-way through a change", problem, remedy)


class StoreError(ProblemError):
    """Checkpoints cannot be written or read; `where` names the store."""


class UnsavedStateError(StreamevalError):
    """The process ends before its last records are in a checkpoint.

    Attributes:
        has_earlier: partition as text -> whether the store has an earlier checkpoint; None if
            it cannot be read.
    """

    def __init__(self, has_earlier: Mapping[str, bool | None], problem: str) -> None:
        self.has_earlier, self.problem = has_earlier, problem
        bare = [location for location, earlier in has_earlier.items() if earlier is False]
        if bare:
            then = f"The store has no earlier checkpoint of {', '.join(bare)} to resume at"
        elif None in has_earlier.values():
            then = "The next start resumes at the checkpoint before it, if the store still has one"
        else:
            then = "The next start resumes at the checkpoint before it"
        problem = problem.rstrip(".")
        super().__init__(
            f"the last checkpoint of {', '.join(has_earlier)} was not written: {problem}. {then}."
        )


class UncountableRecordsError(StreamevalError):
    """Counting valid records fails because of a bug, and the counts are unusable.

    Attributes:
        records: partition, first and last offset of the records counted together.
    """

    def __init__(self, records: Sequence[tuple[str, int, int]], problem: str) -> None:
        self.records, self.problem = records, problem
        where = ", ".join(
            f"{partition} offset {first}"
            if first == last
            else f"{partition} offsets {first} to {last}"
            for partition, first, last in records[:3]
        )
        if len(records) > 3:
            where += f" and {len(records) - 3:,} more partitions"
        super().__init__(
            f"{where}: counting fails ({problem}). Report this, with the records. With [state], "
            "the next start tries each record alone, and makes a dead letter of one that fails."
        )


class RefusedStateError(PermanentError):
    """This process must not resume from this state until a key of [state] changes.

    Attributes:
        policy: the key that decides, if one does.
        choices: value of the policy that allows it -> what happens then.
        owner: "cluster" or "group", its name here, and its name in the state, if these differ.
    """

    def __init__(
        self,
        where: str,
        problem: str,
        remedy: str = "",
        *,
        policy: str | None = None,
        choices: Mapping[str, str] = MappingProxyType({}),
        owner: tuple[str, str, str] | None = None,
    ) -> None:
        self.where, self.problem, self.policy, self.owner = where, problem, policy, owner
        self.choices = dict(choices)
        offered = " or ".join(f'{policy} = "{it}" ({does})' for it, does in choices.items())
        instead = f"{remedy}, or " if remedy else ""
        then = f". To continue, {instead}set [state] {offered}" if choices else f"; {remedy}"
        super().__init__(f"{where}: {problem}{then}.")


class RefusedRecordsError(PermanentError):
    """The records, or a limit on them in the configuration, must change.

    Attributes:
        limit: which one the records exceed, if one.
        found, allowed: how many there are, and may be, where that is one number.
    """

    def __init__(
        self, problem: str, limit: str | None = None, found: int = 0, allowed: int | None = None
    ) -> None:
        self.limit, self.found, self.allowed = limit, found, allowed
        super().__init__(problem)


class InvalidEventError(StreamevalError):
    """An event given to an Accumulator is not valid.

    Attributes:
        detail: what was found where; without values if `[log] previews` is false.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = redact_detail(detail, "[log] previews = false hides what was found")
        super().__init__(f"invalid event ({reason}): {self.detail}.")


class UsageError(PermanentError):
    """The arguments of a command, or of a function that evaluates, are wrong."""


class ConfigError(PermanentError, ValueError):
    """The configuration is not valid.

    Also a ValueError, because msgspec then adds the path of the table that checks itself.

    Attributes:
        path: the file; empty if `key` is relative to a table.
        others: further problems, a line each in the text.
    """

    def __init__(self, path: str, key: str, problem: str, *others: ConfigError) -> None:
        self.path, self.key, self.problem, self.others = path, key, problem, others
        sentence = ": ".join(filter(None, (path, key, problem)))
        super().__init__(sentence)

    @property
    def lines(self) -> list[str]:
        """Its problem, and those of the others."""
        return [self.args[0], *(line for error in self.others for line in error.lines)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


class SourceError(ProblemError):
    """A source, or its broker, cannot be read or written; `where` names it."""


class RefusedMemberError(SourceError, PermanentError):
    """With its current settings, this process cannot join the consumer group."""


class MissingExtraError(PermanentError, ImportError):
    """A feature needs an optional extra of the package."""

    def __init__(
        self, what: str, extra: str, error: ImportError, requirements: Sequence[str]
    ) -> None:
        self.what, self.extra, self.error = what, extra, error
        problem = " ".join(str(error).split()) or type(error).__name__
        install = " ".join(f"'{requirement}'" for requirement in requirements)
        super().__init__(
            f"{what} needs the extra {extra!r}, which cannot be imported ({problem}); "
            f"pip install {install}."
        )


class DeadLetterError(ProblemError):
    """Dead letters could not be written; no record was skipped.

    Attributes:
        durable: indices of the letters of this write that are durable nevertheless.
    """

    def __init__(self, destination: str, problem: str, remedy: str) -> None:
        self.destination = destination
        self.durable: frozenset[int] = frozenset()
        super().__init__(f"writing dead letters to {destination}", problem, remedy)


class UnevenStreamsError(PermanentError):
    """The streams of a join do not have the same partitions."""

    def __init__(
        self, number: int, counts: Mapping[str, int | None], missing: Sequence[str]
    ) -> None:
        self.number, self.counts, self.missing = number, counts, missing
        difference = f"partition {number} of {', '.join(missing)} was not assigned with it"
        if not missing:
            counted = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
            difference = f"their partition counts differ: {counted}"
        super().__init__(
            f"[attribution] joins partition {number} of all its topics, but {difference}. Give all "
            "topics the same number of partitions, write records of one key to the same one "
            "(request id or user as the record's key, the same partitioner), and use the range "
            "assignor."
        )
