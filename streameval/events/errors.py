"""All errors of the package: a name and its data; the message is written where it is raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TypeVar, dataclass_transform

from streameval.events.previews import redact_detail
from streameval.events.printable import printable, without_user

_E = TypeVar("_E", bound=Exception)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def named_fields(error: type[_E]) -> type[_E]:
    """Let the constructor of an error take its message, and its annotated fields by name."""
    return dataclass(kw_only=True, eq=False, repr=False)(error)


@named_fields
class StreamevalError(Exception):
    """Base class of all errors that this package raises.

    A message has no password of a URL, and no character that controls a terminal: it may quote
    whatever a record, a file or a state holds.
    """

    message: InitVar[str] = field(kw_only=False)

    def __post_init__(self, message: str) -> None:
        super().__init__(printable(without_user(message)))

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


class MetricError(PermanentError):
    """A metric, or an argument of counting or reading it, must be corrected."""


@named_fields
class MetricTextError(MetricError):
    """The text of a metric must be corrected, or the module that it names be imported.

    Attributes:
        metric: the text, or the name in it that is wrong.
        known: the names that exist, of an unknown one, in order.
        parameter: the one that the metric lacks, or whose value it does not allow.
    """

    metric: str
    known: Sequence[str] = ()
    parameter: str | None = None


@named_fields
class OwnMetricError(MetricError):
    """A function of the user's must be corrected: its @metric, or what it raises or returns.

    Attributes:
        metric: the text of the metric, or the name of the function.
        remedy: what to correct; without the metric's problem.
    """

    metric: str
    remedy: str = ""


@named_fields
class OwnStatisticError(PermanentError):
    """A statistic of the user's must be corrected: its options, or what it raises.

    Attributes:
        statistic: its name in saved states, or the class of its options.
        function: "make" or "count", if that raised an exception, which is the cause.
        remedy: what to correct, if it did.
    """

    statistic: str
    function: str = ""
    remedy: str = ""


@named_fields
class OwnAnalysisError(PermanentError):
    """A function of an analysis of another package must be corrected: it raised its cause.

    Attributes:
        analysis: its name.
        package: its package, with the version.
        function: the field of `Analysis` that failed, "settings" included, "read" of its reader,
            or "need" of a need.
    """

    analysis: str
    package: str
    function: str


@named_fields
class MetricLawError(MetricError, AssertionError):
    """A metric breaks a law that holds for every metric.

    Attributes:
        events: the smallest events found that break it.
    """

    metric: str
    law: str
    detail: str
    events: Sequence[object] = ()

    def __str__(self) -> str:
        on = ["On:", *map(str, self.events)] if self.events else []
        return "\n    ".join([" ".join([self.args[0], *on[:1]]), *on[1:]])


@named_fields
class NotKeptError(MetricError):
    """A metric needs a statistic, or ranks, that this Accumulator does not keep.

    Attributes:
        k, depth: the cut-off, None for the whole list, and the ranks kept, if these are too few.
    """

    metric: str
    why: str
    k: int | None = None
    depth: int = 0


@named_fields
class MissingInputError(MetricError):
    """A metric lacks an input, for example a catalogue, scores, or the `attribute` of items."""

    metric: str
    needs: str
    remedy: str
    attribute: str | None = None


@named_fields
class UndefinedMetricError(MetricError):
    """A convention has no value for these lists; the original raises an error."""

    metric: str
    why: str


@named_fields
class NotComparableError(MetricError):
    """A metric has no sums by user group to compare, because of `why`."""

    metric: str
    why: str


class SuspiciousEventsWarning(UserWarning):
    """The events look wrong; for example, many lists without a hit."""


@named_fields
class UnlikeStateError(StreamevalError):
    """States made with different settings cannot be merged or loaded."""

    what: str
    left: object
    right: object


@named_fields
class StateVersionError(PermanentError):
    """This release cannot read the version of a saved state; `writer` wrote it."""

    what: str
    found: object
    known: int
    writer: str


@named_fields
class DamagedStateError(StreamevalError):
    """A saved state is damaged."""

    what: str
    problem: str


class HalfCountedError(ProblemError):
    """The counts of an Accumulator are in the middle of a change, or one stopped there."""


class StoreError(ProblemError):
    """Checkpoints cannot be written or read; `where` names the store."""


@named_fields
class UnsavedStateError(StreamevalError):
    """The process ends before its last records are in a checkpoint.

    Attributes:
        has_earlier: partition as text -> whether the store has an earlier checkpoint; None if
            it cannot be read.
    """

    has_earlier: Mapping[str, bool | None]
    problem: str


@named_fields
class UncountableRecordsError(StreamevalError):
    """Counting valid records fails because of a bug, and the counts are unusable.

    Attributes:
        records: partition, first and last offset of the records counted together.
    """

    records: Sequence[tuple[str, int, int]]
    problem: str


@named_fields
class RefusedStateError(PermanentError):
    """This process must not resume from this state until a key of [state] changes.

    Attributes:
        policy: the key that decides, if one does.
        choices: value of the policy that allows it -> what happens then.
        owner: "cluster" or "group", its name here, and its name in the state, if these differ.
    """

    where: str
    problem: str
    policy: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    owner: tuple[str, str, str] | None = None


@named_fields
class RefusedRecordsError(PermanentError):
    """The records, or a limit on them in the configuration, must change.

    Attributes:
        limit: which one the records exceed, if one.
        found, allowed: how many there are, and may be, where that is one number.
    """

    limit: str | None = None
    found: int = 0
    allowed: int | None = None


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
        super().__init__(": ".join(filter(None, (path, key, problem))))

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


@named_fields
class MissingExtraError(PermanentError, ImportError):
    """A feature needs an optional extra of the package."""

    what: str
    extra: str
    error: ImportError
    requirements: Sequence[str]


class DeadLetterError(ProblemError):
    """Dead letters could not be written; no record was skipped.

    Attributes:
        durable: indices of the letters of this write that are durable nevertheless.
    """

    durable: frozenset[int] = frozenset()


@named_fields
class UnevenStreamsError(PermanentError):
    """The streams of a join do not have the same partitions."""

    number: int
    counts: Mapping[str, int | None]
    missing: Sequence[str]
