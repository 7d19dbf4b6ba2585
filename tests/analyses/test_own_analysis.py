"""An analysis of another package: that of the guide, installed beside streameval."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from streameval.analyses.gaps.analysis import GAPS
from streameval.analyses.others import guarded
from streameval.events.errors import OwnAnalysisError
from tests.daemon.running import running
from tests.docs.markdown import fences
from tests.exposition import named, samples_of
from tests.house.checkout import ROOT
from tests.processes import finished

GUIDE = ROOT / "docs" / "how-to" / "your-own-analysis.md"
CONFIG = """
metrics = ["ctr"]
labels = ["variant"]
source = { type = "files", paths = ["events.ndjson"] }
web = { listen = "127.0.0.1:0" }
[crowd]
at_most = 0.5
"""
SHARES = {"a": 0.6}
"""Of ten lists, six are of a and four of b."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of Python's path with the package of the guide, a configuration and its events."""
    blocks = fences(GUIDE.read_text(encoding="utf-8"))
    (code,) = (block.code for block in blocks if block.name == "crowd.py")
    (entry,) = (block.code for block in blocks if "entry-points" in block.code)
    group, point = entry.removeprefix("[project.entry-points.").replace('"', "").split("\n", 1)
    _install(tmp_path, code, f"[{group.removesuffix(']')}]\n{point}")
    events = [
        {"recommendations": ["x"], "interactions": [], "variant": "aaaaaabbbb"[number]}
        for number in range(10)
    ]
    (tmp_path / "events.ndjson").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (tmp_path / "streameval.toml").write_text(CONFIG)
    return tmp_path


def _install(folder: Path, code: str, entry_points: str) -> None:
    """Write a package as an installer does."""
    (folder / "crowd.py").write_text(code)
    metadata = folder / "crowd-1.0.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: crowd\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


def _check(folder: Path, config: str = CONFIG) -> subprocess.CompletedProcess[str]:
    (folder / "streameval.toml").write_text(config)
    return _run("check", folder)


def _run(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streameval", name, "streameval.toml"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return finished(command, cwd=folder, env=environment)


def test_every_surface_of_a_daemon_has_it(folder: Path) -> None:
    with running(folder / "streameval.toml", folder, PYTHONPATH=str(folder)) as daemon:
        document = daemon.consumed(10)
        exposition = daemon.get("/metrics").text
        page = daemon.get("/").text
        description = daemon.get("/api/v1/openapi.json").json()
        assert daemon.stop() == 0
    assert document["crowd"] == SHARES
    shares = named(samples_of(exposition), "crowd_ratio")
    assert shares == {frozenset({("slice", name)}): share for name, share in SHARES.items()}
    section = '<section id="crowd" aria-label="Crowd"><h2>Crowd</h2><p>Too many lists: a.</p>'
    assert page.count(f"{section}</section>") == 1
    schema = description["components"]["schemas"]["Metrics"]
    assert schema["properties"]["crowd"] == {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "description": "Slice -> its share of the lists, where that is too large.",
    }
    assert "crowd" in schema["required"]
    jsonschema.validate(document, {"$ref": "#/components/schemas/Metrics", **description})


def test_check_has_its_line_and_its_problems(folder: Path) -> None:
    done = _check(folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["crowd"] == "a slice has at most 50% of the lists"
    plain = CONFIG.replace('labels = ["variant"]\n', "")
    assert _check(folder, plain).stderr == (
        "streameval: streameval.toml: crowd: it needs a label; add labels = ['variant'].\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "at_most",
            "at_mots",
            "crowd.at_mots: unknown key. Did you mean 'at_most'? Allowed here: at_most.",
        ),
        ("0.5", '"half"', 'crowd.at_most: found "half"; give a number.'),
    ],
)
def test_its_table_is_checked_as_those_of_ours(
    folder: Path, old: str, new: str, problem: str
) -> None:
    done = _check(folder, CONFIG.replace(old, new))
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == f"streameval: streameval.toml: {problem}"


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (
            "raise ValueError('a share is at most 1')",
            "streameval: streameval.toml: crowd: a share is at most 1.",
        ),
        (
            "raise KeyError('x')",
            (
                "streameval: analysis 'crowd' of the package crowd 1.0: settings failed (KeyError: "
                "'x', crowd.py:12). Correct it, or report this to the authors of crowd 1.0; "
                "without [crowd] it is not called."
            ),
        ),
    ],
)
def test_what_its_settings_raise_is_reported_with_its_table(
    folder: Path, failure: str, message: str
) -> None:
    field = "    at_most: float\n"
    code = (folder / "crowd.py").read_text()
    method = f"{field}\n    def __post_init__(self):\n        {failure}\n"
    (folder / "crowd.py").write_text(code.replace(field, method))
    done = _check(folder)
    assert (done.returncode, done.stderr) == (2, f"{message}\n")


