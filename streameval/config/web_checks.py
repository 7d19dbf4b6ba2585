"""Whether what is said of serving makes sense."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from streameval.address import HOW, host_and_port
from streameval.config.labels import Problem
from streameval.config.settings import Config

_HOST: Final = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_PREFIX: Final = re.compile(r"/|(/[A-Za-z0-9._~-]+)+/?")


def web_problems(config: Config) -> Iterator[Problem]:
    """Addresses that are not valid or given twice, invalid host names, an invalid prefix.

    The web configuration file is not read: only who serves may be able to.
    """
    web = config.web
    if not web.addresses:
        yield "web.listen", 'found []; give at least one address, for example "127.0.0.1:9877".'
    for each in web.addresses:
        if host_and_port(each) is None:
            yield "web.listen", f"found {each!r}; {HOW}."
    for each in sorted(set(web.addresses)):
        if web.addresses.count(each) > 1 and not each.endswith(":0"):
            yield "web.listen", f"found {each!r} twice; give each address once."
    for each in web.allowed_hosts:
        if not _HOST.fullmatch(each):
            problem = "give a name without port, for example 'eval.example' or '*.example'."
            yield "web.allowed_hosts", f"found {each!r}; {problem}"
    steps = web.route_prefix.split("/")
    if not _PREFIX.fullmatch(web.route_prefix) or "." in steps or ".." in steps:
        problem = "give a path that begins with a slash, for example '/streameval'."
        yield "web.route_prefix", f"found {web.route_prefix!r}; {problem}"
