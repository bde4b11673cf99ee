"""A hook of mkdocs: pages of the site that are no files under docs/.

The repository's CONTRIBUTING.md and CHANGELOG.md, their links made to fit; and one page a package of API reference.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
LINK = re.compile(r"\[(?P<text>[^\]\n]+)\]\((?P<target>[^)#:]+)(?P<anchor>#[^)]*)?\)")


def _within_the_site(link: re.Match[str]) -> str:
    """A link from the repository's root, as one from the site's; only its text if there is no such page."""
    text, target, anchor = link["text"], link["target"], link["anchor"] or ""
    if target in PAGES:
        return link[0]
    return f"[{text}]({target.removeprefix('docs/')}{anchor})" if target.startswith("docs/") else text


def on_files(files: Files, config: Any) -> Files:
    """Called by mkdocs with the pages that it found."""
    for name in PAGES:
        text = LINK.sub(_within_the_site, (ROOT / name).read_text())
        files.append(File.generated(config, name, content=text))
    for package in PACKAGES:
        text = f"# {package}: reference\n\nAll that `{package}.__all__` names.\n\n::: {package}\n"
        files.append(File.generated(config, f"api/{package}.md", content=text))
    return files
