"""The documented web configuration, by promtool; and a real Prometheus that scrapes through it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from streameval.config.web_file import web_config
from tests.certificates import Authority
from tests.exporters.guarded import guarded, hashed
from tests.prometheus.server import program, running

pytestmark = pytest.mark.prometheus

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "web.md"


def documented(beginning: str) -> str:
    """The example of the page that begins so."""
    examples = re.findall(r"```yaml\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (each for each in examples if each.startswith(beginning))
    return str(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With every file that the examples name."""
    authority = Authority(tmp_path)
    authority.issue("server")
    authority.issue("prometheus")
    (tmp_path / "clients.crt").write_bytes(authority.file.read_bytes())
    (tmp_path / "password").write_text("s3cret")
    return tmp_path


def test_the_documented_file_is_one_for_promtool_too(folder: Path) -> None:
    (folder / "web.yml").write_text(documented("tls_server_config"))
    command = [program("promtool"), "check", "web-config", str(folder / "web.yml")]
    assert web_config(str(folder / "web.yml")).basic_auth_users
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_a_prometheus_reads_with_certificate_and_the_right_password_only(folder: Path) -> None:
    line = f"prometheus: {hashed('s3cret')}"
    text = re.sub(r"prometheus: \$.*", line, documented("tls_server"))
    (folder / "wrong").write_text("other")
    with guarded(folder / "web.yml", text, prefix="/streameval") as site:
        target = f"127.0.0.1:{site.port}"
        right = documented("scrape_configs").replace("streameval.example:9877", target)
        wrong = right.replace("job_name: streameval", "job_name: wrong").replace(
            "password_file: password", "password_file: wrong"
        )
        fast = "global: { scrape_interval: 250ms, scrape_timeout: 250ms }\n"
        both = right + wrong.partition("scrape_configs:\n")[2]
        with running(folder, fast + both) as server:
            for job, up in (("streameval", 1.0), ("wrong", 0.0)):
                assert server.settled(f'up{{job="{job}"}}', up) == up
            assert server.settled("sum(streameval_ndcg_sum)", 1.0) == 1.0
            assert server.value('streameval_ndcg_sum{job="wrong"}') is None
