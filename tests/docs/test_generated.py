"""Generated files are up to date, and the code documents all they need."""

from __future__ import annotations

import re
import typing

import msgspec

from streameval.catalogue import catalogue
from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.metric import Reads
from streameval.cli.metrics import STATISTICS
from streameval.config import Config
from streameval.config.options import WebOptions
from streameval.exporters.web.openapi import attribute_texts
from streameval.exporters.web.webconfig import TlsServerConfig, WebConfig
from tests.docs import configuration, metrics
from tests.docs.generated import MIGRATE, REFERENCE, files, lagging
from tests.docs.markdown import label
from tests.effort import every_case
from tests.house.checkout import ROOT


def test_every_generated_file_is_up_to_date() -> None:
    assert [*map(label, lagging())] == [], "write them: python -m tests.docs --write"


def test_every_metric_has_a_page_with_its_value_under_every_convention() -> None:
    for name in catalogue():
        text = files()[metrics.FOLDER / f"{name}.md"]
        known = [system for system, each in CONVENTIONS.items() if name in each.metrics]
        named = re.findall(rf"`((?:\w+:)?{name})`", text.partition("\n## Values\n")[2])
        assert sorted(named) == sorted([name, *(f"{system}:{name}" for system in known)])


def test_every_statistic_is_explained() -> None:
    assert set(STATISTICS) == set(typing.get_args(Reads))


@every_case("struct", [Config, WebOptions])
def test_every_key_is_documented(struct: type[msgspec.Struct]) -> None:
    names = {field.name for field in msgspec.structs.fields(struct)}
    assert set(attribute_texts(struct)) >= names


def test_every_duration_listed_by_name_is_in_the_page() -> None:
    page = files()[REFERENCE / "configuration.md"]
    for path in configuration._DURATIONS:
        row = rf"^- `{path.rpartition('.')[2]}` \((list of )?duration[;)]"
        assert re.search(row, page, re.MULTILINE)


def test_every_key_of_the_web_configuration_file_is_documented() -> None:
    text = (ROOT / "docs" / "how-to" / "web.md").read_text(encoding="utf-8")
    keys = [
        field.name
        for each in (WebConfig, TlsServerConfig)
        for field in msgspec.structs.fields(each)
    ]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_the_page_of_migration_has_every_name_of_every_system() -> None:
    page = files()[MIGRATE]
    older = {"replay_0_9", "replay_0_11"}
    assert all(f"<!-- names of {name} -->" in page for name in set(CONVENTIONS) - older)
    for name in set(CONVENTIONS) - older:
        names = page.partition(f"<!-- names of {name} -->")[2].partition("<!-- end -->")[0]
        shown = set(re.findall(r"\[`(\w+)(?:@10)?`\]", names))
        assert shown >= set(CONVENTIONS[name].spellings)