@pytest.mark.parametrize(
    ("point", "problem"),
    [
        (
            "crowd = crowd:CROWN",
            (
                "crowd: 'crowd:CROWN' cannot be loaded (AttributeError: module 'crowd' has no "
                "attribute 'CROWN')."
            ),
        ),
        (
            "crowd = crowd:Settings",
            (
                "crowd: 'crowd:Settings' is not a streameval.engine.analysis.Analysis; mend its "
                "package."
            ),
        ),
        (
            "crowd = crowd:CROWD\nmob = crowd:CROWD",
            (
                "mob: 'crowd:CROWD' has a name or a table that is taken: crowd, [crowd]; mend its "
                "package."
            ),
        ),
    ],
)
def test_a_package_that_names_no_analysis_is_refused(
    folder: Path, point: str, problem: str
) -> None:
    code = (folder / "crowd.py").read_text()
    _install(folder, code, f"[streameval.analyses]\n{point}\n")
    done = _check(folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"streameval: streameval.analyses: {problem}\n"


@pytest.mark.parametrize(
    ("mistake", "command", "function"),
    [
        ("needs=lambda settings, family: [1 / 0]", "check", "needs"),
        ("reader=lambda settings, context: Failing()", "run", "read"),
    ],
)
def test_a_mistake_of_a_function_names_the_analysis_and_its_package(
    folder: Path, mistake: str, command: str, function: str
) -> None:
    with (folder / "crowd.py").open("a") as code:
        code.write("class Failing:\n    def read(self, moment):\n        return 1 / 0\n")
        code.write(f"CROWD = CROWD._replace({mistake})\n")
    done = _run(command, folder)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert f"analysis 'crowd' of the package crowd 1.0: {function} failed (Zero" in last
    assert "report this to the authors of crowd 1.0" in last
    assert ("Traceback" in last) == (command == "run")


def test_whatever_a_function_raises_or_returns_is_said_of_the_analysis() -> None:
    def fails(*_: object) -> Any:
        raise KeyError("hours")

    def fails_late(*_: object) -> Iterator[Any]:
        yield fails()

    functions = {name for name, value in GAPS._asdict().items() if callable(value)} | {"needs"}
    broken: dict[str, Any] = {
        **dict.fromkeys(functions - {"settings", "answers"}, fails),
        **dict.fromkeys(("check late", "expects late", "gauges late", "needs late"), fails_late),
        "needs of no specification": lambda *_: [5],
    }
    for case, function in broken.items():
        name = case.partition(" ")[0]
        analysis = guarded(GAPS._replace(**{name: function}), "crowd 1.0")
        with pytest.raises(OwnAnalysisError, match=r"'gaps' of the package crowd 1\.0") as raised:
            getattr(analysis, name)(None, None)
        assert (raised.value.function, raised.value.package) == (name, "crowd 1.0")
    needs: Any = guarded(GAPS._replace(needs=lambda *_: [fails]), "crowd 1.0").needs
    # Families that need the same have one statistic.
    assert needs(None, None) == needs(None, None)
    with pytest.raises(OwnAnalysisError, match="need failed"):
        needs(None, None)[0]([], None, 0)
