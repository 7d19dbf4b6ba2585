"""Where another system's package is installed, what it returns now is compared with our values.

The extra `conformance` brings the packages; what they returned is recorded for where they are not.
"""

from __future__ import annotations

import json
import warnings
from importlib.metadata import version

import pytest

from tests.conformance.record import FOLDER, RECORDERS, recorded
from tests.conformance.recorded import cases_in
from tests.conformance.ways import streamed
from tests.effort import every_case


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("package", RECORDERS)
def test_the_installed_package_returns_our_numbers(package: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(RECORDERS[package].module)
        content = json.loads(json.dumps(recorded(package)))
    for case in cases_in(content, package):
        for part in case.all:
            texts = [claim.text for claim in part.claims]
            accumulator = streamed(texts, part.events, case.once)
            for claim in part.claims:
                assert claim.mistake(accumulator.read(claim.text), case.tolerance) is None, (
                    case.name
                )
    kept = json.loads((FOLDER / f"{content['system']}__recorded.json").read_text(encoding="utf-8"))
    if version(package) == kept["version"]:
        # The same cases with the same names; their values were compared above.
        named = [(row["metric"], row["name"]) for row in content["cases"]]
        assert named == [(row["metric"], row["name"]) for row in kept["cases"]]


@every_case("package", RECORDERS)
def test_what_a_package_returned_is_recorded_with_its_version(package: str) -> None:
    path = FOLDER / f"{RECORDERS[package].system}__recorded.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["package"] == package
    assert content["version"] in content["source"]
    assert content["cases"]
