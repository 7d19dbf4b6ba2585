"""The commands: where each is, and the first line of its help."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command: its module, which has a function of its name, and the first line of its help."""

    module: str
    help: str


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "demo": Command(
            "streameval.cli.demo",
            "Run a demo: three variants on simulated traffic, with live comparisons.",
        ),
        "run": Command(
            "streameval.cli.run",
            "Run the daemon: read the source, count, and serve the values over HTTP.",
        ),
        "check": Command(
            "streameval.cli.check", "Check a configuration, and print what `run` would do with it."
        ),
        "evaluate": Command(
            "streameval.evaluation.shell.evaluate",
            "Evaluate files; values equal the daemon's on the same events, bit for bit.",
        ),
        "compare": Command(
            "streameval.analyses.experiments.command",
            "Compare variants: is treatment better than control, and is it real?",
        ),
        "gaps": Command(
            "streameval.analyses.gaps.command",
            "Compare the values of a field: which is served worst, and by how much at least?",
        ),
        "changes": Command(
            "streameval.analyses.changes.command",
            "Find changes: did it get worse, really, and since when?",
        ),
        "plan": Command(
            "streameval.analyses.experiments.plan_command",
            "Plan an experiment: how many users and days does it take to find a lift?",
        ),
        "simulate": Command(
            "streameval.cli.simulate",
            "Write simulated events to standard output: one JSON object per line.",
        ),
        "publish": Command(
            "streameval.cli.publish", "Publish the lines of files to a Kafka topic, keyed by user."
        ),
        "metrics": Command(
            "streameval.cli.metrics",
            "List all metrics, or describe one of them.",
        ),
        "explain": Command(
            "streameval.cli.explain",
            "Explain how one request or user was counted, or why it was not.",
        ),
        "state": Command(
            "streameval.cli.state",
            "Inspect, verify, export and merge stores of checkpoints ([state] path).",
        ),
        "dlq": Command(
            "streameval.cli.dlq", "Show dead letters, and replay their records after a fix."
        ),
    }
)
"""Name -> command. A module is imported when its command is called."""
