"""What an installation without an extra says of it."""

from __future__ import annotations

import json

import pytest

from tests.docs.site import PUBLIC
from tests.house.extras import run_with_extras

NEEDED = {
    "streameval.prometheus": "daemon",
    "streameval.asgi": "daemon",
    "streameval.testing.broker": "daemon",
}
"""Public module -> the extra without which it cannot be imported."""

_IMPORT = """
import importlib, json
from streameval.errors import MissingExtraError

said = {}
for module in sys.argv[1:]:
    try:
        importlib.import_module(module)
    except ImportError as error:
        assert type(error) is MissingExtraError, error
        said[module] = [error.what, error.extra]
print(json.dumps(said))
"""


def test_a_public_module_can_be_imported_or_names_its_extra() -> None:
    # Who imports that of Polars has Polars.
    of_all = [module for module in PUBLIC if module != "streameval.polars"]
    modules = (*of_all, "streameval.testing.broker", "streameval.errors")
    result = run_with_extras(code=_IMPORT, arguments=modules)
    assert result.returncode == 0, result.stderr
    expected = {module: [module, extra] for module, extra in NEEDED.items()}
    assert json.loads(result.stdout) == expected


@pytest.mark.parametrize("extra", sorted(set(NEEDED.values())))
def test_that_extra_is_enough(extra: str) -> None:
    modules = tuple(module for module, needed in NEEDED.items() if needed == extra)
    result = run_with_extras(extra, code=_IMPORT, arguments=modules)
    assert (result.returncode, json.loads(result.stdout)) == (0, {}), result.stderr


def test_a_mapping_without_pyarrow_is_not_called_a_file() -> None:
    code = """
from streameval import evaluate
from streameval.errors import MissingExtraError
try:
    evaluate({"u1": ["tea"]}, {"u1": ["tea"]}, "mrr")
except MissingExtraError as error:
    print(error.what)
"""
    result = run_with_extras(code=code)
    assert result.stdout == "evaluating tables, frames and mappings\n", result.stderr


def test_a_frame_without_any_library_of_frames_asks_for_the_smallest() -> None:
    code = """
from streameval import evaluate
from streameval.errors import MissingExtraError
try:
    evaluate([["tea"]], [["tea"]], "mrr").to_frame()
except MissingExtraError as error:
    print(error.what, error.extra)
"""
    assert run_with_extras(code=code).stdout == "a frame tables\n"


@pytest.mark.parametrize(("extras", "said"), [((), "report"), (("report",), "<!DOCTYPE html>")])
def test_a_report_in_a_notebook_needs_its_extra_alone(extras: tuple[str, ...], said: str) -> None:
    code = """
from streameval import evaluate
from streameval.errors import MissingExtraError
found = evaluate([["tea"]], [["tea"]], "mrr")
assert "<td>mrr</td>" in found._repr_html_()
try:
    print(found.to_html("a").partition("\\n")[0])
except MissingExtraError as error:
    print(error.extra)
"""
    result = run_with_extras(*extras, code=code)
    assert result.stdout == f"{said}\n", result.stderr


def test_the_command_without_its_extra_names_it() -> None:
    result = run_with_extras(code="import streameval_start; streameval_start.main()")
    assert (result.returncode, result.stdout) == (2, "")
    (sentence,) = result.stderr.splitlines()
    assert "the extra 'daemon'" in sentence
