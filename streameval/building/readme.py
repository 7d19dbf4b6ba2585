"""Metadata hook: the README as an index of packages shows it, away from the files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<text>(?P<image>!?)\[[^]]*\])\((?!#|https?:)(?P<path>[^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Gives the project a readme whose links are absolute; in the checkout they stay relative."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Run when the metadata of the project are read."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        absolute = with_absolute_links(text, metadata["urls"]["Repository"])
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute}


def with_absolute_links(markdown: str, repository: str) -> str:
    """The text with links to files of the repository at its address.

    Example:
        >>> with_absolute_links("[how](docs/how.md#now) ![page](page.png)", "https://x/y")
        '[how](https://x/y/blob/main/docs/how.md#now) ![page](https://x/y/raw/main/page.png)'
        >>> with_absolute_links("[here](#now) [there](https://z)", "https://x/y")
        '[here](#now) [there](https://z)'
    """

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["image"] else "blob"
        return f"{link['text']}({repository}/{kind}/main/{link['path']})"

    return _LINK.sub(absolute, markdown)
