"""Hooks of the site: a page for each public name, and links to files beside docs/."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any, Final

from griffe import Extension, Object
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

DOCS: Final = Path(__file__).parents[2] / "docs"
PUBLIC: Final = (
    "streameval",
    "streameval.attribution",
    "streameval.beam",
    "streameval.partials",
    "streameval.spark",
    "streameval.prometheus",
    "streameval.asgi",
    "streameval.plot",
    "streameval.polars",
    "streameval.testing",
)
"""Modules that users import."""

_LINK: Final = re.compile(
    r"\[(?P<text>(?:[^][]|\[[^][]*\])*)\]\((?P<path>[^)#:\s]+)(?P<rest>#[^)\s]*)?\)"
)
_PYTHON: Final = "reference/python"


_EXAMPLE: Final = re.compile(r"^( *)Example:$", re.MULTILINE)
_FENCE: Final = re.compile(r"^(```\w+) ([\w./-]+)$")
"""The beginning of a block that is named as a file."""
_CODE: Final = re.compile(r"`[^`]*`")
_MATH: Final = re.compile(r"^```math\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_INLINE_MATH: Final = re.compile(r"\$`([^`]+)`\$")
"""LaTeX, which GitHub typesets; the site does so while it is built, without a script."""


class Examples(Extension):
    """Reads the section "Example:" of a docstring as what Griffe calls "Examples:"."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Rename the section of one object."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"\1Examples:", obj.docstring.value)


def public_names() -> dict[str, list[str]]:
    """Module -> its public names, read from its text: importing it may need another extra."""
    return {module: sorted(_all_of(_tree_of(module))) for module in PUBLIC}


def _tree_of(module: str) -> ast.Module:
    path = DOCS.parent.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _all_of(tree: ast.Module) -> list[str]:
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return [*ast.literal_eval(value)]


def on_config(config: Any) -> Any:
    """Set where "edit this page" and links to files beside docs/ lead, if that is anywhere."""
    with (DOCS.parent / "pyproject.toml").open("rb") as file:
        config.repo_url = tomllib.load(file)["project"].get("urls", {}).get("Repository")
    if config.repo_url is None:
        config.edit_uri = None
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that no file in docs/ holds, and all pages of folders in the nav."""
    for path, text in _generated():
        files.append(File.generated(config, path, content=text))
    paths = sorted(page.src_uri for page in files.documentation_pages())
    config.nav = _with_folders(config.nav, paths)
    return files


def _with_folders(nav: Any, paths: list[str]) -> Any:
    """The nav with a list of pages, the index first, for each path that ends with a slash."""
    if isinstance(nav, dict):
        return {title: _with_folders(part, paths) for title, part in nav.items()}
    if isinstance(nav, list):
        parts = [_with_folders(part, paths) for part in nav]
        return [page for part in parts for page in (part if isinstance(part, list) else [part])]
    if not str(nav).endswith("/"):
        return nav
    pages = [path for path in paths if path.startswith(nav)]
    return sorted(pages, key=lambda path: (not path.endswith("index.md"), path))


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Let links to files beside docs/ lead to the repository, and show what GitHub shows.

    Without an address of the repository, their text remains.
    """
    folder = PurePosixPath(page.file.src_uri).parent

    def linked(link: re.Match[str]) -> str:
        path = normpath((folder / link["path"]).as_posix())
        rest, outside = link["rest"] or "", path.startswith("../")
        if outside and config.repo_url is None:
            return link["text"]
        target = link["path"]
        if outside:
            target = f"{config.repo_url}/blob/main/{path.removeprefix('../')}"
        elif path == "decisions":
            target = f"{target}/index.md"
        return f"[{link['text']}]({target}{rest})"

    blocks = _MATH.sub(lambda block: f"<div>{convert(block[1], display='block')}</div>", markdown)
    typeset = _INLINE_MATH.sub(lambda part: convert(part[1]), blocks)
    lines = _LINK.sub(linked, typeset).split("\n")
    return "\n".join(_with_bars(_FENCE.sub(r'\1 title="\2"', line)) for line in lines)


def _with_bars(line: str) -> str:
    """A row of a table; GitHub needs a bar in code to be escaped, and the site shows the escape."""
    if not line.startswith("|"):
        return line
    return _CODE.sub(lambda code: code[0].replace("\\|", "|"), line)


def _generated() -> Iterator[tuple[str, str]]:
    for module, names in public_names().items():
        for name in names:
            yield _page_of(module, name), f"::: {module}.{name}\n"
    yield f"{_PYTHON}/errors.md", "::: streameval.errors\n"
    yield f"{_PYTHON}/index.md", _python_index()
    titles = [(path.name, _title(path)) for path in sorted((DOCS / "decisions").glob("*.md"))]
    listed = "".join(f"- [{title}]({name})\n" for name, title in titles)
    yield (
        "decisions/index.md",
        f"# Decisions\n\nQuestion, choice and price, a page each.\n\n{listed}",
    )


def _python_index() -> str:
    lines = ["# Python API", ""]
    for module, names in public_names().items():
        summary = (ast.get_docstring(_tree_of(module)) or "").partition("\n")[0]
        lines += [f"## `{module}`", "", summary, ""]
        lines += [
            f"- [`{name}`]({PurePosixPath(_page_of(module, name)).relative_to(_PYTHON)})"
            for name in names
        ]
        lines.append("")
    lines += ["## `streameval.errors`", "", "- [every error](errors.md)", ""]
    return "\n".join(lines)


def _page_of(module: str, name: str) -> str:
    return f"{_PYTHON}/{module}.{name}.md"


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
