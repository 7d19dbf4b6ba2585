"""Metadata hook: the README as an index of packages shows it, away from the files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^]]*)\]\((?!#|https?:)(?P<path>[^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Gives the project a readme without relative links, which only the checkout can follow."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Run when the metadata of the project are read."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        absolute = with_absolute_links(text, metadata.get("urls", {}).get("Repository"))
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute}


def with_absolute_links(markdown: str, repository: str | None) -> str:
    """The text with links to files of the repository at its address, or as text without one.

    Example:
        >>> with_absolute_links("[how](docs/how.md#now) ![page](page.png)", "https://x/y")
        '[how](https://x/y/blob/main/docs/how.md#now) ![page](https://x/y/raw/main/page.png)'
        >>> with_absolute_links("[here](#now) [there](https://z)", "https://x/y")
        '[here](#now) [there](https://z)'
        >>> with_absolute_links("[how](docs/how.md#now) [there](https://z)", None)
        'how [there](https://z)'
    """

    def absolute(link: re.Match[str]) -> str:
        if repository is None:
            return link["text"]
        kind = "raw" if link["image"] else "blob"
        return f"{link['image']}[{link['text']}]({repository}/{kind}/main/{link['path']})"

    return _LINK.sub(absolute, markdown)
